//! Files that others replace while the server runs: certificates and authorities. They are read again and again, because
//! Secrets are mounted as links that are exchanged, and a file system that reports changes is not to be had everywhere.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_meta::Fault;
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks: a file is small, and a new certificate is wanted at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The texts of these files, each with the flag or field that names it.
///
/// # Errors
/// One cannot be read; it names the flag.
pub async fn read<const N: usize>(files: &[(&str, &Path); N]) -> Result<[String; N], Fault> {
    let mut texts = std::array::from_fn(|_| String::new());
    for (text, (flag, path)) in texts.iter_mut().zip(files) {
        *text = tokio::fs::read_to_string(path).await.map_err(|error| {
            Fault::user(format!("cannot read {} of {flag}: {error}", path.display()))
                .hint(format!("name a PEM file that this process may read with {flag}"))
        })?;
    }
    Ok(texts)
}

/// Calls `taken` with the texts of the files whenever they have changed since `known`, for ever. What `taken` refuses is tried
/// again: of two files that belong together one may be written before the other. It is reported when it is refused twice.
pub async fn follow<const N: usize, F>(
    files: [(&str, PathBuf); N],
    mut known: [String; N],
    mut taken: impl FnMut([String; N]) -> F,
) where
    F: Future<Output = Result<(), Fault>>,
{
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut refused: Option<[String; N]> = None;
    let mut reported: Option<String> = None;
    loop {
        ticks.tick().await;
        let named = files.each_ref().map(|(flag, path)| (*flag, path.as_path()));
        let outcome = match read(&named).await {
            Ok(texts) if texts == known => continue,
            Ok(texts) => match taken(texts.clone()).await {
                Ok(()) => {
                    known = texts;
                    (refused, reported) = (None, None);
                    continue;
                }
                Err(fault) => {
                    let again = refused.replace(texts.clone()) == Some(texts);
                    again.then_some(fault)
                }
            },
            Err(fault) => Some(fault),
        };
        let Some(fault) = outcome else { continue };
        let text = fault.to_string();
        if reported.as_ref() != Some(&text) {
            tracing::warn!("what was read before stays in use: {text}");
            reported = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn files_that_do_not_belong_together_are_taken_once_they_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        write("a", "1");
        write("b", "1");
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let follows = tokio::spawn(follow(
            [("--a", path("a")), ("--b", path("b"))],
            ["1".to_owned(), "1".to_owned()],
            {
                let seen = seen.clone();
                move |[a, b]: [String; 2]| {
                    let is_pair = a == b;
                    seen.lock().unwrap().push((a, b));
                    send.send(is_pair).unwrap();
                    async move { is_pair.then_some(()).ok_or_else(|| Fault::user("no pair")) }
                }
            },
        ));
        write("a", "2");
        assert_eq!(sent.recv().await, Some(false));
        write("b", "2");
        while sent.recv().await == Some(false) {}
        follows.abort();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.last(), Some(&("2".to_owned(), "2".to_owned())));
    }
}
