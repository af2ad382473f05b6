//! Credential helpers of Docker and Helm: decoding of what they print, as `docker-credential-helpers` 0.9 defines it. The user of
//! this crate runs them; nothing here starts a program.

use futures::future::BoxFuture;
use secrecy::SecretString;
use serde::Deserialize;

use crate::credentials::{SecretText, object};

/// What a helper prints that has no credentials for a server (`credentials/error.go`).
const NOT_FOUND: &str = "credentials not found in native keychain";
/// How much of a helper's output is reported.
const OUTPUT_CHARACTERS_MAX: usize = 200;

/// A user with a password, or with `<token>` for a name and an identity token.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Login {
    /// The name
    #[serde(rename = "Username", default)]
    pub user: String,
    #[serde(rename = "Secret", default)]
    secret: SecretText,
}

/// Runs credential helpers.
pub trait Helper: Send + Sync {
    /// The credentials that the program `name`, such as `docker-credential-pass`, has for a server: it is run with the argument
    /// `get`, reads the server, and [`Login::read`] decodes what it prints. The error continues "the helper NAME, which ...".
    fn get(&self, name: &str, server: &str) -> BoxFuture<'static, Result<Option<Login>, String>>;
}

impl Login {
    /// Decodes what a helper has printed; none if it has no credentials for the server.
    ///
    /// # Errors
    /// It has failed, or has printed something else.
    pub fn read(has_succeeded: bool, printed: &[u8]) -> Result<Option<Self>, String> {
        if has_succeeded {
            // An error of serde may repeat the secret.
            let login: Self = object(printed).map_err(|_| "does not answer with user and secret in JSON".to_owned())?;
            let is_empty = login.user.is_empty() && !login.secret.is_there();
            return Ok((!is_empty).then_some(login));
        }
        let output = String::from_utf8_lossy(printed);
        let line = output.trim().lines().next().unwrap_or_default();
        match line {
            NOT_FOUND => Ok(None),
            // It may have credentials in it all the same.
            _ if line.is_empty() || output.contains(['{', '"']) => Err("has failed".to_owned()),
            line => {
                let end = line.char_indices().nth(OUTPUT_CHARACTERS_MAX);
                let end = end.map_or(line.len(), |(end, _)| end);
                Err(format!("has failed: {:?}", &line[..end]))
            }
        }
    }

    pub(crate) fn secret(&self) -> &SecretString {
        &self.secret.0
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::Login;

    #[test]
    fn programs_answer_in_json_or_report_no_credentials() {
        let json = br#"{"ServerURL":"r.example","Username":"me","Secret":"hush"}"#;
        let login = Login::read(true, json).unwrap().unwrap();
        assert_eq!((login.user.as_str(), login.secret().expose_secret()), ("me", "hush"));
        assert!(!format!("{login:?}").contains("hush"));
        for (has_succeeded, nothing) in [
            (false, &b"credentials not found in native keychain\n"[..]),
            (true, br#"{"ServerURL":"r.example","Username":"","Secret":""}"#),
            (true, b"{}"),
        ] {
            assert!(Login::read(has_succeeded, nothing).unwrap().is_none());
        }
        for (has_succeeded, printed, wanted) in [
            (true, &b"hush"[..], "does not answer with user and secret in JSON"),
            (
                true,
                b"[\"me\",\"hush\"]",
                "does not answer with user and secret in JSON",
            ),
            (false, b"{\"Username\":\"me\",\"Secret\":\"hush\"}", "has failed"),
            (false, b"Error: no entry\n{\"Secret\":\"hush\"}", "has failed"),
            (
                false,
                b"exit status 1: pass is locked\nhush",
                "has failed: \"exit status 1: pass is locked\"",
            ),
            (false, b"", "has failed"),
        ] {
            assert_eq!(Login::read(has_succeeded, printed).unwrap_err(), wanted);
        }
        let long = Login::read(false, "é".repeat(1000).as_bytes()).unwrap_err();
        assert_eq!(long.chars().count(), "has failed: \"\"".len() + 200);
    }
}
