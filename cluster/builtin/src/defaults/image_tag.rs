//! The tag of an image as Kubernetes reads it (kubernetes/kubernetes v1.35 `pkg/util/parsers`, distribution/reference v0.6
//! `normalize.go`, `regexp.go`). It never looks at an image.

/// Longest tag.
const TAG_CHARS_MAX: usize = 128;
/// Length of an image identifier, in hexadecimal digits.
const IDENTIFIER_CHARS: usize = 64;
/// Algorithms of digests, and how many letters each has.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// The tag of an image; `latest` when there is neither tag nor digest. None: there is only a digest, or it is the name of no
/// image.
pub(crate) fn tag(image: &str) -> Option<&str> {
    let is_hex = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    if image.len() == IDENTIFIER_CHARS && image.bytes().all(is_hex) {
        return None;
    }
    let (domain, rest) = match image.split_once('/') {
        Some((domain, rest)) if is_domain(domain) => (Some(domain), rest),
        _ => (None, image),
    };
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (name, tag) = match rest.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (rest, None),
    };
    let is_digest = |digest: &str| {
        let (algorithm, letters) = digest.split_once(':').unwrap_or_default();
        DIGESTS.contains(&(algorithm, letters.len())) && letters.bytes().all(is_hex)
    };
    let is_sound = domain.is_none_or(|domain| is_sound_domain(domain) || is_component(domain))
        && name.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    let default = digest.is_none().then_some("latest");
    tag.or(default).filter(|_| is_sound)
}

/// Whether what stands before the first slash is a host, and no part of a name.
fn is_domain(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|letter| letter.is_ascii_uppercase())
}

fn is_sound_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_label = |label: &str| {
        let edges = [label.bytes().next(), label.bytes().last()];
        edges
            .iter()
            .all(|edge| edge.is_some_and(|edge| edge.is_ascii_alphanumeric()))
            && label
                .bytes()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
    };
    let is_address = |text: &str| {
        let letters = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        letters.is_some_and(|letters| {
            !letters.is_empty()
                && letters
                    .bytes()
                    .all(|letter| letter.is_ascii_hexdigit() || letter == b':')
        })
    };
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|letter| letter.is_ascii_digit());
    port.is_none_or(is_number) && (host.split('.').all(is_label) || is_address(host))
}

/// Small letters and digits, parted by one dot, one or two underscores, or any number of hyphens.
fn is_component(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let between = text.split(is_letter).filter(|between| !between.is_empty());
    text.starts_with(is_letter)
        && text.ends_with(is_letter)
        && between
            .into_iter()
            .all(|between| matches!(between, "." | "_" | "__") || between.bytes().all(|letter| letter == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.len() <= TAG_CHARS_MAX
        && text.starts_with(is_word)
        && text
            .chars()
            .all(|letter| is_word(letter) || matches!(letter, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_behind_registry_ports_and_before_digests() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let table = [
            ("nginx", Some("latest")),
            ("nginx:1.25", Some("1.25")),
            ("localhost:5000/nginx", Some("latest")),
            ("localhost:5000/nginx:v1", Some("v1")),
            ("Host/a/b", Some("latest")),
            ("[::1]:5000/a__b", Some("latest")),
            ("a_b.c/d", Some("latest")),
            (&format!("nginx@{digest}"), None),
            (&format!("nginx:latest@{digest}"), Some("latest")),
        ];
        for (image, expected) in table {
            assert_eq!(tag(image), expected, "{image}");
        }
    }

    #[test]
    fn what_is_the_name_of_no_image_has_no_tag() {
        let identifier = "0a".repeat(32);
        let bad = [
            "",
            "Bad Value!",
            "Nginx",
            "a/Nginx",
            "a//b",
            "a_-b",
            "a___b",
            "-a",
            "a:",
            "a:.b",
            "a@sha256:abc",
            "a:b:c",
            "ho_st.x:80/",
            "host:port/a",
            &identifier,
        ];
        for image in bad {
            assert_eq!(tag(image), None, "{image}");
        }
    }
}
