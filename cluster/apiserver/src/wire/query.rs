//! Query parameters: what clients may set on reads and writes. Parses and refuses, never decides.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use base_go::{is_print, quoted};
use cluster_fields::{FieldError, FieldErrorKind};

use crate::wire::percent::{decode_percent, encode_percent, is_unreserved};
use crate::wire::selector::{FieldSelector, LabelSelector};
use crate::wire::status::Status;

/// Longest `timeoutSeconds` of a list or watch; kube-apiserver has no such limit.
const WATCH_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest field manager, in bytes.
const MANAGER_BYTES_MAX: usize = 128;
/// Invalid characters of it that are reported: each report shows the whole name, which may be as long as a query.
const MANAGER_FAULTS_MAX: usize = 16;
/// Longest that a write waits for admission.
const WRITE_TIMEOUT_MAX: Duration = Duration::from_secs(34);
const MATCH: &str = "resourceVersionMatch";
/// Why Go's `strconv` refuses a number.
const OUT_OF_RANGE: &str = "value out of range";
const INVALID_SYNTAX: &str = "invalid syntax";

/// The decoded parameters, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// A pair that is not well encoded is ignored, as in Go (go1.25 `net/url`, Query).
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&');
        let decode = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_percent(key, true).ok()?, decode_percent(value, true).ok()?))
        };
        let pairs = pairs.filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(pairs.filter_map(decode).collect())
    }

    /// A query with these selectors, as texts.
    pub(crate) fn selecting(fields: String, labels: String) -> Self {
        let named = [("fieldSelector", fields), ("labelSelector", labels)];
        let given = named.into_iter().filter(|(_, text)| !text.is_empty());
        Self(given.map(|(key, text)| (key.to_owned(), text)).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean as kube-apiserver reads it: only `0` and `false` are false.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|error: ParseIntError| {
                let why = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => OUT_OF_RANGE,
                    _ => INVALID_SYNTAX,
                };
                Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
            }),
        }
    }

    /// The name that `fieldSelector=metadata.name=x` selects.
    pub(crate) fn exact_name(&self) -> Option<String> {
        let selector = FieldSelector::parse(self.get("fieldSelector")?).ok()?;
        selector.exact("metadata.name").map(str::to_owned)
    }

    /// Whether this is a dry run; `All` is the only kind there is, which [`Self::check`] makes sure of.
    pub(crate) fn dry_run(&self) -> bool {
        self.get("dryRun").is_some()
    }

    /// The requested strictness; [`Self::check`] refuses all other values.
    pub(crate) fn field_validation(&self) -> FieldValidation {
        match self.get("fieldValidation").unwrap_or_default() {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        }
    }

    /// How long the client waits for a write, at most as long as kube-apiserver lets it
    /// (staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound).
    pub(crate) fn timeout(&self) -> Duration {
        let requested = self.get("timeout").and_then(duration);
        requested
            .filter(|requested| !requested.is_zero())
            .map_or(WRITE_TIMEOUT_MAX, |requested| requested.min(WRITE_TIMEOUT_MAX))
    }

    /// The version that a read of one object or a watch names. Errors: 500 for what is no number, as in kube-apiserver.
    pub(crate) fn version(&self) -> Result<Option<u64>, Status> {
        match self.get("resourceVersion").unwrap_or_default() {
            "" => Ok(None),
            text => parse_version(text).map(Some).map_err(Status::failed),
        }
    }

    /// Validates the options of a write: `kind` is what they are called, `errors` were found before.
    pub(crate) fn check(&self, kind: &str, mut errors: Vec<FieldError>) -> Result<(), Status> {
        check_manager(self.get("fieldManager").unwrap_or_default(), &mut errors);
        let dry_runs: Vec<&str> = self.all("dryRun").collect();
        check_dry_run(&dry_runs, &mut errors);
        let validation = self.get("fieldValidation").unwrap_or_default();
        let allowed = ["", "Ignore", "Strict", "Warn"];
        if !allowed.contains(&validation) {
            errors.push(FieldError::not_supported("fieldValidation", validation, &allowed));
        }
        refuse(kind, &errors)
    }
}

/// `1m30s`, `500ms`: one number per unit, as Go writes durations.
fn duration(text: &str) -> Option<Duration> {
    let (mut whole, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "ns" => 1e-9,
            // Go takes the sign of the micron and the Greek letter.
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        whole += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        rest = tail;
    }
    Some(whole)
}

/// 422 for options that have errors.
pub(crate) fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", kind, "", errors))
    }
}

pub(crate) fn check_dry_run(values: &[&str], errors: &mut Vec<FieldError>) {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", values, &["All"]));
    }
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    let unprintable = manager.char_indices().filter(|(_, character)| !is_print(*character));
    for (at, character) in unprintable.take(MANAGER_FAULTS_MAX) {
        let code = u32::from(character);
        let why = format!("{}: invalid character U+{code:04X} (at position {at})", quoted(manager));
        errors.push(FieldError::new("fieldManager", FieldErrorKind::Invalid, None, why));
    }
}

fn parse_version(text: &str) -> Result<u64, String> {
    let error = |why| format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}");
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ if digits => Err(error(OUT_OF_RANGE)),
        _ => Err(error(INVALID_SYNTAX)),
    }
}

/// What happens to unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// `resourceVersion` of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadVersion {
    /// Unset: the newest.
    Newest,
    /// `0`: any.
    Any,
    /// That or newer.
    NotOlderThan(u64),
    /// That one.
    Exact(u64),
}

/// Parameters of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) version: ReadVersion,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

/// What options of a list are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    List,
    Watch,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, purpose: Purpose) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let labels = labels.map_err(Status::bad_request)?;
        let fields =
            FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(Status::bad_request)?;
        let limit = query
            .number("limit")?
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit > 0);
        let continue_token = query
            .get("continue")
            .filter(|token| !token.is_empty())
            .map(str::to_owned);
        let timeout = query
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds).min(WATCH_TIMEOUT_MAX));
        let mut initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let errors = match purpose {
            Purpose::List => refused_in_list(query, initial),
            Purpose::Watch => refused_in_watch(query, initial),
        };
        refuse("ListOptions", &errors)?;
        let version = match purpose {
            Purpose::List => list_version(query, limit.is_some())?,
            Purpose::Watch => match query.version()? {
                None => ReadVersion::Newest,
                Some(0) => ReadVersion::Any,
                Some(number) => ReadVersion::NotOlderThan(number),
            },
        };
        if purpose == Purpose::Watch && matches!(version, ReadVersion::Newest | ReadVersion::Any) {
            initial.get_or_insert(true);
        }
        if continue_token.is_some() && matches!(version, ReadVersion::Exact(_) | ReadVersion::NotOlderThan(_)) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        Ok(Self {
            labels,
            fields,
            limit,
            continue_token,
            version,
            bookmarks,
            send_initial_events: initial,
            timeout,
        })
    }
}

/// Errors of the options of a list
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation).
fn refused_in_list(query: &Query, initial: Option<bool>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let version = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let mut forbid = |why: &str| errors.push(FieldError::forbidden(MATCH, why));
    if !matching.is_empty() {
        if version.is_empty() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if query.get("continue").is_some_and(|token| !token.is_empty()) {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == "Exact" && version == "0" {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        let known = ["Exact", "NotOlderThan", ""];
        if !known.contains(&matching) {
            errors.push(FieldError::not_supported(MATCH, matching, &known));
        }
    }
    if initial.is_some() {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", why));
    }
    errors
}

/// Errors of the options of a watch, as there.
fn refused_in_watch(query: &Query, initial: Option<bool>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    if initial.is_some() && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    if matching.is_empty() {
        return errors;
    }
    if initial.is_none() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    if matching != "NotOlderThan" {
        errors.push(FieldError::not_supported(MATCH, matching, &["NotOlderThan"]));
    }
    if query.get("continue").is_some_and(|token| !token.is_empty()) {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    errors
}

fn list_version(query: &Query, limited: bool) -> Result<ReadVersion, Status> {
    let text = query.get("resourceVersion").unwrap_or_default();
    if text.is_empty() {
        return Ok(ReadVersion::Newest);
    }
    let number =
        parse_version(text).map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))?;
    Ok(match (query.get("resourceVersionMatch").unwrap_or_default(), number) {
        (_, 0) => ReadVersion::Any,
        ("Exact", number) => ReadVersion::Exact(number),
        ("", number) if limited => ReadVersion::Exact(number),
        (_, number) => ReadVersion::NotOlderThan(number),
    })
}

/// A text as it stands in a query, as Go writes it.
pub(crate) fn encoded(text: &str) -> String {
    encode_percent(text, is_unreserved).replace("%20", "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        assert_eq!(quoted("a\0\"\\é\n"), r#""a\x00\"\\é\n""#);
        assert_eq!(quoted("\u{200b}"), r#""\u200b""#);
    }

    #[test]
    fn pairs_that_are_not_well_encoded_are_ignored() {
        let query = Query::parse(Some("a=%zz&b=1;c=2&&d=%ff&e"));
        assert_eq!((query.get("a"), query.get("b")), (None, None));
        assert_eq!((query.get("d"), query.get("e")), (Some("\u{fffd}"), Some("")));
    }

    #[test]
    fn numbers_are_refused_as_go_refuses_them() {
        let number = |text: &str| Query(vec![("limit".to_owned(), text.to_owned())]).number("limit");
        assert_eq!(number("-7").unwrap(), Some(-7));
        for (text, why) in [
            ("99999999999999999999", "value out of range"),
            ("-99999999999999999999", "value out of range"),
            ("many", "invalid syntax"),
            ("-", "invalid syntax"),
        ] {
            let refusal = number(text).unwrap_err();
            let wanted = format!("strconv.ParseInt: parsing {text:?}: {why}");
            assert_eq!(refusal.message(), wanted);
        }
    }

    #[test]
    fn durations_have_the_units_of_go() {
        for (text, wanted) in [
            ("1h2m3s", Some(Duration::from_secs(3723))),
            ("1.5s", Some(Duration::from_millis(1500))),
            ("20ms", Some(Duration::from_millis(20))),
            ("30us", Some(Duration::from_micros(30))),
            ("30\u{b5}s", Some(Duration::from_micros(30))),
            ("30\u{3bc}s", Some(Duration::from_micros(30))),
            ("40ns", Some(Duration::from_nanos(40))),
            ("5", None),
            ("5d", None),
        ] {
            assert_eq!(duration(text), wanted, "{text}");
        }
    }

    #[test]
    fn versions_are_digits_alone() {
        assert_eq!(parse_version("12"), Ok(12));
        for text in ["+1", "-1", " 1", "1.0", "abc"] {
            assert!(
                parse_version(text).is_err_and(|error| error.ends_with("invalid syntax")),
                "{text}"
            );
        }
        assert!(parse_version("99999999999999999999").is_err_and(|error| error.ends_with("out of range")));
    }
}
