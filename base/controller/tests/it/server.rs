//! A server for one test, and ConfigMaps to work on.

use std::collections::BTreeMap;

use base_clock::{Clock, Entropy};
use base_controller::Cache;
use cluster_apiserver::ApiServer;
use cluster_store::MemoryStore;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

pub(crate) struct Server {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) maps: Api<ConfigMap>,
    pub(crate) stop: CancellationToken,
    pub(crate) server: ApiServer,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn start() -> Server {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::builder("test")
        .store(MemoryStore::new())
        .clock(clock.clone())
        .entropy(Entropy::seeded(1))
        .build()
        .await
        .unwrap();
    let client = server.loopback_client();
    let maps = Api::namespaced(client.clone(), "default");
    Server {
        clock,
        client,
        maps,
        stop: CancellationToken::new(),
        server,
    }
}

impl Server {
    pub(crate) fn cache(&self) -> Cache<ConfigMap> {
        Cache::start(
            self.maps.clone(),
            watcher::Config::default().labels("test=yes"),
            self.stop.clone(),
        )
    }

    pub(crate) async fn create(&self, name: &str) -> ConfigMap {
        self.maps.create(&PostParams::default(), &map(name, "0")).await.unwrap()
    }
}

/// A ConfigMap with one value.
pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: Some(BTreeMap::from([("test".into(), "yes".into())])),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("value".into(), value.into())])),
        ..Default::default()
    }
}
