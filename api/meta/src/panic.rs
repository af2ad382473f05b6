//! What a caught panic says, for the fault or log line that reports it.

use std::any::Any;

/// The message of a panic that `catch_unwind` or a task's end has given.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, panic_any};

    use super::*;

    #[test]
    fn message_of_a_panic_is_found_whatever_its_type() {
        let name = "b";
        for (panic, text) in [
            (catch_unwind(|| panic!("a")).unwrap_err(), "a"),
            (catch_unwind(|| panic!("a{name}")).unwrap_err(), "ab"),
            (catch_unwind(|| panic_any(7)).unwrap_err(), "without a message"),
        ] {
            assert_eq!(panic_text(&*panic), text);
        }
    }
}
