//! The binary `orangery`: parses the command line and hands over.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod apiserver;
mod chart;
mod conformance;
mod container_logs;
mod envtest_assets;
mod garden;
mod garden_apiserver;
mod new_extension;
mod processes;
mod provider_local;
mod serve;
mod shell;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use api_meta::Fault;
use landscape_images::envtest::Program;
use landscape_process::NodeSettings;
use landscape_terminal::Console;
use programs_orangery::cli::{self, Command};
use programs_orangery::{kubeconfig, why};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use container_logs::Both;

/// Hundreds of control planes on as many threads: the allocator of the C library retained half of all memory as holes,
/// and gave nothing back when they went.
#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Warnings alone: what a person waits for is printed; RUST_LOG shows more. What the client library logs about failed
/// calls, and its TLS about certificates, the calling part logs too.
const LOGS: &str = "warn,kube_runtime::watcher=off,kube_client::client::builder=off,rustls_platform_verifier=off";

fn main() -> ExitCode {
    // Returns at once, unless a pod's program is to be started with namespaces of its own.
    cluster_sandbox::run_if_helper();
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let console = Console::of_process();
    console.give_way_to_panics();
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(program) = Program::called(&words) {
        if let Err(code) = text_logs(&console) {
            return code;
        }
        let outcome = program.run(&words, interrupted(), |text| console.print(text)).await;
        return ended(outcome.map(|()| ExitCode::SUCCESS));
    }
    let command = cli::parse(&words).unwrap_or_else(|error| error.exit()).command;
    // The processes of the production form log as configured.
    if let Some(process) = processes::of(&command) {
        return ended(process.run(interrupted()).await);
    }
    if let Err(code) = text_logs(&console) {
        return code;
    }
    ended(Box::pin(dispatch(command, &console)).await)
}

/// Logs for a person, until the process ends.
fn text_logs(console: &Console) -> Result<(), ExitCode> {
    let logs = console.logs();
    let set_up = base_telemetry::init_logs_to(base_telemetry::LogFormat::Text, LOGS, move || Both(logs.clone()));
    set_up.map_err(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn dispatch(command: Command, console: &Console) -> Result<ExitCode, Fault> {
    let outcome = match command {
        Command::Up(arguments) => up::run(&arguments, interrupted(), console).await,
        Command::Apiserver(arguments) => apiserver::run(&arguments, interrupted(), console).await,
        Command::Garden(arguments) => garden::run(&arguments, interrupted(), console).await,
        Command::GardenApiserver(arguments) => {
            Box::pin(garden_apiserver::run(&arguments, interrupted(), console)).await
        }
        Command::Kubeconfig(arguments) => kubeconfig::text(&arguments).await.map(|text| print!("{text}")),
        Command::ProviderLocal(arguments) => provider_local::run(&arguments, interrupted()).await,
        Command::Why(arguments) => {
            return why::run(&arguments, &mut std::io::stdout()).await.map(ExitCode::from);
        }
        Command::Conformance(arguments) => {
            return conformance::run(&arguments, interrupted(), &mut std::io::stdout()).await;
        }
        Command::New(cli::New::Extension(arguments)) => new_extension::run(&arguments).map(|text| print!("{text}")),
        Command::Chart(arguments) => chart::run(&arguments, &mut std::io::stdout()).await,
        Command::Completion(arguments) => shell::completion(arguments.shell).map(|text| print!("{text}")),
        Command::Man(arguments) => shell::manual(&arguments.command).map(|text| print!("{text}")),
        Command::Node(arguments) => {
            let settings = NodeSettings::from(*arguments);
            landscape_process::run_node(&settings, interrupted(), |text| console.print(text)).await
        }
        // They log as configured, and were run before.
        Command::AdmissionController(_)
        | Command::ControllerManager(_)
        | Command::Scheduler(_)
        | Command::Gardenlet(_)
        | Command::ResourceManager(_) => Ok(()),
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

fn ended(outcome: Result<ExitCode, Fault>) -> ExitCode {
    match outcome {
        Ok(code) => code,
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

/// What comes so soon is the same wish: `timeout` and terminals signal a process and its group.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Done with Ctrl-C, or SIGTERM from a supervisor; both are taken from here on, however late the answer is looked at.
/// A second signal ends the process without an orderly end.
fn interrupted() -> impl Future<Output = ()> {
    let mut signals = Signals::listen();
    async move {
        signals.next().await;
        let requested_at = Instant::now();
        tokio::spawn(async move {
            signals.again(requested_at).await;
            eprintln!("stopped at once: requested twice");
            std::process::exit(130);
        });
    }
}

/// The signals that request an end; none of a kind that cannot be listened to.
struct Signals([Option<Signal>; 2]);

impl Signals {
    fn listen() -> Self {
        Self([SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            Some(()) = received(interrupt) => {}
            Some(()) = received(terminate) => {}
            else => std::future::pending().await,
        }
    }

    /// Waits for a second signal. However late it is polled, the first request is not counted twice.
    async fn again(&mut self, requested_at: Instant) {
        loop {
            self.next().await;
            if requested_at.elapsed() >= SAME_WISH {
                return;
            }
        }
    }
}

async fn received(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_signal_is_not_counted_twice_however_late_it_is_polled() {
        let requested_at = Instant::now();
        tokio::time::advance(SAME_WISH * 3).await;
        let mut silent = Signals([None, None]);
        let again = tokio::time::timeout(Duration::from_secs(3600), silent.again(requested_at)).await;
        assert!(again.is_err(), "there was no second signal");
    }
}
