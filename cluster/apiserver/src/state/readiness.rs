//! `/healthz`, `/livez`, `/readyz`: named checks and how they are shown. It never decides what readiness means;
//! the owner of the server adds checks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks behind `/readyz`. Clones share one list.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<BTreeMap<String, Check>>>);

impl Readiness {
    /// Adds a check, or replaces the one of that name. It is called for every probe and must not wait; an error's
    /// text is shown to the caller, so nothing secret belongs there.
    pub fn add(&self, name: impl Into<String>, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.into(), Arc::new(check));
    }

    /// Takes a check away.
    pub fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Whether all checks pass now.
    pub fn is_ready(&self) -> bool {
        self.run().iter().all(|(_, outcome)| outcome.is_ok())
    }

    pub(crate) fn run(&self) -> Vec<(String, Result<(), String>)> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ping = ("ping".to_owned(), Ok(()));
        std::iter::once(ping)
            .chain(checks.into_iter().map(|(name, check)| (name, check())))
            .collect()
    }
}

/// The text kube-apiserver answers (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/server/healthz):
/// `ok`, or the list of checks when one fails or `verbose` is requested.
pub(crate) fn show(
    endpoint: &str,
    checks: &[(String, Result<(), String>)],
    excluded: &[&str],
    verbose: bool,
) -> (http::StatusCode, String) {
    let is_excluded = |name: &String| excluded.contains(&name.as_str());
    let ok = checks
        .iter()
        .all(|(name, outcome)| outcome.is_ok() || is_excluded(name));
    if ok && !verbose {
        return (http::StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, outcome) in checks {
        let _ = match outcome {
            _ if is_excluded(name) => writeln!(text, "[+]{name} excluded: ok"),
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(why) => writeln!(text, "[-]{name} failed: {why}"),
        };
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|excluded| checks.iter().all(|(name, _)| name != *excluded))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        let _ = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {unknown}"
        );
    }
    let outcome = if ok { "passed" } else { "failed" };
    let _ = writeln!(text, "{endpoint} check {outcome}");
    let code = if ok {
        http::StatusCode::OK
    } else {
        http::StatusCode::INTERNAL_SERVER_ERROR
    };
    (code, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_check_is_named_and_fails_the_whole() {
        let readiness = Readiness::default();
        assert!(readiness.is_ready());
        readiness.add("storage", || Err("not registered".to_owned()));
        let (code, text) = show("readyz", &readiness.run(), &[], false);
        assert_eq!(code, http::StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            text,
            "[+]ping ok\n[-]storage failed: not registered\nreadyz check failed\n"
        );
        let (code, text) = show("readyz", &readiness.run(), &["storage", "other"], true);
        assert_eq!(code, http::StatusCode::OK);
        assert_eq!(
            text,
            "[+]ping ok\n[+]storage excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"other\"\nreadyz check passed\n"
        );
        readiness.remove("storage");
        assert_eq!(
            show("readyz", &readiness.run(), &[], false),
            (http::StatusCode::OK, "ok".to_owned())
        );
    }
}
