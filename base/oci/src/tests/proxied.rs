//! The client behind proxies, good and bad.

use std::sync::Arc;

use api_meta::{Classified as _, FaultClass};

use super::misbehaving::{Chart, Hosts, Reply, Request, Then, reply};
use super::{BEARER, pull, user};
use crate::{Client, Kind, Proxies, Settings};

fn through(variable: &'static str, value: &'static str) -> Proxies {
    let known = [(variable, value), ("NO_PROXY", "mirror.example")];
    let variable = |name: &str| Some(known.iter().find(|(known, _)| *known == name)?.1.to_owned());
    Proxies::of_variables(variable)
}

fn behind(hosts: &Arc<Hosts>, proxy: &'static str) -> Client {
    hosts.client(|settings| settings.proxies = through("HTTPS_PROXY", proxy))
}

fn tunnel() -> Reply {
    Reply {
        bytes: b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        then: Then::Tunnel,
    }
}

/// A registry that wants a token, behind a proxy that wants a password.
fn guarded(chart: Chart) -> Arc<Hosts> {
    Hosts::new(move |request, _| match request {
        Request {
            method,
            proxy_authorization,
            ..
        } if method == "CONNECT" => match proxy_authorization.as_deref() {
            Some("Basic bWU6aHVzaA==") => tunnel(),
            _ => reply(407, &[("proxy-authenticate", "Basic realm=\"p\"")], b"no"),
        },
        Request {
            proxy_authorization: Some(_),
            ..
        } => reply(500, &[], b"what the proxy is shown came through"),
        Request { host, .. } if host == "auth.example" => reply(200, &[], br#"{"token":"t"}"#),
        Request {
            authorization: None, ..
        } => reply(401, &[("www-authenticate", BEARER)], b""),
        Request { target, .. } => chart.answer(target),
    })
}

#[tokio::test(start_paused = true)]
async fn registry_and_token_service_are_reached_through_the_tunnel_of_an_authenticated_proxy() {
    let hosts = guarded(Chart::new(b"chart"));
    for proxy in ["http://me:hush@proxy.example:3128", "https://me:hush@proxy.example"] {
        hosts.forget();
        let pulled = pull(&behind(&hosts, proxy)).await.unwrap();
        assert_eq!(pulled.bytes.as_ref(), b"chart");
        let requests = hosts.requests();
        assert_eq!(
            requests[..2],
            ["proxy registry.example:443", "registry /v2/charts/web/manifests/1.0.0"],
            "{proxy}"
        );
        assert!(requests.contains(&"proxy auth.example:443".to_owned()), "{requests:?}");
    }
    let refused = pull(&behind(&hosts, "proxy.example:3128")).await.unwrap_err();
    assert_eq!((refused.class(), refused.kind), (FaultClass::Access, refusal(407)));
}

fn refusal(status: u16) -> Kind {
    Kind::Proxy {
        proxy: "proxy.example:3128".to_owned(),
        status,
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_plain_http_registry_are_sent_by_the_proxy() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match request.target.strip_prefix("http://registry.example") {
            Some(path) if request.proxy_authorization.as_deref() == Some("Basic bWU6aHVzaA==") => chart.answer(path),
            _ => reply(407, &[], b""),
        },
    );
    let open = |proxy| {
        hosts.client(|settings: &mut Settings| {
            settings.plain_http = true;
            settings.proxies = through("HTTP_PROXY", proxy);
        })
    };
    pull(&open("me:hush@proxy.example:3128")).await.unwrap();
    let refused = pull(&open("proxy.example:3128")).await.unwrap_err();
    assert_eq!(refused.kind, refusal(407));
    assert!(
        hosts
            .received()
            .iter()
            .all(|request| request.host == "proxy.example" && request.is_plain)
    );
}

#[tokio::test(start_paused = true)]
async fn excepted_host_is_contacted_directly() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| chart.answer(&request.target));
    let client = hosts.client(|settings| {
        settings.proxies = through("HTTPS_PROXY", "proxy.example:3128");
        settings.mirrors = vec![crate::Mirror::parse("mirror.example").unwrap()];
        settings.keyring = user("hush");
    });
    pull(&client).await.unwrap();
    assert!(
        hosts.received().iter().all(|request| request.host == "mirror.example"),
        "{:?}",
        hosts.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn failing_proxy_is_named_and_retried_only_if_that_may_help() {
    for (status, tries) in [(403, 1), (407, 1), (502, 5)] {
        let hosts = Hosts::new(move |_, _| reply(status, &[], b"<html>"));
        let kind = pull(&behind(&hosts, "proxy.example:3128")).await.unwrap_err().kind;
        assert_eq!((kind, hosts.received().len()), (refusal(status), tries));
    }
    let garbage = Hosts::new(|_, _| Reply {
        bytes: b"SSH-2.0-OpenSSH\r\n".to_vec(),
        then: Then::Close,
    });
    let endless = Hosts::new(|_, _| Reply {
        bytes: b"HTTP/1.1 200 x\r\n".to_vec(),
        then: Then::Endless,
    });
    let silent = Hosts::new(|_, _| Reply {
        bytes: Vec::new(),
        then: Then::Silence,
    });
    for (hosts, wanted) in [
        (&garbage, "the proxy proxy.example:3128: "),
        (&endless, "the proxy proxy.example:3128: "),
        (&silent, "no connection through the proxy proxy.example:3128 within 10s"),
    ] {
        let error = pull(&behind(hosts, "proxy.example:3128")).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.class(), FaultClass::Transient, "{error}");
    }
    let absent = pull(&behind(&garbage, "absent:3128")).await.unwrap_err().to_string();
    assert!(
        absent.ends_with("the proxy absent:3128: connection refused"),
        "{absent}"
    );
    let untrusted = garbage.client(|settings| {
        settings.ca_bundle = None;
        settings.proxies = through("HTTPS_PROXY", "https://proxy.example");
    });
    let untrusted = pull(&untrusted).await.unwrap_err();
    let error = untrusted.to_string();
    assert!(
        error.contains("the certificate of the proxy proxy.example:443 is not trusted: "),
        "{error}"
    );
    assert_eq!(untrusted.class(), FaultClass::Dependency);
}
