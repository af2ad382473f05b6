//! The ways in which API servers reach an extension's webhooks. Pure.

use std::net::IpAddr;

use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};

use crate::names::configuration_name;

/// How API servers reach the webhooks (gardener/gardener v1.150 extensions/pkg/webhook/registration.go).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the Service `gardener-extension-NAME` in the extension's namespace: the API server is that of the same cluster.
    Service,
    /// At `HOST:PORT` or `HOST`: the extension runs outside of the cluster.
    Url(String),
    /// By the name of the Service in a URL: the API server runs in the same cluster and serves another one.
    UrlService,
}

impl Mode {
    /// The host of the address, in mode `url`.
    fn host(&self) -> Option<&str> {
        let Self::Url(url) = self else { return None };
        match url.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => Some(address),
            None => Some(url.rsplit_once(':').map_or(url.as_str(), |(host, _)| host)),
        }
    }
}

/// Where an extension's webhooks are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Name of the extension.
    pub(crate) extension: String,
    /// Where it runs.
    pub(crate) namespace: String,
    pub(crate) service_port: u16,
    pub(crate) mode: Mode,
}

impl Place {
    /// How the webhook at `path` is reached from the extension's own cluster, or from shoots.
    pub(crate) fn client_config(&self, path: &str, in_shoot: bool) -> WebhookClientConfig {
        let service = configuration_name(&self.extension);
        let (namespace, port) = (&self.namespace, self.service_port);
        let url = match &self.mode {
            Mode::Url(url) => Some(format!("https://{url}{path}")),
            Mode::Service if !in_shoot => None,
            Mode::Service | Mode::UrlService => Some(format!("https://{service}.{namespace}:{port}{path}")),
        };
        let reference = || ServiceReference {
            name: service.clone(),
            namespace: namespace.clone(),
            path: Some(path.to_owned()),
            port: Some(port.into()),
        };
        WebhookClientConfig {
            ca_bundle: None,
            service: url.is_none().then(reference),
            url,
        }
    }

    /// Names and addresses that the certificate is for: those of the Service in every mode, since shoots reach it so, and the
    /// host of the URL.
    pub(crate) fn names(&self) -> (Vec<String>, Vec<IpAddr>) {
        let service = configuration_name(&self.extension);
        let namespace = &self.namespace;
        let mut names = vec![
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
        ];
        let mut addresses = Vec::new();
        if let Some(host) = self.mode.host() {
            match host.parse::<IpAddr>() {
                Ok(address) => addresses.push(address),
                Err(_) => names.push(host.to_owned()),
            }
        }
        (names, addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(mode: Mode) -> Place {
        Place {
            extension: "provider-fake".to_owned(),
            namespace: "ext".to_owned(),
            service_port: 443,
            mode,
        }
    }

    #[test]
    fn modes_lead_to_the_service_or_a_url() {
        let by_name = "https://gardener-extension-provider-fake.ext:443/hook";
        let outside = "https://10.0.0.1:9443/hook";
        for (mode, in_shoot, url) in [
            (Mode::Service, false, None),
            (Mode::Service, true, Some(by_name)),
            (Mode::UrlService, false, Some(by_name)),
            (Mode::UrlService, true, Some(by_name)),
            (Mode::Url("10.0.0.1:9443".to_owned()), false, Some(outside)),
            (Mode::Url("10.0.0.1:9443".to_owned()), true, Some(outside)),
        ] {
            let config = place(mode.clone()).client_config("/hook", in_shoot);
            assert_eq!(config.url.as_deref(), url, "{mode:?} {in_shoot}");
            assert_eq!(config.service.is_some(), url.is_none());
        }
        let service = place(Mode::Service).client_config("/hook", false).service.unwrap();
        assert_eq!((service.path.as_deref(), service.port), (Some("/hook"), Some(443)));
    }

    #[test]
    fn certificates_are_for_the_service_and_the_host_of_the_url() {
        let extra = |mode: Mode| {
            let (names, addresses) = place(mode).names();
            assert_eq!(names[2], "gardener-extension-provider-fake.ext.svc");
            (names[3..].to_vec(), addresses)
        };
        let address = |text: &str| vec![text.parse().unwrap()];
        for (mode, names, addresses) in [
            (Mode::Service, vec![], vec![]),
            (Mode::UrlService, vec![], vec![]),
            (Mode::Url("10.0.0.1:9443".to_owned()), vec![], address("10.0.0.1")),
            (Mode::Url("[::1]:9443".to_owned()), vec![], address("::1")),
            (
                Mode::Url("host.local".to_owned()),
                vec!["host.local".to_owned()],
                vec![],
            ),
        ] {
            assert_eq!(extra(mode.clone()), (names, addresses), "{mode:?}");
        }
    }
}
