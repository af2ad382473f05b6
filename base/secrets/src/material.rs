//! Secret text that is not printed. Never implements `Display`, `Serialize` or a `Debug` that shows it.

use std::fmt;

/// Text that must not be logged: a private key, a token, a password.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every call is a place where the secret may leave: keep them few.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text as bytes, for Secret data.
    pub fn expose_bytes(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[secret of {} bytes]", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_never_contains_the_secret() {
        let text = format!(
            "{:?} {:#?}",
            SecretText::new("hunter2"),
            Some(SecretText::new("hunter2"))
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}
