//! What `kubectl get` prints for each kind, as Gardener's table convertors do
//! (gardener/gardener v1.150 pkg/apiserver/registry/*/*/storage/tableconvertor.go). It never changes an object.

use cluster_apiserver::kind::Column;
use serde_json::{Value, json};

use crate::convert::text;
use crate::typed::Print;

type Cell = fn(&Value) -> Value;

/// A column of names, and its cell.
fn name(heading: &str, cell: Cell) -> (Column, Cell) {
    let column = Column {
        name: heading.to_owned(),
        type_: "string".to_owned(),
        format: "name".to_owned(),
        ..Column::default()
    };
    (column, cell)
}

/// As [`name`], without a format.
fn plain(heading: &str, cell: Cell) -> (Column, Cell) {
    let (mut column, cell) = name(heading, cell);
    column.format = String::new();
    (column, cell)
}

/// As [`name`], for `-o wide` alone.
fn wide(heading: &str, cell: Cell) -> (Column, Cell) {
    let (mut column, cell) = name(heading, cell);
    column.priority = 1;
    (column, cell)
}

fn age() -> (Column, Cell) {
    let (mut column, cell) = plain("Age", |object| object["metadata"]["creationTimestamp"].clone());
    column.type_ = "date".to_owned();
    column.json_path = ".metadata.creationTimestamp".to_owned();
    (column, cell)
}

/// These columns, then the age.
fn with_age(columns: impl IntoIterator<Item = (Column, Cell)>) -> Print {
    print(columns.into_iter().chain([age()]))
}

fn print(columns: impl IntoIterator<Item = (Column, Cell)>) -> Print {
    let (mut columns, cells): (Vec<Column>, Vec<Cell>) = columns.into_iter().unzip();
    for column in columns.iter_mut().filter(|column| column.json_path.is_empty()) {
        // The cells are computed without the path; it still has to be valid.
        column.json_path = ".metadata.name".to_owned();
    }
    Print { columns, cells }
}

fn unknown(text: &str) -> Value {
    or(text, "<unknown>")
}

fn or(text: &str, instead: &str) -> Value {
    json!(if text.is_empty() { instead } else { text })
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    unknown(found.map_or("", |condition| text(condition, "/status")))
}

/// Shoots: CLOUDPROFILE PROVIDER REGION K8S VERSION HIBERNATION LAST OPERATION STATUS ... AGE.
pub(crate) fn shoots() -> Print {
    with_age([
        name("CloudProfile", cloud_profile),
        name("Provider", |shoot| json!(text(shoot, "/spec/provider/type"))),
        name("Region", |shoot| json!(text(shoot, "/spec/region"))),
        wide("Seed", |shoot| or(text(shoot, "/spec/seedName"), "<none>")),
        name("K8S Version", |shoot| json!(text(shoot, "/spec/kubernetes/version"))),
        name("Hibernation", |shoot| json!(hibernation(shoot))),
        name("Last Operation", last_operation),
        name("Status", |shoot| {
            let status = &shoot["metadata"]["labels"][api_meta::labels::SHOOT_STATUS];
            or(status.as_str().unwrap_or_default(), "<pending>")
        }),
        wide("Purpose", |shoot| or(text(shoot, "/spec/purpose"), "<none>")),
        wide("Gardener Version", |shoot| {
            unknown(text(shoot, "/status/gardener/version"))
        }),
        wide("APIServer", |shoot| condition(shoot, "APIServerAvailable")),
        wide("Control", |shoot| condition(shoot, "ControlPlaneHealthy")),
        wide("Observability", |shoot| {
            condition(shoot, "ObservabilityComponentsHealthy")
        }),
        wide("Nodes", |shoot| condition(shoot, "EveryNodeReady")),
        wide("System", |shoot| condition(shoot, "SystemComponentsHealthy")),
    ])
}

fn cloud_profile(shoot: &Value) -> Value {
    let named = text(shoot, "/spec/cloudProfile/name");
    if text(shoot, "/spec/cloudProfile/kind") == "NamespacedCloudProfile" {
        return json!(format!("{}/{named}", text(shoot, "/metadata/namespace")));
    }
    json!(if named.is_empty() {
        text(shoot, "/spec/cloudProfileName")
    } else {
        named
    })
}

fn hibernation(shoot: &Value) -> &'static str {
    let is_on = |pointer: &str| shoot.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
    match (is_on("/spec/hibernation/enabled"), is_on("/status/hibernated")) {
        (true, true) => "Hibernated",
        (true, false) => "Hibernating",
        (false, true) => "Waking Up",
        (false, false) => "Awake",
    }
}

/// `Create Processing (43%)`.
fn last_operation(object: &Value) -> Value {
    let operation = &object["status"]["lastOperation"];
    let (kind, state) = (text(operation, "/type"), text(operation, "/state"));
    if kind.is_empty() && state.is_empty() {
        return json!("<pending>");
    }
    let progress = operation["progress"].as_i64().unwrap_or_default();
    json!(format!("{kind} {state} ({progress}%)"))
}

/// Seeds: STATUS LAST OPERATION PROVIDER REGION AGE VERSION K8S VERSION.
pub(crate) fn seeds() -> Print {
    print([
        name("Status", |seed| json!(seed_state(seed))),
        name("Last Operation", last_operation),
        name("Provider", |seed| json!(text(seed, "/spec/provider/type"))),
        name("Region", |seed| json!(text(seed, "/spec/provider/region"))),
        age(),
        name("Version", |seed| unknown(text(seed, "/status/gardener/version"))),
        name("K8S Version", |seed| unknown(text(seed, "/status/kubernetesVersion"))),
    ])
}

/// A seed is ready when its gardenlet, its components and its backup buckets are.
fn seed_state(seed: &Value) -> &'static str {
    let is = |kind: &str, state: &str| condition(seed, kind) == state;
    let backs_up = seed.pointer("/spec/backup").is_some_and(|backup| !backup.is_null());
    if condition_is_there(seed, "GardenletReady") && is("GardenletReady", "Unknown") {
        "Unknown"
    } else if is("GardenletReady", "True")
        && is("SeedSystemComponentsHealthy", "True")
        && (!backs_up || is("BackupBucketsReady", "True"))
    {
        "Ready"
    } else {
        "NotReady"
    }
}

fn condition_is_there(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind)
}

/// Projects: NAMESPACE STATUS OWNER CREATOR AGE.
pub(crate) fn projects() -> Print {
    with_age([
        name("Namespace", |project| unknown(text(project, "/spec/namespace"))),
        name("Status", |project| unknown(text(project, "/status/phase"))),
        name("Owner", |project| unknown(text(project, "/spec/owner/name"))),
        name("Creator", |project| unknown(text(project, "/spec/createdBy/name"))),
    ])
}

/// Cloud profiles: PROVIDER AGE.
pub(crate) fn cloud_profiles() -> Print {
    with_age([name("Provider", |profile| json!(text(profile, "/spec/type")))])
}

/// Cloud profiles of projects: PARENT NAME PARENT KIND AGE.
pub(crate) fn namespaced_cloud_profiles() -> Print {
    with_age([
        name("Parent Name", |profile| json!(text(profile, "/spec/parent/name"))),
        name("Parent Kind", |profile| json!(text(profile, "/spec/parent/kind"))),
    ])
}

/// Exposure classes: HANDLER AGE.
pub(crate) fn exposure_classes() -> Print {
    with_age([name("Handler", |class| json!(text(class, "/handler")))])
}

/// Installations: REGISTRATION CLUSTER VALID INSTALLED HEALTHY PROGRESSING AGE.
pub(crate) fn installations() -> Print {
    with_age([
        name("Registration", |object| {
            json!(text(object, "/spec/registrationRef/name"))
        }),
        name("Cluster", |object| {
            let shoot = text(object, "/spec/shootRef/name");
            match (shoot, text(object, "/spec/seedRef/name")) {
                ("", "") => json!("<unknown>"),
                ("", seed) => json!(format!("Seed/{seed}")),
                (shoot, _) => json!(format!("Shoot/{}/{shoot}", text(object, "/spec/shootRef/namespace"))),
            }
        }),
        name("Valid", |object| condition(object, "Valid")),
        name("Installed", |object| condition(object, "Installed")),
        name("Healthy", |object| condition(object, "Healthy")),
        name("Progressing", |object| condition(object, "Progressing")),
    ])
}

/// Registrations: RESOURCES AGE, the resources as `Kind/type` in order of the object.
pub(crate) fn registrations() -> Print {
    with_age([name("Resources", |registration| {
        let resources = registration.pointer("/spec/resources").and_then(Value::as_array);
        let names: Vec<String> = resources
            .into_iter()
            .flatten()
            .map(|resource| format!("{}/{}", text(resource, "/kind"), text(resource, "/type")))
            .collect();
        json!(names.join(", "))
    })])
}

/// Deployments of extensions: AGE.
pub(crate) fn deployments() -> Print {
    with_age([])
}

/// Backup buckets: PROVIDER SEED OPERATION PROGRESS AGE.
pub(crate) fn backup_buckets() -> Print {
    with_age([
        name("Provider", |bucket| json!(text(bucket, "/spec/provider/type"))),
        name("Seed", |bucket| json!(text(bucket, "/spec/seedName"))),
        name("Operation", |bucket| {
            or(text(bucket, "/status/lastOperation/state"), "<pending>")
        }),
        name("Progress", progress),
    ])
}

/// Backup entries: BUCKET SEED OPERATION PROGRESS AGE.
pub(crate) fn backup_entries() -> Print {
    with_age([
        name("Bucket", |entry| json!(text(entry, "/spec/bucketName"))),
        name("Seed", |entry| json!(text(entry, "/spec/seedName"))),
        name("Operation", |entry| {
            or(text(entry, "/status/lastOperation/state"), "<pending>")
        }),
        name("Progress", progress),
    ])
}

fn progress(object: &Value) -> Value {
    json!(
        object["status"]["lastOperation"]["progress"]
            .as_i64()
            .unwrap_or_default()
    )
}

/// Shoot states: GARDENER DATA EXTENSION STATES AGE, as numbers.
pub(crate) fn shoot_states() -> Print {
    let columns: [(Column, Cell); 2] = [
        plain("Gardener Data", |state| length(state, "/spec/gardener")),
        plain("Extension States", |state| length(state, "/spec/extensions")),
    ];
    with_age(columns)
}

fn length(object: &Value, pointer: &str) -> Value {
    let found = object.pointer(pointer);
    let entries = found.and_then(Value::as_array).map(Vec::len);
    let fields = found.and_then(Value::as_object).map(serde_json::Map::len);
    json!(entries.or(fields).unwrap_or_default())
}

/// Secret bindings: SECRET PROVIDER AGE.
pub(crate) fn secret_bindings() -> Print {
    with_age([
        name("Secret", |binding| {
            json!(format!(
                "{}/{}",
                text(binding, "/secretRef/namespace"),
                text(binding, "/secretRef/name")
            ))
        }),
        name("Provider", |binding| or(text(binding, "/provider/type"), "<none>")),
    ])
}

/// Credentials bindings: PROVIDER APIVERSION KIND NAME AGE.
pub(crate) fn credentials_bindings() -> Print {
    with_age([
        plain("Provider", |binding| json!(text(binding, "/provider/type"))),
        name("APIVersion", |binding| {
            json!(text(binding, "/credentialsRef/apiVersion"))
        }),
        name("Kind", |binding| json!(text(binding, "/credentialsRef/kind"))),
        name("Name", |binding| {
            let part = |field: &str| text(binding, field).to_owned();
            json!(part("/credentialsRef/namespace") + "/" + &part("/credentialsRef/name"))
        }),
    ])
}

/// Workload identities: SUB TYPE AGE.
pub(crate) fn workload_identities() -> Print {
    with_age([
        name("Sub", |identity| json!(text(identity, "/status/sub"))),
        plain("Type", |identity| json!(text(identity, "/spec/targetSystem/type"))),
        wide("Audiences", |identity| {
            let audiences = identity.pointer("/spec/audiences").and_then(Value::as_array);
            let audiences: Vec<&str> = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
            json!(audiences.join(","))
        }),
    ])
}

/// Internal secrets: TYPE DATA AGE.
pub(crate) fn internal_secrets() -> Print {
    with_age([
        plain("Type", |secret| json!(text(secret, "/type"))),
        plain("Data", |secret| length(secret, "/data")),
    ])
}

/// Quotas: SCOPE CLUSTER LIFETIME AGE.
pub(crate) fn quotas() -> Print {
    with_age([
        name("Scope", |quota| {
            json!(format!(
                "{}.{}",
                text(quota, "/spec/scope/apiVersion"),
                text(quota, "/spec/scope/kind")
            ))
        }),
        name("Cluster Lifetime", |quota| {
            match quota["spec"]["clusterLifetimeDays"].as_i64() {
                Some(days) => json!(format!("{days} days")),
                None => json!("<unspecified>"),
            }
        }),
    ])
}

/// Bastions: SHOOT SEED IP AGE.
pub(crate) fn bastions() -> Print {
    with_age([
        name("Shoot", |bastion| json!(text(bastion, "/spec/shootRef/name"))),
        name("Seed", |bastion| or(text(bastion, "/spec/seedName"), "<pending>")),
        name("IP", |bastion| match text(bastion, "/status/ingress/hostname") {
            "" => or(text(bastion, "/status/ingress/ip"), "<pending>"),
            host => json!(host),
        }),
    ])
}

/// Managed seeds: STATUS SHOOT AGE.
pub(crate) fn managed_seeds() -> Print {
    with_age([
        name("Status", |seed| {
            json!(match condition(seed, "SeedRegistered").as_str() {
                Some("True") => "Registered",
                Some("<unknown>" | "Unknown") | None => "Unknown",
                Some(_) => "NotRegistered",
            })
        }),
        name("Shoot", |seed| json!(text(seed, "/spec/shoot/name"))),
    ])
}

/// Sets of managed seeds: READY PENDING AGE.
pub(crate) fn managed_seed_sets() -> Print {
    with_age([
        name("Ready", |set| {
            let number = |pointer: &str| set.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
            json!(format!(
                "{}/{}",
                number("/status/readyReplicas"),
                number("/spec/replicas")
            ))
        }),
        name("Pending", |set| {
            let part = |field: &str| text(set, &format!("/status/pendingReplica/{field}"));
            match part("name") {
                "" => json!(""),
                name => json!(format!("{name}:{}", part("reason"))),
            }
        }),
    ])
}

/// Gardenlets: OCI REPOSITORY RECONCILED AGE.
pub(crate) fn gardenlets() -> Print {
    with_age([
        name("OCI Repository", |gardenlet| json!(artefact(gardenlet))),
        name("Reconciled", |gardenlet| condition(gardenlet, "GardenletReconciled")),
    ])
}

/// The reference of a gardenlet's chart; a digest goes before a tag.
fn artefact(gardenlet: &Value) -> String {
    let part = |field: &str| text(gardenlet, &format!("/spec/deployment/helm/ociRepository/{field}"));
    let reference = match (part("ref"), part("digest"), part("tag")) {
        ("", "", "") => String::new(),
        ("", "", tag) => format!("{}:{tag}", part("repository")),
        ("", digest, _) => format!("{}@{digest}", part("repository")),
        (reference, _, _) => reference.to_owned(),
    };
    reference.strip_prefix("oci://").unwrap_or(&reference).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(print: &Print, object: &Value) -> Vec<Value> {
        print.cells.iter().map(|cell| cell(object)).collect()
    }

    #[test]
    fn a_shoot_prints_its_operation_and_its_sleep() {
        let mut shoot = json!({"metadata": {"labels": {"shoot.gardener.cloud/status": "healthy"}},
            "spec": {"cloudProfile": {"name": "p"}, "provider": {"type": "t"}, "region": "r",
                "kubernetes": {"version": "1.35.0"}},
            "status": {"lastOperation": {"type": "Create", "state": "Processing", "progress": 43}}});
        let row = [
            "p",
            "t",
            "r",
            "<none>",
            "1.35.0",
            "Awake",
            "Create Processing (43%)",
            "healthy",
        ];
        assert_eq!(cells(&shoots(), &shoot)[..8], row.map(|cell| json!(cell)));
        let states = [
            (json!({"enabled": true}), true, "Hibernated"),
            (json!({"enabled": true}), false, "Hibernating"),
            (json!({"enabled": false}), true, "Waking Up"),
            (json!({"schedules": [{"start": "0 20 * * *"}]}), true, "Waking Up"),
            (json!({"enabled": false}), false, "Awake"),
            (Value::Null, false, "Awake"),
        ];
        for (wanted, hibernated, word) in states {
            shoot["spec"]["hibernation"] = wanted;
            shoot["status"]["hibernated"] = json!(hibernated);
            assert_eq!(cells(&shoots(), &shoot)[5], word);
        }
        assert_eq!(cells(&shoots(), &json!({}))[6], "<pending>");
    }

    #[test]
    fn a_managed_seed_prints_its_registration_and_a_gardenlet_its_chart() {
        let registered = |status: &str| {
            let seed = json!({"spec": {"shoot": {"name": "s"}},
                "status": {"conditions": [{"type": "SeedRegistered", "status": status}]}});
            cells(&managed_seeds(), &seed)[0].clone()
        };
        assert_eq!(registered("True"), "Registered");
        assert_eq!(registered("Unknown"), "Unknown");
        assert_eq!(registered("False"), "NotRegistered");
        assert_eq!(
            cells(&managed_seeds(), &json!({}))[..2],
            ["Unknown", ""].map(|cell| json!(cell))
        );
        let set = json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1,
            "pendingReplica": {"name": "s-1", "reason": "SeedNotReady"}}});
        assert_eq!(
            cells(&managed_seed_sets(), &set)[..2],
            ["1/2", "s-1:SeedNotReady"].map(|cell| json!(cell))
        );
        assert_eq!(cells(&managed_seed_sets(), &json!({}))[1], "");
        let chart = |repository: Value| {
            let gardenlet = json!({"spec": {"deployment": {"helm": {"ociRepository": repository}}}});
            cells(&gardenlets(), &gardenlet)[0].clone()
        };
        assert_eq!(chart(json!({"ref": "oci://r:1"})), "r:1");
        assert_eq!(chart(json!({"repository": "r", "tag": "1"})), "r:1");
        assert_eq!(
            chart(json!({"repository": "r", "tag": "1", "digest": "sha256:a"})),
            "r@sha256:a"
        );
    }

    #[test]
    fn a_seed_is_ready_when_its_gardenlet_and_its_components_are() {
        let state = |seed: &Value| cells(&seeds(), seed)[0].clone();
        assert_eq!(state(&json!({})), "NotReady");
        let mut seed = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True"},
            {"type": "SeedSystemComponentsHealthy", "status": "True"}]}});
        assert_eq!(state(&seed), "Ready");
        seed["spec"]["backup"] = json!({"provider": "x"});
        assert_eq!(state(&seed), "NotReady");
        seed["status"]["conditions"][0]["status"] = json!("Unknown");
        assert_eq!(state(&seed), "Unknown");
    }
}
