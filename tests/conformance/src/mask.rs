//! Replaces what a server chooses by itself (uids, versions, times, drawn names, addresses) by the place where it was
//! seen first: equal values stay equal, different values stay different. Values that the case itself contains are left alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Length of a uid.
const UID_CHARS: usize = 36;
/// Letters that a server draws behind `generateName`.
const DRAWN_CHARS: usize = 5;
/// Lists whose order is random in real Kubernetes: managers are ordered by the second in which each wrote, causes and rules as
/// in a Go map.
const UNORDERED: [&str; 4] = ["managedFields", "causes", "resourceRules", "nonResourceRules"];
/// The fields by which their items are sorted first, so that another difference in an item does not move it.
const LEADING: [&str; 5] = ["operation", "manager", "subresource", "apiVersion", "field"];
/// The text before the version of the store in a message.
const CURRENT: &str = ", current: ";
/// The text before the version of an object that a message shows.
const SHOWN_VERSION: &str = r#"\"resourceVersion\":\""#;
/// Length of the fingerprint of a certificate.
const FINGERPRINT_CHARS: usize = 64;
/// The prefix of the name of a volume with a service account's token.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The prefix of the name of the type that a rule applies to.
const RULE_TYPE: &str = "selfType";
/// Fields whose values a server chooses, with the name they get.
const CHOSEN: [(&str, &str); 9] = [
    ("resourceVersion", "version"),
    ("token", "token"),
    ("clusterIP", "address"),
    ("clusterIPs", "address"),
    ("nodePort", "port"),
    ("healthCheckNodePort", "port"),
    ("serverAddress", "server"),
    ("jwks_uri", "server"),
    ("kid", KEY),
];
const KEY: &str = "key";
/// Where the next page begins, and in which version of the store. Whether two are equal depends on writes of other cases in
/// between, so that they are not distinguished.
const CONTINUE: &str = "continue";
/// The fields of a JSON Web Key with the key itself; elsewhere these are names like any other.
const POINT: [&str; 2] = ["x", "y"];

/// The values of one server in one case.
pub(crate) struct Mask<'a> {
    case: &'a str,
    seen: BTreeMap<String, String>,
}

impl<'a> Mask<'a> {
    /// For a case with this text.
    pub(crate) fn new(case: &'a str) -> Self {
        Self {
            case,
            seen: BTreeMap::new(),
        }
    }

    /// The answer to the request of that number, masked.
    pub(crate) fn mask(&mut self, number: usize, answer: &Value) -> Value {
        let place = number.to_string();
        // A message may contain values of later fields: all are recorded before any is replaced in a message.
        self.value(&place, "", answer);
        self.value(&place, "", answer)
    }

    fn value(&mut self, place: &str, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                self.drawn_name(place, fields);
                // An object's own uid is named after the object, wherever else it occurs.
                if let Some(uid) = fields.get("uid").and_then(Value::as_str) {
                    self.uids(&format!("{place}/uid"), uid);
                }
                let of_store = is_of_store(fields);
                let fields = without_repeated_causes(fields);
                fields
                    .iter()
                    .map(|(key, value)| {
                        let place = format!("{place}/{key}");
                        if of_store && matches!(key.as_str(), "metadata" | "object") {
                            return (key.clone(), self.value(&place, key, &without_version(value)));
                        }
                        if fields.contains_key("kty") && POINT.contains(&key.as_str()) {
                            return (key.clone(), self.symbol(KEY, &value.to_string(), &place).into());
                        }
                        (self.text(&place, "", key), self.value(&place, key, value))
                    })
                    .collect::<Map<_, _>>()
                    .into()
            }
            Value::Array(items) => {
                let mut masked: Vec<Value> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.value(&format!("{place}/{index}"), key, item))
                    .collect();
                if UNORDERED.contains(&key) {
                    masked.sort_by_cached_key(|item| {
                        let leading = LEADING.map(|field| item[field].as_str().unwrap_or_default().to_owned());
                        (leading, item.to_string())
                    });
                }
                // How often the same cause is reported is not compared: upstream checks some of its rules twice or more.
                if key == "causes" {
                    masked.dedup();
                }
                masked.into()
            }
            Value::String(text) => self.text(place, key, text).into(),
            Value::Number(number) => match chosen(key) {
                Some(kind) if !self.is_given(&number.to_string()) => {
                    self.symbol(kind, &number.to_string(), place).into()
                }
                _ => value.clone(),
            },
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    /// Records a name that the server has made of `generateName`.
    fn drawn_name(&mut self, place: &str, metadata: &Map<String, Value>) {
        let text = |field: &str| metadata.get(field).and_then(Value::as_str);
        if let (Some(beginning), Some(name)) = (text("generateName"), text("name"))
            && name
                .strip_prefix(beginning)
                .is_some_and(|drawn| drawn.len() == DRAWN_CHARS)
        {
            let symbol = format!("{beginning}<drawn at {place}>");
            self.seen.entry(name.to_owned()).or_insert(symbol);
        }
    }

    /// The volume of a service account's token has a drawn name.
    fn drawn_volume(&mut self, place: &str, text: &str) -> String {
        match text.strip_prefix(TOKEN_VOLUME) {
            Some(drawn) if drawn.len() == DRAWN_CHARS => self.symbol("volume", text, place),
            _ => text.to_owned(),
        }
    }

    fn text(&mut self, place: &str, key: &str, text: &str) -> String {
        if let Some(kind) = chosen(key)
            && !matches!(text, "" | "0" | "None")
            && !text.starts_with('<')
            && (kind == "version" || !self.is_given(text))
        {
            return self.symbol(kind, text, place);
        }
        if key == CONTINUE && !text.is_empty() && !self.is_given(text) {
            return "<continue>".to_owned();
        }
        // A version of the document in its URL.
        if let Some((path, _)) = text.split_once("?hash=").filter(|_| key == "serverRelativeURL") {
            return format!("{path}?hash=<hash>");
        }
        if key == "message" {
            self.remember_shown_version(place, text);
        }
        let mut masked = self.uids(place, text);
        for (value, symbol) in &self.seen {
            // A version is a short number: it is replaced only in a message.
            if key == "message" || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                masked = replace_word(&masked, value, symbol);
            }
        }
        masked = self.drawn_volume(place, &masked);
        if key == "message" {
            masked = without_clock(&without_random_order(&without_current_version(&masked)));
        }
        if let Some(fingerprint) = masked
            .strip_prefix("X509SHA256=")
            .filter(|hash| hash.len() == FINGERPRINT_CHARS)
        {
            return self.symbol("fingerprint", fingerprint, place);
        }
        if place.contains("/cells/") {
            if is_age(&masked) {
                return "<age>".to_owned();
            }
            // The address of a Service that requested none.
            if masked.parse::<std::net::Ipv4Addr>().is_ok() && !self.is_given(&masked) {
                return self.symbol("address", &masked, place);
            }
        }
        self.times(&masked)
    }

    /// Records the version of an object that a message shows whole: it may be in no earlier answer.
    fn remember_shown_version(&mut self, place: &str, text: &str) {
        let Some((_, rest)) = text.split_once(SHOWN_VERSION) else {
            return;
        };
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        if let Some(version) = rest.get(..end).filter(|version| !version.is_empty()) {
            self.symbol("version", version, place);
        }
    }

    fn uids(&mut self, place: &str, text: &str) -> String {
        let mut masked = text.to_owned();
        let mut start = 0;
        while start + UID_CHARS <= text.len() {
            let end = start + UID_CHARS;
            match text.get(start..end).filter(|part| is_uid(part)) {
                Some(uid) if !self.is_given(uid) => {
                    let symbol = self.symbol("uid", uid, place);
                    masked = masked.replace(uid, &symbol);
                    start = end;
                }
                _ => start += 1,
            }
        }
        masked
    }

    /// Which two times are equal depends on when a second ends, so all of one precision are masked alike.
    fn times(&self, text: &str) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some((before, length)) = find_time(rest) {
            let (head, tail) = rest.split_at(before);
            let (time, tail) = tail.split_at(length);
            masked += head;
            masked += match length {
                _ if self.is_given(time) => time,
                20 => "<time>",
                _ => "<precise time>",
            };
            rest = tail;
        }
        masked + rest
    }

    /// Whether the case contains it as a whole word.
    fn is_given(&self, text: &str) -> bool {
        let goes_on = |letter: char| letter.is_ascii_alphanumeric();
        self.case.match_indices(text).any(|(start, _)| {
            let (before, after) = (self.case.get(..start), self.case.get(start + text.len()..));
            !before.is_some_and(|before| before.ends_with(goes_on))
                && !after.is_some_and(|after| after.starts_with(goes_on))
        })
    }

    fn symbol(&mut self, kind: &str, value: &str, place: &str) -> String {
        self.seen
            .entry(value.to_owned())
            .or_insert_with(|| format!("<{kind} first at {place}>"))
            .clone()
    }
}

/// Whether its version is that of the whole store, where anything may have been written meanwhile: a list, a table, a
/// bookmark.
fn is_of_store(fields: &Map<String, Value>) -> bool {
    let is_list = |field: &str| fields.get(field).is_some_and(|list| list.is_array() || list.is_null());
    is_list("items") || is_list("rows") || fields.get("type").is_some_and(|kind| kind == "BOOKMARK")
}

/// A message about a version in the future contains that of the store.
fn without_current_version(text: &str) -> String {
    match text.split_once(CURRENT) {
        Some((before, after)) => {
            // It may be masked already as that of an object, if nothing was written meanwhile.
            let named = after.strip_prefix('<').and_then(|named| named.split_once('>'));
            let rest = named.map_or_else(
                || after.trim_start_matches(|letter: char| letter.is_ascii_digit()),
                |(_, rest)| rest,
            );
            format!("{before}{CURRENT}<version of the store>{rest}")
        }
        None => text.to_owned(),
    }
}

/// Errors of an applied object are reported in the order of a Go map, which ends at the first unknown field.
fn without_random_order(text: &str) -> String {
    let Some((before, after)) = text
        .split_once("): ")
        .filter(|(before, _)| before.starts_with("failed to create typed patch object"))
    else {
        return text.to_owned();
    };
    if after.contains("field not declared in schema") {
        return format!("{before}): <a field is not declared>");
    }
    let mut lines: Vec<&str> = after.lines().collect();
    lines.sort_unstable();
    format!("{before}): {}", lines.join("\n"))
}

/// The name of the type that a rule applies to has a number from the server's clock.
fn without_clock(text: &str) -> String {
    let mut parts = text.split(RULE_TYPE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |masked, part| {
        masked + RULE_TYPE + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

fn without_version(value: &Value) -> Value {
    let mut value = value.clone();
    // A bookmark may be an object, or a table with one row.
    for pointer in [
        "/resourceVersion",
        "/metadata/resourceVersion",
        "/rows/0/object/metadata/resourceVersion",
    ] {
        if let Some(version) = value
            .pointer_mut(pointer)
            .filter(|version| version.as_str().is_some_and(|text| !text.is_empty()))
        {
            *version = "<version of the store>".into();
        }
    }
    value
}

/// The message of a status repeats all its causes in their order; only the causes are compared.
fn without_repeated_causes(status: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    let without_causes = || {
        let mut causes: Vec<String> = status
            .get("details")?
            .get("causes")?
            .as_array()?
            .iter()
            .map(|cause| Some(format!("{}: {}", cause["field"].as_str()?, cause["message"].as_str()?)))
            .collect::<Option<_>>()?;
        // A repeated cause is listed once.
        let mut seen = BTreeSet::new();
        causes.retain(|cause| seen.insert(cause.clone()));
        let listed = match causes.as_slice() {
            [cause] => cause.clone(),
            causes => format!("[{}]", causes.join(", ")),
        };
        let message = status.get("message")?.as_str()?;
        message
            .strip_suffix(&listed)
            .map(|before| format!("{before}<its causes>"))
    };
    match without_causes() {
        None => Cow::Borrowed(status),
        Some(message) => {
            let mut status = status.clone();
            status.insert("message".to_owned(), message.into());
            Cow::Owned(status)
        }
    }
}

fn chosen(key: &str) -> Option<&'static str> {
    CHOSEN.iter().find(|(name, _)| *name == key).map(|(_, kind)| *kind)
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// An age in a table: here never more than seconds.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Where the first `2026-01-01T00:00:00Z` or `2026-01-01T00:00:00.000000Z` begins, and how long it is.
fn find_time(text: &str) -> Option<(usize, usize)> {
    let shape = |part: &str, form: &str| {
        part.bytes().zip(form.bytes()).all(|(found, wanted)| match wanted {
            b'0' => found.is_ascii_digit(),
            other => found == other,
        })
    };
    (0..text.len()).find_map(|start| {
        ["0000-00-00T00:00:00Z", "0000-00-00T00:00:00.000000Z"]
            .into_iter()
            .find(|form| {
                text.get(start..start + form.len())
                    .is_some_and(|part| shape(part, form))
            })
            .map(|form| (start, form.len()))
    })
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(word) {
        let (before, after) = (
            rest.get(..start).unwrap_or(""),
            rest.get(start + word.len()..).unwrap_or(""),
        );
        // `7.5` is another number, but a sentence may end behind a version.
        let goes_on = after.strip_prefix('.').unwrap_or(after);
        let alone = !before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '.')
            && !goes_on.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        replaced += before;
        replaced += if alone { by } else { word };
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "11111111-aaaa-4aaa-8aaa-000000000001";
    const TWO: &str = "22222222-aaaa-4aaa-8aaa-000000000002";

    fn answer(first: &str, second: &str, version: &str) -> Value {
        json!({
            "metadata": {"uid": first, "resourceVersion": version, "creationTimestamp": "2026-11-21T10:00:00Z"},
            "owner": {"uid": second},
            "message": format!("UID in precondition: {second}, version {version}"),
        })
    }

    #[test]
    fn equal_values_stay_equal_and_different_ones_different() {
        let masked = |first, second, version| Mask::new("").mask(1, &answer(first, second, version));
        assert_eq!(masked(ONE, ONE, "77"), masked(TWO, TWO, "9"));
        assert_eq!(masked(ONE, TWO, "77"), masked(TWO, ONE, "9"));
        assert_ne!(masked(ONE, ONE, "77"), masked(ONE, TWO, "77"));
    }

    #[test]
    fn continue_tokens_are_masked_but_for_their_presence() {
        let page = |token: &str| json!({"metadata": {"continue": token}});
        let masked = |first: &str, second: &str| {
            let mut mask = Mask::new("GET ?continue=given");
            [first, second].map(|token| mask.mask(1, &page(token)))
        };
        assert_eq!(masked("eyJ2Ijox", "eyJ2Ijox"), masked("eyJ2Ijox", "eyJ2Ijoy"));
        assert_ne!(
            masked("eyJ2Ijox", ""),
            masked("eyJ2Ijox", "eyJ2Ijoy"),
            "no page follows"
        );
        assert_ne!(
            masked("given", ""),
            masked("eyJ2Ijox", ""),
            "what a case says is left alone"
        );
    }

    #[test]
    fn the_version_of_a_list_is_masked_but_for_its_presence() {
        let list = |version: &str, item: &str| json!({"items": [{"metadata": {"resourceVersion": item}}], "metadata": {"resourceVersion": version}});
        let masked = |first: Value, second: Value| {
            let mut mask = Mask::new("");
            (mask.mask(1, &first), mask.mask(2, &second))
        };
        assert_eq!(
            masked(list("7", "5"), list("7", "5")),
            masked(list("8", "5"), list("9", "5"))
        );
        assert_ne!(
            masked(list("7", "5"), list("7", "5")),
            masked(list("7", "5"), list("7", "6"))
        );
        assert_ne!(
            masked(list("", "5"), list("", "5")),
            masked(list("7", "5"), list("7", "5"))
        );
    }

    #[test]
    fn version_that_occurs_only_in_a_sentence_is_masked() {
        let masked = |version: &str| {
            let message = format!(r#"Invalid value: "{{\"resourceVersion\":\"{version}\",\"uid\":\"\"}}": no"#);
            Mask::new("").mask(1, &json!({"message": message}))
        };
        assert_eq!(masked("378"), masked("23"));
    }

    #[test]
    fn address_is_masked_although_a_longer_one_begins_with_it() {
        let mut mask = Mask::new("clusterIP: 10.0.0.200");
        assert_ne!(
            mask.mask(1, &json!({"clusterIP": "10.0.0.2"})),
            json!({"clusterIP": "10.0.0.2"})
        );
    }

    #[test]
    fn values_from_the_case_are_not_masked() {
        let case = format!("uid: {ONE}\ntime: 2026-01-01T00:00:00Z\nclusterIP: 10.0.0.7");
        let answer = json!({"uid": ONE, "at": "2026-01-01T00:00:00Z", "spec": {"clusterIP": "10.0.0.7"}});
        assert_eq!(Mask::new(&case).mask(1, &answer), answer);
        assert_ne!(Mask::new("").mask(1, &answer), answer);
    }

    #[test]
    fn a_version_is_replaced_in_a_sentence_as_a_word_alone() {
        let answer = json!({"message": "7 is not 17, 7.5 or a7", "resourceVersion": "7", "name": "7"});
        let masked = Mask::new("").mask(1, &answer);
        assert_eq!(
            masked["message"],
            "<version first at 1/resourceVersion> is not 17, 7.5 or a7"
        );
        assert_eq!(masked["name"], "7");
    }

    #[test]
    fn drawn_names_are_recognised_later() {
        let mut mask = Mask::new("");
        mask.mask(1, &json!({"metadata": {"generateName": "a-", "name": "a-x7k2q"}}));
        assert_eq!(
            mask.mask(2, &json!("pods \"a-x7k2q\" not found")),
            json!("pods \"a-<drawn at 1/metadata>\" not found")
        );
    }

    #[test]
    fn precise_times_and_ages_of_tables_are_masked() {
        let mut mask = Mask::new("");
        let answer = json!({"renew": "2026-11-21T10:00:00.123456Z", "rows": [{"cells": ["a", "12s"]}], "text": "12s"});
        assert_eq!(
            mask.mask(1, &answer),
            json!({"renew": "<precise time>", "rows": [{"cells": ["a", "<age>"]}], "text": "12s"})
        );
    }

    #[test]
    fn the_order_of_managers_and_causes_does_not_count() {
        let refused = |first: &str, second: &str| {
            let cause = |field: &str| json!({"field": field, "message": "Required value"});
            let message = format!("a is invalid: [{first}: Required value, {second}: Required value]");
            Mask::new("").mask(
                1,
                &json!({"details": {"causes": [cause(first), cause(second)]}, "message": message}),
            )
        };
        assert_eq!(refused("x", "z"), refused("z", "x"));
        assert_eq!(refused("x", "z")["message"], "a is invalid: <its causes>");

        let order = |first: &str, second: &str| {
            Mask::new("").mask(1, &json!({"managedFields": [{"manager": first}, {"manager": second}]}))
        };
        assert_eq!(order("a", "b"), order("b", "a"));
        assert_ne!(order("a", "b"), order("b", "b"));
    }

    #[test]
    fn the_stores_version_is_masked_even_where_an_object_has_it() {
        let expected = "too large: 9, current: <version of the store>";
        for current in ["17", "<version first at 1/body/metadata/resourceVersion>"] {
            assert_eq!(
                without_current_version(&format!("too large: 9, current: {current}")),
                expected
            );
        }
    }
}
