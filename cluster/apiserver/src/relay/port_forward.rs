//! `portforward` of pods on nodes of this process, which this server does itself: it reaches what listens on them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use base_client::{Connection, Upgrade};
use cluster_streams::port_forward::{Agreed, ForwardedPod, not_dialled};
use http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;

use crate::connections::addresses::PodPort;
use crate::connections::dial::to_service;
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::status::Status;

/// Answers a request to forward ports, and forwards them until its client ends or the server stops.
pub(crate) fn answer(pod: Pod, parts: &Parts, permit: OwnedSemaphorePermit) -> Result<Answer, Status> {
    let agreed = Agreed::with(&parts.method, &parts.headers).map_err(Status::bad_request)?;
    let upgrade = parts.extensions.get::<Upgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| {
        Status::internal("request connection cannot be hijacked: it is not HTTP/1.1 of its own".to_owned())
    })?;
    let response = agreed.response();
    let (tasks, stop) = (pod.server.tasks.clone(), pod.server.stop.clone());
    tasks.spawn(stop.run_until_cancelled_owned(async move {
        let _permit = permit;
        if let Some(connection) = upgrade.accepted().await {
            agreed.forward(connection, Arc::new(pod)).await;
        }
    }));
    Ok(Answer::passed(response))
}

/// The pod whose ports are forwarded.
#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) server: Arc<ServerState>,
    /// As errors name it.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) ip: IpAddr,
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
        let pods = self.server.network.pods.as_ref();
        let dialled = match pods.map_or(PodPort::Elsewhere, |pods| pods(self.ip, port)) {
            PodPort::Http(service) => Ok(to_service(service)),
            PodPort::Bytes(dialer) => dialer.connect().await,
            PodPort::Closed => Err(io::ErrorKind::ConnectionRefused.into()),
            PodPort::Elsewhere => Err(io::Error::other("no route to host")),
        };
        dialled.map_err(|error| not_dialled(self.ip, port, &error))
    }
}
