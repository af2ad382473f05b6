//! The table of kinds beside what does not come from it: the committed definitions, and facts of Gardener's contract.

use std::collections::{BTreeMap, BTreeSet};

use api_extensions::{DeletionProtection, ExtensionClass, ExtensionKind, ExtensionObject, ForKind, Owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// The committed definitions of the group but Cluster, by the names of their kinds.
fn definitions() -> BTreeMap<String, Value> {
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let files = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
    let all = texts.map(|text| serde_saphyr::from_str::<Value>(&text).unwrap());
    all.filter(|definition| definition["spec"]["group"] == "extensions.gardener.cloud")
        .map(|definition| {
            (
                definition["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
                definition,
            )
        })
        .filter(|(kind, _)| kind != "Cluster")
        .collect()
}

/// Kinds for which something holds, by their names.
fn kinds(holds: impl Fn(ExtensionKind) -> bool) -> Vec<&'static str> {
    let all = ExtensionKind::ALL.iter().copied();
    all.filter(|kind| holds(*kind)).map(ExtensionKind::kind).collect()
}

fn fields(definition: &Value, part: &str) -> BTreeSet<String> {
    let properties = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties[part]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

#[test]
fn rows_are_those_of_the_committed_definitions_with_names_and_scope() {
    let definitions = definitions();
    assert_eq!(
        definitions.keys().map(String::as_str).collect::<Vec<_>>(),
        ExtensionKind::NAMES
    );
    for kind in ExtensionKind::ALL {
        let spec = &definitions[kind.kind()]["spec"];
        assert_eq!(spec["names"]["plural"], kind.plural());
        assert_eq!(
            spec["scope"],
            if kind.is_namespaced() { "Namespaced" } else { "Cluster" }
        );
        assert_eq!(ExtensionKind::of(kind.kind()), Some(*kind));
        assert_eq!(kind.definition().spec.names.kind, kind.kind());
    }
    assert_eq!(ExtensionKind::of("Cluster"), None);
    assert_eq!(ExtensionKind::of("worker"), None);
}

#[test]
fn every_kind_has_the_common_spec_and_the_status_fields_of_its_row() {
    // contract B: DefaultSpec and DefaultStatus
    let common: BTreeSet<String> = [
        "providerStatus",
        "conditions",
        "lastError",
        "lastOperation",
        "observedGeneration",
        "state",
        "resources",
    ]
    .map(str::to_owned)
    .into();
    for (kind, definition) in definitions() {
        for field in ["type", "class", "providerConfig"] {
            assert!(fields(&definition, "spec").contains(field), "{kind} has no {field}");
        }
        let status = fields(&definition, "status");
        assert!(status.is_superset(&common), "{kind}: {status:?}");
        let own: Vec<&String> = status.difference(&common).collect();
        assert_eq!(own, ExtensionKind::of(&kind).unwrap().own_status(), "{kind}");
    }
}

/// Writes a sample of what a kind's actuator reports beside the common status; gives the fields that it is in.
struct WrittenByActuators(Value);

impl ForKind for WrittenByActuators {
    type Output = BTreeSet<String>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        let mut object = K::default();
        object.common_status().observed_generation.replace(1);
        object.set_own(K::Own::default());
        let status = serde_json::to_value(&object).unwrap()["status"].take();
        let written: BTreeSet<String> = status.as_object().unwrap().keys().cloned().collect();
        assert_eq!(object.progress(), (None, 1));
        assert_eq!(object.view().kind.kind(), K::KIND);
        &written - &self.0.as_object().unwrap().keys().cloned().collect()
    }
}

#[test]
fn empty_reports_write_no_field_beside_the_common_ones() {
    for kind in ExtensionKind::ALL {
        let beside = kind.with(WrittenByActuators(json!({"observedGeneration": 1})));
        assert_eq!(beside, BTreeSet::new(), "{kind}");
    }
}

// Gardener's lists are of the kinds that its v1.150 has: later kinds are not in them.

#[test]
fn finalizers_end_as_those_of_gardeners_library() {
    // contract E.6
    let suffixes: BTreeSet<&str> = ExtensionKind::ALL.iter().map(|kind| kind.finalizer_suffix()).collect();
    let expected = "infrastructure,controlplane,worker,network,operatingsystemconfigs,extension,containerruntime,\
                    dnsrecord,backupbucket,backupentry,bastion,selfhostedshootexposure";
    let missing: Vec<&str> = expected
        .split(',')
        .filter(|suffix| !suffixes.contains(suffix))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(suffixes.len(), ExtensionKind::ALL.len());
}

#[test]
fn deletion_is_confirmed_for_the_kinds_that_gardeners_webhook_protects() {
    // contract B.3; etcds are of another group
    let listed = "backupbuckets, backupentries, containerruntimes, controlplanes, dnsrecords, extensions, \
                  infrastructures, networks, operatingsystemconfigs, selfhostedshootexposures, workers";
    for plural in listed.split(", ") {
        let mut all = ExtensionKind::ALL.iter();
        let kind = all.find(|kind| kind.plural() == plural).unwrap();
        assert_eq!(kind.protection(), DeletionProtection::Confirmation, "{kind}");
    }
    assert_eq!(ExtensionKind::Bastion.protection(), DeletionProtection::None);
}

#[test]
fn labels_of_types_are_those_that_gardeners_admission_sets() {
    // contract A.7, ExtensionLabels
    let labels: BTreeSet<&str> = ExtensionKind::ALL.iter().map(|kind| kind.type_label()).collect();
    let listed =
        "provider,dnsrecord,extensions,networking,operatingsystemconfig,containerruntime,selfhostedshootexposure";
    for label in listed.split(',') {
        assert!(
            labels.contains(format!("{label}.extensions.gardener.cloud/").as_str()),
            "{label}"
        );
    }
}

#[test]
fn every_kind_may_be_a_shoots_and_few_may_be_of_another_class() {
    let of_class = |class: ExtensionClass| kinds(|kind| kind.classes().contains(&class));
    assert_eq!(of_class(ExtensionClass::Shoot), ExtensionKind::NAMES);
    assert_eq!(
        of_class(ExtensionClass::Garden),
        ["BackupBucket", "DNSRecord", "Extension"]
    );
    assert_eq!(of_class(ExtensionClass::Seed), ["DNSRecord", "Extension"]);
}

#[test]
fn objects_are_a_shoots_by_namespace_or_by_name() {
    assert_eq!(kinds(|kind| kind.owner() == Owner::Seed), ["BackupBucket"]);
    let object = |namespace: Option<&str>, name: &str| ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let is = |kind: ExtensionKind, object: &ObjectMeta| kind.is_of_shoot(object, "shoot--a--b");
    assert!(is(ExtensionKind::Worker, &object(Some("shoot--a--b"), "b")));
    assert!(!is(ExtensionKind::Worker, &object(Some("shoot--a--bc"), "b")));
    // contract E.3: a BackupEntry is named after the namespace and the UID
    assert!(is(ExtensionKind::BackupEntry, &object(None, "shoot--a--b--0f")));
    assert!(!is(ExtensionKind::BackupEntry, &object(None, "shoot--a--bc--0f")));
    assert!(!is(ExtensionKind::BackupBucket, &object(None, "shoot--a--b--0f")));
}
