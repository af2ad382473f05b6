//! The binary `orangery`: parses the command line and hands over.

fn main() {}
