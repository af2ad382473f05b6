//! The server from its start to its end. What must be right to be of any use (flags, certificates, the etcd) ends it with an
//! error; the API server in front may come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::PrivateKey;
use cluster_apiserver::{ApiServer, Kind, TokenAuthority, User};
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_store::{Page, Range, Store};
use cluster_store_etcd::EtcdStore;
use control_plane_garden_api::GardenSettings;
use landscape_data_folder::audit_file::{self, Audit};
use landscape_data_folder::{followed, on_etcd};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clients::Clients;
use crate::settings::{ServingSettings, Settings, TokenSettings};
use crate::trust::Trust;
use crate::{admission_configuration, identity, serving, trust, unapplied};

/// The server's name in logs.
const NAME: &str = "garden";
/// How long requests that are under way may take when it ends: less than the 30 seconds after which a kubelet kills.
const GRACE: Duration = Duration::from_secs(20);
/// Between two tries to list a kind for the first time while etcd is away.
const LIST_PAUSE: Duration = Duration::from_millis(500);
/// Groups of those whose rights follow from objects that change all the time: gardenlets, and extensions of a seed.
const SEEDS: &str = "gardener.cloud:system:seeds";
const OF_SEEDS: &str = "system:serviceaccounts:seed-";

/// Runs the server until `stop` is done. `ready` is called with its address once requests are taken; whether they can be
/// answered `/readyz` says.
///
/// # Errors
/// A flag or a file that cannot be used, an etcd that does not answer or whose prefix is another's, a port that is taken, an
/// API server in front that is another garden's.
pub async fn run(
    settings: Settings,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
    let clock = Clock::real();
    let texts = certificate(&settings.serving, &clock).await?;
    warn_of_configuration(&settings).await?;
    let trust = Trust::read(&settings.trust).await?;
    let clients = Clients::new(&settings.clients).await?;
    let audit = settings.audit.as_ref().map(audit_file::open).transpose()?;
    let listener = bind(&settings.serving).await?;
    let store = Arc::new(on_etcd::open_shared(&settings.etcd).await?);
    let kinds = control_plane_garden_api::kinds(&GardenSettings {
        entropy: Entropy::os(),
        gateway: None,
        plugins: settings.plugins.clone(),
    });
    log_guards(&kinds);
    let groups: Vec<String> = kinds.iter().map(|kind| kind.resource().group.to_string()).collect();
    let resources: Vec<String> = kinds.iter().map(|kind| kind.resource().store_name()).collect();
    let server = build(&settings, kinds, &clients, store.clone(), audit.as_ref()).await?;
    trust.apply(&server)?;
    report(&server, &store, &trust);
    let served = Served::start(&server, listener, &texts, &clock)?;
    ready(served.address);
    let follows = async {
        let lists = list_all(&store, &resources, &server);
        let trusts = trust::follow(trust, settings.trust.clone(), server.clone(), clients.objects.clone());
        let certificates = follow_certificate(&settings.serving, texts, &served.registration, &clock);
        let warns = unapplied::warn(&clients.objects, &groups);
        futures::join!(lists, trusts, certificates, warns);
    };
    let identified = async {
        if let Some(identity) = &settings.cluster_identity {
            identity::ensure(&clients.objects, identity).await?;
        }
        std::future::pending().await
    };
    let outcome = tokio::select! {
        () = stop => Ok(()),
        outcome = identified => outcome,
        ((), ()) = async { (follows.await, std::future::pending().await) } => Ok(()),
    };
    served.stop(&server, settings.serving.shutdown_delay).await;
    if let Some(audit) = audit {
        audit.file.flush();
    }
    outcome
}

/// Certificate and key, which can be used now.
async fn certificate(settings: &ServingSettings, clock: &Clock) -> Result<[String; 2], Fault> {
    let texts = followed::read(&[
        (serving::CERTIFICATE, &settings.certificate),
        (serving::KEY, &settings.key),
    ])
    .await?;
    if let Some(warning) = serving::check(&settings.certificate, &texts[0], clock)? {
        tracing::warn!("{warning}");
    }
    Ok(texts)
}

async fn warn_of_configuration(settings: &Settings) -> Result<(), Fault> {
    let Some(path) = &settings.admission_configuration else {
        return Ok(());
    };
    let [text] = followed::read(&[("--admission-control-config-file", path)]).await?;
    for sentence in admission_configuration::read(path, &text)? {
        tracing::warn!("{sentence}");
    }
    Ok(())
}

/// What the garden checks about kinds that are written in front of it is not checked by this process.
fn log_guards(kinds: &[Arc<dyn Kind>]) {
    let guards = kinds.iter().flat_map(|kind| kind.guards());
    let mut guarded: Vec<String> = guards.map(|guard| guard.resource().1.to_owned()).collect();
    guarded.sort();
    guarded.dedup();
    if !guarded.is_empty() {
        tracing::info!(
            "{} are written in the API server in front: what the garden checks about these is left to the webhooks of admission-controller",
            guarded.join(" and ")
        );
    }
}

async fn bind(settings: &ServingSettings) -> Result<TcpListener, Fault> {
    let address = SocketAddr::new(settings.address, settings.port);
    TcpListener::bind(address).await.map_err(|error| {
        Fault::user(format!("cannot listen on {address}: {error}"))
            .hint("choose another address or port with --bind-address and --secure-port")
    })
}

async fn build(
    settings: &Settings,
    kinds: Vec<Arc<dyn Kind>>,
    clients: &Clients,
    store: Arc<EtcdStore>,
    audit: Option<&Audit>,
) -> Result<ApiServer, Fault> {
    let mut builder = ApiServer::builder(NAME)
        .shared_store(store)
        .kinds(kinds)
        .git_version(&settings.version)
        .behind(clients.objects.clone())
        .delegate_to(clients.authentication.clone(), clients.authorization.clone())
        .review_each_time(changes_with_objects);
    if let Some(audit) = audit {
        builder = builder.audit_events(audit.policy.clone(), Arc::new(audit.file.clone()));
    }
    if let Some(tokens) = &settings.tokens {
        builder = builder.token_issuer(token_issuer(tokens).await?);
    }
    let built = builder.build().await;
    built.map_err(|status| Fault::bug(format!("the API server does not start: {status}")))
}

fn changes_with_objects(user: &User) -> bool {
    let mut groups = user.groups.iter();
    groups.any(|group| group == SEEDS || group.starts_with(OF_SEEDS))
}

async fn token_issuer(settings: &TokenSettings) -> Result<TokenAuthority, Fault> {
    const FLAG: &str = "--workload-identity-signing-key-file";
    let [text] = followed::read(&[(FLAG, &settings.key)]).await?;
    let signer = PrivateKey::from_pem(&text).map_err(|error| {
        Fault::user(format!("{} of {FLAG} cannot be used: {error}", settings.key.display()))
            .hint("make one with: openssl ecparam -name prime256v1 -genkey -noout")
    })?;
    Ok(TokenAuthority {
        issuer: settings.issuer.clone(),
        audiences: Vec::new(),
        signer: Some(signer),
        verifiers: Vec::new(),
        keys_url: None,
    })
}

/// What `/readyz` tells.
fn report(server: &ApiServer, store: &EtcdStore, trust: &Trust) {
    let is_connected = store.is_connected();
    server.readiness().add("etcd", move || {
        let down = "the watches of etcd broke, and it is not reached again yet";
        is_connected().then_some(()).ok_or_else(|| down.to_owned())
    });
    let trust = trust.clone();
    server.readiness().add("authentication", move || trust.check());
}

/// Lists every kind once, so that the first request does not wait for it and a lost etcd is noticed; `/readyz` waits for it.
async fn list_all(store: &EtcdStore, resources: &[String], server: &ApiServer) {
    const CHECK: &str = "storage-readiness";
    let waiting = || Err("not all kinds have been read from etcd yet".to_owned());
    server.readiness().add(CHECK, waiting);
    let mut reported = String::new();
    for resource in resources {
        while let Err(error) = store.list(&Range::all(resource.as_str()), Page::default()).await {
            let text = error.to_string();
            if text != reported {
                tracing::warn!(resource, "{text}");
                reported = text;
            }
            tokio::time::sleep(LIST_PAUSE).await;
        }
    }
    server.readiness().add(CHECK, || Ok(()));
}

async fn follow_certificate(
    settings: &ServingSettings,
    known: [String; 2],
    registration: &Registration,
    clock: &Clock,
) {
    let files = [
        (serving::CERTIFICATE, settings.certificate.clone()),
        (serving::KEY, settings.key.clone()),
    ];
    followed::follow(files, known, async |[certificate, key]| {
        let warning = serving::check(&settings.certificate, &certificate, clock)?;
        registration
            .renew(&certificate, &key)
            .map_err(|error| serving::no_pair(&error.chain()))?;
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        Ok(())
    })
    .await;
}

/// The server behind its port.
struct Served {
    address: SocketAddr,
    registration: Registration,
    stop: CancellationToken,
    port: tokio::task::JoinHandle<()>,
}

impl Served {
    fn start(
        server: &ApiServer,
        listener: TcpListener,
        [certificate, key]: &[String; 2],
        clock: &Clock,
    ) -> Result<Self, Fault> {
        let address = listener.local_addr();
        let address = address.map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
        let front = Front::new(clock.clone());
        let registered = RegisteredServer::new(server.service(), certificate, key)
            .map_err(|error| serving::no_pair(&error.chain()))?;
        let registration = front
            .register([ANY_NAME], registered)
            .map_err(|error| Fault::bug(error.to_string()))?;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let port = tokio::spawn(async move { front.serve(listener, until).await });
        Ok(Self {
            address,
            registration,
            stop,
            port,
        })
    }

    /// Says that it is not ready, goes on for a while, then takes nothing new, ends watches and waits for requests under way.
    async fn stop(self, server: &ApiServer, delay: Duration) {
        let ends = || Err("the server is shutting down".to_owned());
        server.readiness().add("shutdown", ends);
        tokio::time::sleep(delay).await;
        if tokio::time::timeout(GRACE, server.shutdown()).await.is_err() {
            tracing::warn!("not every request ended within {GRACE:?}");
        }
        self.registration.close(GRACE).await;
        self.stop.cancel();
        if let Err(error) = self.port.await {
            tracing::warn!(%error, "the port was not closed in order");
        }
    }
}
