//! YAML as charts' files and templates are read: the input is the text.

use base_yaml::go::{DuplicateKeys, as_floats, read, read_exact, write, write_pretty};

pub(crate) fn check(input: &[u8]) {
    let Ok(mut value) = read_exact(input, DuplicateKeys::Refused) else {
        // What is refused for a duplicate key is accepted by other callers.
        let _ = read(input, DuplicateKeys::Allowed);
        return;
    };
    // Go cannot write all that it reads: a key of more than 1,024 characters, for example.
    let _ = (write(&value), write_pretty(&value));
    as_floats(&mut value);
    let again = read(input, DuplicateKeys::Allowed);
    assert_eq!(
        again.as_ref().ok(),
        Some(&value),
        "without keys that are there twice both read the same"
    );
}
