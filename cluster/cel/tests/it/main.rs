//! Rules as their users see them: every function and kind of expression, and rules made to hurt.

mod expressions;
mod hostile_rules;
mod json_schema;
