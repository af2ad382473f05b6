//! Events of the group `events.k8s.io`: the same objects as the core group's, under other field names. One store,
//! two views.
//! (kubernetes/kubernetes v1.35 pkg/apis/events/v1/conversion.go)

use std::sync::Arc;

use cluster_fields::FieldError;
use cluster_schema::Schema;
use serde_json::{Map, Value};

use crate::kinds::kind::{Call, Kind, SelectableField};
use crate::kinds::registry::{Role, Served};
use crate::kinds::resource::{ResourceInfo, Version};
use crate::wire::status::Status;

const GROUP: &str = "events.k8s.io";
/// What the hub is called here: objects are stored as core `v1`, which this group has no version for.
pub(crate) const HUB: &str = "core-v1";
/// Names here and in the core group, where they differ.
const RENAMED: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

struct Events {
    info: ResourceInfo,
    fields: Vec<SelectableField>,
}

/// The view, over the store of the core group's events with their selectable `fields`.
pub(crate) fn view(fields: &[SelectableField]) -> Served {
    let mut info = ResourceInfo::namespaced(GROUP, "v1", "Event", "events").short(&["ev"]);
    info.versions[0].storage = false;
    info.versions.push(Version {
        served: false,
        ..Version::storage(HUB)
    });
    let rename = |field: &SelectableField| {
        let label = field.label.replacen("involvedObject", "regarding", 1);
        let label = label.replacen("reportingComponent", "reportingController", 1);
        SelectableField { label, ..field.clone() }
    };
    let fields = fields.iter().map(rename).collect();
    Served::stored_as("events", Arc::new(Events { info, fields }), Role::Ordinary)
}

fn rename(fields: &mut Map<String, Value>, from_here: bool) {
    for (here, core) in RENAMED {
        let (from, to) = if from_here { (here, core) } else { (core, here) };
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

impl Kind for Events {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, version: &str) -> Option<Schema> {
        if version == HUB {
            cluster_builtin::schema("", "v1", "Event")
        } else {
            cluster_builtin::schema(GROUP, "v1", "Event")
        }
    }

    fn default(&self, version: &str, object: &mut Value) {
        cluster_builtin::default(GROUP, version, "Event", object);
    }

    fn convert(&self, mut object: Value, to: &str) -> Result<Value, Status> {
        if let Some(fields) = object.as_object_mut() {
            let api_version = if to == HUB {
                "v1".to_owned()
            } else {
                self.info.api_version(to)
            };
            fields.insert("apiVersion".to_owned(), Value::String(api_version));
            rename(fields, to == HUB);
        }
        Ok(object)
    }

    fn validate(&self, _call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        cluster_builtin::validate("", "v1", "Event", object, old)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.fields
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}
