//! Finds in a Shoot the fields that have no effect yet, and answers each as its row in `to_come` says.

use api_core::v1beta1::{Shoot, Worker};
use api_rules::{ShootDefaults, default_shoot};
use cluster_apiserver::fields::FieldError;
use jiff::Timestamp;
use serde_json::Value;

use super::to_come::{Answer, ToCome};

/// Fields of a Shoot that have no effect yet.
pub(super) struct Unserved {
    /// Why it cannot be stored.
    pub refused: Vec<Finding<FieldError>>,
    /// The warnings for its author.
    pub warned: Vec<Finding<String>>,
}

/// An answer to one field.
pub(super) struct Finding<T> {
    /// The field's path with the names of entries in place of their numbers, which change when others come and go.
    pub place: String,
    /// The error, or the text of the warning.
    pub what: T,
}

/// Every field of `rows` that `shoot` sets in vain.
pub(super) fn unserved(shoot: &Value, rows: &[ToCome]) -> Unserved {
    let mut unserved = Unserved {
        refused: Vec::new(),
        warned: Vec::new(),
    };
    let defaults = defaults();
    for row in rows {
        let default = defaults.pointer(&format!("/{}", row.path.replace('.', "/")));
        let root = Place {
            above: None,
            step: Step::Root,
        };
        at(
            (shoot, shoot),
            row.path,
            &root,
            &mut |place: &Place<'_>, (value, beside)| {
                if row.answer == Answer::Documented || default == Some(value) || !(row.is_requested)(value, beside) {
                    return;
                }
                let (what, path, place) = (row.what, place.path(), place.lasting());
                if row.answer == Answer::Refused {
                    let what = FieldError::forbidden(path, format!("{what} yet; leave the field out"));
                    unserved.refused.push(Finding { place, what });
                } else {
                    let what = format!("{path}: {what} yet: the value is kept and does nothing");
                    unserved.warned.push(Finding { place, what });
                }
            },
        );
    }
    unserved
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::to_come::TO_COME;
    use super::*;

    #[test]
    fn each_field_still_to_come_is_answered_by_its_path() {
        let of = |spec: Value| unserved(&json!({ "spec": spec }), TO_COME);
        let refused = |spec| -> Vec<String> { of(spec).refused.into_iter().map(|finding| finding.what.path).collect() };
        assert_eq!(
            refused(json!({"maintenance": {"confineSpecUpdateRollout": true}})),
            ["spec.maintenance.confineSpecUpdateRollout"]
        );
        assert_eq!(
            refused(json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "node"}}}})),
            ["spec.controlPlane.highAvailability"]
        );
        let stored = of(json!({"kubernetes": {"kubelet": {"maxPods": 20}, "kubeProxy": {"mode": "IPVS"}}}));
        assert!(stored.refused.is_empty());
        let warned =
            |unserved: Unserved| -> Vec<String> { unserved.warned.into_iter().map(|finding| finding.what).collect() };
        assert_eq!(
            warned(stored),
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

    /// No field of a pool is refused today, so the row is the test's own.
    #[test]
    fn a_refused_field_of_a_pool_is_answered_by_the_pools_index() {
        let row = ToCome {
            path: "spec.provider.workers[].paint.colours",
            is_requested: |value, _| value != &json!([]),
            answer: Answer::Refused,
            what: "machines are grey",
        };
        let pools = json!([{"name": "a", "paint": {"colours": []}}, {"name": "b", "paint": {"colours": ["red"]}}]);
        let refused = unserved(&json!({"spec": {"provider": {"workers": pools}}}), &[row]).refused;
        let messages: Vec<String> = refused.iter().map(|finding| finding.what.to_string()).collect();
        let path = "spec.provider.workers[1].paint.colours";
        assert_eq!(
            messages,
            [format!("{path}: Forbidden: machines are grey yet; leave the field out")]
        );
        assert_eq!(refused[0].place, "spec.provider.workers[\"b\"].paint.colours");
    }

    #[test]
    fn defaults_and_empty_values_request_nothing() {
        let spec = json!({
            "addons": {"nginxIngress": {"enabled": false, "config": {"a": "b"}}},
            "controlPlane": {},
            "kubernetes": {"kubeProxy": {"enabled": true, "mode": "IPTables"}, "kubelet": {"kubeReserved": {}}},
            "maintenance": {"confineSpecUpdateRollout": false, "autoUpdate": {"kubernetesVersion": true}},
            "provider": {"workers": [{"cri": {"name": "containerd", "containerRuntimes": []}}],
                "workersSettings": {"sshAccess": {"enabled": true}}},
        });
        let warned = |shoot: &Value| -> Vec<String> {
            let unserved = unserved(shoot, TO_COME);
            assert!(unserved.refused.is_empty());
            unserved.warned.into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(warned(&json!({ "spec": spec })), [""; 0]);
        let mut filled_in = defaults();
        assert!(filled_in["spec"]["kubernetes"]["kubelet"].is_object());
        assert_eq!(warned(&filled_in), [""; 0]);
        filled_in["spec"]["kubernetes"]["kubelet"]["maxPods"] = json!(20);
        assert_eq!(warned(&filled_in).len(), 1);
    }
}
