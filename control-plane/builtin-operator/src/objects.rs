//! What is installed in the seed for one extension. Pure.

use std::collections::BTreeMap;

use api_core::v1beta1::ControllerInstallation;
use api_meta::{labels, names};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, Namespace, ObjectFieldSelector, PodSpec, PodTemplateSpec, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::MANAGED_BY;
use crate::config::ProviderConfig;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// All objects of one extension.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objects {
    pub(crate) namespace: Namespace,
    pub(crate) service_account: ServiceAccount,
    pub(crate) cluster_role: ClusterRole,
    pub(crate) cluster_role_binding: ClusterRoleBinding,
    pub(crate) role: Role,
    pub(crate) role_binding: RoleBinding,
    pub(crate) deployment: Deployment,
}

/// `extension-<installation>`, as gardenlet names the namespaces of charts (contract of ControllerInstallations).
pub(crate) fn namespace_name(installation: &ControllerInstallation) -> String {
    format!("{}{}", names::EXTENSION_NAMESPACE_PREFIX, own_name(installation))
}

/// Deployment and service account are called as the registration.
pub(crate) fn deployment_name(installation: &ControllerInstallation) -> String {
    installation
        .spec
        .registration_ref
        .name
        .clone()
        .unwrap_or_else(|| own_name(installation).to_owned())
}

/// ClusterRole and ClusterRoleBinding live beside everybody else's.
pub(crate) fn role_name(installation: &ControllerInstallation) -> String {
    format!("orangery:extension:{}", own_name(installation))
}

fn own_name(installation: &ControllerInstallation) -> &str {
    installation.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn objects(installation: &ControllerInstallation, config: &ProviderConfig, seed_name: &str) -> Objects {
    let (namespace, name, role) = (
        namespace_name(installation),
        deployment_name(installation),
        role_name(installation),
    );
    let common = common_labels(installation);
    let inside = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.clone()),
        labels: Some(common.clone()),
        ..ObjectMeta::default()
    };
    let beside = |name: &str, extra: &[(&str, &str)]| {
        let mut labels = common.clone();
        labels.extend(
            extra
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    };
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.clone(),
        namespace: Some(namespace.clone()),
        api_group: None,
    };
    Objects {
        namespace: Namespace {
            metadata: beside(
                &namespace,
                &[
                    (labels::ROLE, "extension"),
                    (labels::HIGH_AVAILABILITY_CONSIDER, "true"),
                ],
            ),
            ..Namespace::default()
        },
        service_account: ServiceAccount {
            metadata: inside(&name),
            ..ServiceAccount::default()
        },
        cluster_role: ClusterRole {
            metadata: beside(&role, &[]),
            rules: Some(config.rules.clone().unwrap_or_else(usual_rules)),
            ..ClusterRole::default()
        },
        cluster_role_binding: ClusterRoleBinding {
            metadata: beside(&role, &[]),
            role_ref: role_ref("ClusterRole", &role),
            subjects: Some(vec![subject.clone()]),
        },
        role: Role {
            metadata: inside(&name),
            rules: Some(rules_at_home()),
        },
        role_binding: RoleBinding {
            metadata: inside(&name),
            role_ref: role_ref("Role", &name),
            subjects: Some(vec![subject]),
        },
        deployment: deployment(inside(&name), &name, installation, config, seed_name),
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC_GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn common_labels(installation: &ControllerInstallation) -> BTreeMap<String, String> {
    let registration = installation.spec.registration_ref.name.as_deref().unwrap_or_default();
    let pairs = [
        MANAGED_BY,
        (labels::CONTROLLER_REGISTRATION_NAME, registration),
        (labels::CONTROLLER_INSTALLATION_NAME, own_name(installation)),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn deployment(
    metadata: ObjectMeta,
    name: &str,
    installation: &ControllerInstallation,
    config: &ProviderConfig,
    seed_name: &str,
) -> Deployment {
    let selected: BTreeMap<String, String> = [
        (labels::APP, name),
        (labels::CONTROLLER_INSTALLATION_NAME, own_name(installation)),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let own_namespace = EnvVarSource {
        field_ref: Some(ObjectFieldSelector {
            field_path: "metadata.namespace".to_owned(),
            api_version: None,
        }),
        ..EnvVarSource::default()
    };
    let mut env = vec![
        EnvVar {
            name: "NAMESPACE".to_owned(),
            value_from: Some(own_namespace),
            ..EnvVar::default()
        },
        EnvVar {
            name: "SEED_NAME".to_owned(),
            value: Some(seed_name.to_owned()),
            ..EnvVar::default()
        },
    ];
    env.retain(|variable| config.env.iter().all(|given| given.name != variable.name));
    env.extend(config.env.iter().cloned());
    let container = Container {
        name: name.to_owned(),
        image: Some(config.image.clone()),
        args: (!config.args.is_empty()).then(|| config.args.clone()),
        env: Some(env),
        ..Container::default()
    };
    let pod = PodSpec {
        service_account_name: Some(name.to_owned()),
        containers: vec![container],
        ..PodSpec::default()
    };
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas: Some(config.replicas),
            selector: LabelSelector {
                match_labels: Some(selected.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(selected),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// What every extension needs in a whole seed: its own kinds, and events about them, in the namespaces they are in.
/// Further rights, above all for Secrets, are listed in `rules`: a role that fits all would also fit whatever takes one
/// over.
fn usual_rules() -> Vec<PolicyRule> {
    vec![
        rule("get list watch update patch", "extensions.gardener.cloud", "*"),
        rule("create get list watch patch update", "", "events"),
        rule("create patch", "events.k8s.io", "events"),
    ]
}

/// What every extension may do in its own namespace, whatever its `rules`: renew its heartbeat. A Lease of another
/// component names its leader, or shows that it is alive.
fn rules_at_home() -> Vec<PolicyRule> {
    vec![rule(
        "get list watch create update patch",
        "coordination.k8s.io",
        "leases",
    )]
}

fn rule(verbs: &str, group: &str, resources: &str) -> PolicyRule {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    PolicyRule {
        verbs: words(verbs),
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(words(resources)),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_in_the_seed_leads_back_to_its_installation_and_given_environment_wins() {
        let installation: ControllerInstallation =
            serde_json::from_value(json!({"metadata": {"name": "some-x7z"}, "spec": {"registrationRef": {"name": "some"}, "seedRef": {"name": "s"}}})).unwrap();
        let config: ProviderConfig = serde_json::from_value(json!({"image": "r/i:v1", "args": ["--a"], "env": [{"name": "SEED_NAME", "value": "other"}, {"name": "X", "value": "1"}]})).unwrap();
        let made = objects(&installation, &config, "s");
        for metadata in [
            &made.namespace.metadata,
            &made.service_account.metadata,
            &made.cluster_role.metadata,
            &made.cluster_role_binding.metadata,
            &made.role.metadata,
            &made.role_binding.metadata,
            &made.deployment.metadata,
        ] {
            let labels = metadata.labels.clone().unwrap();
            assert_eq!(labels["controllerinstallation-name"], "some-x7z");
            assert_eq!(labels[MANAGED_BY.0], MANAGED_BY.1);
        }
        let value = serde_json::to_value(&made.deployment).unwrap();
        let container = &value["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            (&container["image"], &container["args"]),
            (&json!("r/i:v1"), &json!(["--a"]))
        );
        let env: Vec<_> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| format!("{}={}", variable["name"], variable["value"]))
            .collect();
        assert_eq!(env, [r#""NAMESPACE"=null"#, r#""SEED_NAME"="other""#, r#""X"="1""#]);
        let subject = &made.cluster_role_binding.subjects.as_ref().unwrap()[0];
        assert_eq!(
            (subject.namespace.as_deref(), subject.name.as_str()),
            (Some("extension-some-x7z"), "some")
        );
        assert_eq!(value["spec"]["template"]["spec"]["serviceAccountName"], "some");
    }

    #[test]
    fn an_extension_without_rules_can_neither_read_secrets_nor_impersonate() {
        let granted = usual_rules();
        let resources = || granted.iter().flat_map(|rule| rule.resources.iter().flatten());
        for forbidden in [
            "secrets",
            "serviceaccounts/token",
            "pods",
            "configmaps",
            "deployments",
            "leases",
        ] {
            assert!(resources().all(|resource| resource != forbidden), "{forbidden}");
        }
        let wild = |rule: &&PolicyRule| rule.resources.iter().flatten().any(|resource| resource == "*");
        let groups: Vec<_> = granted
            .iter()
            .filter(wild)
            .flat_map(|rule| rule.api_groups.iter().flatten())
            .collect();
        assert_eq!(groups, ["extensions.gardener.cloud"]);
    }
}
