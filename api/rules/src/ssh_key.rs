//! Public keys for SSH as `authorized_keys` holds them (golang.org/x/crypto v0.43 ssh/keys.go, `ParseAuthorizedKey`;
//! RFC 4253 section 6.6, RFC 5656, RFC 8709). Only the form of a key is checked, not its mathematics; certificates are no keys.

use k8s_openapi::ByteString;
use serde_json::Value;

/// Bytes of an Ed25519 key.
const ED25519_BYTES: usize = 32;
/// Bits of the prime of a DSA key.
const DSA_PRIME_BITS: usize = 1024;
/// Longest public exponent of an RSA key.
const RSA_EXPONENT_BITS_MAX: usize = 24;
/// First byte of a point whose two coordinates are both written out.
const UNCOMPRESSED: u8 = 4;

/// Whether a line of the text is a key. Empty lines and comments are passed over, as are options before the key.
pub(crate) fn is_authorized_key(text: &str) -> bool {
    text.lines().any(is_key_line)
}

fn is_key_line(line: &str) -> bool {
    let line = line.trim_matches([' ', '\t', '\r']);
    if line.is_empty() || line.starts_with('#') {
        return false;
    }
    let Some((_, rest)) = line.split_once([' ', '\t']) else {
        return false;
    };
    is_encoded_key(rest) || after_options(line).is_some_and(is_encoded_key)
}

/// What follows the type of the key, in a line that begins with options; spaces between quotes belong to an option.
fn after_options(line: &str) -> Option<&str> {
    let mut quoted = false;
    let mut before = ' ';
    let end = line.find(|letter: char| {
        quoted ^= letter == '"' && before != '\\';
        before = letter;
        !quoted && (letter == ' ' || letter == '\t')
    })?;
    let rest = line[end..].trim_start_matches([' ', '\t']);
    rest.split_once([' ', '\t']).map(|(_, key)| key)
}

fn is_encoded_key(text: &str) -> bool {
    let word = text
        .trim_matches([' ', '\t'])
        .split([' ', '\t'])
        .next()
        .unwrap_or_default();
    let bytes = serde_json::from_value::<ByteString>(Value::String(word.to_owned()));
    bytes.is_ok_and(|bytes| is_key(&bytes.0).is_some())
}

/// `Some` for a whole key of a known algorithm with nothing behind it.
fn is_key(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes;
    let algorithm = std::str::from_utf8(field(&mut rest)?).ok()?;
    let is_right = match algorithm {
        "ssh-ed25519" => field(&mut rest)?.len() == ED25519_BYTES,
        "sk-ssh-ed25519@openssh.com" => field(&mut rest)?.len() == ED25519_BYTES && !field(&mut rest)?.is_empty(),
        "ssh-rsa" => {
            let (exponent, modulus) = (number(&mut rest)?, number(&mut rest)?);
            let bits = bits(exponent);
            (2..=RSA_EXPONENT_BITS_MAX).contains(&bits)
                && exponent.last().is_some_and(|byte| byte % 2 == 1)
                && !modulus.is_empty()
        }
        "ssh-dss" => {
            let prime = number(&mut rest)?;
            for _ in 0..3 {
                number(&mut rest)?;
            }
            bits(prime) == DSA_PRIME_BITS
        }
        "sk-ecdsa-sha2-nistp256@openssh.com" => is_point(&mut rest, "nistp256")? && !field(&mut rest)?.is_empty(),
        other => is_point(&mut rest, other.strip_prefix("ecdsa-sha2-")?)?,
    };
    (is_right && rest.is_empty()).then_some(())
}

/// A curve's name and a point on it.
fn is_point(rest: &mut &[u8], curve: &str) -> Option<bool> {
    let coordinate = match curve {
        "nistp256" => 32,
        "nistp384" => 48,
        "nistp521" => 66,
        _ => return None,
    };
    let (named, point) = (field(rest)?, field(rest)?);
    Some(named == curve.as_bytes() && point.len() == 1 + 2 * coordinate && point[0] == UNCOMPRESSED)
}

/// The next length and as many bytes.
fn field<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (field, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(field)
}

/// A number above zero, without zeros before it.
fn number<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let field = field(rest)?;
    let is_negative = field.first().is_some_and(|byte| byte & 0x80 != 0);
    let digits = field.iter().position(|byte| *byte != 0).map(|at| &field[at..])?;
    (!is_negative).then_some(digits)
}

fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    number.len() * 8 - unused
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJbMUCLbhL+4yLhFV8RxVUzSSvYbIpvmTcHnGJlPpzXB";

    /// A key of these fields, in base64.
    fn key(fields: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend(*field);
        }
        match serde_json::to_value(ByteString(bytes)).unwrap() {
            Value::String(text) => format!("any {text} comment"),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_key_may_have_options_comments_and_lines_around_it() {
        for good in [
            format!("ssh-ed25519 {ED25519}"),
            format!("ssh-ed25519 {ED25519} a@example.com\n"),
            format!("# mine\n\n  ssh-ed25519\t{ED25519}"),
            format!("command=\"a \\\" b\",no-pty ssh-ed25519 {ED25519} a b"),
        ] {
            assert!(is_authorized_key(&good), "{good}");
        }
        for bad in [
            String::new(),
            "hello".to_owned(),
            ED25519.to_owned(),
            format!("#ssh-ed25519 {ED25519}"),
            format!("ssh-ed25519 {}", &ED25519[..64]),
            format!("ssh-ed25519 {ED25519}AAAA"),
            "ssh-ed25519 !!!!".to_owned(),
        ] {
            assert!(!is_authorized_key(&bad), "{bad}");
        }
    }

    #[test]
    fn each_algorithm_has_the_fields_of_its_own() {
        let point = |coordinate: usize| [&[UNCOMPRESSED][..], &vec![7; 2 * coordinate]].concat();
        let prime = [&[0][..], &[255; DSA_PRIME_BITS / 8]].concat();
        let good: [&[&[u8]]; 7] = [
            &[b"ssh-rsa", &[1, 0, 1], &[0, 200, 1]],
            &[b"ssh-dss", &prime, &[1], &[1], &[1]],
            &[b"ecdsa-sha2-nistp256", b"nistp256", &point(32)],
            &[b"ecdsa-sha2-nistp384", b"nistp384", &point(48)],
            &[b"ecdsa-sha2-nistp521", b"nistp521", &point(66)],
            &[b"sk-ssh-ed25519@openssh.com", &[1; 32], b"ssh:"],
            &[b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", &point(32), b"ssh:"],
        ];
        for fields in good {
            assert!(is_authorized_key(&key(fields)), "{:?}", std::str::from_utf8(fields[0]));
        }
        let bad: [&[&[u8]]; 9] = [
            &[b"ssh-rsa", &[1, 0, 0], &[200]],
            &[b"ssh-rsa", &[1, 0, 0, 1], &[1]],
            &[b"ssh-rsa", &[3], &[]],
            &[b"ssh-dss", &[1], &[1], &[1], &[1]],
            &[b"ecdsa-sha2-nistp256", b"nistp384", &point(32)],
            &[b"ecdsa-sha2-nistp256", b"nistp256", &point(31)],
            &[b"ecdsa-sha2-nistp192", b"nistp192", &point(24)],
            &[b"ssh-ed25519", &[1; 31]],
            &[b"ssh-ed25519", &[1; 32], b"more"],
        ];
        for fields in bad {
            assert!(!is_authorized_key(&key(fields)), "{fields:?}");
        }
    }
}
