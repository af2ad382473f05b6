//! An extension's webhooks put together: every replica answers, one of them renews the certificate and registers.

use std::sync::Mutex;

use api_meta::Fault;
use base_client::{HttpService, review_server};
use base_clock::{Clock, Entropy};
use base_controller::{Cache, Terms, lead_by};
use base_serve::{HttpsServer, Limits, ServerCertificate};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::certificates::{Keeper, Wanted, show};
use crate::decide::reviews;
use crate::names::{certificate_secret_name, configuration_name};
use crate::registration::{Mode, Place, Registration, ShootWebhooks};
use crate::webhook::Webhook;

/// Where an extension's webhooks are and how API servers reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the extension, such as `provider-fake`. Its Service is `gardener-extension-NAME`.
    pub extension: String,
    /// The namespace in which it runs: of the Service, the Secret with the certificate, and the Lease.
    pub namespace: String,
    /// How API servers reach it.
    pub mode: Mode,
    /// Port of the Service.
    pub service_port: u16,
    /// The namespace with which the configurations go, of the cluster where they are registered: usually the one in which the
    /// extension runs. Without it they stay when the extension goes.
    pub owner_namespace: Option<String>,
}

/// An extension's webhooks.
///
/// Rights that it needs: `get`, `list`, `watch`, `create`, `patch` for its Secret and its Lease `gardener-extension-NAME-webhook`
/// (`update` for the Lease) in its namespace, the same and `delete` for configurations of both forms, `get` for its namespace; with
/// webhooks for shoots also `list` for ManagedResources and what [`ShootWebhooks::deploy`] writes.
pub struct Webhooks {
    settings: Settings,
    client: Client,
    registered_in: Client,
    webhooks: Vec<Webhook>,
    certificate: ServerCertificate,
    shoots: ShootWebhooks,
    limits: Limits,
    terms: Terms,
    clock: Clock,
    entropy: Entropy,
}

impl Webhooks {
    /// Webhooks of an extension that runs in the cluster of `client` and is registered there.
    #[must_use]
    pub fn new(settings: Settings, client: Client, clock: Clock, entropy: Entropy) -> Self {
        Self {
            registered_in: client.clone(),
            shoots: ShootWebhooks::new(&settings.extension),
            settings,
            client,
            webhooks: Vec::new(),
            certificate: ServerCertificate::awaited(),
            limits: Limits::default(),
            terms: Terms::default(),
            clock,
            entropy,
        }
    }

    /// Registers in another cluster than the one in which the extension runs: an admission component in the garden. The
    /// owner of the configurations is a namespace of that cluster then.
    #[must_use]
    pub fn registered_in(self, garden: Client) -> Self {
        Self {
            registered_in: garden,
            ..self
        }
    }

    /// Adds a webhook. Names and paths differ from those of all others.
    ///
    /// # Errors
    /// A bug of the extension: a name or path that is taken already, or a webhook for no objects.
    pub fn webhook(mut self, webhook: Webhook) -> Result<Self, Fault> {
        let name = &webhook.name;
        if let Some(other) = self
            .webhooks
            .iter()
            .find(|other| other.name == *name || other.path == webhook.path)
        {
            let (path, theirs) = (&webhook.path, &other.name);
            let text = format!("webhook {name} at {path} has the name or path of webhook {theirs}");
            return Err(Fault::bug(text).hint("give one of them another name"));
        }
        if webhook.deciders.is_empty() {
            return Err(Fault::bug(format!("webhook {name} is for no objects"))
                .hint("add a mutator or validator for each kind that it concerns"));
        }
        self.webhooks.push(webhook);
        Ok(self)
    }

    /// Other limits of what API servers may take.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Other times of the election of who renews.
    #[must_use]
    pub fn terms(self, terms: Terms) -> Self {
        Self { terms, ..self }
    }

    /// The registration in shoots, for what makes their control planes.
    #[must_use]
    pub fn shoots(&self) -> ShootWebhooks {
        self.shoots.clone()
    }

    /// A check of readiness: there is a certificate. Kubernetes then leads API servers here.
    pub fn ready_when(&self) -> impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static + use<> {
        let certificate = self.certificate.clone();
        move || match certificate.is_known() {
            true => Ok(()),
            false => Err("the webhooks have no certificate yet".to_owned()),
        }
    }

    /// What answers reviews, without a port.
    #[must_use]
    pub fn service(&self) -> HttpService {
        let reviewers = self
            .webhooks
            .iter()
            .map(|webhook| (webhook.path.clone(), reviews(&self.settings.extension, webhook)));
        review_server(reviewers.collect())
    }

    /// Answers API servers at a port until `stop`, in every replica; the one that holds the Lease renews the certificate and
    /// registers. `identity` tells this process from all others. It ends once requests under way have been answered.
    pub async fn run(self, listener: TcpListener, identity: &str, stop: CancellationToken) {
        let server = HttpsServer::new(self.service(), self.certificate.clone()).limits(self.limits);
        let secret_name = certificate_secret_name(&self.settings.extension);
        let only = watcher::Config::default().fields(&format!("metadata.name={secret_name}"));
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.settings.namespace);
        let secrets = Cache::start(api, only, stop.clone());
        let place = self.place();
        let showing = show(&secrets, &place, &self.webhooks, &self.certificate, &self.shoots);
        let renewing = self.keep(&secrets, identity, &stop);
        let serving = server.serve(listener, stop.clone());
        let following = async {
            // Neither ends before the stop.
            tokio::join!(stop.run_until_cancelled(showing), renewing);
        };
        tokio::join!(Box::pin(serving), Box::pin(following));
    }

    async fn keep(&self, secrets: &Cache<Secret>, identity: &str, stop: &CancellationToken) {
        let keeper = self.keeper();
        let name = certificate_secret_name(&self.settings.extension);
        while !stop.is_cancelled() {
            let leases = Api::<Lease>::namespaced(self.client.clone(), &self.settings.namespace);
            let led = lead_by(
                self.terms,
                leases,
                &name,
                identity,
                self.clock.clone(),
                stop.clone(),
                |leading| keeper.run(secrets, leading),
            );
            if let Err(lost) = Box::pin(led).await {
                tracing::warn!("another replica may renew the certificate of the webhooks now: {lost}");
            }
        }
    }

    fn place(&self) -> Place {
        let Settings {
            extension,
            namespace,
            mode,
            service_port,
            owner_namespace: _,
        } = self.settings.clone();
        Place {
            extension,
            namespace,
            service_port,
            mode,
        }
    }

    fn keeper(&self) -> Keeper {
        let place = self.place();
        let (dns_names, addresses) = place.names();
        let name = configuration_name(&place.extension);
        Keeper {
            client: self.client.clone(),
            wanted: Wanted {
                common_name: name.clone(),
                dns_names,
                addresses,
            },
            registration: Registration {
                client: self.registered_in.clone(),
                name,
                owner_namespace: self.settings.owner_namespace.clone(),
            },
            place,
            webhooks: self.webhooks.clone(),
            shoots: self.shoots.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            in_shoots: Mutex::default(),
        }
    }
}
