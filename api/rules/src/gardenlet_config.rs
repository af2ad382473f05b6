//! Defaults and rules of a GardenletConfiguration inside another object (gardener/gardener v1.150
//! pkg/apis/seedmanagement/v1alpha1/defaults_managedseed.go, pkg/api/config/gardenlet/v1alpha1/validation). Fields that are
//! not named here pass as they are.

use std::collections::BTreeMap;

use api_core::v1beta1::{Seed, SeedTemplate};
use api_meta::RawJson;
use serde_json::{Map, Value, json};

use crate::checks::added;
use crate::seed::{validate_seed, validate_seed_update};
use crate::{FieldError, Path, quantity};

const API_VERSION: &str = "gardenlet.config.gardener.cloud/v1alpha1";
const KIND: &str = "GardenletConfiguration";
/// Shoots that a seed has room for by default.
const SHOOTS: &str = "250";
/// Names of seeds of templates, which the controller sets.
const NAME: &str = "seed";
/// Fields of a seed that its Shoot completes.
const COMPLETED: [&str; 5] = [
    "spec.provider.type",
    "spec.provider.region",
    "spec.networks.pods",
    "spec.networks.services",
    "spec.backup.provider",
];
const LEVELS: [&str; 3] = ["debug", "error", "info"];
const FORMATS: [&str; 2] = ["json", "text"];

/// How the gardenlet gets its access to the garden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// By what its controller makes for it.
    Bootstrapped,
    /// By a kubeconfig, of its own or of the configuration that it is merged with.
    OfItsOwn { merged: bool },
}

/// Completes a configuration; one that is none stays as it is.
pub(crate) fn default(config: &mut Option<RawJson>) {
    let written = config.as_ref().map_or_else(|| json!({}), RawJson::value);
    let Some(mut fields) = read(&written).cloned() else {
        return;
    };
    for (field, value) in [
        ("apiVersion", json!(API_VERSION)),
        ("kind", json!(KIND)),
        ("logLevel", json!("")),
        ("logFormat", json!("")),
        ("server", json!({})),
        ("resources", json!({})),
    ] {
        let field = fields.entry(field).or_insert(Value::Null);
        if field.is_null() {
            *field = value;
        }
    }
    if let Some(resources) = fields.get_mut("resources").and_then(Value::as_object_mut) {
        let capacity = resources.entry("capacity").or_insert(Value::Null);
        if capacity.is_null() {
            *capacity = json!({});
        }
        if let Some(capacity) = capacity.as_object_mut() {
            capacity.entry("shoots").or_insert(json!(SHOOTS));
        }
    }
    let completed = Value::Object(fields);
    if completed != written {
        *config = Some(RawJson::from(completed));
    }
}

/// The fields of a configuration of the known version.
fn read(config: &Value) -> Option<&Map<String, Value>> {
    let is = |field: &str, expected: &str| match &config[field] {
        Value::Null => true,
        value => value == "" || value == expected,
    };
    config
        .as_object()
        .filter(|_| is("apiVersion", API_VERSION) && is("kind", KIND))
}

/// Everything that is wrong with a configuration by itself.
pub(crate) fn validate(path: &Path, config: &RawJson, access: Option<Access>) -> Vec<FieldError> {
    let config = config.value();
    if read(&config).is_none() {
        return vec![path.invalid(
            &config,
            format!("must be a {KIND} of {API_VERSION}; set kind and apiVersion to these, or leave both out"),
        )];
    }
    let mut errors = Vec::new();
    // Gardener names these two without what they stand in.
    for (field, allowed) in [("logLevel", &LEVELS[..]), ("logFormat", &FORMATS)] {
        let word = config[field].as_str().unwrap_or_default();
        if !word.is_empty() && !allowed.contains(&word) {
            errors.push(Path::new(field).not_supported(word, allowed));
        }
    }
    let seed = path.child("seedConfig");
    match template(&seed, &config) {
        Some(Ok(template)) => errors.extend(validate_template(&seed, template)),
        Some(Err(error)) => errors.push(error),
        None => {}
    }
    validate_resources(&mut errors, &path.child("resources.reserved"), &config["resources"]);
    if let Some(ip) = config.pointer("/sni/ingress/serviceExternalIP").and_then(Value::as_str)
        && ip.parse::<std::net::IpAddr>().is_err()
    {
        let path = path.child("sni.ingress.serviceExternalIP");
        errors.push(path.invalid(ip, "must be an IP address; write it as \"192.0.2.1\", or leave it out"));
    }
    for field in [
        "defaultNotReadyTolerationSeconds",
        "defaultUnreachableTolerationSeconds",
    ] {
        let seconds = config["nodeToleration"][field].as_i64();
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 0) {
            let path = path.child("nodeToleration").child(field);
            errors.push(path.invalid(seconds, "must not be negative; take 0 or more"));
        }
    }
    if let (Some(connection), Some(access)) = (config["gardenClientConnection"].as_object(), access) {
        validate_connection(&mut errors, &path.child("gardenClientConnection"), connection, access);
    }
    errors
}

/// Everything that is wrong with a change of a configuration, beyond what is wrong with the new one.
pub(crate) fn validate_update(path: &Path, new: &RawJson, old: &RawJson) -> Vec<FieldError> {
    let path = path.child("seedConfig");
    let seed = |config: &RawJson| template(&path, &config.value()).and_then(Result::ok).map(seed_of);
    let (Some(new), Some(old)) = (seed(new), seed(old)) else {
        return Vec::new();
    };
    let changed = added(validate_seed_update(&new, &old), &validate_seed(&new));
    changed.into_iter().map(|error| error.below(&path)).collect()
}

/// Labels of the seed; nothing where there is no seed.
pub(crate) fn seed_labels(config: &RawJson) -> Option<BTreeMap<String, String>> {
    let template = template(&Path::new("seedConfig"), &config.value())?.ok()?;
    Some(template.metadata.labels.unwrap_or_default())
}

/// The template of the seed, if there is one.
fn template(path: &Path, config: &Value) -> Option<Result<SeedTemplate, FieldError>> {
    let written = config.get("seedConfig").filter(|seed| !seed.is_null())?;
    let read = serde_json::from_value(written.clone());
    Some(read.map_err(|error| {
        path.invalid(
            written,
            format!("must be the template of a Seed: {error}; correct the field that it names"),
        )
    }))
}

fn seed_of(template: SeedTemplate) -> Seed {
    let mut seed = Seed {
        metadata: template.metadata,
        spec: template.spec.unwrap_or_default(),
        status: None,
    };
    seed.metadata.name = Some(NAME.to_owned());
    seed
}

fn validate_template(path: &Path, template: SeedTemplate) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if template.metadata.name.as_ref().is_some_and(|name| !name.is_empty()) {
        let path = path.child("metadata.name");
        errors.push(path.forbidden("the seed is named after this object; leave it out"));
    }
    let seed = seed_of(template);
    let is_missing = |value: &Value| value.is_null() || value == "";
    let is_completed = |error: &FieldError| COMPLETED.contains(&error.path.as_str()) && is_missing(&error.value);
    let of_seed = validate_seed(&seed).into_iter().filter(|error| !is_completed(error));
    errors.extend(of_seed.map(|error| error.below(path)));
    errors
}

fn validate_resources(errors: &mut Vec<FieldError>, path: &Path, resources: &Value) {
    let size = |value: &Value| quantity::value(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let reserved = resources["reserved"].as_object().into_iter().flatten();
    for (name, reserved) in reserved {
        let path = path.child(name);
        match resources["capacity"].get(name) {
            None => errors.push(path.invalid(
                reserved,
                "has no capacity from which it could be reserved; set resources.capacity",
            )),
            Some(capacity) if size(reserved) > size(capacity) => {
                errors.push(path.invalid(
                    reserved,
                    format!("must not be above the capacity, {capacity}; lower it, or raise the capacity"),
                ));
            }
            Some(_) => {}
        }
    }
}

fn validate_connection(errors: &mut Vec<FieldError>, path: &Path, connection: &Map<String, Value>, access: Access) {
    let is_set = |field: &str| {
        connection
            .get(field)
            .is_some_and(|value| !value.is_null() && value != "")
    };
    match access {
        Access::Bootstrapped if is_set("kubeconfig") => {
            let path = path.child("kubeconfig");
            errors.push(path.forbidden("the gardenlet is bootstrapped; leave it out, or set bootstrap to None"));
        }
        Access::Bootstrapped => {}
        Access::OfItsOwn { merged } => {
            if !merged && !is_set("kubeconfig") {
                let words = "name it, or set bootstrap or mergeWithParent";
                errors.push(path.child("kubeconfig").required(words));
            }
            for field in ["bootstrapKubeconfig", "kubeconfigSecret"] {
                if is_set(field) {
                    let words = "the gardenlet is not bootstrapped; leave it out, or set bootstrap";
                    errors.push(path.child(field).forbidden(words));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(config: Value, access: Option<Access>) -> Vec<String> {
        let errors = validate(&Path::new("config"), &RawJson::from(config), access);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn a_configuration_is_completed_once_and_one_of_another_kind_never() {
        let completed = |config: Option<Value>| {
            let mut config = config.map(RawJson::from);
            default(&mut config);
            let once = config.clone();
            default(&mut config);
            assert_eq!(config, once);
            config.map(|config| config.value())
        };
        let all = completed(None).unwrap();
        assert_eq!(all["resources"], json!({"capacity": {"shoots": "250"}}));
        assert_eq!((&all["kind"], &all["server"]), (&json!(KIND), &json!({})));
        let own = json!({"apiVersion": API_VERSION, "kind": KIND, "resources": {"capacity": {"shoots": 10}}, "x": 1});
        let own = completed(Some(own)).unwrap();
        assert_eq!(own["resources"]["capacity"]["shoots"], 10);
        assert_eq!(own["x"], 1);
        let other = json!({"kind": "Other"});
        assert_eq!(completed(Some(other.clone())), Some(other));
    }

    #[test]
    fn each_rule_names_its_field() {
        assert_eq!(paths(json!({}), None), [""; 0]);
        let capacity = |reserved: Value| json!({"resources": {"capacity": {"shoots": "10"}, "reserved": reserved}});
        for (config, path) in [
            (json!("text"), "config"),
            (json!({"kind": "Other"}), "config"),
            (json!({"apiVersion": "v1"}), "config"),
            (json!({"logLevel": "loud"}), "logLevel"),
            (json!({"logFormat": "xml"}), "logFormat"),
            (capacity(json!({"shoots": "11"})), "config.resources.reserved.shoots"),
            (capacity(json!({"cpu": "1"})), "config.resources.reserved.cpu"),
            (
                json!({"sni": {"ingress": {"serviceExternalIP": "x"}}}),
                "config.sni.ingress.serviceExternalIP",
            ),
            (
                json!({"nodeToleration": {"defaultNotReadyTolerationSeconds": -1}}),
                "config.nodeToleration.defaultNotReadyTolerationSeconds",
            ),
            (json!({"seedConfig": {"spec": "x"}}), "config.seedConfig"),
        ] {
            assert_eq!(paths(config, None), [path]);
        }
        assert_eq!(paths(capacity(json!({"shoots": "10"})), None), [""; 0]);
    }

    #[test]
    fn a_gardenlet_has_one_way_into_the_garden() {
        let with = |field: &str, access| {
            let value = if field == "kubeconfig" {
                json!("/k")
            } else {
                json!({"name": "s"})
            };
            paths(json!({"gardenClientConnection": {field: value}}), Some(access))
        };
        let own = |merged| Access::OfItsOwn { merged };
        let at = |field: &str| vec![format!("config.gardenClientConnection.{field}")];
        assert_eq!(with("kubeconfig", Access::Bootstrapped), at("kubeconfig"));
        assert_eq!(with("kubeconfigSecret", Access::Bootstrapped), [""; 0]);
        assert_eq!(with("kubeconfig", own(false)), [""; 0]);
        assert_eq!(with("gardenClusterAddress", own(false)), at("kubeconfig"));
        assert_eq!(with("gardenClusterAddress", own(true)), [""; 0]);
        for field in ["bootstrapKubeconfig", "kubeconfigSecret"] {
            assert_eq!(with(field, own(true)), at(field));
        }
    }

    #[test]
    fn a_seed_is_validated_except_for_fields_its_shoot_completes() {
        let dns = json!({"internal": {"type": "t", "domain": "d.example",
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"}}});
        let seed = |change: fn(&mut Value)| {
            let mut seed = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"dns": dns}});
            change(&mut seed);
            json!({ "seedConfig": seed })
        };
        let checked = |change| paths(seed(change), None);
        assert_eq!(checked(|_| ()), [""; 0]);
        assert_eq!(
            checked(|seed| seed["metadata"]["name"] = json!("s")),
            ["config.seedConfig.metadata.name"]
        );
        assert_eq!(
            checked(|seed| seed["spec"]["taints"] = json!([{"key": ""}])),
            ["config.seedConfig.spec.taints[0].key"]
        );
        assert_eq!(
            checked(|seed| seed["spec"]["networks"] = json!({"pods": "x"})),
            ["config.seedConfig.spec.networks.pods"]
        );
        let update = |new: fn(&mut Value), old: fn(&mut Value)| -> Vec<String> {
            let (new, old) = (RawJson::from(seed(new)), RawJson::from(seed(old)));
            let errors = validate_update(&Path::new("config"), &new, &old);
            errors.into_iter().map(|error| error.path).collect()
        };
        assert_eq!(update(|_| (), |_| ()), [""; 0]);
        assert_eq!(
            update(
                |seed| seed["spec"]["networks"] = json!({"pods": "10.1.0.0/16"}),
                |seed| seed["spec"]["networks"] = json!({"pods": "10.2.0.0/16"}),
            ),
            ["config.seedConfig.spec.networks.pods"]
        );
    }
}
