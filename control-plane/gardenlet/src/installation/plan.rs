//! What is to be installed, and whether what is there was made from the same. A plain function.

use std::collections::BTreeMap;

use api_core::v1beta1 as core;
use api_meta::{Fault, annotations, conditions::installation as reason, labels};
use base_helm::Setting;
use base_helm::values::Values;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use serde_json::json;

use super::access::Access;
use super::data;
use super::observe::Seen;
use super::problem::Problem;
use super::resources;
use super::values::{Mixin, Resources, values};
use crate::config::Config;

/// Form of what we make of a chart's objects: another one has all charts rendered again.
const FORM: &str = "1";

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Nothing: what is there was made from the same.
    Keep,
    /// The chart is rendered, and what it makes applied.
    Install(Box<Wanted>),
}

/// What is to be installed.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Name of the installation.
    pub installation: String,
    /// Name of its registration.
    pub registration: String,
    /// Name of the seed.
    pub seed: String,
    /// Its namespace.
    pub namespace: Namespace,
    /// How its pods reach the garden.
    pub access: Option<Access>,
    /// Values of the chart.
    pub values: Values,
    /// What the chart is rendered for.
    pub setting: Setting,
    /// What must not be repeated in messages.
    pub resources: Resources,
    /// Checksum of all that the chart is rendered from.
    pub inputs: String,
}

/// Plans.
///
/// # Errors
/// What the installation's conditions report.
pub(crate) fn plan(installation: &core::ControllerInstallation, seen: &Seen, config: &Config) -> Result<Plan, Problem> {
    let Seen {
        registration,
        seed,
        seed_identity,
        deployment,
        resources,
        chart,
        capabilities,
        namespace: present,
        managed_resource,
        has_data,
    } = seen;
    let (name, registration) = (installation.name_any(), registration.name_any());
    let seed_is_garden = *seed_identity == config.garden_identity;
    let namespace = resources::namespace(installation, &registration, seed, seed_is_garden);
    let inside = namespace.name_any();
    let access = match deployment.inject_garden_kubeconfig {
        Some(true) => Some(access(config, &name, &registration, &inside)?),
        _ => None,
    };
    let kubeconfig = access.as_ref().map(Access::kubeconfig_name);
    let mixin = Mixin {
        version: &config.version,
        garden_identity: &config.garden_identity,
        kubeconfig: kubeconfig.as_deref(),
        seed,
        seed_identity,
    };
    let helm = deployment.helm.as_ref();
    let values = values(helm.and_then(|helm| helm.values.as_ref()), resources, &mixin)?;
    let setting = Setting {
        release: resources::release(&registration, &inside),
        capabilities: (**capabilities).clone(),
    };
    // Kinds come with every extension; that one can be asked for by its version is enough to render again.
    let versions: Vec<&String> = setting
        .capabilities
        .api_versions
        .iter()
        .filter(|one| !is_kind(one))
        .collect();
    let inputs = json!([
        FORM,
        name,
        registration,
        seed.name_any(),
        chart.digest,
        values,
        setting.capabilities.kube_version.version(),
        versions,
    ]);
    let inputs = data::whole_checksum(inputs.to_string().as_bytes());
    for (what, going) in [
        (
            "Namespace",
            present
                .as_ref()
                .is_some_and(|one| one.metadata.deletion_timestamp.is_some()),
        ),
        (
            "ManagedResource",
            managed_resource
                .as_ref()
                .is_some_and(|one| one.metadata.deletion_timestamp.is_some()),
        ),
    ] {
        if going {
            let why = format!("the {what} from before is still being deleted");
            let fault = Fault::dependency(why).hint(format!("look at what holds the {what} up"));
            return Err(Problem::not_installed(reason::INSTALLATION_PENDING, fault));
        }
    }
    let known = managed_resource
        .as_ref()
        .and_then(|known| known.annotations().get(annotations::INSTALLATION_INPUTS).cloned());
    let is_there = *has_data && present.as_ref().is_some_and(|present| is_as(present, &namespace));
    if is_there && known.as_ref() == Some(&inputs) {
        return Ok(Plan::Keep);
    }
    Ok(Plan::Install(Box::new(Wanted {
        installation: name,
        registration,
        seed: seed.name_any(),
        namespace,
        access,
        values,
        setting,
        resources: resources.clone(),
        inputs,
    })))
}

fn access(config: &Config, installation: &str, registration: &str, namespace: &str) -> Result<Access, Problem> {
    let invalid = |fault| Problem::invalid(reason::CHART_INFORMATION_INVALID, fault);
    let Some(garden) = &config.garden_access else {
        let fault = Fault::user(
            "injectGardenKubeconfig of the ControllerDeployment is true, and this gardenlet was not given an address \
             of the garden for pods of the seed",
        );
        return Err(invalid(
            fault.hint("start gardenlet with one, or take injectGardenKubeconfig out"),
        ));
    };
    Access::new(garden, installation, registration, config.seed_name(), namespace).map_err(invalid)
}

/// `apps/v1/Deployment`, or `v1/Pod` of the core group.
fn is_kind(version: &str) -> bool {
    version
        .rsplit('/')
        .next()
        .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Whether a namespace has the labels and annotations that are wanted, and no level of pod security beside them.
fn is_as(present: &Namespace, wanted: &Namespace) -> bool {
    let level = labels::POD_SECURITY_ENFORCE;
    let has = |present: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| present.get(key) == Some(value))
    };
    has(present.labels(), wanted.labels())
        && has(present.annotations(), wanted.annotations())
        && present.labels().get(level) == wanted.labels().get(level)
}
