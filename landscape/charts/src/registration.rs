//! The ControllerDeployment and the ControllerRegistration that install a chart as an extension. What the garden would
//! refuse is refused here; no request is sent to a cluster.

use std::path::Path;

use api_core::v1::{ControllerDeployment, HelmControllerDeployment, OCIRepository};
use api_core::v1beta1::{
    ControllerDeploymentPolicy, ControllerRegistration, ControllerRegistrationDeployment, ControllerRegistrationSpec,
    ControllerResource, DeploymentRef,
};
use api_meta::{Fault, RawJson};
use api_rules::{
    FieldError, default_controller_registration, validate_controller_deployment, validate_controller_registration,
};
use base_helm::Chart;
use base_helm::chart::{CHART_BYTES_MAX, archive_of_files, files_of_folder};
use base_helm::values::Values;
use k8s_openapi::ByteString;
use serde::Serialize;

use super::{Setting, load, merged_values, read_at_most};

/// etcd takes 1.5 MiB in one request, and the archive grows by a third in base64.
const ARCHIVE_BYTES_MAX: usize = 1 << 20;

/// An extension that a chart installs.
pub struct Registration<'a> {
    /// The name of both objects, that of the chart if there is none.
    pub name: Option<&'a str>,
    /// The chart: a folder, an archive or `oci://...`.
    pub chart: &'a str,
    /// `KIND/TYPE` of what the extension is responsible for.
    pub resources: &'a [String],
    /// Another extension has the main responsibility for these.
    pub secondary: bool,
    /// When it is installed; by default as the garden defaults it.
    pub policy: Option<&'a str>,
    /// Values, and how the chart is fetched.
    pub setting: &'a Setting,
}

/// Both objects as YAML. The same arguments make the same text.
///
/// # Errors
/// A chart, values or a name that cannot be used, each with one thing to do.
pub async fn manifests(wanted: &Registration<'_>) -> Result<String, Fault> {
    let chart = load(wanted.chart, wanted.setting).await?;
    let name = wanted.name.unwrap_or(&chart.metadata.name);
    let deployment = deployment(name, wanted.chart, &chart, wanted.setting)?;
    let registration = registration(name, wanted)?;
    Ok(format!("{}---\n{}", yaml(&deployment)?, yaml(&registration)?))
}

/// The archive of a chart of this machine, as a ControllerDeployment holds it. The same files make the same bytes.
///
/// # Errors
/// It is no chart, or too large.
pub async fn pack(path: &str) -> Result<Vec<u8>, Fault> {
    let chart = load(path, &Setting::default()).await?;
    archive(path, &chart)
}

fn deployment(name: &str, path: &str, chart: &Chart, setting: &Setting) -> Result<ControllerDeployment, Fault> {
    let values = values(&merged_values(setting)?)?;
    let mut helm = HelmControllerDeployment {
        values,
        ..HelmControllerDeployment::default()
    };
    if let Some(repository) = path.strip_prefix(base_oci::SCHEME) {
        let version = setting.pull.version.as_deref().unwrap_or(&chart.metadata.version);
        helm.oci_repository = Some(OCIRepository {
            repository: Some(repository.to_owned()),
            // A tag has no +, and Helm writes _ in its place.
            tag: Some(version.replace('+', "_")),
            ..OCIRepository::default()
        });
    } else {
        helm.raw_chart = Some(ByteString(archive(path, chart)?));
    }
    let mut deployment = ControllerDeployment {
        helm: Some(helm),
        ..ControllerDeployment::default()
    };
    deployment.metadata.name = Some(name.to_owned());
    refuse(validate_controller_deployment(&deployment))?;
    Ok(deployment)
}

/// The archive as it is, or a folder packed.
fn archive(path: &str, chart: &Chart) -> Result<Vec<u8>, Fault> {
    let file = Path::new(path);
    let archive = if file.is_dir() {
        let files = files_of_folder(file).map_err(|why| Fault::user(format!("cannot pack the chart {path}: {why}")))?;
        archive_of_files(&chart.metadata.name, &files)
    } else {
        read_at_most(file, CHART_BYTES_MAX)
            .map_err(|why| Fault::user(format!("cannot read the chart {path}: {why}")))?
    };
    if archive.len() > ARCHIVE_BYTES_MAX {
        let why = format!(
            "the archive of {path} has {} KiB, and an object of the garden holds {} KiB of it at most",
            archive.len() >> 10,
            ARCHIVE_BYTES_MAX >> 10
        );
        return Err(Fault::user(why).hint("push it to a registry with `helm push`, then name oci://... here"));
    }
    Ok(archive)
}

fn values(values: &Values) -> Result<Option<RawJson>, Fault> {
    if values.is_empty() {
        return Ok(None);
    }
    let json = RawJson::of(values).map_err(|error| Fault::bug(format!("values are not JSON: {error}")))?;
    Ok(Some(json))
}

fn registration(name: &str, wanted: &Registration<'_>) -> Result<ControllerRegistration, Fault> {
    let resources = wanted.resources.iter().map(|text| resource(text, wanted.secondary));
    let resources = resources.collect::<Result<Vec<_>, _>>()?;
    let mut registration = ControllerRegistration {
        spec: ControllerRegistrationSpec {
            resources,
            deployment: Some(ControllerRegistrationDeployment {
                policy: wanted.policy.map(ControllerDeploymentPolicy::from),
                deployment_refs: vec![DeploymentRef { name: name.to_owned() }],
                ..ControllerRegistrationDeployment::default()
            }),
        },
        ..ControllerRegistration::default()
    };
    registration.metadata.name = Some(name.to_owned());
    let mut defaulted = registration.clone();
    default_controller_registration(&mut defaulted);
    refuse(validate_controller_registration(&defaulted))?;
    Ok(registration)
}

fn resource(text: &str, secondary: bool) -> Result<ControllerResource, Fault> {
    let Some((kind, type_)) = text.split_once('/') else {
        let why = format!("--resource {text:?} is not KIND/TYPE");
        return Err(Fault::user(why).hint("write it as in --resource Infrastructure/aws"));
    };
    Ok(ControllerResource {
        kind: kind.to_owned(),
        type_: type_.to_owned(),
        primary: Some(!secondary),
        ..ControllerResource::default()
    })
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Fault> {
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    Err(Fault::user(errors.join("; ")).hint("`orangery chart registration --help` shows what the arguments mean"))
}

/// By way of JSON: values are raw JSON in the object.
fn yaml(object: &impl Serialize) -> Result<String, Fault> {
    let object =
        serde_json::to_value(object).map_err(|error| Fault::bug(format!("the object is not JSON: {error}")))?;
    base_yaml::go::write(&object).map_err(|error| Fault::bug(format!("the object is not YAML: {error}")))
}
