//! The provider as a process of its own, for a cloud behind HTTP: `provider-fake --cloud-url http://127.0.0.1:9090`. Wiring alone.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use extensions_machines::Surroundings;
use extensions_provider_fake::cloud::{CloudConnector, HttpCloud};
use extensions_provider_fake::{ABOUT, DEFAULT_TYPE, control_plane, extend};
use extensions_sdk::run_with;
use extensions_webhooks::WebhookFlags;

/// A provider for the cloud that fake-cloud serves
#[derive(Args)]
struct Own {
    /// Address of the cloud: what `fake-cloud` prints
    #[arg(long, env = "FAKE_CLOUD_URL", value_name = "URL", value_parser = cloud)]
    cloud_url: HttpCloud,
    /// Type of the objects that it reconciles
    #[arg(long = "type", value_name = "TYPE", default_value = DEFAULT_TYPE)]
    type_: String,
    /// Whether control planes are left as they are: no webhook is served
    #[arg(long)]
    disable_webhooks: bool,
    #[command(flatten)]
    webhooks: WebhookFlags,
}

fn cloud(url: &str) -> Result<HttpCloud, String> {
    HttpCloud::new(url).map_err(|fault| format!("{fault}: {}", fault.hint))
}

#[tokio::main]
async fn main() -> ExitCode {
    run_with(ABOUT, |setup, own: Own| {
        if !own.disable_webhooks {
            own.webhooks.serve(setup, [control_plane(&own.type_, &setup.client)])?;
        }
        let cloud: Arc<dyn CloudConnector> = Arc::new(own.cloud_url);
        extend(setup.extension(), &cloud, Surroundings::of(setup), &own.type_)
    })
    .await
}
