//! What to do about one installation. Pure.

use api_core::v1beta1::ControllerInstallation;

use crate::config::ProviderConfig;
use crate::objects::{Objects, objects};
use crate::observe::Seen;
use crate::{FINALIZER, TYPE};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Another operator's.
    Ignore,
    /// It cannot be installed as it is described; what is installed stays.
    Refuse { problem: String },
    /// Apply the objects.
    Install { objects: Box<Objects> },
    /// One step of taking it down.
    Uninstall(Removal),
}

/// The steps of taking it down, in their order; each waits for the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The program first, so that it does not run into the loss of its permissions.
    Deployment { is_requested: bool },
    /// Then its namespace and permissions.
    Namespace { is_requested: bool },
    /// Nothing is left.
    Finalizer,
}

pub(crate) fn plan(installation: &ControllerInstallation, seen: &Seen, seed_name: &str) -> Plan {
    let taken = installation
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER);
    let type_ = seen
        .controller_deployment
        .as_deref()
        .map(|deployment| deployment.type_.as_str());
    // Ours is what we have taken, unless its deployment now names another operator.
    let ours = type_ == Some(TYPE) || (taken && type_.is_none());
    if taken && (installation.metadata.deletion_timestamp.is_some() || !ours) {
        return Plan::Uninstall(removal(seen));
    }
    if !ours || installation.metadata.deletion_timestamp.is_some() {
        return Plan::Ignore;
    }
    let Some(deployment) = &seen.controller_deployment else {
        let name = installation
            .spec
            .deployment_ref
            .as_ref()
            .and_then(|reference| reference.name.as_deref())
            .unwrap_or_default();
        return Plan::Refuse {
            problem: format!("the ControllerDeployment \"{name}\" does not exist"),
        };
    };
    match ProviderConfig::read(&deployment.provider_config) {
        Err(error) => Plan::Refuse {
            problem: error.to_string(),
        },
        Ok(config) => Plan::Install {
            objects: Box::new(objects(installation, &config, seed_name)),
        },
    }
}

fn removal(seen: &Seen) -> Removal {
    if let Some(deployment) = &seen.deployment {
        Removal::Deployment {
            is_requested: deployment.metadata.deletion_timestamp.is_some(),
        }
    } else if let Some(namespace) = &seen.namespace {
        Removal::Namespace {
            is_requested: namespace.metadata.deletion_timestamp.is_some(),
        }
    } else {
        Removal::Finalizer
    }
}

/// The seed an installation is for.
pub(crate) fn seed_of(installation: &ControllerInstallation) -> Option<&str> {
    installation.spec.seed_ref.as_ref()?.name.as_deref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_core::v1beta1::ControllerDeployment;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::{Value, json};

    use super::*;

    fn installation(extra: Value) -> ControllerInstallation {
        let mut object = json!({"metadata": {"name": "some-x7z"}, "spec": {"registrationRef": {"name": "some"}, "deploymentRef": {"name": "d"}, "seedRef": {"name": "s"}}});
        for (key, value) in extra.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn seen(type_: &str, config: Value) -> Seen {
        let deployment: ControllerDeployment =
            serde_json::from_value(json!({"metadata": {"name": "d"}, "type": type_, "providerConfig": config}))
                .unwrap();
        Seen {
            controller_deployment: Some(Arc::new(deployment)),
            ..Seen::default()
        }
    }

    fn deployment(status: Value) -> Option<Arc<Deployment>> {
        Some(Arc::new(
            serde_json::from_value(json!({"spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status}))
                .unwrap(),
        ))
    }

    fn taken() -> Value {
        json!({"finalizers": [FINALIZER]})
    }

    #[test]
    fn installations_of_other_types_and_unknown_deployments_are_left_alone() {
        assert_eq!(
            plan(&installation(json!({})), &seen("helm", json!({})), "s"),
            Plan::Ignore
        );
        assert_eq!(plan(&installation(json!({})), &Seen::default(), "s"), Plan::Ignore);
        let going = installation(
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["core.gardener.cloud/controllerinstallation"]}),
        );
        assert_eq!(
            plan(&going, &seen(TYPE, json!({"image": "i"})), "s"),
            Plan::Ignore,
            "never taken, nothing to take down"
        );
    }

    #[test]
    fn a_bad_configuration_is_refused_and_names_the_field() {
        for (config, wanted) in [
            (json!({}), "image"),
            (json!({"image": "i", "chart": "x"}), "chart"),
            (json!({"image": "i", "replicas": -1}), "replicas"),
            (json!({"image": " "}), "image"),
        ] {
            let Plan::Refuse { problem } = plan(&installation(json!({})), &seen(TYPE, config), "s") else {
                panic!("installed")
            };
            assert!(problem.contains(wanted), "{problem}");
        }
        let Plan::Refuse { problem } = plan(&installation(taken()), &Seen::default(), "s") else {
            panic!("not ours any more")
        };
        assert_eq!(problem, "the ControllerDeployment \"d\" does not exist");
    }

    #[test]
    fn it_is_uninstalled_step_by_step_also_after_a_change_of_type() {
        let going = installation(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}));
        let mut seen = seen(TYPE, json!({"image": "i"}));
        seen.deployment = deployment(json!({}));
        seen.namespace = Some(Arc::default());
        assert_eq!(
            plan(&going, &seen, "s"),
            Plan::Uninstall(Removal::Deployment { is_requested: false })
        );
        let mut gone = seen.clone();
        gone.deployment = None;
        assert_eq!(
            plan(&going, &gone, "s"),
            Plan::Uninstall(Removal::Namespace { is_requested: false })
        );
        gone.namespace = None;
        assert_eq!(plan(&going, &gone, "s"), Plan::Uninstall(Removal::Finalizer));
        seen.controller_deployment = super::tests::seen("helm", json!({})).controller_deployment;
        assert_eq!(
            plan(&installation(taken()), &seen, "s"),
            Plan::Uninstall(Removal::Deployment { is_requested: false })
        );
    }
}
