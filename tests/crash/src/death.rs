//! The layer around every client: counts the calls that write, and at one of them ends the process: the server has
//! executed the call (or has not), its answer never comes, and no later call leaves. It knows no kind's meaning.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_client::{Call, Layers, Target, Verb};
use base_secrets::Certificate;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use tokio::sync::Notify;

use crate::names::normal;
use crate::script::Phase;

/// Whose calls are not the product's: people's, who are the test itself. The second is how a Shoot knows its user.
const PEOPLE: [&str; 2] = ["orangery-admin", "garden-user"];

/// A call by what it does, so that it is the same call in every run: random parts of names are `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    /// What the user was at.
    pub phase: Phase,
    /// Who calls.
    pub who: String,
    /// The server, by the name in its certificate.
    pub server: String,
    /// What is asked.
    pub verb: Verb,
    /// What it is requested of.
    pub path: String,
    /// Which of the calls that are alike otherwise, from 1.
    pub nth: u32,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            phase,
            who,
            server,
            verb,
            path,
            nth,
        } = self;
        write!(f, "{phase}: {who}: {verb} {server}{path} (no. {nth})")
    }
}

/// When the process dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// At this call.
    pub deed: Deed,
    /// Whether the server has not seen it yet; else it has executed it.
    pub before: bool,
}

/// Watches one life of the process. Clones are the same.
#[derive(Clone)]
pub struct Reaper(Arc<Inner>);

struct Inner {
    moment: Option<Moment>,
    dead: AtomicBool,
    died: Notify,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    phase: Phase,
    deeds: Vec<Deed>,
    counts: BTreeMap<Deed, u32>,
}

impl Reaper {
    /// One that lets the process live, or ends it at a moment.
    #[must_use]
    pub fn new(moment: Option<Moment>) -> Self {
        Self(Arc::new(Inner {
            moment,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            seen: Mutex::default(),
        }))
    }

    /// Says what the user begins.
    pub fn enter(&self, phase: Phase) {
        self.seen().phase = phase;
    }

    /// What the user was at last.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.seen().phase
    }

    /// The calls so far.
    #[must_use]
    pub fn deeds(&self) -> Vec<Deed> {
        self.seen().deeds.clone()
    }

    /// Done when the process has died; never without a moment.
    pub async fn died(&self) {
        let notified = self.0.died.notified();
        if !self.0.dead.load(Ordering::SeqCst) {
            notified.await;
        }
    }

    /// What to put around the product's clients.
    #[must_use]
    pub fn layers(&self) -> Layers {
        let reaper = self.clone();
        Layers::new(move |client, kubeconfig| reaper.around(client, kubeconfig))
    }

    fn around(&self, client: Client, kubeconfig: &Kubeconfig) -> Client {
        let (who, server) = parties(kubeconfig);
        if PEOPLE.contains(&who.as_str()) {
            return client;
        }
        let (reaper, namespace) = (self.clone(), client.default_namespace().to_owned());
        let parties: Arc<(String, String)> = Arc::new((who, server));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (reaper, client, parties) = (reaper.clone(), client.clone(), parties.clone());
            async move {
                let last = reaper.count(&parties, &Call::of(&request));
                if last == Some(Last::Before) {
                    reaper.die();
                }
                reaper.only_alive().await;
                let answer = client.send(request).await;
                if last == Some(Last::After) {
                    reaper.die();
                }
                reaper.only_alive().await;
                answer
            }
        });
        Client::new(service, namespace)
    }

    fn die(&self) {
        self.0.dead.store(true, Ordering::SeqCst);
        self.0.died.notify_one();
    }

    async fn only_alive(&self) {
        if self.0.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Notes a call; says whether it is the last one.
    fn count(&self, (who, server): &(String, String), call: &Call) -> Option<Last> {
        if !is_deed(call) {
            return None;
        }
        let mut seen = self.seen();
        let mut deed = Deed {
            phase: seen.phase,
            who: who.clone(),
            server: server.clone(),
            verb: call.verb,
            path: normal(&call.path),
            nth: 0,
        };
        let count = seen.counts.entry(deed.clone()).or_default();
        *count += 1;
        deed.nth = *count;
        let moment = self.0.moment.as_ref().filter(|moment| moment.deed == deed);
        let last = moment.map(|moment| if moment.before { Last::Before } else { Last::After });
        seen.deeds.push(deed);
        last
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Before,
    After,
}

/// Whether a call is worth dying at. Reads change nothing: dying at one is dying between the writes beside it. The same
/// holds for heartbeats, events and reviews, which no controller decides by.
fn is_deed(call: &Call) -> bool {
    let writes = !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch);
    let heartbeat = call.resource == "leases" || call.resource == "events";
    let review = call.resource.ends_with("reviews") || call.resource.ends_with("reviewrequests");
    writes && !heartbeat && !review
}

/// Who a kubeconfig says one is, and whom it calls.
fn parties(kubeconfig: &Kubeconfig) -> (String, String) {
    let Ok(target) = Target::of(kubeconfig) else {
        return ("no user".to_owned(), String::new());
    };
    let certificates = target.client_certificates().unwrap_or_default();
    let by_certificate = || Some(Certificate::from_der(certificates.first()?).ok()?.common_name());
    let by_token = || {
        let claims = URL_SAFE_NO_PAD.decode(target.token()?.split('.').nth(1)?).ok()?;
        let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
        claims["sub"].as_str().map(str::to_owned)
    };
    let who = by_token().or_else(by_certificate);
    let server = target.server_name().trim_end_matches(".orangery.internal").to_owned();
    (
        normal(&who.unwrap_or_else(|| "bootstrap token".to_owned())),
        normal(&server),
    )
}
