//! The whole extension against a seed and a shoot in this process. The test plays gardenlet, which writes the
//! extension objects, and the machines, which join by themselves.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod backups;
mod conformance;
mod landscape;
mod machines;
mod names;
mod objects;
