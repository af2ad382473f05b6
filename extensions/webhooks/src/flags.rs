//! Flags of an extension's webhooks, named as those of Gardener's extensions (gardener/gardener v1.150
//! `extensions/pkg/webhook/cmd`), and how they become a server in a program of the SDK.

use std::net::IpAddr;
use std::path::PathBuf;

use api_meta::Fault;
use api_meta::names::is_dns_label;
use base_client::{Connector, Https};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use extensions_sdk::Setup;
use extensions_sdk::run::read_kubeconfig;
use kube::Client;

use crate::registration::{Mode, ShootWebhooks};
use crate::server::{Settings, Webhooks};
use crate::webhook::Webhook;

/// Where webhooks listen by default, as charts of Gardener's extensions set it.
const SERVER_PORT: u16 = 10_250;
const SERVER_PORT_FLAG: &str = "--webhook-config-server-port";

/// How API servers reach the webhooks of a program. A type with flags of its own takes them in by `#[command(flatten)]`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct WebhookFlags {
    /// How API servers reach the webhooks: by the Service gardener-extension-NAME, by the name of that Service in a URL, or by
    /// the address of --webhook-config-url
    #[arg(long = "webhook-config-mode", value_name = "MODE", default_value = "service")]
    pub mode: ModeName,
    /// Address of this process as API servers reach it, in mode url: HOST:PORT
    #[arg(long = "webhook-config-url", value_name = "HOST:PORT", value_parser = url, required_if_eq("mode", "url"))]
    pub url: Option<String>,
    /// Address where the webhooks listen; by default on all
    #[arg(long = "webhook-config-server-host", value_name = "ADDRESS")]
    pub server_host: Option<IpAddr>,
    /// Port where the webhooks listen
    #[arg(long = "webhook-config-server-port", value_name = "PORT", default_value_t = SERVER_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub server_port: u16,
    /// Port of the Service
    #[arg(long = "webhook-config-service-port", value_name = "PORT", default_value_t = 443,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub service_port: u16,
    /// Namespace with which the registration goes, in the cluster where it is registered; by default the extension's own, and
    /// none in a garden
    #[arg(long = "webhook-config-owner-namespace", value_name = "NAMESPACE", value_parser = namespace)]
    pub owner_namespace: Option<String>,
}

/// As [`WebhookFlags`], for webhooks in the garden.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct GardenWebhookFlags {
    /// Flags of all webhooks.
    #[command(flatten)]
    pub webhooks: WebhookFlags,
    /// Kubeconfig of the garden, where it is another cluster than the one in which this process runs
    #[arg(long, env = "GARDEN_KUBECONFIG", value_name = "FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub garden_kubeconfig: Option<PathBuf>,
}

/// A word for a [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// [`Mode::Service`]
    Service,
    /// [`Mode::UrlService`]
    UrlService,
    /// [`Mode::Url`]
    Url,
}

fn url(text: &str) -> Result<String, String> {
    let authority = text.parse::<http::uri::Authority>().ok();
    // The parser takes whatever stands where a port stands.
    let is_address = authority.is_some_and(|all| {
        let host = all.host();
        let is_port = |rest: &str| rest.strip_prefix(':').and_then(|port| port.parse().ok()) > Some(0_u16);
        let rest = text.strip_prefix(host);
        !host.is_empty() && rest.is_some_and(|rest| rest.is_empty() || is_port(rest))
    });
    match is_address {
        true => Ok(text.to_owned()),
        false => Err("write HOST:PORT or HOST, without https:// and path, as in 10.0.0.1:10250".to_owned()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    // An empty one is none: charts set flags that way.
    match text.is_empty() || is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err(
            "a namespace has 1 to 63 characters of a-z, 0-9 and -, and begins and ends with a letter or digit"
                .to_owned(),
        ),
    }
}

impl WebhookFlags {
    /// Serves webhooks in every replica of a program, registered in the cluster in which it runs. Returns the registration in
    /// shoots, for the actuator of their control planes.
    ///
    /// # Errors
    /// No namespace; a webhook that cannot be served. A port that is taken ends the program later.
    pub fn serve(
        &self,
        setup: &mut Setup,
        webhooks: impl IntoIterator<Item = Webhook>,
    ) -> Result<ShootWebhooks, Fault> {
        let own = setup.namespace.clone();
        self.serve_in(setup, webhooks, self.owner().or(own), |all| all)
    }

    fn serve_in(
        &self,
        setup: &mut Setup,
        webhooks: impl IntoIterator<Item = Webhook>,
        owner_namespace: Option<String>,
        change: impl FnOnce(Webhooks) -> Webhooks,
    ) -> Result<ShootWebhooks, Fault> {
        let missing = || {
            Fault::user("there is no namespace for the webhooks' certificate: this process is not in a pod")
                .hint("name the extension's namespace with --namespace")
        };
        let settings = Settings {
            extension: setup.about.name.to_owned(),
            namespace: setup.namespace.clone().ok_or_else(missing)?,
            mode: self.mode(),
            service_port: self.service_port,
            owner_namespace,
        };
        let (client, clock, entropy) = (setup.client.clone(), setup.clock.clone(), setup.entropy.clone());
        let mut all = change(Webhooks::new(settings, client, clock, entropy));
        for webhook in webhooks {
            all = all.webhook(webhook)?;
        }
        let (identity, stop) = (setup.identity.clone(), setup.stop.clone());
        let (host, port, shoots) = (self.server_host, self.server_port, all.shoots());
        setup.ready_when(all.ready_when());
        setup.everywhere(async move {
            let listener = base_serve::open(host, port, SERVER_PORT_FLAG).await?;
            all.run(listener, &identity, stop).await;
            Ok(())
        });
        Ok(shoots)
    }

    fn owner(&self) -> Option<String> {
        self.owner_namespace.clone().filter(|namespace| !namespace.is_empty())
    }

    fn mode(&self) -> Mode {
        match (self.mode, &self.url) {
            (ModeName::Url, Some(url)) => Mode::Url(url.clone()),
            (ModeName::UrlService, _) => Mode::UrlService,
            // clap has refused mode url without an address.
            (ModeName::Service | ModeName::Url, _) => Mode::Service,
        }
    }
}

impl GardenWebhookFlags {
    /// A client of the garden: of `--garden-kubeconfig`, otherwise of the cluster in which the program runs.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used.
    pub async fn garden(&self, setup: &Setup) -> Result<Client, Fault> {
        match self.kubeconfig() {
            None => Ok(setup.client.clone()),
            Some(path) => {
                let kubeconfig =
                    read_kubeconfig(path, "name a kubeconfig of the garden with --garden-kubeconfig").await?;
                Https::new(setup.about.name).with_token_files().client(&kubeconfig)
            }
        }
    }

    /// Serves webhooks in every replica of a program, registered in the garden.
    ///
    /// # Errors
    /// As [`WebhookFlags::serve`]; mode `service` where the garden is another cluster.
    pub fn serve(
        &self,
        setup: &mut Setup,
        garden: &Client,
        webhooks: impl IntoIterator<Item = Webhook>,
    ) -> Result<(), Fault> {
        if self.kubeconfig().is_none() {
            return self.webhooks.serve(setup, webhooks).map(drop);
        }
        if self.webhooks.mode == ModeName::Service {
            let why = "--webhook-config-mode=service leads nowhere: the garden has no Services of this cluster";
            return Err(Fault::user(why)
                .hint("use url-service where the garden's API server runs in this cluster, otherwise url with --webhook-config-url"));
        }
        let owner = self.webhooks.owner();
        let in_garden = |all: Webhooks| all.registered_in(garden.clone());
        self.webhooks.serve_in(setup, webhooks, owner, in_garden).map(drop)
    }

    /// An empty one is none: charts set variables that way.
    fn kubeconfig(&self) -> Option<&PathBuf> {
        self.garden_kubeconfig
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn parsed(words: &[&str]) -> Result<GardenWebhookFlags, String> {
        let command = GardenWebhookFlags::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        GardenWebhookFlags::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn modes_are_words_and_url_needs_an_address() {
        let mode = |words: &[&str]| parsed(words).unwrap().webhooks.mode();
        assert_eq!(mode(&[]), Mode::Service);
        assert_eq!(mode(&["--webhook-config-mode=url-service"]), Mode::UrlService);
        let words = ["--webhook-config-mode=url", "--webhook-config-url=[::1]:9443"];
        assert_eq!(mode(&words), Mode::Url("[::1]:9443".to_owned()));
        let alone = parsed(&words[..1]).unwrap_err();
        assert!(alone.contains("--webhook-config-url"), "{alone}");
        let unknown = parsed(&["--webhook-config-mode=urls"]).unwrap_err();
        assert!(
            unknown.contains("[possible values: service, url-service, url]"),
            "{unknown}"
        );
    }

    #[test]
    fn wrong_addresses_ports_and_namespaces_are_named_with_what_is_allowed() {
        for (word, expected) in [
            ("--webhook-config-url=https://x/y", "without https://"),
            ("--webhook-config-url=", "write HOST:PORT"),
            ("--webhook-config-url=x:", "write HOST:PORT"),
            ("--webhook-config-url=:1", "write HOST:PORT"),
            ("--webhook-config-url=x:abc", "write HOST:PORT"),
            ("--webhook-config-url=x:0", "write HOST:PORT"),
            ("--webhook-config-url=10.0.0.1:99999", "write HOST:PORT"),
            ("--webhook-config-url=user@x:1", "write HOST:PORT"),
            ("--webhook-config-server-port=0", "0 is not in 1..=65535"),
            ("--webhook-config-service-port=65536", "65536 is not in 1..=65535"),
            ("--webhook-config-server-host=localhost", "invalid IP address"),
            ("--webhook-config-owner-namespace=A", "characters of a-z"),
        ] {
            let error = parsed(&[word]).unwrap_err();
            let flag = word.split('=').next().unwrap();
            assert!(error.contains(expected) && error.contains(flag), "{error}");
        }
    }
}
