//! From a request body to a JSON value: limits on size and depth, duplicate keys, YAML. It never looks at a kind.

use std::fmt;

use bytes::Bytes;
use cluster_schema::{json_problem, without_points};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::wire::status::Status;
use crate::wire::{invalid_utf8, protobuf};

/// Largest request body, in bytes: kube-apiserver's limit, twice what etcd takes for one object.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// Duplicate keys reported per body; more would not help.
const DUPLICATES_MAX: usize = 16;

/// A letter that is appended to a body to find its last text.
const MARK: &str = "x";

/// Refused in every encoding; kube-apiserver takes such a key where no validation looks at keys.
const NUL_KEY: &str = "a key holds a NUL character";

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of keys that stood twice in one object; the last value counts.
    duplicates: Vec<String>,
    /// Some whole number is written with a point or an exponent.
    has_points: bool,
}

impl Decoded {
    /// What strict decoding refuses.
    pub(crate) fn problems(&self) -> Vec<String> {
        let duplicates = self.duplicates.iter();
        duplicates.map(|path| format!("duplicate field \"{path}\"")).collect()
    }
}

/// Reads a body up to [`BODY_BYTES_MAX`].
pub(crate) async fn read_body(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_BYTES_MAX)),
        Err(error) => Err(Status::bad_request(format!(
            "the request body could not be read: {error}"
        ))),
    }
}

/// The media type without parameters, in lower case; empty when there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let text = String::from_utf8_lossy(text.unwrap_or_default());
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The encoding of an object's body; 415 for what this server does not read (CBOR).
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Status> {
    let whole = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    let parsed = match has_sound_parameters(whole) {
        true => media_type(headers),
        false => "a media type that is none".to_owned(),
    };
    match parsed.as_str() {
        "" if whole.is_empty() => Ok(Encoding::Json),
        "application/json" | "text/json" => Ok(Encoding::Json),
        "application/yaml" | "text/yaml" | "application/x-yaml" => Ok(Encoding::Yaml),
        protobuf::MEDIA_TYPE => Ok(Encoding::Protobuf),
        _ => Err(unsupported_media_type(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Whether each parameter of a media type has a value; one trailing semicolon is accepted (go1.25
/// `mime/mediatype.go`, ParseMediaType).
fn has_sound_parameters(media_type: &[u8]) -> bool {
    let text = String::from_utf8_lossy(media_type);
    // Quoted values are not parsed: they may hold anything, and no client of an API sends them.
    if text.contains('"') {
        return true;
    }
    let mut parameters = text.split(';').skip(1).map(str::trim).peekable();
    while let Some(parameter) = parameters.next() {
        let sound = match parameter.split_once('=') {
            Some((name, value)) => !name.is_empty() && !name.contains(' ') && !value.is_empty(),
            None => parameter.is_empty() && parameters.peek().is_none(),
        };
        if !sound {
            return false;
        }
    }
    true
}

pub(crate) fn unsupported_media_type(accepted: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Status::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// Decodes a body. Errors: 400.
pub(crate) fn decode(bytes: &[u8], encoding: Encoding) -> Result<Decoded, Status> {
    try_decode(bytes, encoding).map_err(|why| Status::bad_request(undecodable(encoding, &why)))
}

/// What cannot be decoded, in the words that go with its encoding.
pub(crate) fn undecodable(encoding: Encoding, why: &str) -> String {
    match encoding {
        Encoding::Json => format!("couldn't get version/kind; json parse error: {why}"),
        Encoding::Yaml => format!("error decoding YAML: {why}"),
        Encoding::Protobuf => why.to_owned(),
    }
}

/// Decodes a body; `1.0` becomes `1`, as Go prints a float64 that is whole. Errors: what is wrong with it.
pub(crate) fn try_decode(bytes: &[u8], encoding: Encoding) -> Result<Decoded, String> {
    let mut decoded = try_decode_exactly(bytes, encoding)?;
    if decoded.has_points {
        without_points(&mut decoded.value);
    }
    Ok(decoded)
}

/// Decodes a body that is read into Go's types: those take no `1.0` for an integer. Errors: what is wrong with it.
pub(crate) fn try_decode_exactly(bytes: &[u8], encoding: Encoding) -> Result<Decoded, String> {
    match encoding {
        Encoding::Json => decode_json(bytes).or_else(|why| match invalid_utf8::readable(bytes) {
            Some(readable) => decode_json(&readable),
            None => Err(why),
        }),
        Encoding::Protobuf => {
            let value = protobuf::decode(bytes)?;
            match has_nul_key(&value) {
                true => Err(NUL_KEY.to_owned()),
                false => Ok(Decoded {
                    value,
                    duplicates: Vec::new(),
                    has_points: false,
                }),
            }
        }
        Encoding::Yaml => decode_yaml(bytes),
    }
}

fn has_nul_key(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains('\0') || has_nul_key(value)),
        Value::Array(items) => items.iter().any(has_nul_key),
        _ => false,
    }
}

fn decode_yaml(bytes: &[u8]) -> Result<Decoded, String> {
    let mut decoded = read_yaml(bytes)?;
    // Go converts it to JSON first, which prints whole numbers without a point.
    if decoded.has_points {
        without_points(&mut decoded.value);
    }
    if !bytes.ends_with(b"\n") && bytes.iter().any(|byte| matches!(byte, b'|' | b'>')) {
        let more = [bytes, MARK.as_bytes()].concat();
        if let Ok(marked) = read_yaml(&more) {
            end_block(&mut decoded.value, &marked.value);
        }
    }
    Ok(decoded)
}

/// A block scalar whose last line has no line break has none in its value, as Go reads it; `serde_saphyr` adds one. The
/// last text is the one that a letter at the end of the body changes.
fn end_block(value: &mut Value, marked: &Value) {
    match (value, marked) {
        (Value::String(text), Value::String(marked)) if text != marked => {
            if let Some(whole) = text.strip_suffix('\n')
                && marked.strip_suffix('\n') == Some(&format!("{whole}{MARK}"))
            {
                *text = whole.to_owned();
            }
        }
        (Value::Array(items), Value::Array(marked)) => {
            items
                .iter_mut()
                .zip(marked)
                .for_each(|(item, marked)| end_block(item, marked));
        }
        (Value::Object(fields), Value::Object(marked)) => {
            for (name, value) in fields {
                if let Some(marked) = marked.get(name) {
                    end_block(value, marked);
                }
            }
        }
        _ => {}
    }
}

fn read_yaml(bytes: &[u8]) -> Result<Decoded, String> {
    let (mut duplicates, mut has_points) = (Vec::new(), false);
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let value = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |deserializer| {
        let whole = Tracked {
            path: &Path::Root,
            duplicates: &mut duplicates,
            has_points: &mut has_points,
        };
        whole.deserialize(deserializer)
    });
    match value {
        Ok(value) => Ok(Decoded {
            value,
            duplicates,
            has_points,
        }),
        Err(error) => Err(error.to_string()),
    }
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, String> {
    let (mut duplicates, mut has_points) = (Vec::new(), false);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let whole = Tracked {
        path: &Path::Root,
        duplicates: &mut duplicates,
        has_points: &mut has_points,
    };
    let value = whole
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match value {
        Ok(value) => Ok(Decoded {
            value,
            duplicates,
            has_points,
        }),
        Err(error) => Err(json_problem(bytes).unwrap_or_else(|| error.to_string())),
    }
}

/// The way to a value, linked from leaf to root so that only a report allocates.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads a value and notes keys that stand twice. The recursion is bounded by serde_json (128 levels).
struct Tracked<'a> {
    path: &'a Path<'a>,
    duplicates: &'a mut Vec<String>,
    has_points: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Tracked<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tracked<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    /// Also called for numbers without a point: `-0`, and those with too many digits.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        if value == 0.0 && value.is_sign_negative() {
            return Ok(Value::from(0));
        }
        *self.has_points |= value.fract() == 0.0;
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path::Index(self.path, items.len());
            match access.next_element_seed(Tracked {
                path: &path,
                duplicates: self.duplicates,
                has_points: self.has_points,
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if key.contains('\0') {
                return Err(A::Error::custom(NUL_KEY));
            }
            let path = Path::Field(self.path, &key);
            let value = access.next_value_seed(Tracked {
                path: &path,
                duplicates: self.duplicates,
                has_points: self.has_points,
            })?;
            if fields.contains_key(&key) && self.duplicates.len() < DUPLICATES_MAX {
                self.duplicates.push(path.to_string());
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_keys_are_found_where_they_stand_and_the_last_counts() {
        let body = br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#;
        let decoded = decode(body, Encoding::Json).unwrap();
        assert_eq!(decoded.value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(decoded.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn numbers_keep_64_bits_and_whole_floats_lose_their_point() {
        let body = br#"[9007199254740993,18446744073709551615,-9223372036854775808,1.0,1.5,1e3]"#;
        let decoded = decode(body, Encoding::Json).unwrap();
        assert_eq!(
            decoded.value.to_string(),
            "[9007199254740993,18446744073709551615,-9223372036854775808,1,1.5,1000]"
        );
        let exactly = |body: &str| try_decode_exactly(body.as_bytes(), Encoding::Json).unwrap().value;
        assert_eq!(exactly("[1.0,1e-999,-0,1]").to_string(), "[1.0,0.0,0,1]");
    }

    #[test]
    fn malformed_json_bodies_are_refused() {
        let deep = [b"[".repeat(5000), b"]".repeat(5000)].concat();
        for body in [
            &deep[..],
            b"{",
            b"{} x",
            b"\xff",
            b"{\xff:1}",
            b"",
            b"{\"a\":1e999}",
            b"{\"\\u0000\":1}",
        ] {
            assert!(decode(body, Encoding::Json).is_err());
        }
    }

    #[test]
    fn texts_that_are_no_utf_8_are_read_as_go_reads_them() {
        let decoded = decode(b"{\"a\":\"\xff\",\"b\":\"\\ud800\"}", Encoding::Json).unwrap();
        assert_eq!(decoded.value, json!({"a": "\u{fffd}", "b": "\u{fffd}"}));
    }

    #[test]
    fn yaml_is_read_as_go_reads_it() {
        let decoded = decode(b"a: 1\nb: [x, true, {c: 1, c: 2}]\na: 3", Encoding::Yaml).unwrap();
        assert_eq!(decoded.value, json!({"a": 3, "b": ["x", true, {"c": 2}]}));
        assert_eq!(decoded.duplicates, ["b[2].c", "a"]);
        let read = |text: &str| decode(text.as_bytes(), Encoding::Yaml).unwrap().value;
        let blocks = json!({"a": "one\ntwo\n", "b": ["one\ntwo"]});
        assert_eq!(read("a: |\n  one\n  two\nb:\n- |\n  one\n  two"), blocks);
        assert_eq!(read("a: |\n  one\nb: x"), json!({"a": "one\n", "b": "x"}));
    }
}
