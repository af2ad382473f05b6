//! The leader's work: renews what the Secret holds and gives API servers the authorities. And every replica's: shows what the Secret
//! holds. Both follow watches; nothing is read while nothing changes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{fault_of, get, is_exists, patch_changed};
use base_clock::{Clock, Entropy};
use base_controller::{Backoff, Cache, ObjectKey};
use base_secrets::{SecretError, data, text_of};
use base_serve::ServerCertificate;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::plan::{Renewed, Step, Wanted, renew};
use super::stored::Stored;
use crate::names::{certificate_secret_name, configuration_name};
use crate::registration::{Configurations, Place, Registration, ShootWebhooks, configurations};
use crate::webhook::{Target, Webhook};

/// The clock is looked at this often, since a machine's may be set and its time does not pass while it is suspended.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// What renews and registers, in the replica that leads.
pub(crate) struct Keeper {
    /// The cluster that the extension runs in.
    pub(crate) client: Client,
    pub(crate) place: Place,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) wanted: Wanted,
    pub(crate) registration: Registration,
    pub(crate) shoots: ShootWebhooks,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    /// The bundle that all shoots have been given.
    pub(crate) in_shoots: Mutex<Option<String>>,
}

impl Keeper {
    /// Renews and registers until `stop`. Failures are logged and tried again by their class.
    pub(crate) async fn run(&self, secret: &Cache<Secret>, stop: CancellationToken) {
        stop.clone().run_until_cancelled(self.keep(secret, &stop)).await;
    }

    async fn keep(&self, secret: &Cache<Secret>, stop: &CancellationToken) {
        let named = watcher::Config::default().fields(&format!("metadata.name={}", self.registration.name));
        let registered = self.registration.client.clone();
        let api = Api::<MutatingWebhookConfiguration>::all(registered.clone());
        let mutating = Cache::start(api, named.clone(), stop.clone());
        let api = Api::<ValidatingWebhookConfiguration>::all(registered);
        let validating = Cache::start(api, named, stop.clone());
        let (mut of_secret, mut of_mutating, mut of_validating) =
            (secret.subscribe(), mutating.subscribe(), validating.subscribe());
        let mut failures = 0;
        loop {
            let due = match Box::pin(self.turn()).await {
                Ok(due) => {
                    failures = 0;
                    due
                }
                Err(fault) => {
                    failures += 1;
                    let pause = Backoff::default().delay(fault.class, failures);
                    log(&fault, pause);
                    self.clock.now().checked_add(pause).unwrap_or(Timestamp::MAX)
                }
            };
            tokio::select! {
                () = self.until(due) => {}
                _ = of_secret.next() => {}
                _ = of_mutating.next() => {}
                _ = of_validating.next() => {}
            }
        }
    }

    async fn until(&self, due: Timestamp) {
        loop {
            let left = self.clock.until(due);
            if left.is_zero() {
                return;
            }
            // A millisecond more than the clock's last digit, which may be cut.
            tokio::time::sleep((left + Duration::from_millis(1)).min(LOOK_EVERY)).await;
        }
    }

    /// Does what is due. Returns when there is something to do again.
    async fn turn(&self) -> Result<Timestamp, Fault> {
        let found = get(&self.secrets(), &self.secret_name()).await?;
        let stored = found.as_ref().and_then(|secret| self.read(secret));
        let published = self.is_published(stored.as_ref()).await?;
        let now = self.clock.now();
        let renewed = renew(stored, &self.wanted, published, now, &self.entropy).map_err(not_issued)?;
        let Renewed { stored, steps, due } = renewed;
        self.write(found, &stored, &steps).await?;
        let bundle = stored.bundle();
        self.registration.write(&self.of(Target::Seed, &bundle)).await?;
        self.register_in_shoots(bundle).await?;
        Ok(due)
    }

    /// Whether API servers have the next authority. In shoots it cannot be seen; there it has days to arrive.
    async fn is_published(&self, stored: Option<&Stored>) -> Result<bool, Fault> {
        let Some((next, stored)) = stored.and_then(|stored| Some((stored.next.as_ref()?, stored))) else {
            return Ok(false);
        };
        let wanted = self.of(Target::Seed, &stored.bundle());
        self.registration.trusts(&wanted, &next.certificate_pem()).await
    }

    async fn register_in_shoots(&self, bundle: String) -> Result<(), Fault> {
        if self.webhooks.iter().all(|webhook| webhook.target != Target::Shoot) {
            return Ok(());
        }
        let done = || self.in_shoots.lock().unwrap_or_else(PoisonError::into_inner);
        if done().as_ref() == Some(&bundle) {
            return Ok(());
        }
        self.shoots.set(self.of(Target::Shoot, &bundle));
        self.shoots.deploy_everywhere(&self.client).await?;
        *done() = Some(bundle);
        Ok(())
    }

    fn of(&self, target: Target, bundle: &str) -> Configurations {
        configurations(&self.place, &self.webhooks, target, bundle)
    }

    fn read(&self, secret: &Secret) -> Option<Stored> {
        let read = Stored::read(secret);
        read.inspect_err(|error| {
            let name = self.secret_name();
            tracing::warn!(%error, "Secret {name} cannot be read: authority and certificate are made again");
        })
        .ok()
    }

    async fn write(&self, found: Option<Secret>, stored: &Stored, steps: &[Step]) -> Result<(), Fault> {
        let (api, name) = (self.secrets(), self.secret_name());
        match found {
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        namespace: Some(self.place.namespace.clone()),
                        ..ObjectMeta::default()
                    },
                    type_: Some("Opaque".to_owned()),
                    data: Some(stored.data()),
                    ..Secret::default()
                };
                api.create(&PostParams::default(), &secret)
                    .await
                    .map_err(|error| match is_exists(&error) {
                        // Another replica was first.
                        true => Fault::transient(error),
                        false => fault_of(error, &format!("create Secret {}/{name}", self.place.namespace)),
                    })?;
            }
            Some(found) => {
                let changed = Secret {
                    data: Some(stored.data()),
                    ..found.clone()
                };
                patch_changed(&api, &found, &changed).await?;
            }
        }
        if !steps.is_empty() {
            tracing::info!(?steps, until = %stored.server.certificate.not_after(), "certificate of the webhooks renewed");
        }
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.place.namespace)
    }

    fn secret_name(&self) -> String {
        certificate_secret_name(&self.place.extension)
    }
}

fn not_issued(error: SecretError) -> Fault {
    Fault::user(error)
        .doing("make the certificate of the webhooks")
        .hint("correct --webhook-config-url: its host is a DNS name or an address")
}

fn log(fault: &Fault, pause: Duration) {
    let (class, hint) = (fault.class, &fault.hint);
    if class == FaultClass::Transient {
        tracing::debug!(%class, "webhooks are registered again in {pause:?}: {}", fault.chain());
    } else {
        tracing::warn!(%class, %hint, "webhooks are registered again in {pause:?}: {}", fault.chain());
    }
}

/// Shows what the Secret of `place` holds, whenever it changes, for ever: to those who connect, and to what registers webhooks in
/// shoots. A Secret that goes or cannot be used changes nothing: the leader writes it again.
pub(crate) async fn show(
    secrets: &Cache<Secret>,
    place: &Place,
    webhooks: &[Webhook],
    certificate: &ServerCertificate,
    shoots: &ShootWebhooks,
) {
    let key = ObjectKey::namespaced(&place.namespace, certificate_secret_name(&place.extension));
    let mut changes = secrets.subscribe();
    let mut shown = None;
    loop {
        if let Some(secret) = secrets.get(&key) {
            match texts(&secret) {
                Ok(texts) if shown.as_ref() == Some(&texts) => {}
                Ok(texts) => {
                    let [chain, key, bundle] = &texts;
                    if let Err(error) = certificate.replace(chain, key) {
                        let name = configuration_name(&place.extension);
                        tracing::warn!("the certificate of {name} cannot be shown: {}", error.chain());
                    }
                    shoots.set(configurations(place, webhooks, Target::Shoot, bundle));
                    shown = Some(texts);
                }
                Err(error) => tracing::warn!(%error, "the certificate of the webhooks cannot be read"),
            }
        }
        changes.next().await;
    }
}

/// Certificate, key and authorities.
fn texts(secret: &Secret) -> Result<[String; 3], SecretError> {
    let text = |key| text_of(secret, key).map(|text| text.expose().to_owned());
    Ok([text(data::CERTIFICATE)?, text(data::KEY)?, text(data::BUNDLE)?])
}
