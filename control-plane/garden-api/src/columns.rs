//! What `kubectl get` prints for each kind, as Gardener's table convertors do
//! (gardener/gardener v1.150 pkg/apiserver/registry/core/*/storage/tableconvertor.go). It never changes an object.

use cluster_apiserver::kind::Column;
use serde_json::{Value, json};

use crate::convert::text;
use crate::typed::Print;

fn column(name: &str, path: &str) -> Column {
    let type_ = if name == "Age" { "date" } else { "string" };
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        ..Column::default()
    }
}

fn wide(name: &str, path: &str) -> Column {
    Column {
        priority: 1,
        ..column(name, path)
    }
}

fn age() -> Column {
    column("Age", ".metadata.creationTimestamp")
}

/// Columns found by paths, then the age.
pub(crate) fn by_paths(columns: &[(&str, &str)]) -> Print {
    let mut columns: Vec<Column> = columns.iter().map(|(name, path)| column(name, path)).collect();
    columns.push(age());
    Print { columns, cells: None }
}

/// Shoots: CLOUDPROFILE PROVIDER REGION K8S VERSION HIBERNATION LAST OPERATION STATUS ... AGE.
pub(crate) fn shoots() -> Print {
    let columns = vec![
        column("CloudProfile", ".spec.cloudProfile.name"),
        column("Provider", ".spec.provider.type"),
        column("Region", ".spec.region"),
        column("K8S Version", ".spec.kubernetes.version"),
        column("Hibernation", ".status.hibernated"),
        column("Last Operation", ".status.lastOperation.state"),
        column("Status", ".metadata.labels.shoot\\.gardener\\.cloud/status"),
        wide("Purpose", ".spec.purpose"),
        wide("Gardener Version", ".status.gardener.version"),
        wide(
            "APIServer",
            ".status.conditions[?(@.type==\"APIServerAvailable\")].status",
        ),
        wide(
            "Control",
            ".status.conditions[?(@.type==\"ControlPlaneHealthy\")].status",
        ),
        wide(
            "Observability",
            ".status.conditions[?(@.type==\"ObservabilityComponentsHealthy\")].status",
        ),
        wide("Nodes", ".status.conditions[?(@.type==\"EveryNodeReady\")].status"),
        wide(
            "System",
            ".status.conditions[?(@.type==\"SystemComponentsHealthy\")].status",
        ),
        age(),
    ];
    Print {
        columns,
        cells: Some(shoot_cells),
    }
}

fn shoot_cells(shoot: &Value) -> Vec<Value> {
    let profile = match text(shoot, "/spec/cloudProfile/name") {
        "" => text(shoot, "/spec/cloudProfileName"),
        name => name,
    };
    vec![
        known(profile),
        known(text(shoot, "/spec/provider/type")),
        known(text(shoot, "/spec/region")),
        known(text(shoot, "/spec/kubernetes/version")),
        hibernation(shoot).into(),
        last_operation(shoot).into(),
        known(
            shoot["metadata"]["labels"][api_meta::labels::SHOOT_STATUS]
                .as_str()
                .unwrap_or_default(),
        ),
        known(text(shoot, "/spec/purpose")),
        known(text(shoot, "/status/gardener/version")),
        condition(shoot, "APIServerAvailable"),
        condition(shoot, "ControlPlaneHealthy"),
        condition(shoot, "ObservabilityComponentsHealthy"),
        condition(shoot, "EveryNodeReady"),
        condition(shoot, "SystemComponentsHealthy"),
        shoot["metadata"]["creationTimestamp"].clone(),
    ]
}

fn known(text: &str) -> Value {
    if text.is_empty() {
        json!("<unknown>")
    } else {
        json!(text)
    }
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    known(found.map_or("", |condition| text(condition, "/status")))
}

fn hibernation(shoot: &Value) -> &'static str {
    let wanted = shoot
        .pointer("/spec/hibernation/enabled")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let is = shoot
        .pointer("/status/hibernated")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    match (wanted, is) {
        (true, true) => "Hibernated",
        (true, false) => "Hibernating",
        (false, true) => "Waking Up",
        (false, false) => "Awake",
    }
}

/// `Create Processing (43%)`.
fn last_operation(shoot: &Value) -> String {
    let operation = &shoot["status"]["lastOperation"];
    let (kind, state) = (text(operation, "/type"), text(operation, "/state"));
    if kind.is_empty() && state.is_empty() {
        return "<pending>".to_owned();
    }
    format!(
        "{kind} {state} ({}%)",
        operation["progress"].as_i64().unwrap_or_default()
    )
}

/// Seeds: STATUS LAST OPERATION PROVIDER REGION AGE VERSION K8S VERSION.
pub(crate) fn seeds() -> Print {
    let columns = vec![
        column("Status", ".status.conditions[?(@.type==\"GardenletReady\")].status"),
        column("Last Operation", ".status.lastOperation.state"),
        column("Provider", ".spec.provider.type"),
        column("Region", ".spec.provider.region"),
        age(),
        column("Version", ".status.gardener.version"),
        column("K8S Version", ".status.kubernetesVersion"),
    ];
    Print {
        columns,
        cells: Some(seed_cells),
    }
}

fn seed_cells(seed: &Value) -> Vec<Value> {
    let status = |kind: &str| condition(seed, kind);
    let states: Vec<Value> = ["GardenletReady", "SeedSystemComponentsHealthy"]
        .into_iter()
        .map(status)
        .collect();
    let backup = seed.pointer("/spec/backup").is_none_or(Value::is_null) || status("BackupBucketsReady") == "True";
    let ready = if states.iter().any(|state| state == "False") || !backup && status("BackupBucketsReady") == "False" {
        "NotReady"
    } else if states.iter().all(|state| state == "True") && backup {
        "Ready"
    } else {
        "Unknown"
    };
    vec![
        json!(ready),
        last_operation(seed).into(),
        known(text(seed, "/spec/provider/type")),
        known(text(seed, "/spec/provider/region")),
        seed["metadata"]["creationTimestamp"].clone(),
        known(text(seed, "/status/gardener/version")),
        known(text(seed, "/status/kubernetesVersion")),
    ]
}

/// Installations: REGISTRATION SEED VALID INSTALLED HEALTHY PROGRESSING AGE.
pub(crate) fn installations() -> Print {
    let state = |kind: &str| format!(".status.conditions[?(@.type==\"{kind}\")].status");
    by_paths(&[
        ("Registration", ".spec.registrationRef.name"),
        ("Seed", ".spec.seedRef.name"),
        ("Valid", &state("Valid")),
        ("Installed", &state("Installed")),
        ("Healthy", &state("Healthy")),
        ("Progressing", &state("Progressing")),
    ])
}

/// Registrations: RESOURCES AGE, the resources as `Kind/type` in order of the object.
pub(crate) fn registrations() -> Print {
    Print {
        columns: vec![column("Resources", ".spec.resources[*].kind"), age()],
        cells: Some(registration_cells),
    }
}

fn registration_cells(registration: &Value) -> Vec<Value> {
    let resources = registration.pointer("/spec/resources").and_then(Value::as_array);
    let names: Vec<String> = resources
        .into_iter()
        .flatten()
        .map(|resource| format!("{}/{}", text(resource, "/kind"), text(resource, "/type")))
        .collect();
    vec![
        names.join(",").into(),
        registration["metadata"]["creationTimestamp"].clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shoot_prints_its_operation_and_its_sleep() {
        let mut shoot = json!({"metadata": {"labels": {"shoot.gardener.cloud/status": "healthy"}},
            "spec": {"cloudProfile": {"name": "p"}, "provider": {"type": "t"}, "region": "r",
                "kubernetes": {"version": "1.35.0"}},
            "status": {"lastOperation": {"type": "Create", "state": "Processing", "progress": 43}}});
        let cells = shoot_cells(&shoot);
        assert_eq!(
            cells[..7],
            [
                json!("p"),
                json!("t"),
                json!("r"),
                json!("1.35.0"),
                json!("Awake"),
                json!("Create Processing (43%)"),
                json!("healthy")
            ]
        );
        assert_eq!(cells.len(), shoots().columns.len());
        shoot["spec"]["hibernation"] = json!({"enabled": true});
        assert_eq!(shoot_cells(&shoot)[4], "Hibernating");
        assert_eq!(shoot_cells(&json!({}))[5], "<pending>");
    }

    #[test]
    fn a_seed_is_ready_when_its_gardenlet_and_its_components_are() {
        let mut seed = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True"}]}});
        assert_eq!(seed_cells(&seed)[0], "Unknown");
        seed["status"]["conditions"]
            .as_array_mut()
            .expect("a list")
            .push(json!({"type": "SeedSystemComponentsHealthy", "status": "True"}));
        assert_eq!(seed_cells(&seed)[0], "Ready");
        assert_eq!(seed_cells(&seed).len(), seeds().columns.len());
        seed["spec"]["backup"] = json!({"provider": "x"});
        assert_eq!(seed_cells(&seed)[0], "Unknown");
        seed["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(seed_cells(&seed)[0], "NotReady");
    }
}
