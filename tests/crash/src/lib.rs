//! Crash safety, shown: the product dies at every API call that writes, and at random moments by `kill -9`; what comes of
//! it is compared with a run in which nothing died.

pub mod death;
pub mod every_call;
pub mod every_task;
pub mod flavour;
pub mod harm;
pub mod installation;
pub mod journal;
pub mod life;
pub mod names;
pub mod picture;
pub mod process;
pub mod script;
pub mod view;
