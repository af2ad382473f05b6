//! Installations of extensions, as scenarios wait for them, and charts to install. It asserts nothing itself.

use api_core::v1beta1::ControllerInstallation;
use api_meta::Condition;
use base_helm::chart::{File, archive_of_files};
use futures::StreamExt;
use k8s_openapi::ByteString;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::{PATIENCE, World};

/// A chart of these files in base64, as a ControllerDeployment holds it.
#[must_use]
pub fn chart(name: &str, files: &[(&str, &str)]) -> String {
    let files: Vec<File> = files
        .iter()
        .map(|(name, text)| File {
            name: (*name).to_owned(),
            data: text.as_bytes().into(),
        })
        .collect();
    let archive = ByteString(archive_of_files(name, &files));
    let base64 = serde_json::to_value(archive).unwrap();
    base64.as_str().unwrap().to_owned()
}

impl World {
    /// The installation of a registration on a seed.
    pub async fn installation(&self, registration: &str, seed: &str) -> Option<ControllerInstallation> {
        let installations: Api<ControllerInstallation> = Api::all(self.garden.clone());
        let listed = installations.list(&ListParams::default()).await.unwrap();
        let is = |one: &ControllerInstallation| {
            let on = one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref());
            one.spec.registration_ref.name.as_deref() == Some(registration) && on == Some(seed)
        };
        listed.items.into_iter().find(is)
    }

    /// Waits until these conditions of the installation, by type, have these reasons; returns its name.
    pub async fn installation_until(&self, registration: &str, seed: &str, reasons: &[(&str, &str)]) -> String {
        let reached = |one: &ControllerInstallation| {
            let conditions = one.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let is = |(type_, reason): &(&str, &str)| {
                Condition::find(conditions, type_).is_some_and(|condition| condition.reason == *reason)
            };
            reasons.iter().all(is)
        };
        let what = format!("{registration} on {seed}: {reasons:?}");
        let found = self.installations_until(&what, registration, seed, |one| one.is_some_and(reached));
        found.await.unwrap_or_default()
    }

    /// Waits until a message in the installation's conditions contains `text`.
    pub async fn installation_reports(&self, registration: &str, seed: &str, text: &str) -> String {
        let reached = |one: &ControllerInstallation| {
            let mut conditions = one.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.message.contains(text))
        };
        let what = format!("{registration} on {seed}: {text}");
        let found = self.installations_until(&what, registration, seed, |one| one.is_some_and(reached));
        found.await.unwrap_or_default()
    }

    /// Waits until a registration is not installed on a seed.
    pub async fn not_installed(&self, registration: &str, seed: &str) {
        let what = format!("{registration} gone from {seed}");
        self.installations_until(&what, registration, seed, |one| one.is_none())
            .await;
    }

    async fn installations_until(
        &self,
        what: &str,
        registration: &str,
        seed: &str,
        reached: impl Fn(Option<&ControllerInstallation>) -> bool,
    ) -> Option<String> {
        let installations: Api<ControllerInstallation> = Api::all(self.garden.clone());
        let mut changes = std::pin::pin!(base_client::watch(installations, Default::default()));
        let found = async {
            loop {
                let one = self.installation(registration, seed).await;
                if reached(one.as_ref()) {
                    return one.map(|one| one.name_any());
                }
                changes.next().await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("never {what}: {:#?}", self.installation(registration, seed).await),
        }
    }
}
