//! What the client wants back: objects, their metadata alone, or a table. It renders nothing.

use http::{HeaderMap, StatusCode, header};

use crate::status::Status;

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The object as it is.
    Object,
    /// `PartialObjectMetadata(List)`.
    Metadata,
    /// `Table`.
    Table,
}

/// Picks the first media range this server can answer
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation).
pub(crate) fn shape(headers: &HeaderMap) -> Result<Shape, Status> {
    let accept: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let ranges: Vec<&str> = accept
        .iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|r| !r.is_empty())
        .collect();
    if ranges.is_empty() {
        return Ok(Shape::Object);
    }
    ranges.into_iter().find_map(range_shape).ok_or_else(|| {
        let message = "only the following media types are accepted: application/json, \
                       application/json;as=Table;g=meta.k8s.io;v=v1, \
                       application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        Status::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    })
}

fn range_shape(range: &str) -> Option<Shape> {
    let mut parts = range.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut as_, mut group, mut version) = ("", "", "");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => as_ = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    match (as_, group, version) {
        ("", ..) => Some(Shape::Object),
        ("Table", "meta.k8s.io", "v1") => Some(Shape::Table),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(Shape::Metadata),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> Result<Shape, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.parse().unwrap());
        shape(&headers)
    }

    #[test]
    fn the_first_shape_that_can_be_made_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl).unwrap(), Shape::Table);
        assert_eq!(
            accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json").unwrap(),
            Shape::Object
        );
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf,application/json").unwrap(),
            Shape::Object
        );
        assert_eq!(
            accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").unwrap(),
            Shape::Metadata
        );
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf").unwrap_err().code(),
            StatusCode::NOT_ACCEPTABLE
        );
        assert_eq!(shape(&HeaderMap::new()).unwrap(), Shape::Object);
    }
}
