//! The fields of a Shoot's spec that have no effect yet. Fields that promise safety, isolation or savings are refused;
//! the others are stored and answered with a warning, so that manifests carry over.

use api_core::v1beta1::{Shoot, Worker};
use api_rules::{ShootDefaults, default_shoot};
use cluster_apiserver::schema::FieldError;
use jiff::Timestamp;
use serde_json::Value;

/// How a field is answered that asks for something still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// The Shoot is not stored.
    Refused,
    /// It is stored, and whoever wrote it is told.
    Warned,
    /// It is on by default, and told in the documentation alone.
    Told,
}

type Asks = fn(&Value, &Value) -> bool;

/// A field with everything below it.
struct ToCome {
    /// Where it stands; `[]` for each entry of a list.
    path: &'static str,
    /// Whether a value asks for anything, with what it stands in: defaults and empty values do not.
    asks: Asks,
    answer: Answer,
    /// What does not happen yet.
    what: &'static str,
}

const fn to_come(answer: Answer, path: &'static str, asks: Asks, what: &'static str) -> ToCome {
    ToCome {
        path,
        asks,
        answer,
        what,
    }
}

const fn refused(path: &'static str, asks: Asks, what: &'static str) -> ToCome {
    to_come(Answer::Refused, path, asks, what)
}

const fn warned(path: &'static str, asks: Asks, what: &'static str) -> ToCome {
    to_come(Answer::Warned, path, asks, what)
}

const fn told(path: &'static str, what: &'static str) -> ToCome {
    to_come(Answer::Told, path, given, what)
}

const ADDONS: &str = "addons are not installed";
const API_SERVER: &str = "API servers run with settings of their own";
const AUTOSCALER: &str = "pools are not scaled by load";
const CONTROL_PLANE: &str = "control plane components run with settings of their own";
const KUBELET: &str = "kubelets run with settings of their own";
const MAINTENANCE: &str = "nothing is maintained by itself";

const TO_COME: &[ToCome] = &[
    refused("spec.hibernation.enabled", on, "clusters cannot be hibernated"),
    refused("spec.hibernation.schedules", given, "clusters cannot be hibernated"),
    refused(
        "spec.controlPlane.highAvailability",
        given,
        "control planes have one replica",
    ),
    refused(
        "spec.maintenance.confineSpecUpdateRollout",
        on,
        "changes cannot wait for the maintenance window",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.auditConfig",
        given,
        "API servers follow no audit policy",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.encryptionConfig",
        given,
        "etcd's content is not encrypted; the provider aescbc that each Shoot shows is Gardener's default and changes nothing",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.structuredAuthentication",
        given,
        "API servers know no authenticators but their own",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.structuredAuthorization",
        given,
        "API servers know no authorizers but their own",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.admissionPlugins",
        given,
        "API servers take no admission plugins",
    ),
    refused(
        "spec.provider.workers[].cri.containerRuntimes",
        given,
        "machines have no container runtime but containerd",
    ),
    warned("spec.addons.kubernetesDashboard", on, ADDONS),
    warned("spec.addons.nginxIngress", on, ADDONS),
    warned("spec.controlPlane.zones", given, "the seed chooses the zones"),
    warned(
        "spec.exposureClassName",
        given,
        "beyond the choice of a seed, API servers are exposed in one way only",
    ),
    warned("spec.monitoring", given, "no alerts are sent"),
    warned(
        "spec.systemComponents.coreDNS",
        given,
        "CoreDNS runs with settings of its own",
    ),
    warned("spec.systemComponents.nodeLocalDNS", on, "nodes have no DNS cache"),
    told("spec.maintenance.autoUpdate", MAINTENANCE),
    warned("spec.maintenance.autoRotation", given, MAINTENANCE),
    warned("spec.kubernetes.clusterAutoscaler", given, AUTOSCALER),
    warned("spec.kubernetes.kubeAPIServer.featureGates", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.apiAudiences", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.runtimeConfig", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.serviceAccountConfig", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.watchCacheSizes", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.requests", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeAPIServer.enableAnonymousAuthentication",
        on,
        API_SERVER,
    ),
    warned("spec.kubernetes.kubeAPIServer.eventTTL", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.logging", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeAPIServer.defaultNotReadyTolerationSeconds",
        given,
        API_SERVER,
    ),
    warned(
        "spec.kubernetes.kubeAPIServer.defaultUnreachableTolerationSeconds",
        given,
        API_SERVER,
    ),
    warned("spec.kubernetes.kubeAPIServer.autoscaling", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.tlsMinVersion", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeControllerManager.featureGates",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.horizontalPodAutoscaler",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.podEvictionTimeout",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6",
        given,
        CONTROL_PLANE,
    ),
    warned("spec.kubernetes.kubeScheduler", given, CONTROL_PLANE),
    warned("spec.kubernetes.etcd", given, CONTROL_PLANE),
    warned(
        "spec.kubernetes.kubeProxy.featureGates",
        given,
        "Services are served without kube-proxy",
    ),
    warned(
        "spec.kubernetes.kubeProxy.mode",
        other_than_iptables,
        "Services are served without kube-proxy",
    ),
    warned(
        "spec.kubernetes.kubeProxy.enabled",
        off,
        "Services are served in any case",
    ),
    warned("spec.kubernetes.kubelet", given, KUBELET),
    warned(
        "spec.kubernetes.verticalPodAutoscaler",
        on,
        "pods are not scaled by load",
    ),
    warned(
        "spec.provider.workers[].caBundle",
        given,
        "machines trust no further authorities",
    ),
    warned("spec.provider.workers[].kubernetes.kubelet", given, KUBELET),
    warned("spec.provider.workers[].maximum", above_minimum, AUTOSCALER),
    warned(
        "spec.provider.workers[].sysctls",
        given,
        "kernels run with settings of their own",
    ),
    warned(
        "spec.provider.workers[].controlPlane",
        given,
        "control planes live in the seed",
    ),
    told(
        "spec.provider.workersSettings.sshAccess",
        "machines have no key for SSH",
    ),
];

/// What a Shoot asks for and does not get.
pub(super) struct Asked {
    /// Why it cannot be stored.
    pub refused: Vec<Said<FieldError>>,
    /// What whoever wrote it is told.
    pub warned: Vec<Said<String>>,
}

/// An answer to one field.
pub(super) struct Said<T> {
    /// The field's path with the names of entries in place of their numbers, which change when others come and go.
    pub place: String,
    /// What is said.
    pub what: T,
}

/// Everything that `shoot` asks for in vain.
pub(super) fn asked(shoot: &Value) -> Asked {
    let mut asked = Asked {
        refused: Vec::new(),
        warned: Vec::new(),
    };
    let defaults = defaults();
    for row in TO_COME {
        let default = defaults.pointer(&format!("/{}", row.path.replace('.', "/")));
        let root = Place {
            above: None,
            step: Step::Root,
        };
        at((shoot, shoot), row.path, &root, &mut |place, (value, beside)| {
            if row.answer == Answer::Told || default == Some(value) || !(row.asks)(value, beside) {
                return;
            }
            let (what, path, place) = (row.what, place.path(), place.lasting());
            if row.answer == Answer::Refused {
                let what = FieldError::forbidden(path, format!("{what} yet; leave the field out"));
                asked.refused.push(Said { place, what });
            } else {
                let what = format!("{path}: {what} yet: the value is kept and does nothing");
                asked.warned.push(Said { place, what });
            }
        });
    }
    asked
}

/// The defaults of a new Shoot with workers, which has all of them.
fn defaults() -> Value {
    let mut shoot = Shoot::default();
    shoot.spec.provider.workers = vec![Worker::default()];
    let with = ShootDefaults {
        seed: None,
        cloud_profile: None,
        now: Timestamp::UNIX_EPOCH,
        entropy: 0,
        rotates_key: true,
        scales_vertically: true,
        reserves: true,
    };
    default_shoot(&mut shoot, with);
    serde_json::to_value(shoot).unwrap_or_default()
}

/// A step on the way to a value, and the steps above it. Most values ask for nothing: texts are made of few.
struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    /// An entry of a list, with its name if it has one.
    Entry(usize, Option<&'p str>),
}

impl Place<'_> {
    /// `spec.provider.workers[0].sysctls`.
    fn path(&self) -> String {
        self.text(&|index, _| index.to_string())
    }

    /// The same with names in place of numbers, which change when other entries come and go.
    fn lasting(&self) -> String {
        self.text(&|index, name| name.map_or_else(|| index.to_string(), |name| format!("{name:?}")))
    }

    fn text(&self, entry: &dyn Fn(usize, Option<&str>) -> String) -> String {
        let mut text = self.above.map(|above| above.text(entry)).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Entry(index, name) => text.push_str(&format!("[{}]", entry(index, name))),
        }
        text
    }
}

/// Calls `seen` with each value that `path` leads to, what it stands in, and where just that one is.
fn at<'a>(
    (value, beside): (&'a Value, &'a Value),
    path: &str,
    so_far: &Place<'_>,
    seen: &mut impl FnMut(&Place<'_>, (&'a Value, &'a Value)),
) {
    if path.is_empty() {
        return seen(so_far, (value, beside));
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = step.trim_end_matches("[]");
    let Some(inner) = value.get(name) else { return };
    let here = Place {
        above: Some(so_far),
        step: Step::Field(name),
    };
    if name == step {
        return at((inner, value), rest, &here, seen);
    }
    for (index, entry) in inner.as_array().into_iter().flatten().enumerate() {
        let here = Place {
            above: Some(&here),
            step: Step::Entry(index, entry.get("name").and_then(Value::as_str)),
        };
        at((entry, inner), rest, &here, seen);
    }
}

fn given(value: &Value, _: &Value) -> bool {
    says_anything(value)
}

fn says_anything(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(all) => all.iter().any(says_anything),
        Value::Object(all) => all.values().any(says_anything),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// A switch, or something that has one called `enabled`.
fn on(value: &Value, _: &Value) -> bool {
    value.get("enabled").unwrap_or(value) == &Value::Bool(true)
}

fn off(value: &Value, _: &Value) -> bool {
    value == &Value::Bool(false)
}

/// A pool that may grow beyond what it begins with.
fn above_minimum(maximum: &Value, pool: &Value) -> bool {
    maximum.as_i64() > pool.get("minimum").and_then(Value::as_i64)
}

fn other_than_iptables(value: &Value, _: &Value) -> bool {
    says_anything(value) && value != "IPTables"
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use api_core::v1beta1::ShootSpec;
    use serde_json::json;

    use super::*;

    /// Fields that somebody acts on or that go into the extensions' objects, each with everything below it.
    const SERVED: &[&str] = &[
        "spec.accessRestrictions",
        "spec.cloudProfile",
        "spec.cloudProfileName",
        "spec.credentialsBindingName",
        "spec.dns",
        "spec.extensions",
        "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSize",
        "spec.kubernetes.version",
        "spec.maintenance.timeWindow",
        "spec.networking",
        "spec.provider.controlPlaneConfig",
        "spec.provider.infrastructureConfig",
        "spec.provider.type",
        "spec.provider.workers[].annotations",
        "spec.provider.workers[].clusterAutoscaler",
        "spec.provider.workers[].cri.name",
        "spec.provider.workers[].dataVolumes",
        "spec.provider.workers[].kubeletDataVolumeName",
        "spec.provider.workers[].kubernetes.version",
        "spec.provider.workers[].labels",
        "spec.provider.workers[].machine",
        "spec.provider.workers[].machineControllerManager",
        "spec.provider.workers[].maxSurge",
        "spec.provider.workers[].maxUnavailable",
        "spec.provider.workers[].minimum",
        "spec.provider.workers[].name",
        "spec.provider.workers[].priority",
        "spec.provider.workers[].providerConfig",
        "spec.provider.workers[].systemComponents",
        "spec.provider.workers[].taints",
        "spec.provider.workers[].updateStrategy",
        "spec.provider.workers[].volume",
        "spec.provider.workers[].zones",
        "spec.purpose",
        "spec.region",
        "spec.resources",
        "spec.schedulerName",
        "spec.secretBindingName",
        "spec.seedName",
        "spec.seedSelector",
        "spec.tolerations",
    ];

    /// Every path of `schema` that has no fields of its own.
    fn leaves(root: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
        let schema = match schema["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let one_of = schema["anyOf"].as_array().into_iter().flatten();
        let mut inner = one_of.chain([schema]).filter(|schema| schema["type"] != "null");
        if let Some(referring) = inner.clone().find(|schema| schema["$ref"].is_string()) {
            leaves(root, referring, path, found);
        } else if let Some(list) = inner.clone().find(|schema| schema["items"]["$ref"].is_string()) {
            leaves(root, &list["items"], &format!("{path}[]"), found);
        } else if let Some(fields) = inner.find_map(|schema| schema["properties"].as_object()) {
            for (name, field) in fields {
                leaves(root, field, &format!("{path}.{name}"), found);
            }
        } else {
            found.push(path.to_owned());
        }
    }

    #[test]
    fn every_field_of_a_shoot_is_served_or_said_to_be_to_come() {
        let schema = serde_json::to_value(schemars::schema_for!(ShootSpec)).unwrap();
        let mut fields = Vec::new();
        leaves(&schema, &schema, "spec", &mut fields);
        assert!(fields.len() > 150, "{fields:?}");
        let below = |field: &str, row: &str| {
            let rest = field.strip_prefix(row);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let rows = || TO_COME.iter().map(|row| row.path).chain(SERVED.iter().copied());
        let known = |field: &&String| rows().filter(|row| below(field, row)).count() != 1;
        let doubtful: Vec<&String> = fields.iter().filter(known).collect();
        assert!(doubtful.is_empty(), "not in exactly one list: {doubtful:#?}");
        let idle: Vec<&str> = rows()
            .filter(|row| !fields.iter().any(|field| below(field, row)))
            .collect();
        assert!(idle.is_empty(), "no such field: {idle:#?}");
    }

    #[test]
    fn what_nobody_brings_about_is_answered_by_its_field() {
        let of = |spec: Value| asked(&json!({ "spec": spec }));
        let refused = |spec| -> Vec<String> { of(spec).refused.into_iter().map(|said| said.what.path).collect() };
        assert_eq!(
            refused(json!({"hibernation": {"enabled": true}})),
            ["spec.hibernation.enabled"]
        );
        assert_eq!(
            refused(json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "node"}}}})),
            ["spec.controlPlane.highAvailability"]
        );
        let runtimes = json!([{"name": "a"}, {"name": "b", "cri": {"containerRuntimes": [{"type": "gvisor"}]}}]);
        assert_eq!(
            refused(json!({"provider": {"workers": runtimes}})),
            ["spec.provider.workers[1].cri.containerRuntimes"]
        );
        let kept = of(json!({"kubernetes": {"kubelet": {"maxPods": 20}, "kubeProxy": {"mode": "IPVS"}}}));
        assert!(kept.refused.is_empty());
        let warned = |asked: Asked| -> Vec<String> { asked.warned.into_iter().map(|said| said.what).collect() };
        assert_eq!(
            warned(kept),
            [
                "spec.kubernetes.kubeProxy.mode: Services are served without kube-proxy yet: the value is kept and does nothing",
                "spec.kubernetes.kubelet: kubelets run with settings of their own yet: the value is kept and does nothing",
            ]
        );
        let exposed = of(json!({"exposureClassName": "intranet"}));
        assert!(exposed.refused.is_empty() && warned(exposed)[0].starts_with("spec.exposureClassName: "));
        let pools = json!([{"name": "a", "minimum": 2, "maximum": 2}, {"name": "b", "minimum": 1, "maximum": 2}]);
        assert_eq!(
            warned(of(json!({"provider": {"workers": pools}}))),
            ["spec.provider.workers[1].maximum: pools are not scaled by load yet: the value is kept and does nothing"]
        );
    }

    #[test]
    fn defaults_and_empty_values_ask_for_nothing() {
        let spec = json!({
            "addons": {"nginxIngress": {"enabled": false, "config": {"a": "b"}}},
            "controlPlane": {},
            "hibernation": {"enabled": false, "schedules": []},
            "kubernetes": {"kubeProxy": {"enabled": true, "mode": "IPTables"}, "kubelet": {"kubeReserved": {}}},
            "maintenance": {"confineSpecUpdateRollout": false, "autoUpdate": {"kubernetesVersion": true}},
            "provider": {"workers": [{"cri": {"name": "containerd", "containerRuntimes": []}}],
                "workersSettings": {"sshAccess": {"enabled": true}}},
        });
        let warned = |shoot: &Value| -> Vec<String> {
            let asked = asked(shoot);
            assert!(asked.refused.is_empty());
            asked.warned.into_iter().map(|said| said.what).collect()
        };
        assert_eq!(warned(&json!({ "spec": spec })), [""; 0]);
        let mut filled_in = defaults();
        assert!(filled_in["spec"]["kubernetes"]["kubelet"].is_object());
        assert_eq!(warned(&filled_in), [""; 0]);
        filled_in["spec"]["kubernetes"]["kubelet"]["maxPods"] = json!(20);
        assert_eq!(warned(&filled_in).len(), 1);
    }

    #[test]
    fn the_reference_lists_what_is_to_come() {
        let mut page = String::from(
            "# Fields of a Shoot that do nothing yet\n\n\
             Orangery reads Gardener's Shoots as they are. These fields it cannot bring about yet. Where somebody would \
             rely on\nthem for safety, isolation or money, a Shoot that uses them is refused; else it is stored, and \
             kubectl shows a warning.\nEverything that is not listed is served here or handed to the extensions.\n\n\
             | Field | What is so instead | Answer |\n| --- | --- | --- |\n",
        );
        for row in TO_COME {
            let answer = match row.answer {
                Answer::Refused => "refused",
                Answer::Warned => "warning",
                Answer::Told => "none: it is on by default",
            };
            writeln!(page, "| `{}` | {} | {answer} |", row.path, row.what).unwrap();
        }
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/shoot-fields-to-come.md"
        );
        tests_kit::assert_golden(file, &page);
    }
}
