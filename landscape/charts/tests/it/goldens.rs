//! What the charts render, as committed files.

use tests_kit::assert_golden;

use crate::own;

#[test]
fn rendered_objects_and_notes_are_the_committed_ones() {
    for (chart, values) in own::cases() {
        let rendered = own::rendered(chart, &values);
        let text = format!("{}\n# NOTES\n{}", rendered.manifest(false), rendered.notes);
        let path = format!("{}/tests/golden/{chart}-{values}.yaml", env!("CARGO_MANIFEST_DIR"));
        assert_golden(path, &text);
    }
}

#[test]
fn gardenlets_namespace_is_rendered_where_its_release_is_in_another() {
    let namespaces = |namespace: &str| -> usize {
        let rendered = own::rendered_in(namespace, "gardenlet", "kubeconfig", &serde_json::Value::Null).unwrap();
        let objects = own::objects_of(&rendered);
        objects.iter().filter(|object| object["kind"] == "Namespace").count()
    };
    assert_eq!((namespaces("other"), namespaces("garden")), (1, 0));
}

#[test]
fn secrets_of_the_garden_are_in_no_namespace_that_confined_users_read() {
    for namespace in ["garden", "garden-dev", "seed-north"] {
        let why = own::rendered_in(namespace, "garden", "given", &serde_json::Value::Null).unwrap_err();
        assert!(why.contains("--namespace orangery-system"), "{why}");
    }
    for values in ["given", "full", "generated"] {
        let objects = own::objects("garden", values);
        for secret in objects.iter().filter(|object| object["kind"] == "Secret") {
            assert_eq!(secret["metadata"]["namespace"], own::namespace("garden"));
        }
    }
}
