//! Limits that Go does not have. Comparisons with Go are in `tests/helm`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn problem(text: &str) -> String {
    read(text.as_bytes(), DuplicateKeys::Allowed).unwrap_err().to_string()
}

#[test]
fn collections_are_nested_up_to_the_limit_and_no_deeper() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let block = |depth: usize| "- ".repeat(depth) + "a";
    assert!(read(flow(499).as_bytes(), DuplicateKeys::Allowed).is_ok());
    assert!(read(block(499).as_bytes(), DuplicateKeys::Allowed).is_ok());
    for text in [
        flow(501),
        block(501),
        flow(1_000_000),
        block(1_000_000),
        "? ".repeat(100_000),
    ] {
        assert!(
            problem(&text).contains("exceeded max depth of 500"),
            "{}",
            problem(&text)
        );
    }
    let mixed = "- ".repeat(300) + &flow(300);
    assert!(problem(&mixed).contains("exceeded max depth of 500"));
}

#[test]
fn aliases_that_multiply_are_refused_by_count_and_by_size() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..60 {
        let before = level - 1;
        text += &format!("a{level}: &a{level} [*a{before},*a{before},*a{before}]\n");
    }
    assert!(problem(&text).ends_with("document contains excessive aliasing"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(90));
    assert!(problem(&long).ends_with("document contains excessive aliasing"));
    let long_key = format!("a: &a {{? {} : 1}}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(90));
    assert!(problem(&long_key).ends_with("document contains excessive aliasing"));
    let merged = format!(
        "a: &a {{? {} : 1}}\nb: [{}]\n",
        "x".repeat(1 << 20),
        "{<<: *a},".repeat(90)
    );
    assert!(problem(&merged).ends_with("document contains excessive aliasing"));
    let chain: String = (1..2000)
        .map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1))
        .collect();
    assert!(problem(&format!("a0: &a0 1\n{chain}")).contains("exceeded max depth"));
}

#[test]
fn prefixes_of_tags_are_few_and_repeated_up_to_a_size() {
    let tagged = |times: usize| {
        let prefix = "x".repeat(1 << 20);
        format!("%TAG !e! {prefix}\n---\n[{}]\n", "!e!a b,".repeat(times))
    };
    assert_eq!(
        read(tagged(60).as_bytes(), DuplicateKeys::Allowed).unwrap(),
        json!(vec!["b"; 60])
    );
    assert!(problem(&tagged(70)).ends_with("prefixes of tags have more than 67108864 bytes together"));
    let directives = |count: usize| -> String {
        let lines = (0..count).map(|number| format!("%TAG !{number}! x\n"));
        lines.collect::<String>() + "---\na\n"
    };
    assert!(read(directives(100).as_bytes(), DuplicateKeys::Allowed).is_ok());
    assert!(problem(&directives(101)).ends_with("document has more than 100 %TAG directives"));
}

#[test]
fn values_deeper_than_the_limit_are_not_written() {
    let mut value = json!(1);
    for _ in 0..501 {
        value = Value::Array(vec![value]);
    }
    assert!(
        write(&value)
            .unwrap_err()
            .to_string()
            .contains("exceeded max depth of 500")
    );
    assert!(write_pretty(&value[0]).is_ok());
}

#[test]
fn numbers_that_are_read_are_floats_and_exact_ones_are_not() {
    let exact = read_exact(b"[1, 1.0, 0777]", DuplicateKeys::Allowed).unwrap();
    assert_eq!(exact, json!([1, 1.0, 511]));
    let floats = read(b"[1, 1.0, 0777]", DuplicateKeys::Allowed).unwrap();
    assert_eq!(floats, json!([1.0, 1.0, 511.0]));
    assert_eq!(write(&floats).unwrap(), "- 1\n- 1\n- 511\n");
    assert_eq!(
        write_pretty(&json!({"a": [1e6, 1_000_000]})).unwrap(),
        "a:\n  - 1e+06\n  - 1000000\n"
    );
}

#[test]
fn structs_are_sorted_only_where_json_was_made_of_them() {
    #[derive(serde::Serialize)]
    struct Named {
        b: Option<u8>,
        a: (u8, &'static str),
    }
    let value = Named { b: None, a: (1, "yes") };
    assert_eq!(write(&value).unwrap(), "a:\n- 1\n- \"yes\"\nb: null\n");
    assert_eq!(write_pretty(&value).unwrap(), "b: null\na:\n  - 1\n  - \"yes\"\n");
}

/// Lines of words, keys, quotes, comments and what is no ASCII.
fn drawn_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b c",
        "key",
        ": ",
        ":",
        ":\n",
        " #",
        "#",
        " # x\n",
        "\n",
        "\n",
        "\n\n",
        "\n  ",
        "\n    ",
        "\n ",
        "- ",
        "-",
        "'",
        "''",
        "\"",
        "\"\"",
        "\\",
        "\\n",
        "'it''s'",
        "\"x y\"",
        "1",
        "0x1f",
        "~",
        "é",
        "\u{2028}",
        "\t",
        "\r\n",
        "---",
        "...",
        "? ",
        "| \n",
        ">-\n",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "metadata: ",
        "kind: ",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const FIELDS: Shape = Shape::Fields(&[("kind", Shape::Any), ("metadata", Shape::Any)]);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Scalars of UTF-8 are borrowed, those of UTF-16 are copied.
    #[test]
    fn utf8_and_utf16_of_a_text_read_the_same(text in drawn_text()) {
        let mut utf16 = vec![0xFF, 0xFE];
        utf16.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        prop_assert_eq!(read_exact(text.as_bytes(), DuplicateKeys::Refused), read_exact(&utf16, DuplicateKeys::Refused));
    }

    #[test]
    fn requested_entries_equal_those_of_the_whole(text in drawn_text()) {
        let wanted = |name: &str| ["kind", "metadata"].contains(&name);
        let whole = read_exact(text.as_bytes(), DuplicateKeys::Allowed).map(|mut whole| {
            if let Value::Object(entries) = &mut whole {
                entries.retain(|name, _| wanted(name));
            }
            whole
        });
        let entries = read_as(text.as_bytes(), FIELDS).map(|mut entries| {
            // Fields may be written in another case.
            if let Value::Object(entries) = &mut entries {
                entries.retain(|name, _| wanted(name));
            }
            entries
        });
        prop_assert_eq!(entries, whole);
    }
}

#[test]
fn what_json_cannot_hold_is_no_error_once_it_is_overwritten() {
    let read = |text: &str| read_exact(text.as_bytes(), DuplicateKeys::Allowed).map_err(|why| why.to_string());
    assert_eq!(read("a: .nan\na: 1"), Ok(json!({"a": 1})));
    assert_eq!(read("a: [{b: .inf}, {~: 1}]\nc: 2\na: 1"), Ok(json!({"a": 1, "c": 2})));
    assert!(
        read("a: .nan\nb: -.inf\na: 1")
            .unwrap_err()
            .ends_with("json: unsupported value: -Inf")
    );
    assert!(
        read("a: 1\na: .nan")
            .unwrap_err()
            .ends_with("json: unsupported value: NaN")
    );
    assert_eq!(read("a: {<<: {b: .inf}, b: 1}"), Ok(json!({"a": {"b": 1}})));
    let key = "unsupported map key of type: %!s(<nil>), key: <nil>, value: ";
    assert!(read("b: .nan\na: {~: 3}").unwrap_err().ends_with(&format!("{key}3")));
    assert!(read("{~: ~}").unwrap_err().ends_with(&format!("{key}<nil>")));
    let unfit = format!("a: [{}]\n", ".nan,".repeat(5000));
    assert!(read(&(unfit + "a: 1")).is_err(), "more than is kept apart");
}
