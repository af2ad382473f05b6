//! The objects of the garden that install an extension: those of its `registration.yaml`, with the chart of its folder packed
//! into the ControllerDeployment, as a person would apply them.

use std::path::Path;

use api_meta::Fault;
use k8s_openapi::ByteString;
use landscape_charts::{Setting, lint, pack};
use serde_json::{Value, json};

/// The file with both objects.
pub(crate) const REGISTRATION: &str = "registration.yaml";
/// The folder of the chart.
pub(crate) const CHART: &str = "chart";

/// What installs an extension.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// Name of its ControllerRegistration.
    pub name: String,
    /// All objects of the file.
    pub objects: Vec<Value>,
    /// Images of the chart's containers.
    pub images: Vec<String>,
    /// What is worth a look in the chart, in lines; empty if there is nothing.
    pub remarks: String,
    /// The objects of the file without the chart.
    registration: Vec<Value>,
    /// What the chart makes that runs pods.
    workloads: Workloads,
}

/// What becomes of the pods by what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pods {
    /// They stay.
    Stay,
    /// None is started, but some may end or be started later: fewer replicas, other values, another registration.
    Unsure,
    /// Some are started.
    Start,
}

/// Objects that run pods, as a chart makes them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Workloads(Vec<Workload>);

#[derive(Clone, Debug, PartialEq)]
struct Workload {
    /// Kind, namespace and name.
    key: [String; 3],
    replicas: i64,
    /// What its pods are made from.
    template: Value,
}

impl Workloads {
    fn of(objects: &[Value]) -> Self {
        let workload = |object: &Value| {
            let spec = &object["spec"];
            let template = [&spec["template"], &spec["jobTemplate"]]
                .into_iter()
                .find(|one| one.is_object());
            let template = match (template, object["kind"] == "Pod") {
                (Some(template), _) => template,
                (None, true) => spec,
                (None, false) => return None,
            };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let meta = &object["metadata"];
            Some(Workload {
                key: [text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"])],
                replicas: spec["replicas"].as_i64().unwrap_or(1),
                template: template.clone(),
            })
        };
        Self(objects.iter().filter_map(workload).collect())
    }

    /// Whether pods are started when these take the place of `before`.
    fn start_pods_after(&self, before: &Self) -> bool {
        let starts = |now: &Workload| {
            let was = before.0.iter().find(|was| was.key == now.key);
            now.replicas > 0 && was.is_none_or(|was| was.template != now.template || was.replicas < now.replicas)
        };
        self.0.iter().any(starts)
    }
}

impl Manifests {
    /// Reads them.
    ///
    /// # Errors
    /// A file that is missing or wrong, a chart that could not be installed.
    pub(crate) async fn read(folder: &Path) -> Result<Self, Fault> {
        let file = folder.join(REGISTRATION);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Fault::user(format!("{} cannot be read: {error}", file.display())).hint(
                "it holds a ControllerDeployment and a ControllerRegistration, as `orangery new extension` writes them",
            )
        })?;
        let wrong = |why: String| {
            Fault::user(format!("{} is wrong: {why}", file.display()))
                .hint("it holds one ControllerDeployment with a chart and one ControllerRegistration")
        };
        let mut objects: Vec<Value> = base_yaml::read_all_strict(&text).map_err(|error| wrong(error.to_string()))?;
        objects.retain(|object| !object.is_null());
        let name = name_of(&objects, "ControllerRegistration").map_err(wrong)?;
        name_of(&objects, "ControllerDeployment").map_err(wrong)?;
        let registration = objects.clone();
        let chart = folder.join(CHART);
        let chart = chart
            .to_str()
            .ok_or_else(|| Fault::user(format!("the path {} is no UTF-8", chart.display())).hint("move the folder"))?;
        let packed = ByteString(pack(chart).await?);
        let mut values = None;
        for object in &mut objects {
            if object["kind"] == "ControllerDeployment" {
                values = install(object, &packed).map_err(wrong)?;
            }
        }
        let setting = Setting {
            set_json: values.iter().map(Value::to_string).collect(),
            ..Setting::default()
        };
        let found = lint(Some(&name), chart, &setting).await?;
        if let Err(refused) = found.verdict(false) {
            let why = format!("{}{refused}", found.text());
            return Err(Fault::user(why).hint(refused.hint));
        }
        Ok(Self {
            name,
            objects,
            images: found.images().to_vec(),
            remarks: found.remarks(),
            registration,
            workloads: Workloads::of(found.objects()),
        })
    }

    /// What becomes of the pods when these are installed in the place of `before`.
    pub(crate) fn pods_after(&self, before: Option<&Self>) -> Pods {
        let none = Workloads::default();
        let workloads = before.map_or(&none, |before| &before.workloads);
        if self.workloads.start_pods_after(workloads) {
            return Pods::Start;
        }
        let is_same = before.is_some_and(|before| self.registration == before.registration);
        match is_same && self.workloads == *workloads {
            true => Pods::Stay,
            false => Pods::Unsure,
        }
    }
}

fn name_of(objects: &[Value], kind: &str) -> Result<String, String> {
    let mut of_kind = objects.iter().filter(|object| object["kind"] == kind);
    match (of_kind.next(), of_kind.next()) {
        (Some(one), None) => match one["metadata"]["name"].as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(format!("metadata.name of the {kind} is missing")),
        },
        (None, _) => Err(format!("there is no {kind}")),
        (Some(_), Some(_)) => Err(format!("there is more than one {kind}")),
    }
}

/// Puts the chart into a ControllerDeployment, in the place of one in a registry; returns its values.
fn install(deployment: &mut Value, packed: &ByteString) -> Result<Option<Value>, String> {
    let at = match deployment["apiVersion"].as_str().unwrap_or_default() {
        "core.gardener.cloud/v1" => ("helm", "rawChart"),
        "core.gardener.cloud/v1beta1" if deployment["type"] == "helm" => ("providerConfig", "chart"),
        "core.gardener.cloud/v1beta1" => return Err("the ControllerDeployment's type is not helm".to_owned()),
        other => return Err(format!("the ControllerDeployment's apiVersion is {other:?}")),
    };
    let helm = &mut deployment[at.0];
    if helm.is_null() {
        *helm = json!({});
    }
    let helm = helm
        .as_object_mut()
        .ok_or_else(|| format!("{} of the ControllerDeployment is no mapping", at.0))?;
    helm.remove("ociRepository");
    helm.insert(at.1.to_owned(), json!(packed));
    let values = helm
        .get("values")
        .filter(|values| values.as_object().is_some_and(|values| !values.is_empty()));
    Ok(values.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests(replicas: i64, image: &str, verb: &str, policy: &str) -> Manifests {
        Manifests {
            name: "moon".to_owned(),
            objects: Vec::new(),
            images: vec![image.to_owned()],
            remarks: String::new(),
            registration: vec![json!({"kind": "ControllerRegistration", "spec": {"deployment": {"policy": policy}}})],
            workloads: Workloads::of(&[
                json!({"kind": "ClusterRole", "metadata": {"name": "moon"}, "rules": [{"verbs": [verb]}]}),
                json!({"kind": "Deployment", "metadata": {"name": "moon"}, "spec": {"replicas": replicas,
                    "template": {"spec": {"containers": [{"image": image}]}}}}),
            ]),
        }
    }

    #[test]
    fn pods_start_by_template_or_more_replicas_and_stay_if_the_registration_does() {
        let before = manifests(2, "a", "get", "OnDemand");
        for (now, pods) in [
            (manifests(2, "a", "list", "OnDemand"), Pods::Stay),
            (manifests(1, "a", "get", "OnDemand"), Pods::Unsure),
            (manifests(0, "b", "get", "OnDemand"), Pods::Unsure),
            (manifests(2, "a", "get", "Always"), Pods::Unsure),
            (manifests(2, "b", "get", "OnDemand"), Pods::Start),
            (manifests(3, "a", "get", "OnDemand"), Pods::Start),
        ] {
            assert_eq!(now.pods_after(Some(&before)), pods, "{now:?}");
        }
        assert_eq!(before.pods_after(None), Pods::Start);
    }

    #[test]
    fn the_chart_takes_the_place_of_a_registrys_in_both_versions() {
        let packed = ByteString(b"a".to_vec());
        let mut v1 = json!({"apiVersion": "core.gardener.cloud/v1", "helm": {"ociRepository": {"tag": "1"}, "values": {"a": 1}}});
        assert_eq!(install(&mut v1, &packed).unwrap(), Some(json!({"a": 1})));
        assert_eq!(v1["helm"], json!({"rawChart": "YQ==", "values": {"a": 1}}));
        let mut v1beta1 = json!({"apiVersion": "core.gardener.cloud/v1beta1", "type": "helm"});
        assert_eq!(install(&mut v1beta1, &packed).unwrap(), None);
        assert_eq!(v1beta1["providerConfig"]["chart"], "YQ==");
        let mut builtin = json!({"apiVersion": "core.gardener.cloud/v1beta1", "type": "builtin"});
        assert!(install(&mut builtin, &packed).unwrap_err().contains("type is not helm"));
    }
}
