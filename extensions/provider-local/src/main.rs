//! The local provider as a process of its own, with the flags of every extension. Wiring alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use extensions_provider_local::{ABOUT, Options, extend};
use extensions_sdk::run_with;

/// The local provider: networks are numbers, machines are pods of the seed, DNS names are answered on a port of this machine
#[derive(Args)]
struct Own {
    /// Type of its Infrastructure, ControlPlane, Worker, Network, OperatingSystemConfig and DNSRecord; its Extension has it with -ext
    #[arg(long, value_name = "TYPE", default_value = "local")]
    provider_type: String,
    /// Folder that backup buckets are folders of
    #[arg(long, value_name = "FOLDER")]
    data_dir: PathBuf,
    /// Where DNS queries are answered, by UDP and TCP; names are only stored without it
    #[arg(long, value_name = "HOST:PORT")]
    dns_address: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> ExitCode {
    run_with(ABOUT, |setup, own: Own| {
        let options = Options::new(own.data_dir).named(&own.provider_type);
        let dns_address = own.dns_address;
        extend(setup, Options { dns_address, ..options })
    })
    .await
}
