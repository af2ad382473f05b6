//! What is to be installed, and whether what is there was made from the same. A plain function.

use std::collections::BTreeMap;

use api_core::v1beta1 as core;
use api_meta::{Fault, annotations, conditions::installation as reason, labels};
use base_helm::Setting;
use base_helm::values::Values;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::access::Access;
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
    /// Where the chart is from, for a gardenlet that cannot reach its registry.
    pub chart: Option<String>,
}

/// Plans.
///
/// # Errors
/// What the installation's conditions report.
pub(crate) fn plan(installation: &core::ControllerInstallation, seen: &Seen, config: &Config) -> Result<Plan, Problem> {
    check_settled(seen)?;
    let wanted = wanted(installation, seen, config)?;
    let resource = seen.managed_resource.as_deref();
    let known = resource.and_then(|known| known.annotations().get(annotations::INSTALLATION_INPUTS));
    let namespace = seen.namespace.as_deref();
    let is_there = seen.has_data
        && wanted
            .access
            .as_ref()
            .is_none_or(|access| access.is_among(&seen.access))
        && namespace.is_some_and(|present| is_as(present, &wanted.namespace));
    if is_there && known == Some(&wanted.inputs) {
        return Ok(Plan::Keep);
    }
    Ok(Plan::Install(Box::new(wanted)))
}

/// What others have begun to delete is waited for: what is written into it would go with it.
fn check_settled(seen: &Seen) -> Result<(), Problem> {
    fn is_going<K: Resource>(object: Option<&K>) -> bool {
        object.is_some_and(|object| object.meta().deletion_timestamp.is_some())
    }
    let going = match (&seen.namespace, &seen.managed_resource) {
        (namespace, _) if is_going(namespace.as_deref()) => "Namespace",
        (_, resource) if is_going(resource.as_deref()) => "ManagedResource",
        _ => return Ok(()),
    };
    let fault = Fault::dependency(format!("the {going} from before is still being deleted"))
        .hint(format!("look at what holds the {going} up"));
    Err(Problem::not_installed(reason::INSTALLATION_PENDING, fault))
}

fn wanted(installation: &core::ControllerInstallation, seen: &Seen, config: &Config) -> Result<Wanted, Problem> {
    let Seen {
        registration,
        seed,
        seed_identity,
        deployment,
        resources,
        chart,
        capabilities,
        namespace: _,
        managed_resource: _,
        has_data: _,
        access: _,
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
    let given = deployment.helm.as_ref().and_then(|helm| helm.values.as_ref());
    let values = values(given, resources, &mixin)?;
    let inputs = json!([
        FORM,
        name,
        registration,
        seed.name_any(),
        chart.digest,
        values,
        capabilities.kube_version.version(),
        // Kinds come with every extension; that a version of an API comes is enough to render again.
        capabilities
            .api_versions
            .iter()
            .filter(|one| !is_kind(one))
            .collect::<Vec<_>>(),
    ]);
    Ok(Wanted {
        installation: name,
        seed: seed.name_any(),
        namespace,
        access,
        values,
        setting: Setting {
            release: resources::release(&registration, &inside),
            capabilities: (**capabilities).clone(),
        },
        registration,
        resources: resources.clone(),
        chart: chart.note(),
        inputs: format!("{:x}", Sha256::digest(inputs.to_string())),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_and_kinds_are_distinguished() {
        let cases = [
            ("v1", false),
            ("apps/v1", false),
            ("v1/Pod", true),
            ("apps/v1/Deployment", true),
        ];
        for (version, wanted) in cases {
            assert_eq!(is_kind(version), wanted, "{version}");
        }
    }

    #[test]
    fn a_namespace_is_as_wanted_whatever_others_put_beside_it() {
        let namespace = |given: &[(&str, &str)]| {
            let mut namespace = Namespace::default();
            let given = given
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            namespace.metadata.labels = Some(given.collect());
            namespace
        };
        let (role, level) = ((labels::ROLE, "extension"), (labels::POD_SECURITY_ENFORCE, "baseline"));
        let wanted = namespace(&[role]);
        assert!(is_as(&namespace(&[role, ("other", "label")]), &wanted));
        assert!(!is_as(&namespace(&[("other", "label")]), &wanted));
        assert!(
            !is_as(&namespace(&[role, level]), &wanted),
            "a level that is no longer wanted"
        );
        assert!(is_as(&namespace(&[role, level]), &namespace(&[role, level])));
    }
}
