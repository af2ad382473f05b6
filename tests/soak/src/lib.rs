//! Many Shoots for a while: a user who changes, deletes and creates them by chance, a product that is killed, stopped and
//! disturbed meanwhile, and what must hold at the end: every Shoot as it was asked for, memory flat, nothing left.

pub mod deed;
pub mod dns;
pub mod fault;
pub mod fleet;
pub mod plot;
pub mod product;
pub mod report;
pub mod sample;
pub mod settle;
pub mod soak;
pub mod tally;
pub mod user;
pub mod verdict;
pub mod watching;
pub mod wish;
