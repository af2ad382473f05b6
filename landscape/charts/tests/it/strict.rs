//! The objects are sent to an empty Kubernetes, which validates each field: the embedded one, so that this test needs no real
//! part.

use cluster_dry_run::{Problem, dry_run};

use crate::own;

#[tokio::test]
async fn kubernetes_accepts_every_object_and_knows_every_field() {
    for (chart, values) in own::cases() {
        let objects = own::objects(chart, &values);
        let remarks = dry_run(&[], &objects, own::namespace(chart)).await.unwrap();
        for remark in remarks {
            let object = &objects[remark.place];
            // Kinds of cert-manager are not Kubernetes' own, and the embedded one does nothing with a PriorityClass.
            let is_expected = match &remark.problem {
                Problem::UnknownKind => object["apiVersion"] == "cert-manager.io/v1",
                Problem::Warning(_) => object["kind"] == "PriorityClass",
                _ => false,
            };
            assert!(
                is_expected,
                "{chart} with {values}: {} {}: {:?}",
                object["kind"], object["metadata"]["name"], remark.problem
            );
        }
    }
}

#[test]
fn class_of_gardenlet_is_the_one_that_gardenlet_makes() {
    let objects = own::objects("gardenlet", "kubeconfig");
    let class = own::object(&objects, "PriorityClass", "gardener-system-critical");
    let made = components_seed::priority_classes();
    let made = made
        .iter()
        .find(|made| made.metadata.name.as_deref() == Some("gardener-system-critical"));
    assert_eq!(*class, serde_json::to_value(made.unwrap()).unwrap());
}
