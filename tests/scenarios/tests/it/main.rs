//! Scenarios: the whole landscape in one process and in virtual time.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on has failed")]

mod first_light;
mod isolation;
mod kubectl;
mod real;
mod selection;
