//! Volumes, claims, storage classes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Builtin;
use crate::cell::{UNSET, age, deleting, flag, has, join, list, text, text_or};

pub(crate) fn core_printer(resource: &str) -> Option<Builtin> {
    match resource {
        "persistentvolumes" => Some(Builtin {
            columns: VOLUME,
            cells: volume,
        }),
        "persistentvolumeclaims" => Some(Builtin {
            columns: CLAIM,
            cells: claim,
        }),
        _ => None,
    }
}

pub(crate) fn printer(resource: &str) -> Option<Builtin> {
    (resource == "storageclasses").then_some(Builtin {
        columns: CLASS,
        cells: class,
    })
}

type Columns = &'static [(&'static str, &'static str, i32)];

const VOLUME: Columns = &[
    ("Name", "string", 0),
    ("Capacity", "string", 0),
    ("Access Modes", "string", 0),
    ("Reclaim Policy", "string", 0),
    ("Status", "string", 0),
    ("Claim", "string", 0),
    ("StorageClass", "string", 0),
    ("VolumeAttributesClass", "string", 0),
    ("Reason", "string", 0),
    ("Age", "string", 0),
    ("VolumeMode", "string", 1),
];

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = if has(object, "/spec/claimRef") {
        format!(
            "{}/{}",
            text(object, "/spec/claimRef/namespace"),
            text(object, "/spec/claimRef/name")
        )
    } else {
        String::new()
    };
    vec![
        crate::cell::name(object),
        json!(text(object, "/spec/capacity/storage")),
        json!(modes(object, "/spec/accessModes")),
        json!(text(object, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(storage_class(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", UNSET)),
        json!(text(object, "/status/reason")),
        age(object, now),
        json!(text_or(object, "/spec/volumeMode", UNSET)),
    ]
}

const CLAIM: Columns = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Volume", "string", 0),
    ("Capacity", "string", 0),
    ("Access Modes", "string", 0),
    ("StorageClass", "string", 0),
    ("VolumeAttributesClass", "string", 0),
    ("Age", "string", 0),
    ("VolumeMode", "string", 1),
];

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(object, "/spec/volumeName").is_empty();
    vec![
        crate::cell::name(object),
        json!(phase(object)),
        json!(text(object, "/spec/volumeName")),
        json!(if bound {
            text(object, "/status/capacity/storage")
        } else {
            ""
        }),
        json!(if bound {
            modes(object, "/status/accessModes")
        } else {
            String::new()
        }),
        json!(storage_class(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", UNSET)),
        age(object, now),
        json!(text_or(object, "/spec/volumeMode", UNSET)),
    ]
}

const CLASS: Columns = &[
    ("Name", "string", 0),
    ("Provisioner", "string", 0),
    ("ReclaimPolicy", "string", 0),
    ("VolumeBindingMode", "string", 0),
    ("AllowVolumeExpansion", "string", 0),
    ("Age", "string", 0),
];

fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    let default = object
        .pointer("/metadata/annotations/storageclass.kubernetes.io~1is-default-class")
        .and_then(Value::as_str)
        == Some("true");
    let suffix = if default { " (default)" } else { "" };
    vec![
        json!(format!("{}{suffix}", text(object, "/metadata/name"))),
        json!(text(object, "/provisioner")),
        json!(text_or(object, "/reclaimPolicy", "Delete")),
        json!(text_or(object, "/volumeBindingMode", "Immediate")),
        json!(flag(object, "/allowVolumeExpansion")),
        age(object, now),
    ]
}

fn phase(object: &Value) -> &str {
    if deleting(object) {
        "Terminating"
    } else {
        text(object, "/status/phase")
    }
}

fn storage_class(object: &Value) -> &str {
    let beta = object
        .pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
        .and_then(Value::as_str);
    beta.unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

/// Access modes in short and in this order, whatever order they were given in.
fn modes(object: &Value, pointer: &str) -> String {
    let given = list(object, pointer);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    join(
        short
            .iter()
            .filter(|(long, _)| given.iter().any(|mode| mode == long))
            .map(|(_, short)| *short),
        ",",
        "",
    )
}
