//! Layers that a connector puts around every client it makes, to count calls or to break them. There is none by
//! default; they see a client and the kubeconfig it is made from, and nothing else.

use std::fmt;
use std::sync::Arc;

use kube::Client;
use kube::config::Kubeconfig;

type Layer = Arc<dyn Fn(Client, &Kubeconfig) -> Client + Send + Sync>;

/// What is put around every client that a connector makes. Clones are the same layers.
#[derive(Clone, Default)]
pub struct Layers(Option<Layer>);

impl Layers {
    /// One layer: a client in, a client out.
    pub fn new(layer: impl Fn(Client, &Kubeconfig) -> Client + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(layer)))
    }

    /// The client as its user gets it.
    #[must_use]
    pub fn around(&self, client: Client, kubeconfig: &Kubeconfig) -> Client {
        match &self.0 {
            Some(layer) => layer(client, kubeconfig),
            None => client,
        }
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "one layer" } else { "none" })
    }
}
