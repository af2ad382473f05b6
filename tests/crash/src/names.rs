//! Names without what chance put into them.

/// The alphabet of generated suffixes.
const SUFFIXES: &[u8] = base_clock::SUFFIX_ALPHABET;

/// The parts of a uid: so many hexadecimal digits each.
const UID: [usize; 5] = [8, 4, 4, 4, 12];

/// A name or path with `*` for each part that is random: uids, hashes, generated suffixes.
#[must_use]
pub fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['-', '.', '/', ':']).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        let taken = uid(rest).or_else(|| is_random(part).then_some(end));
        match taken {
            // Several in a row are one: how many there are is chance too.
            Some(length) => {
                if out.ends_with("*-") {
                    out.pop();
                } else {
                    out.push('*');
                }
                rest = &rest[length..];
            }
            None => {
                out += part;
                rest = behind;
            }
        }
        if let Some(separator) = rest.chars().next() {
            out.push(separator);
            rest = &rest[separator.len_utf8()..];
        }
    }
    out
}

/// The length of the uid that a text begins with.
fn uid(text: &str) -> Option<usize> {
    let length = UID.iter().sum::<usize>() + UID.len() - 1;
    let parts: Vec<&str> = text.get(..length)?.split('-').collect();
    let fits = parts.len() == UID.len()
        && parts
            .iter()
            .zip(UID)
            .all(|(part, length)| part.len() == length && is_hex(part));
    fits.then_some(length)
}

fn is_random(part: &str) -> bool {
    let suffix = part.bytes().all(|c| SUFFIXES.contains(&c));
    part.len() >= 5 && (suffix || is_hex(part))
}

fn is_hex(part: &str) -> bool {
    part.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn what_is_random_is_starred_and_nothing_else() {
        for (name, expected) in [
            ("etcd-main-0", "etcd-main-0"),
            ("shoot--local--local", "shoot--local--local"),
            ("kube-apiserver-7d9f8b6c5d-x2k4z", "kube-apiserver-*"),
            ("a-3f1c9a3e-1b2c-4d5e-8f90-0123456789ab/x", "a-*/x"),
            (
                "/api/v1/namespaces/kube-system/pods/coredns-bcd24",
                "/api/v1/namespaces/kube-system/pods/coredns-*",
            ),
            ("ca-client", "ca-client"),
            ("entry--3f1c9a3e-abcd-4d5e-8f90-0123456789ab", "entry--*"),
            ("provider-local-71335", "provider-local-*"),
        ] {
            assert_eq!(normal(name), expected);
        }
    }
}
