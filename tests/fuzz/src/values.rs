//! Values of a user: the input is a file of values; and its first line is the name of an option, each other line an argument
//! of it.

use base_helm::values::{Options, load_values};

/// The contents of every file that an argument names.
const FILE: &[u8] = b"a: [1, {b: c}]\n";

pub(crate) fn check(input: &[u8]) {
    let _ = load_values(input);
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let option = lines.next().unwrap_or_default();
    let arguments: Vec<String> = lines.map(str::to_owned).collect();
    let mut options = Options::default();
    match option {
        "json" => options.json = arguments,
        "string" => options.string = arguments,
        "file" => options.file = arguments,
        "literal" => options.literal = arguments,
        _ => options.set = arguments,
    }
    let _ = options.merge(&|_| Ok(FILE.to_vec()));
}
