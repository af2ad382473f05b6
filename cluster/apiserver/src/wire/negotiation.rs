//! What the client wants back: objects, their metadata alone, or a table; as JSON, JSON for people, or YAML. It renders
//! nothing. (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation)

use http::{HeaderMap, StatusCode, header};

use crate::wire::query::Query;
use crate::wire::status::Status;

pub(crate) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media types that a refusal lists for one object.
const OFFERED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types that a refusal lists for a watch.
const OFFERED_STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// User agents whose answers are read by people.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The version of `meta.k8s.io` in which a table or metadata alone comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meta {
    V1,
    V1beta1,
}

impl Meta {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The object as it is.
    Object,
    /// `PartialObjectMetadata`.
    Metadata(Meta),
    /// `PartialObjectMetadataList`.
    MetadataList(Meta),
    /// `Table`.
    Table(Meta),
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Object,
    List,
    Watch,
}

/// The type in Go of what is answered, as far as answers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoType<'a> {
    /// That of custom resources.
    Unstructured,
    /// One of a kind's own.
    Of { group: &'a str, kind: &'a str },
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    #[default]
    Json,
    /// JSON with line breaks.
    Pretty,
    Yaml,
}

/// A media type that is accepted and that this server can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    shape: Shape,
    yaml: bool,
    pretty: bool,
}

/// The shape of what is answered with objects of a type. Errors: 406 when nothing that is accepted can be made.
pub(crate) fn shape(headers: &HeaderMap, of: GoType<'_>, expected: Expected) -> Result<Shape, Status> {
    let accept = accepted(headers);
    if of != GoType::Unstructured && !accept.is_empty() && !accept.split(',').any(is_offered) {
        return Err(match expected {
            Expected::Object => Status::none_accepted(OFFERED),
            Expected::List | Expected::Watch => Status::none_accepted(&format!("{OFFERED}, {OFFERED_STREAMS}")),
        });
    }
    let choice = choose(accept).ok_or_else(|| not_acceptable(OFFERED))?;
    match (choice.shape, expected) {
        (_, Expected::Watch) if choice.yaml => Err(not_acceptable(OFFERED_STREAMS)),
        (Shape::Metadata(_), Expected::List) => Err(of_another_form("PartialObjectMetadata", of, "a list", "List")),
        (Shape::MetadataList(_), Expected::Object) => {
            Err(of_another_form("PartialObjectMetadataList", of, "not a list", ""))
        }
        (shape, _) => Ok(shape),
    }
}

/// 406 where a client accepts no JSON and there is nothing else.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    check(headers, JSON)
}

/// 406 where a client does not accept the one type that is offered.
pub(crate) fn check(headers: &HeaderMap, offered: &str) -> Result<(), Status> {
    let accept = accepted(headers);
    let is_good = |range: &str| ["*/*", offered].contains(&range.split(';').next().unwrap_or_default().trim());
    if accept.is_empty() || accept.split(',').any(is_good) {
        Ok(())
    } else {
        Err(Status::none_accepted(offered))
    }
}

/// How the answer to a request with these headers is written.
pub(crate) fn writing(headers: &HeaderMap, query: &Query) -> Writing {
    let accept = accepted(headers);
    if accept == JSON && query.get("pretty").is_none() && !for_people(headers) {
        return Writing::Json;
    }
    let choice = choose(accept);
    let requested = query.get("pretty").filter(|value| !value.is_empty());
    let pretty = match requested {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "True" | "TRUE"),
        None => for_people(headers),
    };
    match choice {
        Some(choice) if choice.yaml => Writing::Yaml,
        Some(choice) if choice.pretty || pretty => Writing::Pretty,
        _ => Writing::Json,
    }
}

/// Only the first header counts, as in Go.
fn accepted(headers: &HeaderMap) -> &str {
    let first = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    first.unwrap_or_default().trim()
}

fn for_people(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    agent.is_some_and(|agent| PEOPLE.iter().any(|program| agent.starts_with(program)))
}

/// Whether the router lets a media range through: it knows no `application/*`.
fn is_offered(range: &str) -> bool {
    let media = range.split(';').next().unwrap_or_default().trim();
    matches!(media, "*/*" | JSON | YAML | PROTOBUF)
}

/// The best of what is accepted, by weight, then by order.
fn choose(accept: &str) -> Option<Choice> {
    let ranges = accept.split(',').map(str::trim).filter(|range| !range.is_empty());
    let mut ranges: Vec<&str> = ranges.collect();
    if ranges.is_empty() {
        ranges.push(JSON);
    }
    if ranges.len() > 1 {
        ranges.sort_by_key(|range| {
            (
                std::cmp::Reverse(weight(range)),
                range.starts_with("*/"),
                range.contains("/*"),
            )
        });
    }
    ranges.into_iter().find_map(read)
}

/// The weight of a range in thousandths.
fn weight(range: &str) -> u32 {
    let parameters = range.split(';').skip(1).filter_map(|part| part.trim().split_once('='));
    let weight = parameters.into_iter().find(|(key, _)| *key == "q");
    let weight: f64 = weight.and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    let thousandths = (weight.clamp(0.0, 1.0) * 1000.0) as u32;
    thousandths
}

fn read(range: &str) -> Option<Choice> {
    let mut parts = range.split(';').map(str::trim);
    let yaml = match parts.next()? {
        JSON | "application/*" | "*/*" => false,
        YAML => true,
        _ => return None,
    };
    let (mut target, mut pretty) = ([None; 3], false);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => target[0] = Some(value),
            "g" => target[1] = Some(value),
            "v" => target[2] = Some(value),
            "stream" if value != "watch" || yaml => return None,
            "sv" if value != "v1" => return None,
            "pretty" => pretty = value == "1",
            _ => {}
        }
    }
    let shape = match target {
        [None, None, None] => Shape::Object,
        [Some(form), Some("meta.k8s.io"), Some(version)] => {
            let meta = match version {
                "v1" => Meta::V1,
                "v1beta1" => Meta::V1beta1,
                _ => return None,
            };
            match form {
                "Table" => Shape::Table(meta),
                "PartialObjectMetadata" => Shape::Metadata(meta),
                "PartialObjectMetadataList" => Shape::MetadataList(meta),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(Choice { shape, yaml, pretty })
}

fn not_acceptable(offered: &str) -> Status {
    refused(format!("only the following media types are accepted: {offered}"))
}

/// 406 for a list that is requested as an object, or the other way round. The message names the type in Go.
fn of_another_form(form: &str, of: GoType<'_>, found: &str, suffix: &str) -> Status {
    let (package, kind) = match of {
        GoType::Unstructured => ("unstructured", "Unstructured"),
        GoType::Of { group, kind } => (go_package(group), kind),
    };
    refused(format!(
        "you requested {form}, but the requested object is {found} (*{package}.{kind}{suffix})"
    ))
}

/// The Go package of a group's types, as messages name it.
pub(crate) fn go_package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("" | "events") => "core",
        Some(package) => package,
    }
}

fn refused(message: String) -> Status {
    Status::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(accept: &str) -> Option<Shape> {
        choose(accept).map(|choice| choice.shape)
    }

    #[test]
    fn the_first_shape_that_can_be_made_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(shape_of(kubectl), Some(Shape::Table(Meta::V1)));
        assert_eq!(
            shape_of("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"),
            Some(Shape::Table(Meta::V1beta1))
        );
        assert_eq!(
            shape_of("application/json;as=Table;v=v2;g=meta.k8s.io, application/json"),
            Some(Shape::Object)
        );
        assert_eq!(
            shape_of("application/vnd.kubernetes.protobuf,application/json"),
            Some(Shape::Object)
        );
        assert_eq!(
            shape_of("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Shape::MetadataList(Meta::V1))
        );
        assert_eq!(shape_of("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(shape_of(""), Some(Shape::Object));
    }

    #[test]
    fn ranges_of_higher_weight_come_first() {
        let yaml = |accept: &str| choose(accept).map(|choice| choice.yaml);
        assert_eq!(yaml("application/yaml;q=0.1, application/json;q=0.9"), Some(false));
        assert_eq!(yaml("application/json;q=0.1, application/yaml;q=0.9"), Some(true));
        assert_eq!(yaml("*/*, application/yaml"), Some(true));
        assert_eq!(yaml("application/yaml;stream=watch"), None);
    }

    #[test]
    fn answers_for_people_are_indented_unless_pretty_is_false() {
        let how = |accept: &str, agent: &str, query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            writing(&headers, &Query::parse(Some(query)))
        };
        assert_eq!(how(JSON, "kubectl/v1.35", ""), Writing::Json);
        assert_eq!(how("*/*", "curl/8", ""), Writing::Pretty);
        assert_eq!(how("*/*", "curl/8", "pretty=false"), Writing::Json);
        assert_eq!(how(JSON, "kubectl", "pretty=true"), Writing::Pretty);
        assert_eq!(how(JSON, "kubectl", "pretty"), Writing::Json);
        assert_eq!(how("application/json;pretty=1", "kubectl", ""), Writing::Pretty);
        assert_eq!(how(YAML, "curl/8", "pretty=1"), Writing::Yaml);
    }
}
