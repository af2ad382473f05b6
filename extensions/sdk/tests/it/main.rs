//! The reconciler around actuators, against an API server in this process. Each test has a server of its own.

mod landscape;
mod life;
mod observers;
mod restraint;
