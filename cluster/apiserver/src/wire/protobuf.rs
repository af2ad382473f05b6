//! Reads request bodies in Kubernetes' protobuf encoding into JSON values, because Go's typed clients and much of kubectl
//! send built-in kinds in it. Answers are never protobuf: those clients accept JSON.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf)

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_schema::without_points;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Nested messages; as deep as JSON bodies may be.
const DEPTH_MAX: usize = 128;
/// The message of a schema, which contains itself.
const SCHEMA: &str = "api.apiextensions.v1.JSONSchemaProps";

/// Field numbers by message, as `examples/protobuf_table.rs` prints them.
fn messages() -> &'static BTreeMap<String, BTreeMap<u32, Field>> {
    static MESSAGES: OnceLock<BTreeMap<String, BTreeMap<u32, Field>>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut text = Vec::new();
        let packed: &[u8] = include_bytes!("../../data/protobuf.json.gz");
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut text)
            .expect("a committed table, read by a test");
        let raw: BTreeMap<String, BTreeMap<u32, String>> =
            serde_json::from_slice(&text).expect("a committed table, read by a test");
        let fields =
            |fields: BTreeMap<u32, String>| fields.into_iter().map(|(n, text)| (n, Field::parse(&text))).collect();
        raw.into_iter().map(|(name, message)| (name, fields(message))).collect()
    })
}

#[derive(Debug)]
struct Field {
    form: Form,
    json: String,
    type_: Type,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Zero means not set.
    Plain,
    /// Zero is a value.
    Pointer,
    /// Zero is kept: Go's JSON prints it for an unset field, and some schemas require it.
    Always,
    List,
    Map,
    /// Its fields stand in the message around it.
    Embedded,
}

#[derive(Debug)]
enum Type {
    Text,
    Bytes,
    Bool,
    Integer,
    Double,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// JSON inside a message: RawExtension, FieldsV1, and JSON itself.
    Raw,
    /// A message that is a list of texts: ExtraValue, Verbs.
    Texts,
    /// A message that stands for one of its fields: what apiextensions has where a schema may have another form.
    Either(Either),
    Message(String),
}

/// What stands in the place of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Either {
    Boolean,
    Schemas,
    Texts,
}

impl Field {
    fn parse(text: &str) -> Self {
        let (form, rest) = match text.as_bytes().first() {
            Some(b'*') => (Form::Pointer, &text[1..]),
            Some(b'!') => (Form::Always, &text[1..]),
            Some(b'[') => (Form::List, &text[1..]),
            Some(b'{') => (Form::Map, &text[1..]),
            Some(b'_') => (Form::Embedded, &text[1..]),
            _ => (Form::Plain, text),
        };
        let (json, type_) = rest.split_once(' ').unwrap_or((rest, "string"));
        let last = type_.rsplit('.').next().unwrap_or_default();
        let type_ = match (type_, last) {
            ("string", _) => Type::Text,
            ("bytes", _) => Type::Bytes,
            ("bool", _) => Type::Bool,
            ("int32" | "int64" | "uint32" | "uint64", _) => Type::Integer,
            ("double", _) => Type::Double,
            (_, "Quantity") => Type::Quantity,
            (_, "IntOrString") => Type::IntOrString,
            ("apimachinery.pkg.apis.meta.v1.Time", _) => Type::Time,
            ("apimachinery.pkg.apis.meta.v1.MicroTime", _) => Type::MicroTime,
            ("apimachinery.pkg.apis.meta.v1.Duration", _) => Type::Duration,
            (_, "RawExtension" | "FieldsV1" | "JSON") => Type::Raw,
            (_, "ExtraValue" | "Verbs") => Type::Texts,
            (_, "JSONSchemaPropsOrBool") => Type::Either(Either::Boolean),
            (_, "JSONSchemaPropsOrArray") => Type::Either(Either::Schemas),
            (_, "JSONSchemaPropsOrStringArray") => Type::Either(Either::Texts),
            (message, _) => Type::Message(message.to_owned()),
        };
        Self {
            form,
            json: json.to_owned(),
            type_,
        }
    }
}

/// Reads a whole body. Errors are texts for a 400.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("the body does not begin as Kubernetes' protobuf does")?;
    let (mut api_version, mut kind, mut raw): (String, String, &[u8]) = Default::default();
    for item in Items(envelope) {
        match item? {
            (1, Wire::Bytes(type_meta)) => {
                for item in Items(type_meta) {
                    match item? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                return Err("the content encoding is not known".to_owned());
            }
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    let message = messages()
        .get(&name)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?} in protobuf"))?;
    let mut object = Map::new();
    fill(message, raw, &mut object, 0)?;
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

/// `apps/v1`, `Deployment` is `api.apps.v1.Deployment`; delete options are of every group.
fn message_name(api_version: &str, kind: &str) -> String {
    if matches!(kind, "DeleteOptions" | "Status") {
        return format!("apimachinery.pkg.apis.meta.v1.{kind}");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let folder = group.split('.').next().unwrap_or_default();
    format!("api.{folder}.{version}.{kind}")
}

fn fill(
    message: &BTreeMap<u32, Field>,
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("the body is nested too deeply".to_owned());
    }
    for item in Items(bytes) {
        let (number, wire) = item?;
        // A field of a newer Kubernetes is dropped, as Go drops it.
        let Some(field) = message.get(&number) else { continue };
        match field.form {
            Form::Embedded => {
                let Type::Message(name) = &field.type_ else { continue };
                if let Some(inner) = messages().get(name) {
                    fill(inner, wire.bytes()?, out, depth + 1)?;
                }
            }
            Form::List => {
                let list = out
                    .entry(field.json.as_str())
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Some(list) = list.as_array_mut() {
                    repeated(&field.type_, wire, list, depth)?;
                }
            }
            Form::Map => {
                let (key, value) = entry(&field.type_, wire.bytes()?, depth)?;
                let map = out
                    .entry(field.json.as_str())
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Some(map) = map.as_object_mut() {
                    map.insert(key, value);
                }
            }
            Form::Plain | Form::Pointer | Form::Always => {
                let value = value(&field.type_, &wire, depth)?;
                if field.form != Form::Plain || !is_zero(&value) {
                    out.insert(field.json.clone(), value);
                }
            }
        }
    }
    Ok(())
}

/// One element, or several packed numbers.
fn repeated(type_: &Type, wire: Wire<'_>, list: &mut Vec<Value>, depth: usize) -> Result<(), String> {
    if let (Type::Integer, Wire::Bytes(bytes)) = (type_, &wire) {
        let mut packed = *bytes;
        while !packed.is_empty() {
            let (number, rest) = varint(packed)?;
            list.push(Value::from(signed(number)));
            packed = rest;
        }
        return Ok(());
    }
    list.push(value(type_, &wire, depth)?);
    Ok(())
}

fn entry(type_: &Type, bytes: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut found) = (String::new(), None);
    for item in Items(bytes) {
        match item? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => found = Some(value(type_, &wire, depth)?),
            _ => {}
        }
    }
    Ok((key, found.unwrap_or_else(|| Value::String(String::new()))))
}

fn value(type_: &Type, wire: &Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match type_ {
        Type::Text => Value::String(utf8(wire.bytes()?)?),
        Type::Bytes => Value::String(STANDARD.encode(wire.bytes()?)),
        Type::Bool => Value::Bool(wire.number()? != 0),
        Type::Integer => Value::from(signed(wire.number()?)),
        Type::Double => double(f64::from_bits(wire.number()?)),
        Type::Quantity => Value::String(first_text(wire.bytes()?)?),
        Type::IntOrString => int_or_string(wire.bytes()?)?,
        Type::Time => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
        Type::MicroTime => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Type::Duration => Value::String(format!("{}ns", signed(first_number(wire.bytes()?)?))),
        Type::Raw => match first_bytes(wire.bytes()?)? {
            [] => Value::Null,
            raw => serde_json::from_slice(raw).map_err(|error| format!("raw JSON inside the body: {error}"))?,
        },
        Type::Texts => {
            let mut texts = Vec::new();
            for item in Items(wire.bytes()?) {
                if let (1, Wire::Bytes(text)) = item? {
                    texts.push(Value::String(utf8(text)?));
                }
            }
            Value::Array(texts)
        }
        Type::Either(either) => schema_or(*either, wire.bytes()?, depth)?,
        Type::Message(name) => message(name, wire.bytes()?, depth)?,
    })
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut object = Map::new();
    if let Some(message) = messages().get(name) {
        fill(message, bytes, &mut object, depth + 1)?;
    }
    Ok(Value::Object(object))
}

/// A number without a point where Go prints none.
fn double(number: f64) -> Value {
    let mut value = Value::from(number);
    without_points(&mut value);
    value
}

/// A schema, or what may stand in its place. Precedence as Go's JSON has it.
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go)
fn schema_or(either: Either, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let (mut allows, mut schema, mut others) = (false, None, Vec::new());
    for item in Items(bytes) {
        match (either, item?) {
            (Either::Boolean, (1, Wire::Number(value))) => allows = value != 0,
            (Either::Boolean, (2, Wire::Bytes(value))) | (_, (1, Wire::Bytes(value))) => {
                schema = Some(message(SCHEMA, value, depth)?);
            }
            (Either::Schemas, (2, Wire::Bytes(value))) => others.push(message(SCHEMA, value, depth)?),
            (Either::Texts, (2, Wire::Bytes(value))) => others.push(Value::String(utf8(value)?)),
            _ => {}
        }
    }
    Ok(match schema {
        _ if !others.is_empty() => Value::Array(others),
        Some(schema) => schema,
        None if either == Either::Boolean => Value::Bool(allows),
        None => Value::Null,
    })
}

/// What Go's protobuf writes for an unset field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for item in Items(bytes) {
        match item? {
            (1, Wire::Number(type_)) => is_text = type_ == 1,
            (2, Wire::Number(value)) => number = signed(value),
            (3, Wire::Bytes(value)) => text = utf8(value)?,
            _ => {}
        }
    }
    Ok(if is_text {
        Value::String(text)
    } else {
        Value::from(number)
    })
}

/// A time; `null` when it is unset.
fn time(bytes: &[u8], format: &str) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for item in Items(bytes) {
        match item? {
            (1, Wire::Number(value)) => seconds = signed(value),
            (2, Wire::Number(value)) => nanos = signed(value),
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| "a time is out of range")?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| "a time is out of range")?;
    Ok(Value::String(time.strftime(format).to_string()))
}

fn first_bytes(bytes: &[u8]) -> Result<&[u8], String> {
    for item in Items(bytes) {
        if let (1, Wire::Bytes(found)) = item? {
            return Ok(found);
        }
    }
    Ok(&[])
}

fn first_text(bytes: &[u8]) -> Result<String, String> {
    utf8(first_bytes(bytes)?)
}

fn first_number(bytes: &[u8]) -> Result<u64, String> {
    for item in Items(bytes) {
        if let (1, Wire::Number(found)) = item? {
            return Ok(found);
        }
    }
    Ok(0)
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}

fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

/// The value of a field on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(&self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err("a field is a number where bytes belong".to_owned()),
        }
    }

    fn number(&self) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Bytes(_) => Err("a field is bytes where a number belongs".to_owned()),
        }
    }
}

/// The fields of a message in the order sent. Ends after the first error.
struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Result<(u32, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match item(self.0) {
            Ok((number, wire, rest)) => {
                self.0 = rest;
                Some(Ok((number, wire)))
            }
            Err(error) => {
                self.0 = &[];
                Some(Err(error))
            }
        }
    }
}

fn item(bytes: &[u8]) -> Result<(u32, Wire<'_>, &[u8]), String> {
    let cut = || "the body ends within a field".to_owned();
    let (key, rest) = varint(bytes)?;
    let number = u32::try_from(key >> 3).map_err(|_| "a field number is too large")?;
    let fixed = |size: usize| rest.split_at_checked(size).ok_or_else(cut);
    match key & 7 {
        0 => varint(rest).map(|(value, rest)| (number, Wire::Number(value), rest)),
        1 => {
            let (value, rest) = fixed(8)?;
            let value = value.try_into().map_err(|_| cut())?;
            Ok((number, Wire::Number(u64::from_le_bytes(value)), rest))
        }
        2 => {
            let (length, rest) = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| cut())?;
            let (value, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
            Ok((number, Wire::Bytes(value), rest))
        }
        5 => {
            let (value, rest) = fixed(4)?;
            let value = value.try_into().map_err(|_| cut())?;
            Ok((number, Wire::Number(u64::from(u32::from_le_bytes(value))), rest))
        }
        other => Err(format!("wire type {other} is not known")),
    }
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let mut number = 0_u64;
    for (position, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[position + 1..]));
        }
    }
    Err("a number does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let (low, high) = (
            u8::try_from(bytes.len() % 128).unwrap(),
            u8::try_from(bytes.len() / 128).unwrap(),
        );
        let mut out = vec![number << 3 | 2, low | 0x80, high];
        out.extend(bytes);
        out
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_deployment_reads_as_its_json() {
        let port = [field(1, b""), number(3, 80), field(4, b"TCP")].concat();
        let limit = field(1, &[field(1, b"cpu"), field(2, &field(1, b"100m"))].concat());
        let probe = field(
            1,
            &field(
                2,
                &[
                    field(1, b"/"),
                    field(2, &[number(1, 1), number(2, 0), field(3, b"http")].concat()),
                ]
                .concat(),
            ),
        );
        let container = [
            field(1, b"main"),
            field(2, b""),
            field(6, &port),
            field(8, &limit),
            field(10, &probe),
        ]
        .concat();
        let volume = [field(1, b"scratch"), field(2, &field(2, b""))].concat();
        let pod = [field(1, &volume), field(2, &container)].concat();
        let template = [
            field(1, &field(11, &[field(1, b"app"), field(2, b"web")].concat())),
            field(2, &pod),
        ]
        .concat();
        let selector = field(1, &[field(1, b"app"), field(2, b"web")].concat());
        let spec = [
            number(1, 0),
            field(2, &selector),
            field(3, &template),
            field(4, &field(1, b"")),
            number(7, 0),
        ]
        .concat();
        let metadata = [field(1, b"web"), field(2, b""), field(8, b"")].concat();
        let raw = [field(1, &metadata), field(2, &spec), field(3, &number(1, 0))].concat();
        assert_eq!(
            decode(&body("apps/v1", "Deployment", &raw)).unwrap(),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {
                            "containers": [{
                                "name": "main", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                                "resources": {"limits": {"cpu": "100m"}},
                                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                            }],
                            "volumes": [{"name": "scratch", "emptyDir": {}}],
                        },
                    },
                },
            })
        );
    }

    #[derive(serde::Deserialize)]
    struct Body {
        json: Value,
        protobuf: String,
    }

    /// The file is written by Go: `examples/protobuf_bodies.go`.
    #[test]
    fn protobuf_written_by_go_decodes_to_gos_json() {
        let bodies: Vec<Body> = serde_json::from_str(include_str!("../../tests/it/protobuf_bodies.json")).unwrap();
        for Body { mut json, protobuf } in bodies {
            without_nulls(&mut json);
            // A struct without fields that are set.
            if json["status"] == json!({}) {
                json.as_object_mut().unwrap().remove("status");
            }
            let mut decoded = decode(&STANDARD.decode(protobuf).unwrap()).unwrap();
            without_nulls(&mut decoded);
            assert_eq!(decoded, json, "{}", json["metadata"]["name"]);
        }
    }

    /// Drops fields that are null; elements of lists stay.
    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| !value.is_null());
                fields.values_mut().for_each(without_nulls);
            }
            Value::Array(items) => items.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }

    #[test]
    fn malformed_protobuf_bodies_are_refused() {
        let endless = [0xff; 32];
        let long = [b"k8s\0".to_vec(), vec![0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
        let bodies: [&[u8]; 6] = [
            b"",
            b"{}",
            b"k8s\0",
            &[MAGIC, &endless].concat(),
            &long,
            &body("v1", "Nonsense", b""),
        ];
        for body in bodies {
            assert!(decode(body).is_err(), "{body:?}");
        }
        assert!(
            decode(&body("v1", "ConfigMap", &[0x0b])).is_err(),
            "groups are not known"
        );
        assert!(
            decode(&body("v1", "ConfigMap", &number(1, 1))).is_err(),
            "metadata is no number"
        );
    }
}
