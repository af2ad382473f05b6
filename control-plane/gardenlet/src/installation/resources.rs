//! What an installation is in the seed: its namespace, the objects that its chart renders, and the ManagedResource that
//! carries them. Pure, but for what a chart takes from clock and randomness.

use std::collections::BTreeMap;

use api_core::v1beta1 as core;
use api_meta::{Fault, LocalObjectReference, annotations, conditions::installation as reason, labels, names};
use api_resources::{ManagedResource, ManagedResourceSpec, data};
use base_helm::lint::{self, Severity};
use base_helm::render::Release;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::chart::Loaded;
use super::plan::Wanted;
use super::pods::{containers, pod_spec, set_variable};
use super::problem::Problem;

/// Environment variable with the name of the seed that a container runs in.
const SEED_NAME: &str = "SEED_NAME";
/// Kinds whose containers get it.
const GROUPS: [&str; 2] = ["apps", "batch"];
/// Value of labels that switch something on.
const TRUE: &str = "true";
/// Complaints of a chart that are reported; more would hide the first.
const FINDINGS_MAX: usize = 3;

/// What is applied for an installation.
#[derive(Debug)]
pub(crate) struct Made {
    /// Holds the objects.
    pub secret: Secret,
    /// Has them applied.
    pub managed_resource: ManagedResource,
}

/// The namespace of an installation.
pub(crate) fn namespace(
    installation: &core::ControllerInstallation,
    registration: &str,
    seed: &core::Seed,
    seed_is_garden: bool,
) -> Namespace {
    let mut of_namespace = BTreeMap::from([
        (labels::ROLE.to_owned(), labels::role::EXTENSION.to_owned()),
        (labels::CONTROLLER_REGISTRATION_NAME.to_owned(), registration.to_owned()),
        (labels::HIGH_AVAILABILITY_CONSIDER.to_owned(), TRUE.to_owned()),
    ]);
    if let Some(level) = installation.annotations().get(annotations::POD_SECURITY_ENFORCE) {
        of_namespace.insert(labels::POD_SECURITY_ENFORCE.to_owned(), level.clone());
    }
    if seed_is_garden {
        of_namespace.insert(labels::ACCESS_TARGET_API_SERVER.to_owned(), "allowed".to_owned());
    }
    let zones = seed.spec.provider.zones.join(",");
    Namespace {
        metadata: ObjectMeta {
            name: Some(names::extension_namespace(&installation.name_any())),
            labels: Some(of_namespace),
            annotations: Some(BTreeMap::from([(
                annotations::HIGH_AVAILABILITY_ZONES.to_owned(),
                zones,
            )])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// What the chart is rendered as.
pub(crate) fn release(registration: &str, namespace: &str) -> Release {
    Release {
        name: registration.to_owned(),
        namespace: namespace.to_owned(),
        revision: 1,
        is_upgrade: false,
    }
}

/// Renders the chart.
///
/// # Errors
/// It does not render, or not to objects, or to more than a Secret holds.
pub(crate) fn make(wanted: &Wanted, chart: &Loaded) -> Result<Made, Problem> {
    let namespace = wanted.namespace.name_any();
    let mut objects = render(wanted, chart)?;
    for object in &mut objects {
        if let Some(access) = &wanted.access {
            access.inject(object, &namespace);
        }
        if let Some(pods) = pod_spec(object, &GROUPS, &namespace) {
            let seed = json!(wanted.seed);
            containers(pods).for_each(|container| set_variable(container, SEED_NAME, &seed));
        }
    }
    pack(wanted, &objects)
}

/// The objects, definitions below `crds/` first, without hooks.
fn render(wanted: &Wanted, chart: &Loaded) -> Result<Vec<Value>, Problem> {
    let refused = |why: String, hint: &str| {
        let fault = Fault::user(wanted.resources.hide(&why)).hint(hint);
        Problem::invalid(reason::CHART_CANNOT_BE_RENDERED, fault)
    };
    let rendered = chart.engine.render(&chart.chart, &wanted.values, &wanted.setting);
    let rendered = rendered.map_err(|why| {
        refused(
            format!("the chart does not render: {why}"),
            "correct the chart or helm.values of the ControllerDeployment; `orangery chart lint` shows more",
        )
    })?;
    let (made, findings) = lint::objects(&rendered);
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .peekable();
    if let Some(first) = errors.peek() {
        let hint = first.hint;
        let shown: Vec<String> = errors
            .take(FINDINGS_MAX)
            .map(|finding| format!("{}: {}", finding.file, finding.message))
            .collect();
        return Err(refused(
            format!("the chart does not render to objects: {}", shown.join("; ")),
            hint,
        ));
    }
    if let Some(why) = made_twice(&made) {
        let hint = "leave one of them out of the chart, or name them differently";
        return Err(refused(why, hint));
    }
    Ok(made.into_iter().map(|made| made.value).collect())
}

/// The first object that the chart makes twice: the ManagedResource could not distinguish the two.
fn made_twice(made: &[lint::Made]) -> Option<String> {
    let mut known = BTreeMap::new();
    for one in made {
        let text = |pointer: &str| one.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // Two versions of a group are one kind.
        let (group, _) = text("/apiVersion").split_once('/').unwrap_or_default();
        let identity = (
            group,
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        );
        if let Some(first) = known.insert(identity, one) {
            let files = match first.file == one.file {
                true => format!("both in {}", one.file),
                false => format!("in {} and in {}", first.file, one.file),
            };
            return Some(format!("the chart makes {} twice, {files}", one.title()));
        }
    }
    None
}

fn pack(wanted: &Wanted, objects: &[Value]) -> Result<Made, Problem> {
    let failed = |fault| Problem::not_installed(reason::INSTALLATION_FAILED, fault);
    let documents = data::documents(objects);
    let bytes = data::compress(&documents).map_err(|why| failed(Fault::bug(why)))?;
    if bytes.len() > data::SECRET_BYTES_MAX {
        let why = format!(
            "the chart renders to {} bytes, {} when compressed, and a Secret holds {}",
            documents.len(),
            bytes.len(),
            data::SECRET_BYTES_MAX
        );
        let hint = "make helm.values smaller, or leave large files out of the chart";
        return Err(failed(Fault::user(why).hint(hint)));
    }
    let of = BTreeMap::from([
        (
            labels::CONTROLLER_INSTALLATION_NAME.to_owned(),
            wanted.installation.clone(),
        ),
        (
            labels::MANAGED_REGISTRATION_NAME.to_owned(),
            wanted.registration.clone(),
        ),
    ]);
    let mut of_secret = of.clone();
    of_secret.insert(labels::GARBAGE_COLLECTABLE_REFERENCE.to_owned(), TRUE.to_owned());
    let name = format!(
        "managedresource-{}-{}",
        wanted.installation,
        data::checksum(documents.as_bytes())
    );
    let metadata = |name: &str, labels| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(names::GARDEN_NAMESPACE.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    let mut of_resource = BTreeMap::from([
        (data::reference("secret", &name), name.clone()),
        (annotations::INSTALLATION_INPUTS.to_owned(), wanted.inputs.clone()),
    ]);
    let chart = wanted.chart.iter();
    of_resource.extend(chart.map(|chart| (annotations::INSTALLATION_CHART.to_owned(), chart.clone())));
    Ok(Made {
        secret: Secret {
            metadata: metadata(&name, of_secret),
            data: Some(BTreeMap::from([(data::KEY.to_owned(), ByteString(bytes))])),
            immutable: Some(true),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        },
        managed_resource: ManagedResource {
            metadata: ObjectMeta {
                annotations: Some(of_resource),
                ..metadata(&wanted.installation, of)
            },
            spec: ManagedResourceSpec {
                class: Some(names::MANAGED_RESOURCE_CLASS_SEED.to_owned()),
                secret_refs: vec![LocalObjectReference { name }],
                keep_objects: Some(false),
                ..ManagedResourceSpec::default()
            },
            status: None,
        },
    })
}
