//! `kubectl port-forward` as a kubelet answers it: connections to what listens on a pod of the node. It does not
//! authenticate callers.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use base_client::{Connection, ResponseBody, Upgrade};
use cluster_streams::port_forward::{Agreed, ForwardedPod, not_dialled};
use http::{Request, Response, StatusCode};
use kube::client::Body;

use crate::shown::Shown;
use crate::{Endpoint, Network};

/// Answers a request to forward ports of a pod (namespace, name), and forwards them until the client ends.
pub(crate) fn answer(
    shown: &Shown,
    network: &Network,
    request: &Request<Body>,
    (namespace, name): (&str, &str),
) -> Result<Response<ResponseBody>, (StatusCode, String)> {
    let found = shown.place(namespace, name);
    let (uid, ip) = found.ok_or_else(|| (StatusCode::NOT_FOUND, "pod does not exist".to_owned()))?;
    let agreed = Agreed::with(request.method(), request.headers());
    let agreed = agreed.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let upgrade = request.extensions().get::<Upgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| {
        let why = "request connection cannot be hijacked: it is not HTTP/1.1 of its own";
        (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned())
    })?;
    let pod = Arc::new(Pod {
        network: network.clone(),
        name: name.to_owned(),
        uid,
        ip,
    });
    let response = agreed.response();
    // It ends with the client, and its connections with what listens on the pod.
    tokio::spawn(async move {
        if let Some(connection) = upgrade.accepted().await {
            agreed.forward(connection, pod).await;
        }
    });
    Ok(response)
}

struct Pod {
    network: Network,
    name: String,
    uid: String,
    ip: Option<IpAddr>,
}

#[async_trait]
impl ForwardedPod for Pod {
    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    async fn dial(&self, port: u16) -> Result<Connection, String> {
        let ip = self.ip.ok_or("the pod has no address yet")?;
        let dialled = match self.network.connect(ip, port) {
            Some(Endpoint::Bytes(dialer)) => dialer.connect().await,
            Some(Endpoint::Http(_) | Endpoint::Store(_)) => {
                Err(io::Error::other("what listens there is part of the node's process"))
            }
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        dialled.map_err(|error| not_dialled(ip, port, &error))
    }
}
