//! Malformed bodies of well-formed requests, by kind.

use super::{OBJECT, OBJECTS, THERE, Titled, as_kind, sized};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// An object with this beside its name.
fn with(rest: &[u8]) -> Vec<u8> {
    [br#"{"metadata":{"name":"raw"},"#.as_slice(), rest, b"}"].concat()
}

/// An object with this as its data.
fn map(data: &[u8]) -> Vec<u8> {
    with(&[b"\"data\":", data].concat())
}

fn posted(title: &'static str, kind: &str, body: &[u8]) -> Titled {
    as_kind(title, "POST", OBJECTS, kind, body)
}

fn patch(title: &'static str, kind: &str, body: &[u8]) -> Titled {
    as_kind(title, "PATCH", THERE, kind, body)
}

pub(super) fn texts() -> Vec<Titled> {
    let utf16: Vec<u8> = "{\"metadata\":{\"name\":\"raw\"}}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    vec![
        sized("a text that is no UTF-8", &map(b"{\"k\":\"\xff\"}")),
        sized("a key that is no UTF-8", &map(b"{\"\xff\":\"v\"}")),
        sized("a field that is no UTF-8", &with(b"\"\xff\":1")),
        sized("a name that is no UTF-8", b"{\"metadata\":{\"name\":\"\xff\"}}"),
        sized("a text that ends within a character", &map(b"{\"k\":\"\xe2\x82\"}")),
        sized("a character longer than it needs to be", &map(b"{\"k\":\"\xc0\xaf\"}")),
        sized("a surrogate as it stands", &map(b"{\"k\":\"\xed\xa0\x80\"}")),
        sized("a character beyond all", &map(b"{\"k\":\"\xf4\x90\x80\x80\"}")),
        sized("half a pair of surrogates", &map(br#"{"k":"\ud800"}"#)),
        sized("the other half of a pair", &map(br#"{"k":"\udc00"}"#)),
        sized("a pair the wrong way round", &map(br#"{"k":"\udc00\ud800"}"#)),
        sized("half an escape", &map(br#"{"k":"\u12"}"#)),
        sized("an escape that is none", &map(br#"{"k":"\x"}"#)),
        sized("a NUL as an escape", &map(br#"{"k":"\u0000"}"#)),
        sized("a control character in a text", &map(b"{\"k\":\"\x01\"}")),
        sized("a mark before the body", &[b"\xef\xbb\xbf", OBJECT].concat()),
        sized("a body of two bytes a character", &utf16),
        sized("no UTF-8 beside the body", &[OBJECT, b"\xff"].concat()),
        posted(
            "YAML that is no UTF-8",
            YAML,
            b"metadata: {name: raw}\ndata: {k: \xff}\n",
        ),
        posted(
            "YAML with a control character",
            YAML,
            b"metadata: {name: raw}\ndata: {k: \"\x01\"}\n",
        ),
        patch("a merge patch that is no UTF-8", MERGE, b"{\"data\":{\"k\":\"\xff\"}}"),
    ]
}

pub(super) fn keys() -> Vec<Titled> {
    let hundred: String = (0..100).map(|_| "\"k\":\"v\",").collect();
    let many = format!("{{{hundred}\"l\":\"w\"}}");
    vec![
        sized("a key that stands twice", &map(br#"{"k":"a","k":"b"}"#)),
        sized("a key that stands a hundred times", &map(many.as_bytes())),
        sized("a field that stands twice", &with(br#""data":{},"data":{"k":"v"}"#)),
        sized("metadata that stand twice", &with(br#""metadata":{"name":"other"}"#)),
        sized(
            "a name that stands twice",
            br#"{"metadata":{"name":"raw","name":"other"}}"#,
        ),
        sized(
            "a kind that stands twice",
            &with(br#""kind":"ConfigMap","kind":"Secret""#),
        ),
        sized("a field in two cases", &with(br#""data":{"k":"v"},"Data":{"l":"w"}"#)),
        sized("a field in another case", &with(br#""DATA":{"k":"v"}"#)),
        sized(
            "a key that stands twice by an escape",
            &map(br#"{"k":"a","\u006b":"b"}"#),
        ),
        sized("an unknown field twice", &with(br#""x":1,"x":2"#)),
        posted(
            "YAML with a key that stands twice",
            YAML,
            b"metadata: {name: raw}\ndata: {k: a, k: b}\n",
        ),
        posted(
            "YAML with a field that stands twice",
            YAML,
            b"metadata: {name: raw}\ndata: {}\ndata: {}\n",
        ),
        patch(
            "a merge patch with a key that stands twice",
            MERGE,
            br#"{"data":{"k":"a","k":"b"}}"#,
        ),
    ]
}

pub(super) fn numbers() -> Vec<Titled> {
    let generation = |number: &str| format!(r#"{{"metadata":{{"name":"raw","generation":{number}}}}}"#).into_bytes();
    let digits = "9".repeat(100_000);
    vec![
        sized("a number beyond 64 bits", &map(b"123456789012345678901234567890")),
        sized("a number beyond all", &map(b"1e999")),
        sized("a number that is none", &map(b"01")),
        sized("not a number", &map(b"NaN")),
        sized("no end of numbers", &map(b"-Infinity")),
        sized("a count beyond 64 bits", &generation("123456789012345678901234567890")),
        sized("a count one beyond 64 bits", &generation("9223372036854775808")),
        sized("a count one below 64 bits", &generation("-9223372036854775809")),
        sized("the largest count", &generation("9223372036854775807")),
        sized("a count that is a fraction", &generation("1.5")),
        sized("a count with a point", &generation("1.0")),
        sized("a count with an exponent", &generation("1e2")),
        sized("a count beyond all", &generation("1e999")),
        sized("a count below all that differs from zero", &generation("1e-999")),
        sized("a count that is zero and negative", &generation("-0")),
        sized("a count in quotes", &generation("\"1\"")),
        sized("a count that is true", &generation("true")),
        sized("a count that begins with zero", &generation("01")),
        sized("a count with a plus", &generation("+1")),
        sized("a count without digits before the point", &generation(".5")),
        sized("a count without digits behind the point", &generation("1.")),
        sized("a count that is a minus", &generation("-")),
        sized("a count of another base", &generation("0x10")),
        sized("a count without an exponent's digits", &generation("1e")),
        sized("a count of a hundred thousand digits", &generation(&digits)),
        sized(
            "a text that is a number of a hundred thousand digits",
            &map(format!("{{\"k\":{digits}}}").as_bytes()),
        ),
        posted(
            "YAML with a count beyond 64 bits",
            YAML,
            b"metadata: {name: raw, generation: 9223372036854775808}\n",
        ),
        posted(
            "YAML with a count of another base",
            YAML,
            b"metadata: {name: raw, generation: 0x10}\n",
        ),
        posted(
            "YAML with a count that is not a number",
            YAML,
            b"metadata: {name: raw, generation: .nan}\n",
        ),
        patch(
            "a merge patch with a number beyond all",
            MERGE,
            br#"{"metadata":{"generation":1e999}}"#,
        ),
    ]
}

pub(super) fn depths() -> Vec<Titled> {
    let lists = |count: usize| [b"[".repeat(count), b"]".repeat(count)].concat();
    let objects = |count: usize| [br#"{"a":"#.repeat(count), b"1".to_vec(), b"}".repeat(count)].concat();
    let yaml = |count: usize| [&b"metadata: {name: raw}\nx: "[..], &lists(count), b"\n"].concat();
    let laughs: String = (1..12)
        .map(|level| {
            let again = vec![format!("*a{}", level - 1); 10].join(", ");
            format!("a{level}: &a{level} [{again}]\n")
        })
        .collect();
    let laughs = format!("metadata: {{name: raw}}\na0: &a0 [lol]\n{laughs}");
    let operations = [&br#"[{"op":"add","path":"/data","value":"#[..], &lists(10_001), b"}]"].concat();
    vec![
        sized("10,001 lists in each other", &lists(10_001)),
        sized("10,001 objects in each other", &objects(10_001)),
        sized("a million lists that do not end", &b"[".repeat(1_000_000)),
        sized(
            "lists in an unknown field",
            &with(&[b"\"x\":", &lists(10_001)[..]].concat()),
        ),
        sized(
            "objects in an unknown field",
            &with(&[b"\"x\":", &objects(10_001)[..]].concat()),
        ),
        sized(
            "lists where a text is due",
            &map(&[b"{\"k\":", &lists(10_001)[..], b"}"].concat()),
        ),
        posted("YAML of 10,001 lists", YAML, &yaml(10_001)),
        posted(
            "YAML of ten thousand blanks",
            YAML,
            &[&b" ".repeat(10_000)[..], b"a: 1\n"].concat(),
        ),
        posted("YAML that says much with little", YAML, laughs.as_bytes()),
        posted("YAML that means itself", YAML, b"metadata: {name: raw}\nx: &a [*a]\n"),
        patch("a merge patch of 10,001 objects", MERGE, &objects(10_001)),
        patch("a JSON patch of 10,001 lists", JSON_PATCH, &operations),
    ]
}

pub(super) fn broken() -> Vec<Titled> {
    let object = "{\"metadata\":{\"name\":\"raw\"}}";
    vec![
        sized("a body that ends early", &map(b"{")),
        sized("two bodies", &[OBJECT, OBJECT].concat()),
        sized("zeros", &[0; 100]),
        sized("nothing as a body", b""),
        sized("blanks as a body", b" \t\r\n"),
        sized("a list as a body", b"[]"),
        sized("a text as a body", b"\"a\""),
        sized("a number as a body", b"1"),
        sized("nothing by its name", b"null"),
        sized("a comma too many", &map(br#"{"k":"v",}"#)),
        sized("single quotes", &map(b"{'k':'v'}")),
        sized("a remark", &[b"/* a */", OBJECT].concat()),
        sized("a key without quotes", &map(b"{k:\"v\"}")),
        sized("a list where a map is due", &map(b"[]")),
        sized("a text where a map is due", &map(b"\"a\"")),
        sized("a map where a text is due", &map(br#"{"k":{}}"#)),
        sized("nothing where a text is due", &map(br#"{"k":null}"#)),
        posted("YAML that is none", YAML, b"a: b: c: [\n"),
        posted(
            "YAML of two documents",
            YAML,
            b"metadata: {name: raw}\n---\nmetadata: {name: other}\n",
        ),
        posted("YAML with a tab", YAML, b"metadata:\n\tname: raw\n"),
        posted("YAML with a tag", YAML, b"metadata: !!python/object {name: raw}\n"),
        posted("JSON that is YAML", JSON, b"metadata: {name: raw}\n"),
        posted("YAML that is JSON", YAML, object.as_bytes()),
        patch("a JSON patch that is an object", JSON_PATCH, b"{}"),
        patch("a JSON patch without an operation", JSON_PATCH, br#"[{"path":"/a"}]"#),
        patch(
            "a JSON patch of an unknown operation",
            JSON_PATCH,
            br#"[{"op":"brew","path":"/a"}]"#,
        ),
        patch("a merge patch that is a list", MERGE, b"[]"),
        patch("a merge patch that ends early", MERGE, b"{"),
    ]
}
