//! Scenarios: the whole landscape in one process and in virtual time.

mod first_light;
mod isolation;
mod kubectl;
mod real;
mod selection;
