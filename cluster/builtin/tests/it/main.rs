//! Built-in kinds as their users see them: defaults, rules, and objects as Go has them. Nothing here needs the internet.

mod go_objects;
mod objects;
