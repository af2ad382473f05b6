//! Reads the files of cases, whose format is in `cases/README.md`. It sends nothing: see `run`.

use std::collections::BTreeSet;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method};
use serde_json::Value;

use crate::Outcome;

/// A sequence of requests in a namespace of its own.
#[derive(Clone, Debug)]
pub struct Case {
    /// `file / title`.
    pub name: String,
    /// Made before the first request, with the service account that pods need.
    pub namespace: String,
    /// Its requests, in order.
    pub steps: Vec<Step>,
    /// Its whole text: a value that is in it was not chosen by a server.
    pub text: String,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name by which later requests refer to its answer.
    pub name: Option<String>,
    /// As it is written.
    pub written: String,
    /// Whether it is repeated until it succeeds; its answer is not compared.
    pub awaited: bool,
    /// The status until which it is repeated; its answer is not compared.
    pub until: Option<u16>,
    /// The method.
    pub method: Method,
    /// In full, with references.
    pub path: String,
    /// With references.
    pub headers: Vec<(HeaderName, String)>,
    /// What is sent.
    pub body: Body,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Body {
    /// None.
    Empty,
    /// Sent as JSON; texts in it may be references.
    Json(Value),
    /// Sent as it is written.
    Raw(String),
}

/// Methods of our own for each kind of patch.
const PATCHES: [(&str, &str); 4] = [
    ("JSONPATCH", "application/json-patch+json"),
    ("MERGE", "application/merge-patch+json"),
    ("STRATEGIC", "application/strategic-merge-patch+json"),
    ("APPLY", "application/apply-patch+yaml"),
];
/// A `GET` that is repeated until it succeeds, such as of the resource of a new definition.
const AWAIT: &str = "AWAIT";
/// `UNTIL CODE METHOD path`: repeated until the answer has that code, for what a server learns asynchronously.
const UNTIL: &str = "UNTIL";
/// The title of a case that runs whenever another one of its file does.
const BEFOREHAND: &str = "beforehand";
/// Abbreviations of `Accept` headers that clients send.
const FORMS: [(&str, &str); 3] = [
    ("Table", "application/json;as=Table;g=meta.k8s.io;v=v1"),
    (
        "PartialObjectMetadata",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ),
    (
        "PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ),
];
/// The header with which a body is sent as it is written.
const AS_WRITTEN: &str = "Body: as written";

/// The cases of a file called `file`.
///
/// # Errors
/// The first line that cannot be read, with what was expected.
pub fn read(file: &str, text: &str) -> Outcome<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let at = |why: String| format!("{file}:{}: {why}", number + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            let namespace = format!("{file}-{}", cases.len() + 1);
            cases.push(Case {
                name: format!("{file} / {title}"),
                namespace,
                steps: Vec::new(),
                text: String::new(),
            });
            continue;
        }
        let case = cases
            .last_mut()
            .ok_or_else(|| at("a request stands before the first case; begin one with `== title`".to_owned()))?;
        let mut block = vec![line];
        while let Some((_, more)) = lines.next_if(|(_, next)| !ends_request(next)) {
            block.push(more);
        }
        case.text += &block.join("\n");
        case.text.push('\n');
        case.steps.push(step(&block).map_err(at)?);
    }
    match cases.iter().find(|case| case.steps.is_empty()) {
        Some(empty) => Err(format!("{} has no requests", empty.name)),
        None => Ok(cases),
    }
}

/// The cases whose names contain `text`, with those that have to run before them.
#[must_use]
pub fn select(cases: Vec<Case>, text: &str) -> Vec<Case> {
    let file = |case: &Case| case.name.split(" / ").next().unwrap_or_default().to_owned();
    let files: BTreeSet<String> = cases.iter().filter(|case| case.name.contains(text)).map(file).collect();
    let is_wanted = |case: &Case| {
        case.name.contains(text) || case.name.ends_with(&format!(" / {BEFOREHAND}")) && files.contains(&file(case))
    };
    cases.into_iter().filter(is_wanted).collect()
}

/// A request ends before the next line that begins a request, a case or a comment.
fn ends_request(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or("");
    line.starts_with('#')
        || line.starts_with("== ")
        || is_method(first)
        || line
            .split_once(" = ")
            .is_some_and(|(name, rest)| is_name(name) && is_method(rest.split(' ').next().unwrap_or("")))
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn step(block: &[&str]) -> Outcome<Step> {
    let (first, rest) = block.split_first().ok_or("an empty request")?;
    let (name, request) = match first.split_once(" = ") {
        Some((name, request)) if is_name(name) => (Some(name.to_owned()), request),
        _ => (None, *first),
    };
    let (until, request) = match request.strip_prefix(UNTIL).and_then(|rest| rest.trim().split_once(' ')) {
        Some((code, rest)) => {
            let code = code.parse().map_err(|_| format!("`{code}` is no status code"))?;
            (Some(code), rest)
        }
        None => (None, request),
    };
    let (word, path) = request
        .split_once(' ')
        .ok_or_else(|| format!("`{request}` is no request; write `METHOD path`"))?;
    let patch = PATCHES.iter().find(|(patch, _)| *patch == word);
    let awaited = word == AWAIT;
    let method = match patch {
        Some(_) => Method::PATCH,
        None if awaited => Method::GET,
        None => Method::from_bytes(word.as_bytes()).map_err(|_| format!("`{word}` is no method"))?,
    };
    let mut headers = Vec::new();
    let mut body_lines = Vec::new();
    let mut as_written = false;
    for line in rest {
        if let Some(content) = line.strip_prefix("  ") {
            body_lines.push(content);
        } else if line.trim().is_empty() {
            body_lines.push("");
        } else if *line == AS_WRITTEN {
            as_written = true;
        } else {
            header(line, &mut headers)?;
        }
    }
    let body = body(&body_lines, as_written)?;
    let content_type = patch.map_or("application/json", |(_, content_type)| content_type);
    if !matches!(body, Body::Empty) && !headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
        headers.push((CONTENT_TYPE, content_type.to_owned()));
    }
    if !headers.iter().any(|(name, _)| name == ACCEPT) {
        headers.push((ACCEPT, "application/json".to_owned()));
    }
    // A header with an empty value is left out.
    headers.retain(|(_, value)| !value.is_empty());
    Ok(Step {
        name,
        written: (*first).to_owned(),
        awaited,
        until,
        method,
        path: full_path(path)?,
        headers,
        body,
    })
}

/// `Name: value`, or `as USER` and `as USER of GROUP, GROUP`.
fn header(line: &str, headers: &mut Vec<(HeaderName, String)>) -> Outcome {
    if let Some(who) = line.strip_prefix("as ") {
        let (user, groups) = who.split_once(" of ").unwrap_or((who, ""));
        headers.push((HeaderName::from_static("impersonate-user"), user.to_owned()));
        for group in groups.split(", ").filter(|group| !group.is_empty()) {
            headers.push((HeaderName::from_static("impersonate-group"), group.to_owned()));
        }
        return Ok(());
    }
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| format!("`{line}` is neither a header nor a body; indent a body by two spaces"))?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no header"))?;
    let value = value.trim();
    let value = FORMS
        .iter()
        .find(|(form, _)| name == ACCEPT && *form == value)
        .map_or(value, |(_, full)| full);
    HeaderValue::from_str(value).map_err(|_| format!("`{value}` cannot be the value of a header"))?;
    headers.push((name, value.to_owned()));
    Ok(())
}

fn body(lines: &[&str], as_written: bool) -> Outcome<Body> {
    let end = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(0, |last| last + 1);
    let text = lines.get(..end).unwrap_or_default().join("\n");
    if as_written {
        return Ok(Body::Raw(text));
    }
    if text.is_empty() {
        return Ok(Body::Empty);
    }
    base_yaml::read_strict(&text)
        .map(Body::Json)
        .map_err(|error| format!("the body is no YAML: {error}"))
}

/// `apps/v1/deployments/a` is in the case's namespace, `/apis/apps/v1/namespaces/NAMESPACE/deployments/a`; what begins
/// with a slash is meant as it stands.
fn full_path(path: &str) -> Outcome<String> {
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    let mut parts = path.splitn(3, '/');
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    match (first, second, third) {
        ("v1", Some(_), _) => Ok(format!(
            "/api/v1/namespaces/<ns>/{}",
            path.strip_prefix("v1/").unwrap_or(path)
        )),
        (group, Some(version), Some(rest)) => Ok(format!("/apis/{group}/{version}/namespaces/<ns>/{rest}")),
        _ => Err(format!(
            "`{path}` is no path; write `v1/RESOURCE`, `GROUP/VERSION/RESOURCE` or a path that begins with a slash"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# What a file may hold.
== reads what it made
made = POST v1/configmaps?dryRun=All
Warning: none
as alice of devs, admins
  metadata: {name: a}

  data:
    k: <ns>

GET apps/v1/deployments/a
Accept: Table
APPLY /api/v1/nodes/a
  spec: {}
POST /apis
Body: as written
  {\"a\":
";

    #[test]
    fn a_file_is_read_with_names_headers_and_bodies() {
        let cases = read("form", FILE).unwrap();
        let [case] = cases.as_slice() else {
            panic!("{cases:?}");
        };
        assert_eq!(
            (case.name.as_str(), case.namespace.as_str()),
            ("form / reads what it made", "form-1")
        );
        let paths: Vec<&str> = case.steps.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/api/v1/namespaces/<ns>/configmaps?dryRun=All",
                "/apis/apps/v1/namespaces/<ns>/deployments/a",
                "/api/v1/nodes/a",
                "/apis"
            ]
        );
        let made = &case.steps[0];
        assert_eq!(made.name.as_deref(), Some("made"));
        assert_eq!(made.headers.len(), 6, "{:?}", made.headers);
        let Body::Json(body) = &made.body else {
            panic!("{:?}", made.body);
        };
        assert_eq!(body["data"]["k"], "<ns>");
        assert!(case.steps[1].headers[0].1.contains("as=Table"));
        assert_eq!(case.steps[2].method, Method::PATCH);
        assert!(
            case.steps[2]
                .headers
                .contains(&(CONTENT_TYPE, "application/apply-patch+yaml".to_owned()))
        );
        assert!(matches!(&case.steps[3].body, Body::Raw(text) if text == "{\"a\":"));
    }

    #[test]
    fn request_may_be_repeated_until_its_code_comes() {
        let cases = read(
            "x",
            "== t\nUNTIL 403 POST v1/configmaps?dryRun=All\n  metadata: {name: a}\nGET /a",
        )
        .unwrap();
        let [until, plain] = cases[0].steps.as_slice() else {
            panic!("{cases:?}");
        };
        assert_eq!((until.until, until.method.clone()), (Some(403), Method::POST));
        assert_eq!((plain.until, plain.awaited), (None, false));
        assert!(
            read("x", "== t\nUNTIL soon GET /a")
                .unwrap_err()
                .contains("`soon` is no status code")
        );
    }

    #[test]
    fn the_case_beforehand_is_selected_with_any_case_of_its_file() {
        let read = |file| read(file, "== beforehand\nAWAIT /a\n== one\nGET /a\n== two\nGET /a").unwrap();
        let cases = [read("x"), read("z")].concat();
        let names: Vec<String> = select(cases, "x / t").into_iter().map(|case| case.name).collect();
        assert_eq!(names, ["x / beforehand", "x / two"]);
    }

    #[test]
    fn an_unreadable_script_is_reported_with_its_line() {
        for (text, expected) in [
            ("GET /a", "x:1: a request stands before the first case"),
            ("== t\n\nGET configmaps", "x:3: `configmaps` is no path"),
            (
                "== t\nGET /a\nwhat is this",
                "x:2: `what is this` is neither a header nor a body",
            ),
            ("== t\nPOST /a\n  {a: b", "x:2: the body is no YAML"),
            ("== t\n== u\nGET /a", "x / t has no requests"),
        ] {
            let why = read("x", text).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
