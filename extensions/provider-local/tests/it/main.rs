//! The whole extension against a seed and a shoot in this process. The test plays gardenlet, which writes the
//! extension objects, and the machines, which join by themselves.

mod backups;
mod landscape;
mod machines;
mod objects;
