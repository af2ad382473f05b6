//! Versions of charts as Masterminds/semver 3.4 takes them, which is looser than the standard: `v1.2` is one.

/// Whether `text` is a version: `semver.NewVersion`.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = split(text, '+');
    let (numbers, pre_release) = split(text, '-');
    let mut count = 0;
    let numbers_fit = numbers.split('.').all(|number| {
        count += 1;
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<u64>().is_ok()
    });
    numbers_fit
        && count <= 3
        && build.is_none_or(are_identifiers)
        && pre_release.is_none_or(|pre_release| {
            are_identifiers(pre_release)
                && pre_release.split('.').all(|part| {
                    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
                    !is_number || part.len() == 1 || !part.starts_with('0')
                })
        })
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn are_identifiers(text: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    text.split('.').all(fits)
}
