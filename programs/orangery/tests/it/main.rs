//! The integration tests of `programs-orangery`: its committed generated files.

mod cli_reference;
