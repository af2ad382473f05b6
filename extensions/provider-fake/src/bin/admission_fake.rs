//! The provider's admission in the garden as a process: `admission-fake --garden-kubeconfig FILE`. Wiring alone.

use std::process::ExitCode;

use clap::Args;
use extensions_provider_fake::{ADMISSION, DEFAULT_TYPE, admission};
use extensions_sdk::serve_with;
use extensions_webhooks::GardenWebhookFlags;

/// Completes and checks Shoots of provider-fake, by webhooks in the garden
#[derive(Args)]
struct Own {
    #[command(flatten)]
    webhooks: GardenWebhookFlags,
    /// Type of the provider whose Shoots it completes and checks
    #[arg(long = "type", value_name = "TYPE", default_value = DEFAULT_TYPE)]
    type_: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    serve_with(ADMISSION, async |setup, own: Own| {
        let garden = own.webhooks.garden(setup).await?;
        own.webhooks.serve(setup, &garden, admission(&own.type_))
    })
    .await
}
