//! The oracle of the embedded API server: the same requests go to real Kubernetes and to ours, and the answers are
//! compared but for what a server chooses by itself. What differs is a fault of ours, or is listed with its reason in
//! `known-differences.yaml`. It never decides what is right: real Kubernetes does.

pub mod attacks;
pub mod audit;
mod behind;
pub mod columns;
mod compare;
mod converting;
pub mod credentials;
mod fill;
pub mod flood;
pub mod generate;
mod http2;
pub mod known;
mod mask;
pub mod ours;
mod pki;
mod printer;
pub mod raw;
pub mod real;
pub mod run;
pub mod script;
mod webhook;
mod wire;

pub use compare::Difference;
pub use wire::{Answer, Call, Connection, Endpoint};

/// The error is what went wrong around the comparison itself, as a sentence for the user.
pub type Outcome<T = ()> = Result<T, String>;
