//! Extension of a shoot or of the seed itself: a ConfigMap in its namespace with what was configured. It shows that a
//! configuration gets through, and goes with the Extension.

use std::collections::BTreeMap;

use api_extensions::Extension;
use api_meta::Fault;
use async_trait::async_trait;
use base_client::delete;
use extensions_sdk::{Actuator, Change, Context, Outcome, Saved};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};

use crate::objects::{apply_config_map, meta};

const MADE_FOR: &str = "extension";

/// The actuator of Extensions.
pub(crate) struct LocalExtensions;

/// The ConfigMap's name.
fn config_name(object: &Extension) -> String {
    format!("extension-{}", object.name_any())
}

#[async_trait]
impl Actuator<Extension> for LocalExtensions {
    async fn reconcile(&self, context: &Context, object: &Extension) -> Result<Outcome<Extension>, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let config = object.spec.provider_config.as_ref().map_or("{}", |raw| raw.get());
        let data = BTreeMap::from([
            ("type".to_owned(), object.spec.type_.clone()),
            ("providerConfig".to_owned(), config.to_owned()),
        ]);
        apply_config_map(&context.client, meta(&namespace, &config_name(object), MADE_FOR), data).await?;
        Ok(Outcome {
            // Without a configuration there is no state, also where there was one.
            state: Change::of(object.spec.provider_config.clone()),
            ..Outcome::default()
        })
    }

    async fn delete(&self, context: &Context, object: &Extension) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        delete::<ConfigMap>(
            &Api::namespaced(context.client.clone(), &namespace),
            &config_name(object),
        )
        .await
    }

    async fn force_delete(&self, context: &Context, object: &Extension) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, context: &Context, object: &Extension) -> Result<Saved, Fault> {
        // All there is lies in the seed, and is made in the other one from the same configuration.
        self.delete(context, object).await.map(|()| Saved::default())
    }
}
