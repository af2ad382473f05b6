//! One function that makes an extension a program: flags and environment, logs, the client of the seed, leader election,
//! heartbeat, health, metrics, and an orderly end. It acts on no object itself.
//!
//! A whole program:
//! ```no_run
//! # use std::sync::Arc;
//! # use api_extensions::Infrastructure;
//! # use api_meta::Fault;
//! # use extensions_sdk::{Actuator, Context, Outcome};
//! # struct Networks;
//! # #[async_trait::async_trait]
//! # impl Actuator<Infrastructure> for Networks {
//! #     async fn reconcile(&self, _: &Context, _: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
//! #         Ok(Outcome::default())
//! #     }
//! #     async fn delete(&self, _: &Context, _: &Infrastructure) -> Result<(), Fault> {
//! #         Ok(())
//! #     }
//! # }
//! use extensions_sdk::{About, Registration, run};
//!
//! #[tokio::main]
//! async fn main() -> std::process::ExitCode {
//!     let about = About::new("provider-fake", env!("CARGO_PKG_VERSION"));
//!     run(about, |setup| {
//!         let registration = Registration::of_type("fake");
//!         Ok(setup.extension().actuator::<Infrastructure>(registration, Arc::new(Networks)))
//!     })
//!     .await
//! }
//! ```
//!
//! What runs where: caches fill in every replica, so that the next leader acts at once. Actuators, observers and tasks of the
//! [`Extension`] run while the process holds its Lease, and so does the heartbeat: as in Gardener, whose heartbeat is a
//! controller like others (gardener/gardener v1.150 `extensions/pkg/controller/heartbeat`), it shows that the extension works and
//! not that a replica waits. What [`Setup::everywhere`] adds, webhooks above all, runs in every replica.
//!
//! Exit codes: 0 after SIGTERM or SIGINT, 1 after an error or a lost Lease, 2 for wrong flags, 130 after a second signal. What has not ended 20 s after the
//! signal is given up; a second signal ends the process at once.

mod flags;
mod setup;
mod signals;

use std::fmt;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Https, in_cluster_kubeconfig, in_cluster_namespace};
use base_clock::{Clock, Entropy};
use base_controller::Terms;
use base_process::{Elected, Election, Port, Settings, init_logs};
use clap::Args;
use futures::future::BoxFuture;
use kube::Client;
use kube::config::Kubeconfig;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::extension::Extension;

pub use flags::{BindAddress, Flags, read_kubeconfig};
pub use setup::Setup;

/// How long what runs in every replica may take to end after the rest.
const EVERYWHERE_PATIENCE: Duration = Duration::from_secs(5);

/// The program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name: in events, Leases, field managers and logs, such as `provider-fake`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl About {
    /// `env!("CARGO_PKG_VERSION")` is the version of the crate that calls.
    #[must_use]
    pub const fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version }
    }
}

/// Where [`run_in`] runs a program: what [`run`] makes of flags, signals and the machine.
pub struct Place {
    /// The seed.
    pub client: Client,
    /// Connects to shoots.
    pub connector: Arc<dyn Connector>,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers.
    pub entropy: Entropy,
    /// The times of the leader election.
    pub terms: Terms,
    /// When the program is to end.
    pub stop: BoxFuture<'static, ()>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

/// Runs a program that has no flags of its own until it is signalled to end. `setup` puts its extension together, once, in every
/// replica; an error ends the program.
pub async fn run(about: About, setup: impl FnOnce(&mut Setup) -> Result<Extension, Fault>) -> ExitCode {
    run_with(about, |made, (): ()| setup(made)).await
}

/// As [`run`], with flags of its own beside those of [`Flags`]: a type that derives `clap::Args`.
pub async fn run_with<A: Args>(
    about: About,
    setup: impl FnOnce(&mut Setup, A) -> Result<Extension, Fault>,
) -> ExitCode {
    program(about, async |flags: &Flags, own, place| {
        run_in(about, place, flags, |made| setup(made, own)).await
    })
    .await
}

/// A program that serves and reconciles nothing, such as the webhooks of an extension in the garden: as [`run_with`], without
/// leader election and heartbeat. What it does stands in [`Setup::everywhere`].
pub async fn serve_with<A: Args>(
    about: About,
    setup: impl AsyncFnOnce(&mut Setup, A) -> Result<(), Fault>,
) -> ExitCode {
    program(about, async |flags: &Flags, own, place| {
        serve_in(about, place, flags, async |made: &mut Setup| setup(made, own).await).await
    })
    .await
}

/// What a process does around `work`: flags, signals, logs, exit codes.
async fn program<A: Args>(about: About, work: impl AsyncFnOnce(&Flags, A, Place) -> Result<(), Fault>) -> ExitCode {
    let (flags, own) = flags::parse::<A>(about, std::env::args_os()).unwrap_or_else(|error| error.exit());
    // Signals are taken from here on, however late they are looked at.
    let stop = signals::received();
    if let Err(fault) = init_logs(flags.log_level.into(), flags.log_format.into()) {
        complain(&fault);
        return ExitCode::FAILURE;
    }
    tracing::info!(version = about.version, "{} begins", about.name);
    let ended = async {
        let place = place(about, &flags, Box::pin(stop)).await?;
        work(&flags, own, place).await
    };
    match Box::pin(ended).await {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            tracing::error!(class = %fault.class, hint = %fault.hint, "{} ends: {}", about.name, fault.chain());
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "there are no logs")]
fn complain(fault: &Fault) {
    eprintln!("error: {fault}");
}

/// Runs a program in a given place, with given flags: for tests, and for programs that are several extensions. `kubeconfig` and
/// the logs' flags have no effect.
///
/// # Errors
/// [`Setup`]'s; no namespace for the Lease; a port that is taken; a lost Lease; an extension, or what runs in every replica,
/// that ends by itself.
pub async fn run_in(
    about: About,
    place: Place,
    flags: &Flags,
    setup: impl FnOnce(&mut Setup) -> Result<Extension, Fault>,
) -> Result<(), Fault> {
    let namespace = namespace(flags);
    let settings = settings(about, flags, namespace.as_deref(), place.terms)?;
    let heartbeat = heartbeat_namespace(flags, namespace.as_deref())?;
    let mut begun = Begun::new(about, place, settings, namespace);
    let mut extension = setup(&mut begun.setup)?;
    if let Some(namespace) = heartbeat {
        extension = extension.heartbeat(&namespace);
    }
    begun.run(Some(extension)).await
}

/// As [`run_in`], for a program that reconciles nothing: see [`serve_with`].
///
/// # Errors
/// As [`run_in`]; nothing about a Lease.
pub async fn serve_in(
    about: About,
    place: Place,
    flags: &Flags,
    setup: impl AsyncFnOnce(&mut Setup) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for (flag, is_set) in [
        ("--heartbeat", flags.heartbeat == Some(true)),
        ("--leader-election-namespace", flags.leader_election_namespace.is_some()),
        ("--leader-election-id", flags.leader_election_id.is_some()),
    ] {
        if is_set {
            // Charts set the variables of these flags for every pod.
            tracing::warn!(
                "{flag} has no effect: every replica of {} serves, none leads",
                about.name
            );
        }
    }
    let (namespace, flags) = (
        namespace(flags),
        Flags {
            leader_election: false,
            ..flags.clone()
        },
    );
    let settings = settings(about, &flags, namespace.as_deref(), place.terms)?;
    let mut begun = Begun::new(about, place, settings, namespace);
    setup(&mut begun.setup).await?;
    begun.run(None).await
}

/// A program whose parts are being put together.
struct Begun {
    setup: Setup,
    elected: Elected,
    stop: BoxFuture<'static, ()>,
    /// Caches and whatever else has been started end with this, however it ends.
    ends: DropGuard,
}

impl Begun {
    fn new(about: About, place: Place, settings: Settings, namespace: Option<String>) -> Self {
        let Place {
            client,
            connector,
            clock,
            entropy,
            terms: _,
            stop,
        } = place;
        let elected = Elected::new(about.name, settings, clock, entropy);
        let stopping = CancellationToken::new();
        let setup = Setup::new(about, &elected, client, connector, namespace, stopping.clone());
        Self {
            setup,
            elected,
            stop,
            ends: stopping.drop_guard(),
        }
    }

    /// Runs until the stop, or until something fails. Without an extension what runs in every replica is all that runs.
    async fn run(self, extension: Option<Extension>) -> Result<(), Fault> {
        let Self {
            setup,
            elected,
            stop,
            ends: _ends,
        } = self;
        let (client, stopping) = (setup.unwatched(), setup.stop.clone());
        let mut everywhere = setup.into_everywhere();
        let work = Mutex::new(Some(extension));
        let work = |leading: CancellationToken| {
            let extension = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            let stopping = stopping.clone();
            async move {
                let idle = stopping.clone();
                let working = async {
                    match extension {
                        Some(Some(extension)) => extension.run().await,
                        Some(None) => idle.cancelled().await,
                        // It never returns an error, so it is never started again.
                        None => return Err(Fault::bug("an extension was started twice")),
                    }
                    Ok(())
                };
                tokio::pin!(working);
                tokio::select! {
                    ended = &mut working => ended,
                    // Only now, so that work which ends is work that was to end.
                    () = leading.cancelled() => {
                        stopping.cancel();
                        working.await
                    }
                }
            }
        };
        let failing = CancellationToken::new();
        let fails = failing.clone();
        let until = async move {
            tokio::select! {
                () = stop => {}
                () = fails.cancelled() => {}
            }
        };
        let mut running = Box::pin(elected.run(client, until, work));
        let failure = tokio::select! {
            ended = &mut running => ended.err(),
            fault = failed(&mut everywhere) => {
                // The Lease is released, so that another replica goes on.
                failing.cancel();
                if let Err(other) = running.await {
                    tracing::warn!(class = %other.class, hint = %other.hint, "{}", other.chain());
                }
                Some(fault)
            }
        };
        stopping.cancel();
        let ending = async { while everywhere.join_next().await.is_some() {} };
        if tokio::time::timeout(EVERYWHERE_PATIENCE, ending).await.is_err() {
            tracing::warn!("not everything ended within {EVERYWHERE_PATIENCE:?}");
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The first failure of what runs in every replica. What ends after a stop has not failed.
async fn failed(everywhere: &mut JoinSet<Result<(), Fault>>) -> Fault {
    loop {
        match everywhere.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(fault))) => return fault,
            Some(Err(error)) => return Fault::bug(format!("a task ended: {error}")),
            None => std::future::pending().await,
        }
    }
}

/// What [`run`] runs in: the machine, a kubeconfig or the pod's service account.
async fn place(about: About, flags: &Flags, stop: BoxFuture<'static, ()>) -> Result<Place, Fault> {
    let kubeconfig = match &flags.kubeconfig {
        Some(path) => read_kubeconfig(path, "name a kubeconfig of the seed with --kubeconfig or KUBECONFIG").await?,
        None => in_cluster().map_err(|fault| fault.hint("name a kubeconfig with --kubeconfig or KUBECONFIG"))?,
    };
    Ok(Place {
        client: Https::new(about.name).with_token_files().client(&kubeconfig)?,
        connector: Arc::new(Https::new(about.name)),
        clock: Clock::real(),
        entropy: Entropy::os(),
        terms: Terms::default(),
        stop,
    })
}

fn in_cluster() -> Result<Kubeconfig, Fault> {
    in_cluster_kubeconfig().map_err(|fault| Fault::user(format!("there is no kubeconfig of the seed, and {fault}")))
}

/// The extension's namespace.
fn namespace(flags: &Flags) -> Option<String> {
    flags.namespace.clone().or_else(in_cluster_namespace)
}

fn settings(about: About, flags: &Flags, namespace: Option<&str>, terms: Terms) -> Result<Settings, Fault> {
    let election = match flags.leader_election {
        false => None,
        true => {
            let namespace = flags.leader_election_namespace.as_deref().or(namespace);
            let missing = || {
                Fault::user("there is no namespace for the Lease: this process is not in a pod").hint(
                    "name one with --leader-election-namespace or --namespace, or set --leader-election=false where there \
                     is one replica",
                )
            };
            let lease = flags.leader_election_id.clone();
            Some(Election {
                namespace: namespace.ok_or_else(missing)?.to_owned(),
                lease: lease.unwrap_or_else(|| format!("{}-leader-election", about.name)),
                terms,
            })
        }
    };
    let port = |address: BindAddress, flag: &str| {
        let (address, port) = address.parts()?;
        Some(Port {
            address,
            port,
            setting: flag.to_owned(),
        })
    };
    Ok(Settings {
        election,
        health: port(flags.health_bind_address, "--health-bind-address"),
        metrics: port(flags.metrics_bind_address, "--metrics-bind-address"),
    })
}

/// Where the heartbeat is written: nowhere outside of a pod, unless a namespace is named.
fn heartbeat_namespace(flags: &Flags, namespace: Option<&str>) -> Result<Option<String>, Fault> {
    match (flags.heartbeat, namespace) {
        (Some(false), _) => Ok(None),
        (Some(true), None) => Err(
            Fault::user("there is no namespace for the heartbeat: this process is not in a pod")
                .hint("name the extension's namespace with --namespace, or leave --heartbeat out"),
        ),
        (_, namespace) => Ok(namespace.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About::new("provider-fake", "v1");

    fn parsed(words: &[&str]) -> Flags {
        let words = [&["provider-fake"], words].concat();
        flags::parse::<()>(ABOUT, words).unwrap().0
    }

    #[test]
    fn the_lease_is_named_after_the_program_and_lies_in_its_namespace() {
        let of = |words: &[&str], namespace| settings(ABOUT, &parsed(words), namespace, Terms::default());
        let election = of(&[], Some("extension-fake")).unwrap().election.unwrap();
        assert_eq!(
            (election.namespace.as_str(), election.lease.as_str()),
            ("extension-fake", "provider-fake-leader-election")
        );
        let words = ["--leader-election-namespace=other", "--leader-election-id=x"];
        let election = of(&words, None).unwrap().election.unwrap();
        assert_eq!((election.namespace.as_str(), election.lease.as_str()), ("other", "x"));
        assert_eq!(of(&["--leader-election=false"], None).unwrap().election, None);
        let fault = of(&[], None).unwrap_err();
        assert!(fault.hint.contains("--leader-election=false"), "{}", fault.hint);
    }

    #[test]
    fn a_heartbeat_needs_a_namespace_only_where_it_is_requested() {
        let of = |words: &[&str], namespace| heartbeat_namespace(&parsed(words), namespace);
        assert_eq!(of(&[], Some("n")).unwrap().as_deref(), Some("n"));
        assert_eq!(of(&[], None).unwrap(), None);
        assert_eq!(of(&["--heartbeat=false"], Some("n")).unwrap(), None);
        assert!(of(&["--heartbeat"], None).unwrap_err().hint.contains("--namespace"));
    }

    #[test]
    fn ports_that_are_off_are_not_served() {
        let settings = settings(
            ABOUT,
            &parsed(&["--leader-election=false", "--metrics-bind-address=0"]),
            None,
            Terms::default(),
        );
        let settings = settings.unwrap();
        assert_eq!(settings.metrics, None);
        let health = settings.health.unwrap();
        assert_eq!((health.address, health.port), (None, 8081));
    }
}
