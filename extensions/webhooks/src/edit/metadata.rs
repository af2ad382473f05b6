//! Labels and annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Sets an annotation.
pub fn set_annotation(metadata: &mut ObjectMeta, key: &str, value: &str) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
}

/// Takes an annotation away.
pub fn remove_annotation(metadata: &mut ObjectMeta, key: &str) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(key);
    }
}

/// Sets a label.
pub fn set_label(metadata: &mut ObjectMeta, key: &str, value: &str) {
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
}

/// Takes a label away.
pub fn remove_label(metadata: &mut ObjectMeta, key: &str) {
    if let Some(labels) = &mut metadata.labels {
        labels.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_set_and_removed_beside_others() {
        let mut metadata: ObjectMeta =
            serde_json::from_value(json!({"annotations": {"a": "1"}, "labels": {"b": "2", "c": "3"}})).unwrap();
        set_annotation(&mut metadata, "a", "9");
        set_annotation(&mut metadata, "x", "y");
        set_label(&mut metadata, "x", "y");
        remove_label(&mut metadata, "c");
        remove_annotation(&mut metadata, "none");
        let expected = json!({"annotations": {"a": "9", "x": "y"}, "labels": {"b": "2", "x": "y"}});
        assert_eq!(serde_json::to_value(&metadata).unwrap(), expected);
        let mut empty = ObjectMeta::default();
        remove_label(&mut empty, "a");
        remove_annotation(&mut empty, "a");
        assert_eq!(empty, ObjectMeta::default());
        set_label(&mut empty, "a", "b");
        assert_eq!(empty.labels.unwrap()["a"], "b");
    }
}
