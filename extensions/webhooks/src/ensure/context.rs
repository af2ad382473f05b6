//! What a change of a control plane may depend on. It reads only what is asked for, and once.

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use api_extensions::Cluster;
use api_meta::Fault;
use base_client::get;
use extensions_sdk::ClusterView;
use kube::{Api, Client};
use semver::Version;
use tokio::sync::OnceCell;

use crate::refusal::Refusal;
use crate::request::Request;

/// One request about one object of a control plane.
pub struct Context<'a> {
    request: &'a Request,
    client: &'a Client,
    cluster: OnceCell<ClusterView>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(request: &'a Request, client: &'a Client) -> Self {
        Self {
            request,
            client,
            cluster: OnceCell::new(),
        }
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &Request {
        self.request
    }

    /// The seed. A webhook that reads holds up gardenlet: it has less than ten seconds.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.client
    }

    /// The shoot's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.request.namespace
    }

    /// The shoot that the control plane is of, read when it is asked for first.
    ///
    /// # Errors
    /// There is no Cluster for the namespace, or it cannot be read.
    pub async fn cluster(&self) -> Result<&ClusterView, Refusal> {
        let read = || async {
            let namespace = self.namespace();
            let found = get(&Api::<Cluster>::all(self.client.clone()), namespace).await?;
            let missing = || {
                Fault::dependency(format!("there is no Cluster {namespace}"))
                    .hint("gardenlet writes it before all else of a shoot: look at the Shoot's status")
            };
            Ok::<_, Refusal>(ClusterView::new(Arc::new(found.ok_or_else(missing)?))?)
        };
        self.cluster.get_or_try_init(read).await
    }
}

/// The worker pool that an OperatingSystemConfig is for.
pub struct Pool<'a> {
    context: &'a Context<'a>,
    name: Option<&'a str>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(context: &'a Context<'a>, name: Option<&'a str>) -> Self {
        Self { context, name }
    }

    /// Its name, from the label `worker.gardener.cloud/pool`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name
    }

    /// The version of its kubelets: the pool's, or else that of the control plane.
    ///
    /// # Errors
    /// As of [`Context::cluster`], and a version that is none.
    pub async fn kubelet_version(&self) -> Result<Version, Refusal> {
        let cluster = self.context.cluster().await?;
        let text = kubelet_version(&cluster.shoot, self.name);
        let version = Version::parse(text);
        version.map_err(|error| {
            Fault::user(format!("{text:?} is no version of Kubernetes: {error}"))
                .hint("correct spec.kubernetes.version of the Shoot or of the worker pool")
                .into()
        })
    }
}

fn kubelet_version<'s>(shoot: &'s Shoot, pool: Option<&str>) -> &'s str {
    let workers = shoot.spec.provider.workers.iter();
    let of_pool = workers
        .filter(|worker| Some(worker.name.as_str()) == pool)
        .find_map(|worker| worker.kubernetes.as_ref()?.version.as_deref());
    let of_shoot = shoot.spec.kubernetes.version.as_deref();
    of_pool.or(of_shoot).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pools_own_version_comes_before_that_of_the_control_plane() {
        let shoot: Shoot = serde_json::from_value(json!({"metadata": {}, "spec": {
            "kubernetes": {"version": "1.35.0"},
            "provider": {"type": "x", "workers": [{"name": "a"}, {"name": "b", "kubernetes": {"version": "1.34.2"}}]},
        }}))
        .unwrap();
        for (pool, version) in [
            (Some("a"), "1.35.0"),
            (Some("b"), "1.34.2"),
            (Some("c"), "1.35.0"),
            (None, "1.35.0"),
        ] {
            assert_eq!(kubelet_version(&shoot, pool), version, "{pool:?}");
        }
    }
}
