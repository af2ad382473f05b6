//! JSON whose texts are no UTF-8, made readable as Go reads it: what is wrong becomes the replacement character
//! (go1.25 `encoding/json/decode.go`, unquote). It never looks at what the texts say.

/// The same JSON with readable texts; none when they are readable already.
pub(crate) fn readable(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    let out = with_whole_pairs(text.as_bytes());
    (out != bytes).then_some(out)
}

/// Replaces halves of surrogate pairs. A backslash outside of texts is not valid JSON anyway.
fn with_whole_pairs(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        if *first != b'\\' {
            out.push(*first);
            rest = behind;
            continue;
        }
        let length = match escaped(rest) {
            Some(0xd800..0xdc00) if matches!(escaped(&rest[6..]), Some(0xdc00..0xe000)) => 12,
            Some(0xd800..0xe000) => {
                out.extend(br"\ufffd");
                rest = &rest[6..];
                continue;
            }
            // The backslash and the character that it escapes, which may be a backslash.
            _ => rest.len().min(2),
        };
        out.extend(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The number in `\u1234` at the start of a text.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_is_replaced_and_the_rest_is_unchanged() {
        let made = |bytes: &[u8]| readable(bytes).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(made(br#"{"a":"\ud83d\ude00\\ud800\n"}"#), None);
        assert_eq!(
            made(b"\"a\xff\xfeb\xe2\x82\""),
            Some("\"a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\"".to_owned())
        );
        assert_eq!(
            made(br#""\ud800\u0041\udc00\ud800""#),
            Some(r#""\ufffd\u0041\ufffd\ufffd""#.to_owned())
        );
        assert_eq!(made(br#""\ud800\"#), Some(r#""\ufffd\"#.to_owned()));
        assert_eq!(made(br"\u12"), None);
    }
}
