//! CEL as Kubernetes runs it: validation rules of schemas (`x-kubernetes-validations`; apiextensions-apiserver v0.35
//! `pkg/apiserver/schema/cel`), and expressions of admission. Expressions are parsed, type-checked and estimated once, then
//! evaluated within a budget. A rule whose text is too long or too deeply nested for an ordinary stack is refused, and a rule
//! that exceeds its budget is an error of the object, never a pass.
//!
//! This crate knows no field tree: a schema is raw JSON where rules are compiled, and a [`ValueSchema`] where they run.
//!
//! # Layers
//! A file imports only from its own layer and from layers earlier in this table. `cargo xtask tidy` reads the table and
//! refuses an import from a later layer, and more than five files that import each other in a circle.
//!
//! | layer | what is in it |
//! |---|---|
//! | `syntax` | from text to a tree: tokens, literals, macros, the parser, and errors with their place |
//! | `typing` | types, the types that schemas declare, signatures of functions, names in scope |
//! | `checking` | the type checker, and checks of literals |
//! | `estimate` | the most that an expression can cost |
//! | `run` | values, the functions that expressions call, and the budget that is metered while they run |
//! | `rules` | validation rules of schemas: compiled, limited by estimate, evaluated |
//! | `admission` | expressions of admission: compiled, evaluated over named values |

mod admission;
mod checking;
mod estimate;
mod rules;
mod run;
mod syntax;
mod typing;

pub use admission::evaluation::{Answer, CONDITIONS_COST_MAX, Names, NoAnswer, POLICY_COST_MAX, Scope};
pub use admission::expression::{Composed, Expression};
pub use rules::compile::{CompileMode, NewRules, RulesPlace, compile};
pub use rules::cost_limits::CostTotal;
pub use rules::evaluate::{Evaluation, OldValue};
pub use rules::rule::Rule;
pub use run::authorizer::{Authorize, Check};
pub use run::value_schema::ValueSchema;
pub use syntax::work::Work;
