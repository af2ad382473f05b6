//! What the example in Go does for an `Extension`, on the SDK: a ConfigMap in the Shoot's namespace, with what the user of the
//! Shoot configured. It is measured beside that one.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use api_extensions::Extension;
use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use base_client::{apply, delete};
use extensions_sdk::{About, Actuator, Context, Outcome, Registration, Saved, run};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde::Deserialize;

const ABOUT: About = About::new("bench-extension", env!("CARGO_PKG_VERSION"));
const TYPE: &str = "example-rust";
const CONFIG: &str = "example-rust-cloud-config";

struct CloudConfigs;

#[derive(Deserialize)]
#[serde(default)]
struct Config {
    vpc: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vpc: "vpc-1234".to_owned(),
        }
    }
}

fn maps(context: &Context, object: &Extension) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

#[async_trait]
impl Actuator<Extension> for CloudConfigs {
    async fn reconcile(&self, context: &Context, object: &Extension) -> Result<Outcome<Extension>, Fault> {
        let config = object.spec.provider_config.as_ref().map(RawJson::decode::<Config>);
        let config = config.transpose().map_err(Fault::user)?.unwrap_or_default();
        let mut map = ConfigMap {
            data: Some(BTreeMap::from([(
                "cloudprovider.conf".to_owned(),
                format!("[Global]\nVPC={}\n", config.vpc),
            )])),
            ..ConfigMap::default()
        };
        map.metadata.name = Some(CONFIG.to_owned());
        apply(&maps(context, object), &map, ABOUT.name).await?;
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, object: &Extension) -> Result<(), Fault> {
        delete(&maps(context, object), CONFIG).await
    }

    async fn migrate(&self, _: &Context, _: &Extension) -> Result<Saved, Fault> {
        Ok(Saved::default())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    run(ABOUT, |setup| {
        let registration = Registration::of_type(TYPE);
        Ok(setup
            .extension()
            .actuator::<Extension>(registration, Arc::new(CloudConfigs)))
    })
    .await
}
