//! Whose certificates and headers are believed: by files that flags name, else by what the API server in front publishes for
//! aggregated servers; either may change while the server runs.
//! (k8s.io/apiserver v0.35 pkg/server/options/authentication.go, pkg/server/options/authentication_dynamic_request_header.go)

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_meta::Fault;
use base_client::watch;
use cluster_apiserver::{ApiServer, FrontProxies, RequestHeaders};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use landscape_data_folder::followed;

use crate::settings::{HeaderSettings, TrustSettings};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const CLIENTS: &str = "--client-ca-file";
const FRONT_PROXIES: &str = "--requestheader-client-ca-file";

/// Whom the server believes as far as it is known. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Trust(Arc<Mutex<Known>>);

/// None: not known yet.
#[derive(Clone, Default, PartialEq)]
struct Known {
    clients: Option<String>,
    front_proxies: Option<FrontProxies>,
}

impl Trust {
    /// The content of files.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) async fn read(settings: &TrustSettings) -> Result<Self, Fault> {
        let mut known = Known::default();
        if let Some(path) = &settings.clients {
            let [text] = followed::read(&[(CLIENTS, path)]).await?;
            known.clients = Some(text);
        }
        if let Some(flags) = &settings.front_proxies {
            let [text] = followed::read(&[(FRONT_PROXIES, &flags.authorities)]).await?;
            known.front_proxies = Some(from_flags(flags, text));
        }
        Ok(Self(Arc::new(Mutex::new(known))))
    }

    /// Why it is not complete, if it is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.known().front_proxies {
            None => Err(format!(
                "ConfigMap {NAMESPACE}/{NAME} of the API server in front is not known yet"
            )),
            Some(front) if front.authorities.trim().is_empty() => Err(format!(
                "ConfigMap {NAMESPACE}/{NAME} names no authority of front proxies: the API server in front needs \
                 --requestheader-client-ca-file"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Lets the server believe what is known by now.
    ///
    /// # Errors
    /// A text that holds something else than certificates of authorities.
    pub(crate) fn apply(&self, server: &ApiServer) -> Result<(), Fault> {
        let Known { clients, front_proxies } = self.known();
        let (clients, front_proxies) = (clients.unwrap_or_default(), front_proxies.unwrap_or_default());
        if let Some(warning) = open_to_all(&clients, &front_proxies) {
            tracing::warn!("{warning}");
        }
        server.trust(&clients, &front_proxies).map_err(|status| {
            Fault::user(status.to_string()).hint("replace it by a PEM file of authorities' certificates")
        })
    }

    fn known(&self) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in something new, and lets the server believe it. What cannot be used is ignored.
    fn learn(&self, server: &ApiServer, change: impl FnOnce(&mut Known)) -> Result<(), Fault> {
        let before = self.known();
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = after;
        let outcome = self.apply(server);
        if outcome.is_err() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = before;
        }
        outcome
    }
}

fn from_flags(flags: &HeaderSettings, authorities: String) -> FrontProxies {
    FrontProxies {
        authorities,
        allowed_names: flags.allowed_names.clone(),
        headers: flags.headers.clone(),
    }
}

/// Who is a client of one authority for both could name any user in a header.
fn open_to_all(clients: &str, front_proxies: &FrontProxies) -> Option<String> {
    let is_open = !clients.trim().is_empty()
        && clients.trim() == front_proxies.authorities.trim()
        && front_proxies.allowed_names.is_empty();
    is_open.then(|| {
        "clients and front proxies have the same authority and no names are demanded of front proxies: every client with a \
         certificate may act as any user; set --requestheader-allowed-names"
            .to_owned()
    })
}

/// Follows files and, for what no file holds, the ConfigMap; for ever.
pub(crate) async fn follow(trust: Trust, settings: TrustSettings, server: ApiServer, client: Client) {
    let known = trust.known();
    let clients = async {
        if let Some(path) = settings.clients.clone() {
            let text = known.clients.clone().unwrap_or_default();
            followed::follow([(CLIENTS, path)], [text], async |[text]| {
                trust.learn(&server, |known| known.clients = Some(text))
            })
            .await;
        }
    };
    let front_proxies = async {
        if let Some(flags) = settings.front_proxies.clone() {
            let text = known.front_proxies.as_ref().map(|front| front.authorities.clone());
            let path = flags.authorities.clone();
            followed::follow([(FRONT_PROXIES, path)], [text.unwrap_or_default()], async |[text]| {
                let front = from_flags(&flags, text);
                trust.learn(&server, |known| known.front_proxies = Some(front))
            })
            .await;
        }
    };
    let published = async {
        if settings.clients.is_none() || settings.front_proxies.is_none() {
            follow_published(&trust, &settings, &server, client).await;
        }
    };
    futures::join!(clients, front_proxies, published);
}

async fn follow_published(trust: &Trust, settings: &TrustSettings, server: &ApiServer, client: Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let config = Config::default().fields(&format!("metadata.name={NAME}"));
    let mut events = Box::pin(watch(maps, config));
    let mut reported = String::new();
    while let Some(event) = events.next().await {
        let outcome = match event {
            Ok(Event::InitApply(map) | Event::Apply(map)) => {
                let data = map.data.unwrap_or_default();
                published(&data).and_then(|(clients, front_proxies)| {
                    trust.learn(server, |known| {
                        if settings.clients.is_none() {
                            known.clients = Some(clients);
                        }
                        if settings.front_proxies.is_none() {
                            known.front_proxies = Some(front_proxies);
                        }
                    })
                })
            }
            // What it named stays trusted until another one replaces it.
            Ok(_) => continue,
            Err(error) => Err(Fault::dependency(format!(
                "ConfigMap {NAMESPACE}/{NAME} of the API server in front cannot be read: {error}; bind role \
                 extension-apiserver-authentication-reader there if it refuses"
            ))),
        };
        let text = outcome.err().map(|fault| fault.to_string()).unwrap_or_default();
        if !text.is_empty() && text != reported {
            tracing::warn!("{text}");
        }
        reported = text;
    }
}

/// The content of the ConfigMap: authorities of clients, and front proxies.
fn published(data: &BTreeMap<String, String>) -> Result<(String, FrontProxies), Fault> {
    let text = |key: &str| data.get(key).cloned().unwrap_or_default();
    let list = |key: &str| -> Result<Vec<String>, Fault> {
        let text = text(key);
        if text.is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_str(&text)
            .map_err(|error| Fault::dependency(format!("{key} in ConfigMap {NAMESPACE}/{NAME} is no list: {error}")))
    };
    let headers = RequestHeaders {
        user: list("requestheader-username-headers")?,
        uid: list("requestheader-uid-headers")?,
        group: list("requestheader-group-headers")?,
        extra_prefixes: list("requestheader-extra-headers-prefix")?,
    };
    let front_proxies = FrontProxies {
        authorities: text("requestheader-client-ca-file"),
        allowed_names: list("requestheader-allowed-names")?,
        headers,
    };
    Ok((text("client-ca-file"), front_proxies))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    }

    #[test]
    fn published_authorities_names_and_headers_are_read() {
        let (clients, front) = published(&data(&[
            ("client-ca-file", "A"),
            ("requestheader-client-ca-file", "B"),
            ("requestheader-allowed-names", "[\"front-proxy\"]"),
            ("requestheader-username-headers", "[\"X-Other-User\"]"),
            ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
            ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
        ]))
        .unwrap();
        assert_eq!((clients.as_str(), front.authorities.as_str()), ("A", "B"));
        assert_eq!(front.allowed_names, ["front-proxy"]);
        assert_eq!(front.headers.user, ["X-Other-User"]);
        assert!(front.headers.uid.is_empty(), "an older server publishes none");
        let why = published(&data(&[("requestheader-allowed-names", "front")])).unwrap_err();
        assert!(why.to_string().contains("requestheader-allowed-names"), "{why}");
    }

    #[test]
    fn one_authority_for_clients_and_front_proxies_needs_names() {
        let front = |names: &[&str]| FrontProxies {
            authorities: "A\n".to_owned(),
            allowed_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..FrontProxies::default()
        };
        assert!(open_to_all("A", &front(&[])).is_some());
        assert!(open_to_all("A", &front(&["front-proxy"])).is_none());
        assert!(open_to_all("B", &front(&[])).is_none());
        assert!(open_to_all("", &front(&[])).is_none());
    }
}
