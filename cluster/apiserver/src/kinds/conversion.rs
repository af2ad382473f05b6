//! Custom resources whose versions a webhook converts: whatever is read, filtered, validated or stored in another version
//! than its own goes through here first. Kinds without such a webhook pass unchanged. No lock is held while a
//! webhook is waited for, and nothing is stored when one fails.
//! (apiextensions-apiserver v0.35 pkg/apiserver/conversion, pkg/apiserver/customresource_handler.go)

use std::sync::Arc;

use cluster_store::{Entry, Object, Revision};
use serde_json::Value;

use crate::connections::network::Network;
use crate::kinds::registry::Served;
use crate::kinds::rendering;
use crate::wire::status::Status;

/// Converts a value of the kind to another version.
pub(crate) async fn convert_value(network: &Network, served: &Served, value: Value, to: &str) -> Result<Value, Status> {
    let from = value.get("apiVersion").and_then(Value::as_str);
    if from == Some(&served.info().api_version(to)) {
        return Ok(value);
    }
    match served.converter() {
        Some(converter) => converter.one(network, &*served.kind, value, to).await,
        None => served.kind.convert(value, to),
    }
}

/// As [`convert_value`], but not pruned: fields that the version does not have stay.
pub(crate) async fn convert_value_unpruned(
    network: &Network,
    served: &Served,
    mut value: Value,
    to: &str,
) -> Result<Value, Status> {
    match served.converter() {
        Some(converter) => {
            let converted = converter.all(network, &*served.kind, vec![value], to, false).await?;
            let first = converted.into_iter().next();
            first.ok_or_else(|| Status::internal("a conversion gave no object"))
        }
        None => {
            value["apiVersion"] = Value::String(served.info().api_version(to));
            Ok(value)
        }
    }
}

/// A stored object as a value in `version`.
pub(crate) async fn entry_as_value(
    network: &Network,
    served: &Served,
    version: &str,
    entry: &Entry,
) -> Result<Value, Status> {
    if served.converter().is_none() {
        return rendering::value(served, version, entry);
    }
    let entry = convert_entry(network, served, version, entry.clone()).await?;
    rendering::value(served, version, &entry)
}

/// A stored object as it is in `version`. Not cached: the webhook is called each time.
pub(crate) async fn convert_entry(
    network: &Network,
    served: &Served,
    version: &str,
    entry: Entry,
) -> Result<Entry, Status> {
    let Some(converter) = served.converter() else {
        return Ok(entry);
    };
    let object = match source(served, version, &entry.object, entry.revision)? {
        Source::Ready => return Ok(entry),
        Source::Refreshed(value) => stored(value)?,
        Source::Other(value) => stored(converter.one(network, &*served.kind, value, version).await?)?,
    };
    Ok(Entry { object, ..entry })
}

/// A stored object as a value in the version in which its next write stores it. Errors: it cannot be converted to that, or to the
/// version of the request.
pub(crate) async fn value_for_next_write(
    network: &Network,
    served: &Served,
    version: &str,
    entry: &Entry,
) -> Result<Value, Status> {
    if served.converter().is_some() && version != served.storage_version {
        entry_as_value(network, served, version, entry).await?;
    }
    match &served.custom {
        Some(_) => entry_as_value(network, served, &served.storage_version, entry).await,
        None => Ok(entry.object.value(entry.revision)),
    }
}

/// Stored objects as they are in `version`: those that are not cached go to the webhook in few requests.
pub(crate) async fn convert_entries(
    network: &Network,
    served: &Served,
    version: &str,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, Status> {
    let Some(converter) = served.converter() else {
        return Ok(entries);
    };
    let mut unknown = Vec::new();
    for (place, entry) in entries.iter_mut().enumerate() {
        match source(served, version, &entry.object, entry.revision)? {
            Source::Ready => {}
            Source::Refreshed(value) => entry.object = stored(value)?,
            Source::Other(value) => match converter.recent.get(&entry.object, version) {
                Some(known) => entry.object = known,
                None => unknown.push((place, value)),
            },
        }
    }
    let (places, values): (Vec<usize>, Vec<Value>) = unknown.into_iter().unzip();
    let converted = converter.all(network, &*served.kind, values, version, true).await?;
    for (place, value) in places.into_iter().zip(converted) {
        let object = stored(value)?;
        if let Some(entry) = entries.get_mut(place) {
            converter.recent.put(&entry.object, version, &object);
            entry.object = object;
        }
    }
    Ok(entries)
}

/// An object of a change as it is in `version`. All watches of that version share one request.
pub(crate) async fn convert_change(
    network: &Network,
    served: &Served,
    version: &str,
    object: &Arc<Object>,
    revision: Revision,
) -> Result<Arc<Object>, Status> {
    let Some(converter) = served.converter() else {
        return Ok(object.clone());
    };
    match source(served, version, object, revision)? {
        Source::Ready => Ok(object.clone()),
        Source::Refreshed(value) => stored(value),
        Source::Other(value) => {
            let convert = async { stored(converter.one(network, &*served.kind, value, version).await?) };
            converter.recent.get_or_convert(object, version, convert).await
        }
    }
}

/// What an object is before it is converted.
enum Source {
    /// In the version already.
    Ready,
    /// In the version already, but by an older definition.
    Refreshed(Value),
    /// In another version.
    Other(Value),
}

fn source(served: &Served, version: &str, object: &Object, revision: Revision) -> Result<Source, Status> {
    let old = revision < served.as_of && revision.0 > 0;
    let in_version = served
        .head(version)
        .is_some_and(|head| object.bytes().starts_with(head));
    if in_version && !old {
        return Ok(Source::Ready);
    }
    let mut value: Value = serde_json::from_slice(object.bytes()).map_err(Status::internal)?;
    let from = version_of(served, &value)?;
    if old {
        served.kind.refresh(&from, &mut value);
    }
    Ok(match (from == version, old) {
        (true, false) => Source::Ready,
        (true, true) => Source::Refreshed(value),
        (false, _) => Source::Other(value),
    })
}

/// The version that an object is in. Errors: its kind has no such version.
fn version_of(served: &Served, value: &Value) -> Result<String, Status> {
    let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let info = served.info();
    let known = info.versions.iter().map(|version| version.name.as_ref());
    let found = known
        .into_iter()
        .find(|version| info.api_version(version) == api_version);
    found.map(str::to_owned).ok_or_else(|| {
        Status::failed(format!(
            "request to convert CR from an invalid group/version: {api_version}"
        ))
    })
}

fn stored(value: Value) -> Result<Arc<Object>, Status> {
    let object = Object::from_value(value).map_err(|error| Status::failed(error.to_string()))?;
    Ok(Arc::new(object))
}
