//! The cloud as a process of its own, for providers and tests of other processes. It holds everything in memory: what it held is
//! gone when it ends.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use extensions_provider_fake::cloud::{Cloud, Harms, Keys, Rates, Settings, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The account of the keys.
const ACCOUNT: &str = "account";

/// Serves an empty cloud over HTTP until it is ended by a signal, and prints its address and a pair of keys. GET /held lists what
/// it holds.
#[derive(Parser)]
#[command(name = "fake-cloud", version)]
struct Arguments {
    /// Address and port to listen on; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// Keys that are valid; by default a pair is issued
    #[arg(long, env = "FAKE_CLOUD_KEYS", hide_env_values = true, value_name = "ID:SECRET", value_parser = keys)]
    keys: Option<Keys>,
    /// Seed of the faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many calls, from the first, are subject to faults: about every fifth of them fails
    #[arg(long, value_name = "CALLS", default_value_t = 0)]
    faults: u64,
    /// How many lists miss what was made, or still show what is gone
    #[arg(long, value_name = "LISTS", default_value_t = 0)]
    list_lag: u32,
    /// For how many calls looks by id do
    #[arg(long, value_name = "CALLS", default_value_t = 0)]
    get_lag: u32,
    /// How many calls an instance or a load balancer takes to run, and to stop
    #[arg(long, value_name = "CALLS", default_value_t = 0)]
    settle: u32,
}

fn keys(text: &str) -> Result<Keys, String> {
    match text.split_once(':') {
        Some((id, secret)) if !id.is_empty() && !secret.is_empty() => Ok(Keys {
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
        }),
        _ => Err("write the name of the pair, a colon and its secret".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let cloud = Cloud::new(Settings {
        list_lag: arguments.list_lag,
        get_lag: arguments.get_lag,
        settle: arguments.settle,
        ..Settings::default()
    });
    cloud.harm(Harms::seeded(arguments.seed, Rates::default(), arguments.faults));
    let listener = TcpListener::bind(arguments.listen).await.map_err(|error| {
        format!(
            "cannot listen on {}: {error}; choose another --listen",
            arguments.listen
        )
    })?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    println!("url: http://{address}");
    match arguments.keys {
        Some(keys) => cloud.accept_keys(ACCOUNT, &keys),
        None => {
            let keys = cloud.issue_keys(ACCOUNT);
            println!("accessKeyID: {}", keys.access_key_id);
            println!("secretAccessKey: {}", keys.secret_access_key);
        }
    }
    let served = serve(cloud, listener, CancellationToken::new()).await;
    served.map_err(|error| format!("cannot accept connections: {error}"))
}
