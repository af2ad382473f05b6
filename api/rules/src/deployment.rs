//! Rules of ControllerDeployments and conversion between their two versions, without loss both ways
//! (gardener/gardener v1.150 pkg/apis/core/v1beta1/conversions.go, pkg/api/core/validation/controllerdeployment.go).
//! It never opens a chart.

use api_core::{v1, v1beta1};
use api_meta::annotations::{
    MIGRATION_DEPLOYMENT_PROVIDER_CONFIG, MIGRATION_DEPLOYMENT_RESOURCES, MIGRATION_DEPLOYMENT_TYPE,
};
use api_meta::names::DEPLOYMENT_TYPE_HELM;
use api_meta::{Classified, FaultClass, NamedResourceReference, RawJson};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::checks::{distinct, dns_label, name};
use crate::{FieldError, Path};

/// Where v1beta1 describes what is installed.
const PROVIDER_CONFIG: &str = "providerConfig";

/// A ControllerDeployment cannot be read in the other version.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConversionError(pub FieldError);

impl ConversionError {
    /// `providerConfig` of type helm is no chart description: names the first field that cannot be read.
    fn helm_config(config: &RawJson, error: &serde_json::Error) -> Self {
        let path = Path::new(PROVIDER_CONFIG);
        let Value::Object(fields) = config.value() else {
            return Self(path.invalid(config, "must be an object with chart or ociRepository, and values"));
        };
        let unreadable = fields.into_iter().find_map(|(name, value)| {
            let alone = json!({&name: &value});
            let error = serde_json::from_value::<v1beta1::HelmControllerDeployment>(alone).err()?;
            let words = match (name.as_str(), &value) {
                ("chart", _) => "must be the whole chart, a gzipped tar archive, in base64".to_owned(),
                _ => error.to_string(),
            };
            Some(path.child(&name).invalid(value, words))
        });
        Self(unreadable.unwrap_or_else(|| path.invalid(config, error.to_string())))
    }

    /// An annotation that carries a field of the other version is no JSON of it.
    fn annotation(key: &str, text: &str, error: &serde_json::Error) -> Self {
        let path = Path::new("metadata.annotations").key(key);
        Self(path.invalid(
            text,
            format!("must hold JSON: {error}; remove it, it is written by conversion"),
        ))
    }
}

impl Classified for ConversionError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        "correct the named field of the ControllerDeployment".to_owned()
    }
}

/// Reads v1beta1 as v1: helm becomes `helm`, other types become annotations.
pub fn deployment_to_v1(old: &v1beta1::ControllerDeployment) -> Result<v1::ControllerDeployment, ConversionError> {
    let v1beta1::ControllerDeployment {
        metadata,
        type_,
        provider_config,
        inject_garden_kubeconfig,
    } = old;
    let mut new = v1::ControllerDeployment {
        metadata: metadata.clone(),
        inject_garden_kubeconfig: *inject_garden_kubeconfig,
        ..v1::ControllerDeployment::default()
    };
    if let Some(text) = take_annotation(&mut new.metadata, MIGRATION_DEPLOYMENT_RESOURCES) {
        new.resources = serde_json::from_str::<Vec<NamedResourceReference>>(&text)
            .map_err(|error| ConversionError::annotation(MIGRATION_DEPLOYMENT_RESOURCES, &text, &error))?;
    }
    if type_ == DEPLOYMENT_TYPE_HELM {
        let v1beta1::HelmControllerDeployment {
            chart,
            values,
            oci_repository,
        } = provider_config
            .decode()
            .map_err(|error| ConversionError::helm_config(provider_config, &error))?;
        new.helm = Some(v1::HelmControllerDeployment {
            raw_chart: chart,
            values,
            oci_repository: oci_repository.map(repository_to_v1),
        });
    } else if !type_.is_empty() {
        let annotations = new.metadata.annotations.get_or_insert_default();
        annotations.insert(MIGRATION_DEPLOYMENT_TYPE.to_owned(), type_.clone());
        annotations.insert(
            MIGRATION_DEPLOYMENT_PROVIDER_CONFIG.to_owned(),
            provider_config.get().to_owned(),
        );
    }
    Ok(new)
}

/// Reads v1 as v1beta1; `resources`, which v1beta1 lacks, travel in an annotation.
pub fn deployment_to_v1beta1(new: &v1::ControllerDeployment) -> Result<v1beta1::ControllerDeployment, ConversionError> {
    let v1::ControllerDeployment {
        metadata,
        helm,
        inject_garden_kubeconfig,
        resources,
    } = new;
    let mut old = v1beta1::ControllerDeployment {
        metadata: metadata.clone(),
        inject_garden_kubeconfig: *inject_garden_kubeconfig,
        ..v1beta1::ControllerDeployment::default()
    };
    if let Some(v1::HelmControllerDeployment {
        raw_chart,
        values,
        oci_repository,
    }) = helm
    {
        old.type_ = DEPLOYMENT_TYPE_HELM.to_owned();
        let config = v1beta1::HelmControllerDeployment {
            chart: raw_chart.clone(),
            values: values.clone(),
            oci_repository: oci_repository.clone().map(repository_to_v1beta1),
        };
        old.provider_config = RawJson::of(&config).expect("a chart description prints as JSON");
    } else if let Some(type_) = take_annotation(&mut old.metadata, MIGRATION_DEPLOYMENT_TYPE) {
        old.type_ = type_;
        if let Some(text) = take_annotation(&mut old.metadata, MIGRATION_DEPLOYMENT_PROVIDER_CONFIG) {
            old.provider_config = RawJson::parse(&text)
                .map_err(|error| ConversionError::annotation(MIGRATION_DEPLOYMENT_PROVIDER_CONFIG, &text, &error))?;
        }
    }
    if !resources.is_empty() {
        let text = serde_json::to_string(resources).expect("references print as JSON");
        old.metadata
            .annotations
            .get_or_insert_default()
            .insert(MIGRATION_DEPLOYMENT_RESOURCES.to_owned(), text);
    }
    Ok(old)
}

fn take_annotation(metadata: &mut ObjectMeta, key: &str) -> Option<String> {
    let annotations = metadata.annotations.as_mut()?;
    let value = annotations.remove(key);
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    value
}

fn repository_to_v1(repository: v1beta1::OCIRepository) -> v1::OCIRepository {
    let v1beta1::OCIRepository {
        reference,
        repository,
        tag,
        digest,
        pull_secret_ref,
        ca_bundle_secret_ref,
    } = repository;
    v1::OCIRepository {
        reference,
        repository,
        tag,
        digest,
        pull_secret_ref,
        ca_bundle_secret_ref,
    }
}

fn repository_to_v1beta1(repository: v1::OCIRepository) -> v1beta1::OCIRepository {
    let v1::OCIRepository {
        reference,
        repository,
        tag,
        digest,
        pull_secret_ref,
        ca_bundle_secret_ref,
    } = repository;
    v1beta1::OCIRepository {
        reference,
        repository,
        tag,
        digest,
        pull_secret_ref,
        ca_bundle_secret_ref,
    }
}

/// Everything that is wrong with a v1beta1 deployment, by way of v1.
pub fn validate_controller_deployment_v1beta1(deployment: &v1beta1::ControllerDeployment) -> Vec<FieldError> {
    if deployment.type_.is_empty() {
        return vec![Path::new("type").required("field is required")];
    }
    match deployment_to_v1(deployment) {
        Ok(deployment) => validate_controller_deployment(&deployment),
        Err(ConversionError(error)) => vec![error],
    }
}

/// Everything that is wrong with a v1 deployment.
pub fn validate_controller_deployment(deployment: &v1::ControllerDeployment) -> Vec<FieldError> {
    let mut errors = Vec::new();
    dns_label(&mut errors, &Path::new("metadata.name"), name(&deployment.metadata));
    let custom = deployment
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|map| map.contains_key(MIGRATION_DEPLOYMENT_TYPE));
    match (&deployment.helm, custom) {
        (Some(helm), false) => validate_helm(&mut errors, &Path::new("helm"), helm),
        (Some(_), true) => errors.push(
            Path::new("helm").forbidden("must not be set together with a custom deployment configuration; remove one"),
        ),
        (None, false) => {
            errors.push(Path::new("helm").required("must use either helm or a custom deployment configuration"));
        }
        (None, true) => {}
    }
    let path = Path::new("resources");
    let names = deployment.resources.iter().map(|resource| resource.name.as_str());
    distinct(&mut errors, names, |index| path.index(index).child("name"));
    for (index, NamedResourceReference { name, resource_ref }) in deployment.resources.iter().enumerate() {
        let path = path.index(index);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            errors.push(
                path.child("name")
                    .invalid(name, "must consist of letters and digits: it stands in templates"),
            );
        }
        let (version, kind) = (
            resource_ref.api_version.as_deref().unwrap_or_default(),
            resource_ref.kind.as_str(),
        );
        if !matches!((version, kind), ("v1", "Secret" | "ConfigMap")) {
            let found = format!("{version}, Kind={kind}");
            errors.push(
                path.child("resourceRef")
                    .not_supported(found, &["v1, Kind=Secret", "v1, Kind=ConfigMap"]),
            );
        }
    }
    errors
}

fn validate_helm(errors: &mut Vec<FieldError>, path: &Path, helm: &v1::HelmControllerDeployment) {
    let has_chart = helm.raw_chart.as_ref().is_some_and(|chart| !chart.0.is_empty());
    match (&helm.oci_repository, has_chart) {
        (Some(repository), false) => validate_repository(errors, &path.child("ociRepository"), repository),
        (None, true) => {}
        (None, false) => errors.push(path.required("must provide either rawChart or ociRepository")),
        (Some(_), true) => errors.push(path.forbidden("must provide either rawChart or ociRepository, not both")),
    }
}

pub(crate) fn validate_repository(errors: &mut Vec<FieldError>, path: &Path, repository: &v1::OCIRepository) {
    let v1::OCIRepository {
        reference,
        repository,
        tag,
        digest,
        pull_secret_ref: _,
        ca_bundle_secret_ref: _,
    } = repository;
    if reference.is_some() {
        for (field, set) in [
            ("repository", repository.is_some()),
            ("tag", tag.is_some()),
            ("digest", digest.is_some()),
        ] {
            if set {
                errors.push(path.child(field).forbidden("must not be set together with ref"));
            }
        }
        return;
    }
    if repository.as_deref().unwrap_or_default().is_empty() {
        errors.push(
            path.child("repository")
                .required("must provide ref, or repository with tag or digest"),
        );
    }
    if tag.is_none() && digest.is_none() {
        errors.push(path.required("must provide tag or digest"));
    }
    if let Some(digest) = digest.as_ref().filter(|digest| !digest.starts_with("sha256:")) {
        errors.push(path.child("digest").invalid(digest, "must start with \"sha256:\""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1_of(value: serde_json::Value) -> v1::ControllerDeployment {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn no_version_loses_what_the_other_has() {
        let new = v1_of(json!({
            "apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": "d", "annotations": {"a": "b"}},
            "helm": {"rawChart": "AAEC", "values": {"b": 9007199254740993_u64, "a": null},
                     "ociRepository": {"ref": "r", "pullSecretRef": {"name": "p"}}},
            "injectGardenKubeconfig": true,
            "resources": [{"name": "x", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}],
        }));
        let old = deployment_to_v1beta1(&new).unwrap();
        assert_eq!(old.type_, "helm");
        assert_eq!(deployment_to_v1(&old).unwrap(), new);
        let custom: v1beta1::ControllerDeployment = serde_json::from_str(
            r#"{"metadata":{"name":"d"},"type":"builtin","providerConfig":{"z": 1e400, "image":"provider-local"}}"#,
        )
        .unwrap();
        let there = deployment_to_v1(&custom).unwrap();
        assert!(there.helm.is_none());
        assert_eq!(deployment_to_v1beta1(&there).unwrap(), custom);
    }

    #[test]
    fn a_chart_comes_from_exactly_one_place() {
        let cases = [
            (
                json!({"metadata": {"name": "d"}}),
                "helm: Required value: must use either helm",
            ),
            (
                json!({"metadata": {"name": "d"}, "helm": {}}),
                "helm: Required value: must provide either",
            ),
            (
                json!({"metadata": {"name": "d"}, "helm": {"ociRepository": {"repository": "r"}}}),
                "helm.ociRepository: Required value",
            ),
            (
                json!({"metadata": {"name": "d"}, "helm": {"ociRepository": {"ref": "r", "tag": "t"}}}),
                "helm.ociRepository.tag: Forbidden",
            ),
            (
                json!({"metadata": {"name": "d"}, "helm": {"ociRepository": {"repository": "r", "digest": "md5:1"}}}),
                "helm.ociRepository.digest: Invalid value: \"md5:1\"",
            ),
            (
                json!({"metadata": {"name": "d"}, "helm": {"rawChart": "AA=="}, "resources": [
                    {"name": "a-b", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}]}),
                "resources[0].name: Invalid value: \"a-b\"",
            ),
        ];
        for (object, expected) in cases {
            let found = validate_controller_deployment(&v1_of(object));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].to_string().starts_with(expected), "{}", found[0]);
        }
    }

    #[test]
    fn what_cannot_be_read_of_a_chart_is_named_by_its_field() {
        for (config, expected) in [
            (
                json!({"chart": "H4sI/yk...", "values": {}}),
                "providerConfig.chart: Invalid value: \"H4sI/yk...\": must be the whole chart, a gzipped tar archive, in base64",
            ),
            (
                json!({"chart": 1}),
                "providerConfig.chart: Invalid value: 1: must be the whole",
            ),
            (
                json!({"values": {}, "ociRepository": "r"}),
                "providerConfig.ociRepository: Invalid value: \"r\": invalid type",
            ),
            (
                json!("chart"),
                "providerConfig: Invalid value: \"chart\": must be an object",
            ),
        ] {
            let deployment = json!({"metadata": {"name": "d"}, "type": "helm", "providerConfig": config});
            let found = validate_controller_deployment_v1beta1(&serde_json::from_value(deployment).unwrap());
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].to_string().starts_with(expected), "{}", found[0]);
        }
    }
}
