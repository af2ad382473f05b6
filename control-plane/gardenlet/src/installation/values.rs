//! The values of a chart: those of the ControllerDeployment with its references resolved, and below `gardener` what
//! every extension is given about garden and seed (gardener/gardener v1.150
//! pkg/gardenlet/controller/controllerinstallation). Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_core::v1beta1 as core;
use api_meta::{Fault, RawJson, conditions::installation as reason, names};
use base_gotemplate::{Context, Functions, Host, Limits, MissingKey, Set, Value as Go};
use base_helm::values::Values;
use base_yaml::go;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::problem::Problem;

/// Root of the values that are ours.
const ROOT: &str = "gardener";
/// What a template begins with; texts without it are left as they are.
const TEMPLATE: &str = "{{";
/// What an error calls a template in a value.
const NAME: &str = "values";
/// Stands in messages for what is read from Secrets.
const HIDDEN: &str = "[hidden]";
/// Shorter contents are not hidden: they are found in every message, and are no secrets.
const HIDDEN_BYTES_MIN: usize = 4;

/// What a ControllerDeployment's `resources` hold: contents by name and key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources(pub BTreeMap<String, BTreeMap<String, String>>);

impl Resources {
    /// `text` without the contents: a chart may repeat its values where it fails, also trimmed, quoted, in base64, or one
    /// line of several.
    pub(crate) fn hide(&self, text: &str) -> String {
        let contents = self.0.values().flat_map(BTreeMap::values);
        let mut secrets: Vec<String> = contents.flat_map(|content| spellings(content)).collect();
        // The longest first: a part that is hidden would leave the rest of the whole to be read.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.retain(|secret| secret.len() >= HIDDEN_BYTES_MIN);
        secrets
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
    }

    fn as_go(&self) -> Go {
        let one = |data: &BTreeMap<String, String>| {
            let data = data.iter().map(|(key, text)| (key.as_str(), Go::from(text.as_str())));
            Go::map([("data", Go::map(data))])
        };
        let all = self.0.iter().map(|(name, data)| (name.as_str(), one(data)));
        Go::map([("resources", Go::map(all))])
    }
}

/// How a chart may repeat a content.
fn spellings(content: &str) -> Vec<String> {
    let lines = content.lines().map(str::trim);
    let mut all = Vec::new();
    for text in [content, content.trim()].into_iter().chain(lines) {
        let quoted = json!(text).to_string();
        all.extend([
            text.to_owned(),
            quoted.trim_matches('"').to_owned(),
            STANDARD.encode(text),
        ]);
    }
    all
}

/// What is mixed in.
pub(crate) struct Mixin<'a> {
    /// Version of gardenlet.
    pub version: &'a str,
    /// Identity of the garden.
    pub garden_identity: &'a str,
    /// Name of the Secret with the generic kubeconfig of the garden, if there is one.
    pub kubeconfig: Option<&'a str>,
    /// Our Seed.
    pub seed: &'a core::Seed,
    /// Its identity.
    pub seed_identity: &'a str,
}

/// All values of an installation.
///
/// # Errors
/// The values are no object, or a template in them fails.
pub(crate) fn values(given: Option<&RawJson>, resources: &Resources, mixin: &Mixin<'_>) -> Result<Values, Problem> {
    let mut values = given_values(given)?;
    if !resources.0.is_empty() {
        let data = resources.as_go();
        let mut rendered = Values::new();
        for (key, value) in values {
            let (key, value) = (text(&key, &data)?, with_templates(value, &data)?);
            rendered.insert(key, value);
        }
        values = rendered;
    }
    let ours = json!({ ROOT: gardener(mixin)? });
    if let Value::Object(ours) = ours {
        merge(&mut values, ours);
    }
    // As encoding/json reads them without a target type: charts print numbers of values as floats.
    let mut values = Value::Object(values);
    go::as_floats(&mut values);
    match values {
        Value::Object(values) => Ok(values),
        _ => Ok(Values::new()),
    }
}

fn given_values(given: Option<&RawJson>) -> Result<Values, Problem> {
    let Some(given) = given else { return Ok(Values::new()) };
    match given.value() {
        Value::Null => Ok(Values::new()),
        Value::Object(values) => Ok(values),
        other => {
            let why = format!(
                "helm.values of the ControllerDeployment is {}, not an object",
                go::json_kind(&other)
            );
            let fault = Fault::user(why).hint("write helm.values as an object");
            Err(Problem::invalid(reason::CHART_INFORMATION_INVALID, fault))
        }
    }
}

fn gardener(mixin: &Mixin<'_>) -> Result<Value, Problem> {
    let Mixin {
        version,
        garden_identity,
        kubeconfig,
        seed,
        seed_identity,
    } = mixin;
    let mut garden = Map::new();
    garden.insert("clusterIdentity".to_owned(), json!(garden_identity));
    if let Some(name) = kubeconfig {
        garden.insert("genericKubeconfigSecretName".to_owned(), json!(name));
    }
    Ok(json!({
        "version": version,
        "garden": garden,
        // There are no feature gates.
        "gardenlet": {"featureGates": {}},
        "seed": of_seed(seed, seed_identity)?,
    }))
}

fn of_seed(seed: &core::Seed, identity: &str) -> Result<Value, Problem> {
    let spec = &seed.spec;
    let providers = spec
        .volume
        .as_ref()
        .map(|volume| volume.providers.as_slice())
        .unwrap_or_default();
    let visible = spec.settings.as_ref().and_then(|settings| settings.scheduling.as_ref());
    let mut values = json!({
        "name": seed.name_any(),
        "clusterIdentity": identity,
        "annotations": seed.metadata.annotations,
        "labels": seed.metadata.labels,
        "provider": spec.provider.type_,
        "region": spec.provider.region,
        "volumeProvider": providers.first().map(|provider| provider.name.as_str()).unwrap_or_default(),
        "volumeProviders": list(providers)?,
        "protected": spec.taints.iter().any(|taint| taint.key == names::SEED_TAINT_PROTECTED),
        "visible": visible.is_none_or(|scheduling| scheduling.visible),
        "taints": list(&spec.taints)?,
        "networks": json_of(&spec.networks)?,
        "blockCIDRs": list(&spec.networks.block_cidrs)?,
        "spec": json_of(spec)?,
    });
    if let Some(ingress) = &spec.ingress {
        values["ingressDomain"] = json!(ingress.domain);
    }
    Ok(values)
}

/// As Go writes a list that was never made: an empty one is null.
fn list<T: Serialize>(items: &[T]) -> Result<Value, Problem> {
    if items.is_empty() {
        return Ok(Value::Null);
    }
    json_of(items)
}

fn json_of<T: Serialize + ?Sized>(value: &T) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::invalid(reason::CHART_INFORMATION_INVALID, Fault::bug(error)))
}

/// Puts `ours` over `values`, object by object (`MergeMaps` of gardener/gardener v1.150 pkg/utils/miscellaneous.go).
fn merge(values: &mut Values, ours: Values) {
    for (key, value) in ours {
        match (values.get_mut(&key), value) {
            (Some(Value::Object(theirs)), Value::Object(ours)) => merge(theirs, ours),
            (_, value) => drop(values.insert(key, value)),
        }
    }
}

/// Keys and texts with their templates rendered.
fn with_templates(value: Value, data: &Go) -> Result<Value, Problem> {
    Ok(match value {
        Value::String(template) => Value::String(text(&template, data)?),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| with_templates(item, data));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(entries) => {
            let mut rendered = Map::new();
            for (key, value) in entries {
                rendered.insert(text(&key, data)?, with_templates(value, data)?);
            }
            Value::Object(rendered)
        }
        other => other,
    })
}

fn text(template: &str, data: &Go) -> Result<String, Problem> {
    if !template.contains(TEMPLATE) {
        return Ok(template.to_owned());
    }
    let failed = |why: String| {
        let fault = Fault::user(format!(
            "a template in helm.values of the ControllerDeployment fails: {why}"
        ))
        .hint("write it as {{ .resources.NAME.data.KEY }} with a NAME of `resources` and a KEY that is there");
        Problem::invalid(reason::RENDERING_HELM_VALUES_FAILED, fault)
    };
    let mut set = Set::new(NAME, Arc::new(Functions::new()), MissingKey::Error);
    set.parse(NAME, template.as_bytes())
        .map_err(|why| failed(why.to_string()))?;
    let mut context = Context {
        limits: Limits::default(),
        host: &mut Host::default(),
    };
    let bytes = Arc::new(set).render(NAME, data.clone(), &mut context);
    let bytes = bytes.map_err(|why| failed(why.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_hidden_however_a_chart_repeats_them() {
        let data = BTreeMap::from([("k".to_owned(), "first \"line\"\nsecond line\n".to_owned())]);
        let resources = Resources(BTreeMap::from([("r".to_owned(), data)]));
        for text in [
            "a first \"line\"\nsecond line\n z",
            "a first \"line\"\nsecond line z",
            "a first \\\"line\\\"\\nsecond line z",
            "a second line z",
            "a Zmlyc3QgImxpbmUiCnNlY29uZCBsaW5lCg== z",
        ] {
            assert_eq!(resources.hide(text), "a [hidden] z", "{text}");
        }
    }
}
