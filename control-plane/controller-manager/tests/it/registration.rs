//! Which installations a registration gets, and what is reported of those that no operator installs.

use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration, Seed};
use api_meta::{Condition, ConditionStatus};
use control_plane_garden_api::{AdmissionPlugin, AdmissionPlugins};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::Garden;

fn valid(installation: &ControllerInstallation) -> Option<&Condition> {
    Condition::find(&installation.status.as_ref()?.conditions, "Valid")
}

fn has_reason(reason: &'static str) -> impl Fn(&ControllerInstallation) -> bool {
    move |installation| valid(installation).is_some_and(|condition| condition.reason == reason)
}

impl Garden {
    /// A garden in which the types of the seeds below are registered. Registrations may name what is missing: controllers
    /// also meet those that were stored without the plug-in that refuses it.
    async fn registered() -> Self {
        let plugins = AdmissionPlugins::default().without(AdmissionPlugin::ResourceReferenceManager);
        let garden = Self::start_with(plugins).await;
        let kinds = ["ControlPlane", "Infrastructure", "Worker"].map(|kind| json!({"kind": kind, "type": "prov"}));
        garden.register("prov", json!(kinds)).await;
        let names = json!([{"kind": "DNSRecord", "type": "names"}]);
        garden.register("names", names).await;
        garden
    }

    /// A registration that is installed everywhere, with this as its deployment.
    async fn always(&self, name: &str, mut deployment: Value) {
        deployment["policy"] = json!("Always");
        self.all::<ControllerRegistration>(json!({"metadata": {"name": name}, "spec": {"deployment": deployment}}))
            .await;
    }

    async fn seed(&self, name: &str, number: u8, labels: Value) {
        let credentials = json!({"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"});
        self.all::<Seed>(json!({"metadata": {"name": name, "labels": labels}, "spec": {
            "provider": {"type": "prov", "region": "r"},
            "networks": {"pods": format!("10.{number}.0.0/16"), "services": format!("10.{}.0.0/16", number + 1)},
            "dns": {"provider": {"type": "names", "credentialsRef": credentials},
                    "internal": {"domain": "internal.example", "type": "names", "credentialsRef": credentials}}}}))
            .await;
    }

    async fn change<K>(&self, name: &str, change: Value)
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let patch = Patch::Merge(change);
        self.api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Registration and seed of all installations but those that every seed here needs, in order, a second later.
    async fn installed(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = self
            .api::<ControllerInstallation>()
            .list(&Default::default())
            .await
            .unwrap();
        let name = |reference: Option<&api_meta::ObjectReference>| reference.and_then(|one| one.name.clone());
        let mut all: Vec<String> = all
            .iter()
            .filter_map(|one| {
                Some((
                    name(Some(&one.spec.registration_ref))?,
                    name(one.spec.seed_ref.as_ref())?,
                ))
            })
            .filter(|(registration, _)| registration != "prov" && registration != "names")
            .map(|(registration, seed)| format!("{registration} on {seed}"))
            .collect();
        all.sort();
        all
    }

    /// Reports whether extension objects need an installation, as gardenlet does.
    async fn required(&self, installation: &str, status: &str) {
        let conditions = json!([{"type": "Required", "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]);
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        self.api::<ControllerInstallation>()
            .patch_status(installation, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let all = Api::<Event>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap();
        let about = all
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        about.filter_map(|event| event.involved_object.kind).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_deployment_is_reported_at_once_and_taken_back_when_it_comes() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    garden
        .always("moon", json!({"deploymentRefs": [{"name": "lander"}]}))
        .await;
    let name = garden.installation_of("moon").await.name_any();
    let installations = garden.api::<ControllerInstallation>();
    let message = has_reason("ControllerDeploymentNotFound");
    let message = until(&installations, &name, "reported to lack its deployment", message).await;
    assert_eq!(valid(&message).unwrap().status, ConditionStatus::False);
    let mut kinds = garden.events("ControllerDeploymentNotFound").await;
    kinds.sort();
    assert_eq!(kinds, ["ControllerInstallation", "ControllerRegistration"]);

    garden
        .all::<ControllerDeployment>(
            json!({"metadata": {"name": "lander"}, "type": "rocket", "providerConfig": {"a": 1}}),
        )
        .await;
    until(&installations, &name, "mended", |one| valid(one).is_none()).await;
    let message = has_reason("NoOperator");
    let message = until(&installations, &name, "reported to lack an operator", message).await;
    assert_eq!(valid(&message).unwrap().status, ConditionStatus::Unknown);
    garden.report_installed("moon").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let left = installations.get(&name).await.unwrap();
    assert_eq!(
        valid(&left).unwrap().status,
        ConditionStatus::True,
        "the operator's word stands"
    );

    // A name that leads nowhere reaches the installation, whose installer reports it.
    let renamed = json!({"spec": {"deployment": {"deploymentRefs": [{"name": "nowhere"}]}}});
    garden.change::<ControllerRegistration>("moon", renamed).await;
    until(&installations, &name, "renamed", |one: &ControllerInstallation| {
        one.spec
            .deployment_ref
            .as_ref()
            .is_some_and(|reference| reference.name.as_deref() == Some("nowhere"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_without_a_deployment_gets_a_report() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    garden.always("moon", json!({})).await;
    let name = garden.installation_of("moon").await.name_any();
    let installations = garden.api::<ControllerInstallation>();
    until(&installations, &name, "reported", has_reason("NoDeployment")).await;
    garden
        .all::<ControllerDeployment>(
            json!({"metadata": {"name": "lander"}, "type": "rocket", "providerConfig": {"a": 1}}),
        )
        .await;
    let named = json!({"spec": {"deployment": {"deploymentRefs": [{"name": "lander"}]}}});
    garden.change::<ControllerRegistration>("moon", named).await;
    until(&installations, &name, "mended", |one| valid(one).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn policies_and_selectors_are_followed_seed_by_seed() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({"side": "cold"})).await;
    garden.seed("south", 3, json!({"side": "warm"})).await;
    garden.always("everywhere", json!({})).await;
    let warm = json!({"seedSelector": {"matchLabels": {"side": "warm"}}});
    garden.always("warm", warm).await;
    let with_shoots = json!({"deployment": {"policy": "AlwaysExceptNoShoots"}});
    garden
        .all::<ControllerRegistration>(json!({"metadata": {"name": "with-shoots"}, "spec": with_shoots}))
        .await;
    assert_eq!(
        garden.installed().await,
        ["everywhere on north", "everywhere on south", "warm on south"]
    );

    garden
        .change::<Seed>("north", json!({"metadata": {"labels": {"side": "warm"}}}))
        .await;
    garden
        .change::<Seed>("south", json!({"metadata": {"labels": {"side": "cold"}}}))
        .await;
    assert_eq!(
        garden.installed().await,
        ["everywhere on north", "everywhere on south", "warm on north"]
    );
    garden
        .change::<ControllerRegistration>("everywhere", json!({"spec": {"deployment": {"policy": "OnDemand"}}}))
        .await;
    assert_eq!(garden.installed().await, ["warm on north"]);
}

#[tokio::test(start_paused = true)]
async fn installation_gets_another_name_where_that_of_another_seed_has_its_own() {
    let garden = Garden::registered().await;
    garden.seed("south", 3, json!({"side": "warm"})).await;
    let warm = json!({"seedSelector": {"matchLabels": {"side": "warm"}}});
    garden.always("warm", warm).await;
    assert_eq!(garden.installed().await, ["warm on south"]);
    let api = garden.api::<ControllerInstallation>();
    let all = api.list(&Default::default()).await.unwrap();
    let first = all
        .iter()
        .find(|one| one.name_any().starts_with("warm-"))
        .unwrap()
        .name_any();
    garden
        .change::<Seed>("south", json!({"metadata": {"labels": {"side": "cold"}}}))
        .await;
    until_gone(&api, &first).await;

    // Five characters of a hash are the same for two of a thousand seeds.
    let of_another = json!({"metadata": {"name": first}, "spec": {
        "registrationRef": {"name": "warm"}, "seedRef": {"name": "elsewhere"}}});
    garden.all::<ControllerInstallation>(of_another).await;
    garden
        .change::<Seed>("south", json!({"metadata": {"labels": {"side": "warm"}}}))
        .await;
    assert_eq!(garden.installed().await, ["warm on elsewhere", "warm on south"]);
}

#[tokio::test(start_paused = true)]
async fn an_auto_enabled_seed_extension_is_on_until_a_seed_disables_it() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    garden.seed("south", 3, json!({})).await;
    let resource = json!({"kind": "Extension", "type": "audit", "autoEnable": ["seed"], "clusterCompatibility": ["seed", "shoot"]});
    garden.register("audit", json!([resource])).await;
    let requested = json!({"kind": "Extension", "type": "backup", "clusterCompatibility": ["seed"]});
    garden.register("backup", json!([requested])).await;
    assert_eq!(garden.installed().await, ["audit on north", "audit on south"]);
    let extensions = json!([{"type": "audit", "disabled": true}, {"type": "backup"}]);
    garden
        .change::<Seed>("north", json!({"spec": {"extensions": extensions}}))
        .await;
    assert_eq!(garden.installed().await, ["audit on south", "backup on north"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_deployment_reference_reaches_the_installation() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    for name in ["one", "other"] {
        let deployment = json!({"metadata": {"name": name}, "type": "rocket", "providerConfig": {"name": name}});
        garden.all::<ControllerDeployment>(deployment).await;
    }
    garden
        .always("moon", json!({"deploymentRefs": [{"name": "one"}]}))
        .await;
    let before = garden.installation_of("moon").await;
    let changed = json!({"spec": {"deployment": {"deploymentRefs": [{"name": "other"}]}}});
    garden.change::<ControllerRegistration>("moon", changed).await;
    let refers = |one: &ControllerInstallation| {
        let reference = one.spec.deployment_ref.as_ref();
        reference.and_then(|reference| reference.name.as_deref()) == Some("other")
    };
    let installations = garden.api::<ControllerInstallation>();
    let after = until(&installations, &before.name_any(), "changed", refers).await;
    let hash = |one: &ControllerInstallation| one.labels().get("deployment-hash").cloned();
    assert!(hash(&after).is_some() && hash(&after) != hash(&before));
}

#[tokio::test(start_paused = true)]
async fn what_is_still_needed_stays_until_it_is_not() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    garden.always("moon", json!({})).await;
    let name = garden.installation_of("moon").await.name_any();
    let installations = garden.api::<ControllerInstallation>();
    let required = async |status: &str| garden.required(&name, status).await;
    required("True").await;
    garden
        .change::<ControllerRegistration>("moon", json!({"spec": {"deployment": {"policy": "OnDemand"}}}))
        .await;
    assert_eq!(garden.installed().await, ["moon on north"]);
    required("False").await;
    until_gone(&installations, &name).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_deletion_that_needs_an_action_is_reported_as_blocked() {
    let garden = Garden::registered().await;
    garden.seed("north", 1, json!({})).await;
    let registrations = garden.api::<ControllerRegistration>();
    for name in ["moon", "sun"] {
        garden.always(name, json!({})).await;
    }
    garden.installation_of("moon").await;
    registrations.delete("moon", &Default::default()).await.unwrap();
    until_gone(&registrations, "moon").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(garden.events("DeletionBlocked").await.is_empty());

    let needed = garden.installation_of("sun").await.name_any();
    garden.required(&needed, "True").await;
    registrations.delete("sun", &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(garden.events("DeletionBlocked").await.is_empty());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(garden.events("DeletionBlocked").await, ["ControllerRegistration"]);
    garden.required(&needed, "False").await;
    until_gone(&registrations, "sun").await;
}
