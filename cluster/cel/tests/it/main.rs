//! Rules as their users see them: every function and form of expressions, and rules made to hurt.

mod expressions;
mod hostile_rules;
mod json_schema;
