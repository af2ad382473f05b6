//! The components of a control plane, taken from their table: a new one needs a golden and no new test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base_secrets::{Content, Wanted};
use components_hosted::secrets::{cluster_secrets, wanted_secrets};
use components_hosted::{
    Component, ComponentId, EtcdStorage, HostedCluster, HostedObject, INVENTORY, Image, Issued, Mounted, NodeAccess,
    ObjectKind, Place, Power, Reference, Removal, ScaleFacts, Workload, bears_labels_of, build, existing, inventory,
    obsolete, removal, shoot_access_secret_name,
};
use serde_json::Value;

use super::{golden, golden_text, goldens};

const POWERS: [Power; 4] = [Power::Awake, Power::Waking, Power::Hibernating, Power::Hibernated];

fn all() -> impl Iterator<Item = &'static dyn Component> {
    ComponentId::ALL.iter().map(|id| id.component())
}

fn cluster() -> HostedCluster {
    HostedCluster {
        namespace: "shoot--dev--moon".into(),
        version: "1.35.0".into(),
        workerless: false,
        pods: vec!["100.96.0.0/11".into()],
        services: vec!["100.64.0.0/13".into()],
        node_mask_size: Some(24),
        api_host: "api.moon.dev.internal.example".into(),
        server_names: vec!["api.moon.dev.internal.example".into(), "api.moon.example".into()],
        etcd_storage: EtcdStorage {
            main: "10Gi".into(),
            events: "4Gi".into(),
        },
        ssh_access: true,
        node_access: NodeAccess::Tunnel,
    }
}

fn direct() -> HostedCluster {
    HostedCluster {
        node_access: NodeAccess::Direct,
        ..cluster()
    }
}

fn workerless() -> HostedCluster {
    HostedCluster {
        workerless: true,
        pods: Vec::new(),
        ssh_access: false,
        ..cluster()
    }
}

fn facts(power: Power, present: Option<i32>) -> ScaleFacts {
    ScaleFacts {
        power,
        present,
        highly_available: false,
        migrating: false,
    }
}

fn mounted(secret: String) -> Mounted {
    Mounted {
        secret,
        checksum: "0a1b2c3d".to_owned(),
    }
}

/// As gardenlet issues it: everything that the shoot has, and the component's kubeconfig.
fn issued(component: &dyn Component, cluster: &HostedCluster, replicas: i32) -> Issued {
    let tag = |image| match image {
        Image::Kubernetes(name) => format!("registry.example/{name}:v{}", cluster.version),
        Image::Own(name) => format!("registry.example/{name}:v0.1.0"),
        Image::Program => "registry.example/orangery:v0.1.0".to_owned(),
        Image::Upstream { name, tag } => format!("registry.example/{name}:{tag}"),
    };
    let wanted: Vec<Wanted> = wanted_secrets(cluster);
    let has_bundle = |one: &&Wanted| matches!(one.content, Content::Authority { .. } | Content::SigningKey);
    Issued {
        image: tag(component.image()),
        replicas,
        secrets: wanted
            .iter()
            .map(|one| (one.name.clone(), mounted(format!("{}-1", one.name))))
            .collect(),
        bundles: wanted
            .iter()
            .filter(has_bundle)
            .map(|one| (one.name.clone(), mounted(format!("{}-bundle-1", one.name))))
            .collect(),
        kubeconfig: component
            .client()
            .map(|_| mounted(shoot_access_secret_name(component.name()))),
    }
}

fn built(component: &dyn Component, cluster: &HostedCluster, power: Power) -> Vec<HostedObject> {
    let replicas = component.scale(&facts(power, Some(1)));
    build(component, cluster, &issued(component, cluster, replicas)).expect("everything is issued")
}

fn workload_of(component: &dyn Component, objects: &[HostedObject]) -> HostedObject {
    let reference = component.workload().reference(component.name());
    let found = objects.iter().find(|object| object.reference() == reference);
    found.expect("a component has its workload").clone()
}

fn json(object: &HostedObject) -> Value {
    serde_json::to_value(object).expect("objects are JSON")
}

/// `kube-scheduler.json` for the workload, `NAME-KIND.json` for all else.
fn golden_name(component: &dyn Component, object: &HostedObject) -> String {
    if object.reference() == component.workload().reference(component.name()) {
        return format!("{}.json", component.name());
    }
    let mut kind = String::new();
    for letter in object.kind().name().chars() {
        if letter.is_uppercase() {
            kind.push('-');
        }
        kind.extend(letter.to_lowercase());
    }
    format!("{}{kind}.json", object.name())
}

#[test]
fn every_object_of_every_component_matches_its_golden() {
    let mut known = BTreeSet::new();
    for component in all() {
        let early = component.early_objects(&cluster());
        for object in early.iter().chain(&built(component, &cluster(), Power::Awake)) {
            let name = golden_name(component, object);
            golden(&name, object);
            assert!(known.insert(name.clone()), "{name} stands for two objects");
        }
    }
    for entry in std::fs::read_dir(goldens()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_ours = !name.starts_with("shoot-") && name.ends_with(".json");
        assert!(
            !is_ours || known.contains(&name),
            "no component makes {name}: delete it"
        );
    }
}

/// What differs from the goldens of a shoot that is awake, has workers, and reaches them through a tunnel.
#[test]
fn hibernated_workerless_and_directly_reached_objects_differ_from_the_goldens_as_listed() {
    let mut text = String::new();
    for (title, variant, power) in [
        ("hibernated", cluster(), Power::Hibernated),
        ("workerless", workerless(), Power::Awake),
        ("nodes reached directly", direct(), Power::Awake),
    ] {
        writeln!(text, "{title}:").unwrap();
        for component in all() {
            if !component.exists(&variant) {
                writeln!(text, "- {}", component.name()).unwrap();
                continue;
            }
            let usual = built(component, &cluster(), Power::Awake);
            let changed = built(component, &variant, power);
            let come = changed
                .iter()
                .filter(|one| usual.iter().all(|other| other.reference() != one.reference()));
            assert_eq!(come.count(), 0, "{}: list what comes", component.name());
            for before in &usual {
                let Some(after) = changed.iter().find(|one| one.reference() == before.reference()) else {
                    writeln!(text, "- {}", before.reference()).unwrap();
                    continue;
                };
                let mut lines = Vec::new();
                differences("", &json(before), &json(after), &mut lines);
                for line in lines {
                    writeln!(text, "  {} {line}", before.reference()).unwrap();
                }
            }
        }
    }
    golden_text("variants.txt", &text);
}

fn differences(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let value = |of: &serde_json::Map<String, Value>| of.get(key).cloned().unwrap_or_default();
                differences(&format!("{path}/{key}"), &value(one), &value(other), lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (before, after)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}/{index}"), before, after, lines);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            let missing = |of: &[Value], from: &[Value]| of.iter().filter(|one| !from.contains(one)).cloned().collect();
            let (gone, new): (Vec<Value>, Vec<Value>) = (missing(one, other), missing(other, one));
            lines.extend(gone.iter().map(|value| format!("{path}: - {value}")));
            lines.extend(new.iter().map(|value| format!("{path}: + {value}")));
        }
        (before, after) if before != after => lines.push(format!("{path}: {before} -> {after}")),
        _ => {}
    }
}

#[test]
fn every_component_is_scaled_as_listed() {
    let mut text = format!("{:28}", "pods wanted (of 0, 7, none)");
    for power in POWERS {
        write!(text, " {:12}", format!("{power:?}")).unwrap();
    }
    for component in all() {
        write!(text, "\n{:28}", component.name()).unwrap();
        for power in POWERS {
            let cells = [Some(0), Some(7), None].map(|present| component.scale(&facts(power, present)).to_string());
            write!(text, " {:12}", cells.join(", ")).unwrap();
        }
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    golden_text("scale.txt", &format!("{}\n", lines.join("\n")));
}

#[test]
fn nothing_runs_once_a_shoot_is_hibernated_and_everything_when_it_wakes() {
    for component in all() {
        for present in [None, Some(0), Some(1)] {
            let pods = POWERS.map(|power| component.scale(&facts(power, present)));
            assert_eq!([pods[0], pods[1], pods[3]], [1, 1, 0], "{}", component.name());
        }
    }
    let hibernating = |id: ComponentId| id.component().scale(&facts(Power::Hibernating, Some(1)));
    assert_eq!(hibernating(ComponentId::Scheduler), 0, "no pod needs a node any more");
    assert_eq!(hibernating(ComponentId::ApiServer), 1, "a later step scales it down");
}

#[test]
fn machine_controllers_stay_while_hibernating_and_change_nothing_while_migrating() {
    let machines = ComponentId::MachineControllerManager.component();
    let scale = |power, present| machines.scale(&facts(power, present));
    assert_eq!(scale(Power::Hibernating, Some(0)), 1, "machines may be left");
    assert_eq!(scale(Power::Hibernating, None), 0, "it never ran");
    for (power, present) in POWERS.into_iter().flat_map(|power| [(power, None), (power, Some(1))]) {
        let migrating = ScaleFacts {
            migrating: true,
            ..facts(power, present)
        };
        assert_eq!(machines.scale(&migrating), present.unwrap_or(0));
    }
}

#[test]
fn every_component_consists_of_objects_of_its_namespace_its_workload_last() {
    for component in all() {
        let early = component.early_objects(&cluster());
        let objects = built(component, &cluster(), Power::Awake);
        let workload = component.workload().reference(component.name());
        assert_eq!(objects.last().map(HostedObject::reference), Some(workload.clone()));
        let all: Vec<&HostedObject> = early.iter().chain(&objects).collect();
        let references: BTreeSet<Reference> = all.iter().map(|object| object.reference()).collect();
        assert_eq!(references.len(), all.len(), "{}: one object twice", component.name());
        for object in &all {
            let metadata = object.metadata();
            assert_eq!(metadata.namespace.as_deref(), Some("shoot--dev--moon"));
            for id in ComponentId::ALL {
                let bears = bears_labels_of(id.component(), metadata.labels.as_ref());
                assert_eq!(
                    bears,
                    id.component().name() == component.name(),
                    "{}",
                    object.reference()
                );
            }
        }
        let listed: BTreeSet<Reference> = inventory(objects[objects.len() - 1].metadata().annotations.as_ref())
            .into_iter()
            .chain([workload])
            .collect();
        assert_eq!(listed, references, "{}: the inventory lists all", component.name());
    }
}

#[test]
fn an_unknown_secret_is_named_by_the_error() {
    for component in all() {
        let complete = issued(component, &cluster(), 1);
        let (mut missing, mut used) = (BTreeSet::new(), 0);
        for name in complete.secrets.keys() {
            let mut without = complete.clone();
            without.secrets.remove(name);
            missing.extend(
                build(component, &cluster(), &without)
                    .err()
                    .map(|error| (error.secret, name.clone())),
            );
        }
        for name in complete.bundles.keys() {
            let mut without = complete.clone();
            without.bundles.remove(name);
            let error = build(component, &cluster(), &without).err();
            missing.extend(error.map(|error| (error.secret, format!("{name}-bundle"))));
        }
        if component.client().is_some() {
            let error = build(
                component,
                &cluster(),
                &Issued {
                    kubeconfig: None,
                    ..complete.clone()
                },
            )
            .unwrap_err();
            assert_eq!(error.secret, shoot_access_secret_name(component.name()));
            used += 1;
        }
        for (named, removed) in &missing {
            assert_eq!(named, removed, "{}", component.name());
        }
        used += missing.len();
        let mounts = json(&workload_of(
            component,
            &build(component, &cluster(), &complete).unwrap(),
        ));
        let volumes = mounts["spec"]["template"]["spec"]["volumes"].as_array();
        let of_secrets = |volume: &&Value| volume["secret"].is_object();
        let volumes = volumes.into_iter().flatten().filter(of_secrets).count();
        assert_eq!(
            used,
            volumes,
            "{}: every Secret that it mounts was missed once",
            component.name()
        );
    }
}

#[test]
fn a_changed_secret_rolls_the_pods_and_a_changed_size_does_not() {
    let template = |component: &dyn Component, issued: &Issued| {
        let objects = build(component, &cluster(), issued).unwrap();
        json(&workload_of(component, &objects))["spec"]["template"].clone()
    };
    let change = |one: &mut Mounted| one.checksum = "ffffffff".into();
    for component in all() {
        let before = issued(component, &cluster(), 1);
        let resized = Issued {
            replicas: 0,
            ..before.clone()
        };
        assert_eq!(
            template(component, &before),
            template(component, &resized),
            "{}",
            component.name()
        );
        let mut rotated = before.clone();
        rotated.secrets.values_mut().for_each(change);
        rotated.bundles.values_mut().for_each(change);
        rotated.kubeconfig.iter_mut().for_each(change);
        assert_ne!(
            template(component, &before),
            template(component, &rotated),
            "{}",
            component.name()
        );
    }
}

#[test]
fn no_two_secrets_and_no_two_components_have_one_name() {
    let own = all().flat_map(|component| component.secrets(&cluster()));
    let secrets = cluster_secrets(&cluster()).into_iter().chain(own).map(|one| one.name);
    let components = all().map(|component| component.name().to_owned());
    for names in [secrets.collect::<Vec<String>>(), components.collect()] {
        let unique: BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }
}

#[test]
fn the_secrets_of_a_shoot_are_as_listed_and_in_this_order() {
    let mut text = String::new();
    for (title, cluster) in [
        ("with workers", direct()),
        ("workerless", workerless()),
        ("with workers and a tunnel", cluster()),
    ] {
        writeln!(text, "{title}:").unwrap();
        for one in wanted_secrets(&cluster) {
            writeln!(text, "  {}: {}", one.name, content(&one.content)).unwrap();
        }
    }
    golden_text("secrets.txt", &text);
}

fn content(content: &Content) -> String {
    match content {
        Content::Authority { common_name } => format!("authority {common_name}"),
        Content::Certificate { spec, signed_by } => {
            let days = spec.validity.as_secs() / 86400;
            let mut text = format!("{:?} {} by {signed_by}, {days} days", spec.usage, spec.common_name);
            let names = spec.dns_names.iter().cloned();
            for name in names.chain(spec.ip_addresses.iter().map(ToString::to_string)) {
                text.push_str(&format!("\n    {name}"));
            }
            assert!(spec.organizations.is_empty());
            text
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn users_read_about_components_as_listed() {
    let mut text = String::new();
    for component in ComponentId::with_steps().map(ComponentId::component) {
        let titles = component.titles();
        let early = component.early_objects(&cluster());
        assert_eq!(titles.early.is_some(), !early.is_empty(), "{}", component.name());
        for titles in titles.early.into_iter().chain([&titles]) {
            let all = [
                titles.deploy,
                titles.wait,
                titles.deploy_for_deletion,
                titles.wait_for_deletion,
                titles.destroy,
                titles.wait_destroyed,
            ];
            writeln!(text, "{}\n  {}", titles.title, all.join("\n  ")).unwrap();
        }
    }
    golden_text("titles.txt", &text);
}

#[test]
fn a_shoot_needs_the_workloads_of_its_components() {
    let names = |cluster: &HostedCluster| existing(cluster).map(|id| id.component().name()).collect::<Vec<_>>();
    assert_eq!(names(&cluster()).len(), ComponentId::ALL.len());
    assert!(!names(&workerless()).contains(&"kube-scheduler"));
    for without in [workerless(), direct()] {
        assert!(!names(&without).contains(&"vpn-seed-server"));
    }
    for one in existing(&cluster()).map(ComponentId::component) {
        let also = one.conditions().contains(&"APIServerAvailable");
        assert!(one.conditions().contains(&"ControlPlaneHealthy"), "{}", one.name());
        assert_eq!(also, one.name() == "kube-apiserver");
        assert_eq!(one.workload() == Workload::StatefulSet, one.place() == Place::Etcd);
    }
}

fn listing(list: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(INVENTORY.to_owned(), list.to_owned())])
}

fn reference(kind: ObjectKind, name: &str) -> Reference {
    Reference {
        kind,
        name: name.to_owned(),
    }
}

#[test]
fn an_object_that_is_no_longer_made_is_obsolete() {
    for component in all() {
        let wanted = built(component, &cluster(), Power::Awake);
        let now = workload_of(component, &wanted);
        assert_eq!(obsolete(now.metadata().annotations.as_ref(), &wanted), []);
        let own = component.workload().reference(component.name());
        let mut lists = vec!["Role/of-an-older-version".to_owned(), own.to_string()];
        lists.extend(
            inventory(now.metadata().annotations.as_ref())
                .iter()
                .map(ToString::to_string),
        );
        let old = listing(&lists.join(","));
        let expected = [reference(ObjectKind::Role, "of-an-older-version")];
        assert_eq!(obsolete(Some(&old), &wanted), expected, "{}", component.name());
    }
}

#[test]
fn an_inventory_that_cannot_be_read_deletes_nothing() {
    let wanted = built(ComponentId::EtcdMain.component(), &cluster(), Power::Awake);
    for list in [
        "",
        ",",
        "Service",
        "Service/",
        "Service/a/b",
        "Service/x,",
        "Service/x,Secret/y",
        "Service/x,service/y",
        "Service/x Service/y/",
    ] {
        assert_eq!(obsolete(Some(&listing(list)), &wanted), [], "{list:?}");
    }
    assert_eq!(obsolete(None, &wanted), []);
    assert_eq!(obsolete(Some(&BTreeMap::new()), &wanted), []);
}

#[test]
fn removal_deletes_unlisted_objects_first_and_early_ones_never() {
    let of = |id: ComponentId, present: Option<&BTreeMap<String, String>>| -> Vec<String> {
        let Removal { listed, built } = removal(id.component(), &cluster(), present).unwrap();
        listed.iter().chain(&built).map(ToString::to_string).collect()
    };
    let present = listing("Service/old,Service/etcd-main-client");
    assert_eq!(
        of(ComponentId::EtcdMain, Some(&present)),
        [
            "Service/old",
            "StatefulSet/etcd-main",
            "PodDisruptionBudget/etcd-main",
            "Service/etcd-main-peer",
            "Service/etcd-main-client"
        ]
    );
    assert_eq!(
        of(ComponentId::ApiServer, Some(&listing("Service/kube-apiserver"))),
        [
            "Deployment/kube-apiserver",
            "ConfigMap/kube-apiserver-egress-selector-config",
            "PodDisruptionBudget/kube-apiserver"
        ]
    );
    for id in ComponentId::ALL {
        assert!(!of(*id, None).is_empty());
    }
}
