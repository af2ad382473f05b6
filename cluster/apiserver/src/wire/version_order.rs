//! Which of two versions of a group comes first. It knows no kinds.

/// Orders `v2` > `v1` > `v2beta1` > `v1alpha3` > anything else
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/version/helpers.go).
pub(crate) fn version_priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = || (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other();
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse::<u64>() else {
        return other();
    };
    let (stability, minor) = match rest {
        "" => (3, "0"),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return other(),
        },
    };
    match minor.parse() {
        Ok(minor) => (stability, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other(),
    }
}
