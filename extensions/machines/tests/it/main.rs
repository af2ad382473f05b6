//! Workers and their machines in virtual time, over a cloud that is a map.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]
#![expect(clippy::panic, reason = "the same, with what it saw")]

mod crashes;
mod drains;
mod gate;
mod moves;
mod pool;
mod process;
mod rolls;
mod row;
mod scaling;
mod trouble;
mod waits;
mod witness;
mod world;
mod yard;
