//! The kubeconfig of the garden that a gardenlet gets itself (gardener/gardener v1.150 pkg/gardenlet/bootstrap): from a Secret of the seed,
//! where it has stored one, or by a signing request with a bootstrap token. It is renewed before its certificate ends.

use std::time::Duration;

use api_config::{SecretName, StoredCredential};
use api_core::v1beta1::Seed;
use api_meta::annotations::OPERATION;
use api_meta::{Fault, names};
use base_client::{Connector, Https, Target, apply, delete, fault_of, get, watch};
use base_clock::{Clock, Entropy};
use base_controller::Backoff;
use base_secrets::{Certificate, Issued, to_yaml};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::config::{AuthInfo, Kubeconfig, NamedAuthInfo};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::access::Access;
use crate::signing::sign;

/// Key of the kubeconfig in its Secret.
const KEY: &str = "kubeconfig";
/// The operation that asks for a renewal.
const RENEW: &str = "renew-kubeconfig";
const MANAGER: &str = "gardenlet";
/// A certificate is renewed at the earliest so long after it was looked at, however short its validity is.
const RENEWAL_MIN: Duration = Duration::from_secs(10);
/// Between two looks at the clock.
const LOOK_PAUSE: Duration = Duration::from_secs(600);

/// Where a gardenlet's credential is stored, and how it gets one.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) settings: StoredCredential,
    /// Name of its Seed.
    pub(crate) seed_name: String,
    /// The cluster of the Secrets.
    pub(crate) seed: Client,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

/// A credential that is valid.
pub(crate) struct Held {
    pub(crate) access: Access,
    certificate: Certificate,
}

impl Stored {
    /// The stored credential; one that is got with the bootstrap token where none is stored, or it cannot be used.
    ///
    /// # Errors
    /// Nothing of both can be used; the request was denied, or nothing has answered it.
    pub(crate) async fn obtain(&self) -> Result<Held, Fault> {
        let stored = &self.settings.kubeconfig;
        let why = match self.read(stored).await? {
            None => "is not there".to_owned(),
            Some(kubeconfig) => match self.held(kubeconfig) {
                Ok(held) => return Ok(held),
                Err(why) => format!("cannot be used: {why}"),
            },
        };
        tracing::info!("the garden's kubeconfig in Secret {} {why}", shown(stored));
        let Some(bootstrap) = &self.settings.bootstrap else {
            return Err(self.missing(&why, "gardenClientConnection.bootstrapKubeconfig names none"));
        };
        let Some(from) = self.read(bootstrap).await? else {
            return Err(self.missing(&why, &format!("Secret {} is not there", shown(bootstrap))));
        };
        let client = Https::new("gardenlet").client(&from)?;
        let held = self.request(&from, client).await?;
        // The token stays until the garden has taken the certificate.
        let version = held.access.client.apiserver_version().await;
        version.map_err(|error| fault_of(error, "use the new certificate"))?;
        delete(&self.secrets(bootstrap), &bootstrap.name).await?;
        Ok(held)
    }

    fn missing(&self, why: &str, bootstrap: &str) -> Fault {
        let stored = shown(&self.settings.kubeconfig);
        Fault::user(format!(
            "there is no way into the garden: the kubeconfig in Secret {stored} {why}, and of one with a bootstrap token: {bootstrap}"
        ))
        .hint(format!(
            "make a bootstrap token in the garden whose Secret has system:bootstrappers:seed:{} in auth-extra-groups, and put a kubeconfig \
             with it under the key {KEY} of the Secret that gardenClientConnection.bootstrapKubeconfig names",
            self.seed_name
        ))
    }

    /// Waits until the credential is to be renewed, renews it and ends; also when it is no longer valid, for another way to be tried.
    pub(crate) async fn renew(&self, held: &Held) {
        let at = self.renewal_of(&held.certificate);
        tracing::info!(
            "the garden's kubeconfig is renewed at {at}, or when Seed {} requests it",
            self.seed_name
        );
        tokio::select! {
            () = self.until(at) => {}
            () = self.requested(&held.access.client) => {}
        }
        let mut failures = 0;
        while let Err(fault) = self.request(&held.access.kubeconfig, held.access.client.clone()).await {
            failures += 1;
            let pause = Backoff::default().delay(fault.class, failures).max(RENEWAL_MIN);
            tracing::error!(
                hint = fault.hint,
                "the garden's kubeconfig is not renewed, tried again in {pause:?}: {}",
                fault.chain()
            );
            tokio::time::sleep(pause).await;
            if !held.certificate.is_valid_at(self.clock.now()) {
                return;
            }
        }
    }

    /// When a certificate is renewed: drawn between the parts of its validity.
    fn renewal_of(&self, certificate: &Certificate) -> Timestamp {
        let (least, most) = self.settings.renewed_between;
        let percent = least + self.entropy.below(most - least + 1);
        let from = certificate.not_before();
        let validity = certificate.not_after().duration_since(from).as_secs();
        let after = validity.saturating_mul(i64::try_from(percent).unwrap_or(100)) / 100;
        from.saturating_add(SignedDuration::from_secs(after)).unwrap_or(from)
    }

    /// Waits in steps: the clock of a machine that slept goes on, a timer may not.
    async fn until(&self, at: Timestamp) {
        tokio::time::sleep(RENEWAL_MIN).await;
        while self.clock.now() < at {
            let left = at.duration_since(self.clock.now()).unsigned_abs();
            tokio::time::sleep(left.min(LOOK_PAUSE)).await;
        }
    }

    /// Waits until the Seed requests a renewal, and takes the request from it.
    async fn requested(&self, garden: &Client) {
        let seeds: Api<Seed> = Api::all(garden.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.seed_name));
        let mut events = std::pin::pin!(watch(seeds.clone(), config));
        while let Some(event) = events.next().await {
            let (Ok(Event::Apply(seed)) | Ok(Event::InitApply(seed))) = event else {
                continue;
            };
            if seed
                .annotations()
                .get(OPERATION)
                .is_none_or(|operation| operation != RENEW)
            {
                continue;
            }
            let done = Patch::Merge(json!({"metadata": {"annotations": {OPERATION: null}}}));
            match seeds.patch(&self.seed_name, &PatchParams::default(), &done).await {
                Ok(_) => return,
                // It is seen again with the next change.
                Err(error) => tracing::warn!(%error, "the request to renew the garden's kubeconfig stays"),
            }
        }
        // A watch is endless; only the time is left to wait for.
        std::future::pending().await
    }

    /// Gets a certificate by a signing request of `client`, and stores a kubeconfig with it that is otherwise as `from`.
    async fn request(&self, from: &Kubeconfig, client: Client) -> Result<Held, Fault> {
        let user = format!("{}{}", names::SEED_USER_PREFIX, self.seed_name);
        let issued = sign(client, &user, self.settings.validity, &self.entropy).await?;
        let mut kubeconfig = from.clone();
        with_certificate(&mut kubeconfig, &issued);
        let text = to_yaml(&kubeconfig).map_err(|error| Fault::bug(error.to_string()))?;
        let SecretName { namespace, name } = self.settings.kubeconfig.clone();
        let mut secret = Secret {
            type_: Some("Opaque".to_owned()),
            data: Some([(KEY.to_owned(), ByteString(text.expose().as_bytes().to_vec()))].into()),
            ..Secret::default()
        };
        secret.metadata.name = Some(name);
        secret.metadata.namespace = Some(namespace);
        apply(&self.secrets(&self.settings.kubeconfig), &secret, MANAGER).await?;
        tracing::info!(
            "a certificate for {user} is in Secret {}",
            shown(&self.settings.kubeconfig)
        );
        self.held(kubeconfig).map_err(|why| {
            Fault::dependency(format!(
                "the certificate that was signed for {user} cannot be used: {why}"
            ))
            .hint("compare the clocks of this machine and of the garden's")
        })
    }

    fn held(&self, kubeconfig: Kubeconfig) -> Result<Held, String> {
        let certificate = certificate_of(&kubeconfig)?;
        let wanted = format!("{}{}", names::SEED_USER_PREFIX, self.seed_name);
        if certificate.common_name() != wanted {
            return Err(format!("it is of {:?}, not of {wanted:?}", certificate.common_name()));
        }
        if !certificate.is_valid_at(self.clock.now()) {
            let (from, until) = (certificate.not_before(), certificate.not_after());
            return Err(format!("its certificate is valid from {from} to {until}"));
        }
        let client = Https::new("gardenlet")
            .client(&kubeconfig)
            .map_err(|fault| fault.chain())?;
        Ok(Held {
            access: Access { kubeconfig, client },
            certificate,
        })
    }

    fn secrets(&self, of: &SecretName) -> Api<Secret> {
        Api::namespaced(self.seed.clone(), &of.namespace)
    }

    /// The kubeconfig of a Secret; none where there is no Secret.
    async fn read(&self, from: &SecretName) -> Result<Option<Kubeconfig>, Fault> {
        let Some(secret) = get(&self.secrets(from), &from.name).await? else {
            return Ok(None);
        };
        let unusable = |why: String| {
            Fault::user(format!("Secret {} is no kubeconfig: {why}", shown(from)))
                .hint(format!("put a kubeconfig under its key {KEY}, or delete it"))
        };
        let data = secret.data.unwrap_or_default();
        let bytes = data.get(KEY).ok_or_else(|| unusable(format!("it has no key {KEY}")))?;
        let text = std::str::from_utf8(&bytes.0).map_err(|error| unusable(error.to_string()))?;
        // What the reader reports may quote a key or a token.
        Kubeconfig::from_yaml(text)
            .map(Some)
            .map_err(|_| unusable("it cannot be read as one".to_owned()))
    }
}

fn shown(name: &SecretName) -> String {
    format!("{}/{}", name.namespace, name.name)
}

/// The certificate of the current context's user.
fn certificate_of(kubeconfig: &Kubeconfig) -> Result<Certificate, String> {
    let chain = Target::of(kubeconfig).and_then(|target| target.client_certificates());
    let chain = chain.map_err(|fault| fault.chain())?;
    let leaf = chain.first().ok_or("its user has no certificate")?;
    Certificate::from_der(leaf).map_err(|error| format!("the certificate of its user: {error}"))
}

/// Gives the current context a user with this certificate, and takes all others away.
fn with_certificate(kubeconfig: &mut Kubeconfig, issued: &Issued) {
    const USER: &str = "gardenlet";
    let current = kubeconfig.current_context.clone().unwrap_or_default();
    kubeconfig.contexts.retain(|named| named.name == current);
    for context in kubeconfig
        .contexts
        .iter_mut()
        .filter_map(|named| named.context.as_mut())
    {
        context.user = Some(USER.to_owned());
    }
    kubeconfig.auth_infos = vec![NamedAuthInfo {
        name: USER.to_owned(),
        auth_info: Some(AuthInfo {
            client_certificate_data: Some(STANDARD.encode(issued.certificate_pem())),
            client_key_data: Some(STANDARD.encode(issued.key_pem().expose()).into()),
            ..AuthInfo::default()
        }),
        ..NamedAuthInfo::default()
    }];
}

#[cfg(test)]
mod tests {
    use base_secrets::{Authority, CertificateSpec};

    use super::*;

    const BOOTSTRAP: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "token"}}, {"name": "d", "context": {"cluster": "k", "user": "token"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://garden.example.com"}}],
        "users": [{"name": "token", "user": {"token": "abcdef.0123456789abcdef"}}]}"#;

    fn stored(clock: &Clock) -> Stored {
        let secret = SecretName {
            namespace: "garden".to_owned(),
            name: "gardenlet-kubeconfig".to_owned(),
        };
        let kubeconfig = Kubeconfig::from_yaml(BOOTSTRAP).unwrap();
        Stored {
            settings: StoredCredential {
                kubeconfig: secret,
                bootstrap: None,
                validity: None,
                renewed_between: (70, 90),
            },
            seed_name: "north".to_owned(),
            seed: Https::new("tests").client(&kubeconfig).unwrap(),
            clock: clock.clone(),
            entropy: Entropy::seeded(1),
        }
    }

    #[tokio::test]
    async fn stored_credential_is_used_while_it_is_valid_and_of_this_seed() {
        let (clock, entropy) = (Clock::real(), Entropy::seeded(2));
        let authority = Authority::generate("ca", &clock, &entropy).unwrap();
        let stored = stored(&clock);
        let with = |seed: &str, validity: u64| {
            let user = format!("{}{seed}", names::SEED_USER_PREFIX);
            let spec = CertificateSpec::client(user, &[names::SEEDS_GROUP], Duration::from_secs(validity));
            let now = clock.now() - jiff::SignedDuration::from_hours(1);
            let issued = authority.issue_at(&spec, now, &entropy).unwrap();
            let mut kubeconfig = Kubeconfig::from_yaml(BOOTSTRAP).unwrap();
            with_certificate(&mut kubeconfig, &issued);
            kubeconfig
        };
        let held = stored.held(with("north", 7200)).unwrap();
        assert_eq!(held.access.kubeconfig.contexts.len(), 1);
        let why = |kubeconfig: Kubeconfig| stored.held(kubeconfig).err().unwrap();
        assert!(why(with("south", 7200)).contains("seed:south"));
        assert!(why(with("north", 1800)).contains("valid from"));
        assert!(why(Kubeconfig::from_yaml(BOOTSTRAP).unwrap()).contains("no certificate"));
    }

    #[tokio::test]
    async fn certificate_is_renewed_between_the_parts_of_its_validity() {
        let (clock, entropy) = (Clock::real(), Entropy::seeded(3));
        let authority = Authority::generate("ca", &clock, &entropy).unwrap();
        let spec = CertificateSpec::client("u", &[], Duration::from_secs(100_000));
        let stored = stored(&clock);
        for _ in 0..50 {
            let issued = authority.issue(&spec, &clock, &entropy).unwrap();
            let wait = stored
                .renewal_of(&issued.certificate)
                .duration_since(clock.now())
                .as_secs();
            assert!((69_000..=90_500).contains(&wait), "{wait}");
        }
    }
}
