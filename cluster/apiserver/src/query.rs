//! Query parameters: what clients may set on reads and writes. Parses and refuses, never decides.

use std::time::Duration;

use crate::path::{PathError, decode_percent};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;

/// Longest `timeoutSeconds` of a watch; as kube-apiserver's request time-out for watches would never be.
const WATCH_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The decoded parameters, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, PathError> {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decode = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode_percent(key, true)?, decode_percent(value, true)?))
        };
        Ok(Self(pairs.map(decode).collect::<Result<_, _>>()?))
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

    /// A boolean as Go clients write it: present without value counts as true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => value
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))),
        }
    }

    /// The name that `fieldSelector=metadata.name=x` asks for.
    pub(crate) fn exact_name(&self) -> Option<String> {
        let selector = FieldSelector::parse(self.get("fieldSelector")?).ok()?;
        selector.exact("metadata.name").map(str::to_owned)
    }

    /// Whether this is a dry run; `All` is the only kind there is.
    pub(crate) fn dry_run(&self) -> Result<bool, Status> {
        let mut dry = false;
        for value in self.all("dryRun").filter(|value| !value.is_empty()) {
            if value != "All" {
                return Err(bad_option("dryRun", value, "\"All\""));
            }
            dry = true;
        }
        Ok(dry)
    }

    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Status> {
        match self.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => Err(bad_option("fieldValidation", other, "\"Ignore\", \"Strict\", \"Warn\"")),
        }
    }
}

fn bad_option(field: &str, value: &str, allowed: &str) -> Status {
    let text = format!("{field}: Unsupported value: {value:?}: supported values: {allowed}");
    Status::new(
        http::StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid",
        format!(" \"\" is invalid: {text}"),
    )
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

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| Status::bad_request(format!("unable to parse requirement: {error}")))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| Status::bad_request(format!("invalid selector: {error}")))?;
        let limit = query
            .number("limit")?
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit > 0);
        let continue_token = query
            .get("continue")
            .filter(|token| !token.is_empty())
            .map(str::to_owned);
        let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let timeout = query
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds).min(WATCH_TIMEOUT_MAX));
        let version = read_version(query, limit.is_some(), initial)?;
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

fn read_version(query: &Query, limited: bool, initial: Option<bool>) -> Result<ReadVersion, Status> {
    let text = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let invalid = |why: &str| {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: {why}");
        Err(Status::new(http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message))
    };
    if !matching.is_empty() && text.is_empty() && initial.is_none() {
        return invalid("resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    let number = match text {
        "" => return Ok(ReadVersion::Newest),
        text => text.parse::<u64>().map_err(|_| {
            Status::bad_request(format!(
                "Invalid resource version: strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        })?,
    };
    match (matching, number) {
        ("Exact", 0) => invalid("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""),
        ("Exact", number) => Ok(ReadVersion::Exact(number)),
        (_, 0) => Ok(ReadVersion::Any),
        ("", number) if limited => Ok(ReadVersion::Exact(number)),
        ("" | "NotOlderThan", number) => Ok(ReadVersion::NotOlderThan(number)),
        _ => invalid("supported values: \"Exact\", \"NotOlderThan\", \"\""),
    }
}
