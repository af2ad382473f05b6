//! Admission in the garden: what the owner of a Shoot writes for this provider is completed and checked before it is stored.

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use async_trait::async_trait;
use extensions_sdk::{About, FieldProblem};
use extensions_webhooks::{Refusal, ShootPart, ShootProvider, Webhook, shoot_webhooks};
use serde_json::{Value, json};

use crate::control_plane::ControlPlaneConfig;
use crate::infrastructure::{self, ValidatedConfig, Vpc, vpc_of, zones_of};

/// The program that serves them.
pub const ADMISSION: About = About::new("admission-fake", env!("CARGO_PKG_VERSION"));

/// The webhooks of Shoots whose provider is of `type_`.
#[must_use]
pub fn admission(type_: &str) -> [Webhook; 2] {
    shoot_webhooks(type_, ShootPart::Provider, Arc::new(Shoots))
}

struct Shoots;

fn infrastructure_of(shoot: &Shoot) -> Result<ValidatedConfig, Vec<FieldProblem>> {
    ValidatedConfig::check(shoot.spec.provider.infrastructure_config.as_ref(), &zones_of(shoot))
}

#[async_trait]
impl ShootProvider for Shoots {
    /// A network that names neither range nor id gets the range of the Shoot's nodes.
    async fn default(&self, shoot: &mut Shoot, _: Option<&Shoot>) -> Result<(), Refusal> {
        let spec = &mut shoot.spec;
        let nodes = spec.networking.as_ref().and_then(|networking| networking.nodes.clone());
        let (Some(nodes), Some(config)) = (nodes, &mut spec.provider.infrastructure_config) else {
            return Ok(());
        };
        let mut value = config.value();
        if let Some(networks) = value.get_mut("networks").and_then(Value::as_object_mut) {
            let vpc = networks.entry("vpc").or_insert_with(|| json!({}));
            if let Some(vpc) = vpc.as_object_mut()
                && !vpc.contains_key("cidr")
                && !vpc.contains_key("id")
            {
                vpc.insert("cidr".to_owned(), nodes.into());
                *config = value.into();
            }
        }
        Ok(())
    }

    async fn validate(&self, shoot: &Shoot, old: Option<&Shoot>) -> Result<Vec<FieldProblem>, Refusal> {
        let mut problems = Vec::new();
        match infrastructure_of(shoot) {
            Err(wrong) => problems.extend(wrong),
            Ok(new) => problems.extend(old.and_then(|old| moved(old, &new))),
        }
        let control_plane = shoot.spec.provider.control_plane_config.as_ref();
        problems.extend(ControlPlaneConfig::check(control_plane).err().unwrap_or_default());
        Ok(problems)
    }
}

/// A network stays what it is: everything of the shoot is in it. One that was stored before the webhook was registered may be
/// wrong, and can be corrected.
fn moved(old: &Shoot, new: &ValidatedConfig) -> Option<FieldProblem> {
    let old = vpc_of(old.spec.provider.infrastructure_config.as_ref())?;
    let words = |vpc: &Vpc| match vpc {
        Vpc::Own(range) => format!("the range {range}"),
        Vpc::Existing(id) => format!("the network {id}"),
    };
    (old != new.vpc).then(|| {
        FieldProblem::new(
            format!("{}.networks.vpc", infrastructure::FIELD),
            format!("has become {} and cannot change", words(&new.vpc)),
            words(&old),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_status::API_VERSION;

    fn shoot(vpc: Value, range: &str) -> Shoot {
        let networks = json!({"vpc": vpc, "zones": [{"name": "a", "workers": range}]});
        let spec = json!({
            "networking": {"nodes": "10.9.0.0/16"},
            "provider": {
                "type": "fake",
                "infrastructureConfig": {"apiVersion": API_VERSION, "kind": "InfrastructureConfig", "networks": networks},
                "workers": [{"name": "w", "zones": ["a"]}],
            },
        });
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
    }

    async fn problems(shoot: &Shoot, old: Option<&Shoot>) -> Vec<String> {
        let problems = Shoots.validate(shoot, old).await.unwrap();
        problems.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_network_without_range_gets_that_of_the_nodes_once() {
        let mut made = shoot(json!({}), "10.9.0.0/20");
        Shoots.default(&mut made, None).await.unwrap();
        let config = made.spec.provider.infrastructure_config.as_ref().unwrap().value();
        assert_eq!(config["networks"]["vpc"], json!({"cidr": "10.9.0.0/16"}));
        assert_eq!(problems(&made, None).await, [""; 0]);
        let mut again = made.clone();
        Shoots.default(&mut again, Some(&made)).await.unwrap();
        assert_eq!(again, made);
        let mut existing = shoot(json!({"id": "net-1"}), "10.9.0.0/20");
        let before = existing.clone();
        Shoots.default(&mut existing, None).await.unwrap();
        assert_eq!(existing, before);
    }

    #[tokio::test]
    async fn a_configuration_that_is_no_object_is_left_to_the_check() {
        let mut wrong = shoot(json!({}), "10.9.0.0/20");
        for config in [json!(7), json!({"networks": [1]}), json!({"networks": {"vpc": "x"}})] {
            wrong.spec.provider.infrastructure_config = Some(config.into());
            let before = wrong.clone();
            Shoots.default(&mut wrong, None).await.unwrap();
            assert_eq!(wrong, before);
            assert!(!problems(&wrong, None).await.is_empty());
        }
    }

    #[tokio::test]
    async fn a_network_cannot_move_and_other_changes_pass() {
        let old = shoot(json!({"cidr": "10.9.0.0/16"}), "10.9.0.0/20");
        let other = shoot(json!({"cidr": "10.9.0.0/16"}), "10.9.16.0/20");
        assert_eq!(problems(&other, Some(&old)).await, [""; 0]);
        let moved = shoot(json!({"id": "net-1"}), "10.9.0.0/20");
        let expected = "spec.provider.infrastructureConfig.networks.vpc has become the network net-1 and cannot change; \
                        expected the range 10.9.0.0/16";
        assert_eq!(problems(&moved, Some(&old)).await, [expected]);
        for wrong in ["10.9.0.0/16", "nonsense"] {
            let broken = shoot(json!({"cidr": wrong}), "nonsense");
            let corrected = problems(&old, Some(&broken)).await;
            assert_eq!(corrected, [""; 0], "what is wrong can be corrected");
        }
        let broken = shoot(json!({"cidr": "10.9.0.0/16"}), "nonsense");
        assert_eq!(
            problems(&moved, Some(&broken)).await,
            [expected],
            "and nothing else by the way"
        );
    }

    #[tokio::test]
    async fn problems_of_both_configurations_are_named_together() {
        let mut wrong = shoot(json!({"cidr": "10.9.0.0/16"}), "10.8.0.0/20");
        let config = json!({"apiVersion": API_VERSION, "kind": "ControlPlaneConfig", "zone": "a"});
        wrong.spec.provider.control_plane_config = Some(config.into());
        let problems = problems(&wrong, None).await;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains(".networks.zones[0].workers") && problems[1].contains("controlPlaneConfig.zone"));
    }
}
