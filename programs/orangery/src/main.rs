//! The binary `orangery`: parses the command line and hands over.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::process::ExitCode;

use api_meta::Fault;
use clap::Parser;
use programs_orangery::cli::{Cli, Command};
use programs_orangery::{kubeconfig, provider_local, up};

#[tokio::main]
async fn main() -> ExitCode {
    // Warnings alone: what a person waits for is printed; RUST_LOG shows more.
    if let Err(error) = base_telemetry::init_logs(base_telemetry::LogFormat::Text, "warn") {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let outcome = match Cli::parse().command {
        Command::Up(arguments) => up::run(&arguments, interrupted(), &mut std::io::stdout()).await,
        Command::Kubeconfig(arguments) => kubeconfig::print(&arguments).await.map(|text| print!("{text}")),
        Command::ProviderLocal(arguments) => provider_local::run(&arguments, interrupted()).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{}", describe(&fault));
            ExitCode::FAILURE
        }
    }
}

fn describe(fault: &Fault) -> String {
    if fault.hint.is_empty() {
        format!("error: {fault}")
    } else {
        format!("error: {fault}\nhint: {}", fault.hint)
    }
}

/// Ctrl-C, or SIGTERM from a supervisor. Whoever asks a second time does not want to wait for an orderly end.
async fn interrupted() {
    signalled().await;
    tokio::spawn(async {
        signalled().await;
        eprintln!("stopped at once: asked twice");
        std::process::exit(130);
    });
}

async fn signalled() {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(signal) => signal,
        // Without it Ctrl-C must do.
        Err(_) => return drop(tokio::signal::ctrl_c().await),
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
