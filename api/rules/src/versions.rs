//! Versions as users write them: full (`1.35.2`) or as a prefix (`1.35`). It never compares them as text.

use api_core::v1beta1::{ExpirableVersion, LifecycleStage, VersionClassification};
use jiff::Timestamp;
use semver::Version;

/// Reads `1`, `1.35` or `1.35.2`, with or without `v`; missing parts are zero.
pub(crate) fn parse(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    if let Ok(version) = Version::parse(text) {
        return Some(version);
    }
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    let (major, minor, patch) = (
        parts.next()??,
        parts.next().unwrap_or(Some(0))?,
        parts.next().unwrap_or(Some(0))?,
    );
    parts.next().is_none().then(|| Version::new(major, minor, patch))
}

/// Whether the text has major, minor and patch.
pub(crate) fn is_full(text: &str) -> bool {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).is_ok()
}

/// Whether a version of Kubernetes is older than `1.minor`; its pre-releases are not.
pub(crate) fn is_below(version: &Version, minor: u64) -> bool {
    (version.major, version.minor) < (1, minor)
}

/// Whether a Kubernetes version, as a user wrote it, is `1.minor` or newer. One that cannot be read is not.
pub(crate) fn is_from(text: &str, minor: u64) -> bool {
    parse(text).is_some_and(|version| !is_below(&version, minor))
}

/// What the version may be used for at `now`: by its life cycle if it has one, else by classification and expiration.
pub(crate) fn classification(version: &ExpirableVersion, now: Timestamp) -> VersionClassification {
    let begun = |stage: &&LifecycleStage| stage.start_time.as_ref().is_none_or(|start| start.0 <= now);
    if let Some(stage) = version.lifecycle.iter().rfind(begun) {
        return stage.classification.clone();
    }
    if !version.lifecycle.is_empty() {
        return VersionClassification::Unavailable;
    }
    if version.expiration_date.as_ref().is_some_and(|end| end.0 <= now) {
        return VersionClassification::Expired;
    }
    version
        .classification
        .clone()
        .unwrap_or(VersionClassification::Supported)
}

/// The newest supported version that begins with `prefix` (all do if it is empty).
pub(crate) fn newest<'a>(
    versions: impl IntoIterator<Item = (&'a str, VersionClassification)>,
    prefix: &str,
) -> Option<&'a str> {
    versions
        .into_iter()
        .filter(|(_, classification)| *classification == VersionClassification::Supported)
        .filter(|(version, _)| has_prefix(version, prefix))
        .filter_map(|(version, _)| Some((parse(version)?, version)))
        .max_by(|(a, _), (b, _)| a.cmp(b))
        .map(|(_, version)| version)
}

/// Whether `prefix` is the version or its first parts.
fn has_prefix(version: &str, prefix: &str) -> bool {
    prefix.is_empty() || version == prefix || version.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_supported_version_with_the_prefix_is_taken() {
        let offer = [
            ("1.35.2", "supported"),
            ("1.35.10", "supported"),
            ("1.35.11", "preview"),
            ("1.4.0", "supported"),
        ]
        .map(|(version, classification)| (version, VersionClassification::from(classification)));
        let pick = |prefix| newest(offer.clone(), prefix);
        assert_eq!(pick("1.35"), Some("1.35.10"));
        assert_eq!(pick(""), Some("1.35.10"));
        assert_eq!(pick("1.3"), None);
        assert_eq!(pick("1.35.11"), None);
        assert_eq!(parse("v1.35").unwrap(), Version::new(1, 35, 0));
        assert!(parse("one").is_none() && parse("1.2.3.4").is_none());
    }

    #[test]
    fn an_expired_version_is_expired_whatever_it_was_called() {
        let now = Timestamp::from_second(100).unwrap();
        let mut version: ExpirableVersion = serde_json::from_str(
            r#"{"version":"1.35.0","classification":"supported","expirationDate":"1970-01-01T00:01:00Z"}"#,
        )
        .unwrap();
        assert_eq!(classification(&version, now), VersionClassification::Expired);
        version.lifecycle = serde_json::from_str(
            r#"[{"classification":"preview"},{"classification":"supported","startTime":"1970-01-01T00:01:00Z"},
                {"classification":"deprecated","startTime":"1970-01-01T00:05:00Z"}]"#,
        )
        .unwrap();
        assert_eq!(classification(&version, now), VersionClassification::Supported);
    }
}
