//! `portforward` of pods on nodes of this process: SPDY as kubelets speak it, and the same within WebSocket messages, as kubectl
//! asks for it since 1.31. Bytes go to what listens on the pod and back; what they say is not looked at.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward,
//! staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go)

use base_client::Upgrade;
use cluster_streams::upgrade::{self, Wanted};
use cluster_streams::websocket;
use http::Response;
use http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;

use crate::relay::port_forward_session::{self, Pod};
use crate::wire::answer::Answer;
use crate::wire::status::Status;

/// How the protocol is called, in SPDY and within WebSocket messages.
const PROTOCOL: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";

/// Answers a request to forward ports, and forwards them until its client ends or the server stops.
pub(crate) fn answer(pod: Pod, parts: &Parts, permit: OwnedSemaphorePermit) -> Result<Answer, Status> {
    let agreed = Agreed::with(parts)?;
    let upgrade = parts.extensions.get::<Upgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| {
        Status::internal("request connection cannot be hijacked: it is not HTTP/1.1 of its own".to_owned())
    })?;
    let response = agreed.response();
    let (tasks, stop) = (pod.server.tasks.clone(), pod.server.stop.clone());
    tasks.spawn(stop.run_until_cancelled_owned(async move {
        let _permit = permit;
        let Some(connection) = upgrade.accepted().await else {
            return;
        };
        let connection = match agreed {
            Agreed::Spdy => connection,
            Agreed::WebSocket(_) => websocket::unwrapped(connection),
        };
        port_forward_session::run(connection, pod).await;
    }));
    Ok(Answer::passed(response))
}

/// What both sides speak.
enum Agreed {
    Spdy,
    /// With the client's key.
    WebSocket(String),
}

impl Agreed {
    fn with(parts: &Parts) -> Result<Self, Status> {
        let headers = &parts.headers;
        match Wanted::by(headers) {
            None => Err(Status::bad_request("Upgrade request required")),
            Some(Wanted::WebSocket) => {
                let key = upgrade::websocket_key(&parts.method, headers);
                let key = key.ok_or_else(|| Status::bad_request("not a WebSocket handshake of version 13"))?;
                let mut offers = upgrade::websocket_protocols(headers).into_iter();
                if !offers.any(|offer| offer.eq_ignore_ascii_case(TUNNELLED)) {
                    return Err(Status::bad_request(format!(
                        "unable to negotiate protocol: the server supports {TUNNELLED} over WebSocket"
                    )));
                }
                Ok(Self::WebSocket(key.to_owned()))
            }
            Some(Wanted::Spdy) => {
                let offers = upgrade::spdy_protocols(headers);
                // A client that names none means the first there was.
                if !offers.is_empty() && !offers.contains(&PROTOCOL) {
                    return Err(Status::bad_request(format!(
                        "unable to negotiate protocol: the server supports [{PROTOCOL}]"
                    )));
                }
                Ok(Self::Spdy)
            }
        }
    }

    fn response(&self) -> Response<base_client::ResponseBody> {
        match self {
            Self::Spdy => upgrade::to_spdy(PROTOCOL),
            Self::WebSocket(key) => upgrade::to_websocket(key, TUNNELLED),
        }
    }
}
