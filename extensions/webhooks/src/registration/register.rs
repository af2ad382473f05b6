//! Writes an extension's configurations where its webhooks are registered: only what differs, and by patches, so that what others
//! have added to their metadata stays.

use std::fmt::Debug;

use api_meta::{Fault, FaultClass};
use base_client::{delete, fault_of, get, is_exists, patch_changed};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::configuration::Configurations;

/// Where an extension's webhooks are registered.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) client: Client,
    /// Name of both configurations.
    pub(crate) name: String,
    /// A namespace with which the configurations go.
    pub(crate) owner_namespace: Option<String>,
}

impl Registration {
    /// Writes what differs, and deletes a configuration without webhooks that an earlier version has left.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn write(&self, wanted: &Configurations) -> Result<(), Fault> {
        let owner = self.owner().await?;
        self.write_one(wanted.mutating.clone(), owner.as_ref()).await?;
        self.write_one(wanted.validating.clone(), owner.as_ref()).await
    }

    /// Whether each configuration that is to be there names an authority, as PEM, in all its webhooks.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn trusts(&self, wanted: &Configurations, authority: &str) -> Result<bool, Fault> {
        let mutating = self.one_trusts::<MutatingWebhookConfiguration>(wanted.mutating.is_some(), authority);
        let validating = self.one_trusts::<ValidatingWebhookConfiguration>(wanted.validating.is_some(), authority);
        Ok(mutating.await? && validating.await?)
    }

    async fn one_trusts<K: Form>(&self, is_wanted: bool, authority: &str) -> Result<bool, Fault> {
        if !is_wanted {
            return Ok(true);
        }
        let found = get(&Api::<K>::all(self.client.clone()), &self.name).await?;
        let names_it = |bundle: Option<&ByteString>| {
            let text = bundle.and_then(|bundle| std::str::from_utf8(&bundle.0).ok());
            text.is_some_and(|text| text.contains(authority.trim()))
        };
        Ok(found.is_some_and(|found| found.bundles().into_iter().all(names_it)))
    }

    async fn write_one<K: Form>(&self, wanted: Option<K>, owner: Option<&OwnerReference>) -> Result<(), Fault> {
        let api = Api::<K>::all(self.client.clone());
        let found = get(&api, &self.name).await?;
        match (found, wanted) {
            (None, None) => Ok(()),
            (Some(_), None) => delete(&api, &self.name).await,
            (None, Some(mut wanted)) => {
                wanted.meta_mut().owner_references = owner.map(|owner| vec![owner.clone()]);
                match api.create(&PostParams::default(), &wanted).await {
                    Ok(_) => Ok(()),
                    // Another replica leads by now, or still: the next turn looks at what it has written.
                    Err(error) if is_exists(&error) => Err(Fault::transient(error)),
                    Err(error) => Err(fault_of(error, &format!("create {} {}", K::kind(&()), self.name))),
                }
            }
            (Some(found), Some(wanted)) => {
                let mut changed = found.clone();
                changed.labels_mut().extend(wanted.labels().clone());
                changed.take_webhooks(wanted);
                if let Some(owner) = owner {
                    changed.meta_mut().owner_references = Some(vec![owner.clone()]);
                }
                patch_changed(&api, &found, &changed).await.map(drop)
            }
        }
    }

    async fn owner(&self) -> Result<Option<OwnerReference>, Fault> {
        let Some(name) = &self.owner_namespace else {
            return Ok(None);
        };
        let namespace = get(&Api::<Namespace>::all(self.client.clone()), name).await?;
        let uid = namespace.and_then(|namespace| namespace.uid());
        let uid = uid.ok_or_else(|| {
            Fault::new(
                FaultClass::Dependency,
                format!("there is no namespace {name} to own {}", self.name),
            )
            .hint("create it, or name another one as owner of the webhook configurations")
        })?;
        Ok(Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            name: name.clone(),
            uid,
            controller: Some(true),
            block_owner_deletion: Some(false),
        }))
    }
}

/// Either kind of configuration.
trait Form: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send {
    /// Takes over the webhooks of another one, and nothing else.
    fn take_webhooks(&mut self, wanted: Self);
    /// The authorities of each webhook.
    fn bundles(&self) -> Vec<Option<&ByteString>>;
}

impl Form for MutatingWebhookConfiguration {
    fn take_webhooks(&mut self, wanted: Self) {
        self.webhooks = wanted.webhooks;
    }

    fn bundles(&self) -> Vec<Option<&ByteString>> {
        let all = self.webhooks.iter().flatten();
        all.map(|webhook| webhook.client_config.ca_bundle.as_ref()).collect()
    }
}

impl Form for ValidatingWebhookConfiguration {
    fn take_webhooks(&mut self, wanted: Self) {
        self.webhooks = wanted.webhooks;
    }

    fn bundles(&self) -> Vec<Option<&ByteString>> {
        let all = self.webhooks.iter().flatten();
        all.map(|webhook| webhook.client_config.ca_bundle.as_ref()).collect()
    }
}
