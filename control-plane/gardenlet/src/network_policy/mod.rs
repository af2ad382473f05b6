//! Closes the namespaces of a seed: `garden` and those of shoots and extensions get network policies that deny all
//! connections, but for what pods request by labels (gardener/gardener v1.150 pkg/gardenlet/controller/networkpolicy).
//! What Services open is gardener-resource-manager's to write.

mod desired;

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use api_meta::Fault;
use base_client::{apply, delete};
use base_controller::{Cache, Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, MANAGER, technical_id};
use desired::{NAMES, Surroundings, api_server, desired, is_handled};

/// The Service of an API server in its own cluster, and the namespace of it.
const API_SERVICE: &str = "kubernetes";
const API_SERVICE_NAMESPACE: &str = "default";
/// On policies that are made for Services.
const OF_SERVICES: &str = api_meta::labels::network::SERVICE_NAME;
/// Phase of a namespace that is there to stay.
const ACTIVE: &str = "Active";

struct Networks {
    context: Arc<Context>,
    namespaces: Cache<Namespace>,
    policies: Cache<NetworkPolicy>,
    service: Cache<Service>,
    slices: Cache<EndpointSlice>,
}

/// Runs until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let seed = || context.seed.clone();
    let config = watcher::Config::default;
    let in_default = format!("metadata.namespace={API_SERVICE_NAMESPACE},metadata.name={API_SERVICE}");
    let networks = Arc::new(Networks {
        namespaces: Cache::start(Api::all(seed()), config(), stop.clone()),
        policies: Cache::start(
            Api::all(seed()),
            config().labels(&format!("!{OF_SERVICES}")),
            stop.clone(),
        ),
        service: Cache::start(Api::all(seed()), config().fields(&in_default), stop.clone()),
        slices: Cache::start(
            Api::namespaced(seed(), API_SERVICE_NAMESPACE),
            config().labels(&format!("kubernetes.io/service-name={API_SERVICE}")),
            stop.clone(),
        ),
        context: context.clone(),
    });
    let ready = async {
        networks.namespaces.ready().await;
        networks.policies.ready().await;
        networks.service.ready().await;
        networks.slices.ready().await;
        context.garden_caches.shoots.ready().await;
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    let controller = controller(&networks);
    controller
        .run(stop, move |namespace| reconcile(networks.clone(), namespace))
        .await;
}

fn controller(networks: &Arc<Networks>) -> Controller<Namespace> {
    let [of_service, of_slices] = std::array::from_fn(|_| networks.namespaces.clone());
    let handled = |namespaces: &Cache<Namespace>| {
        let namespaces = namespaces.list().into_iter();
        namespaces
            .filter(|namespace| is_handled(namespace))
            .map(|namespace| ObjectKey::of(&*namespace))
            .collect()
    };
    Controller::new("networkpolicy", networks.namespaces.clone())
        .when(|old, new| {
            let phase = |namespace: &Namespace| namespace.status.as_ref().and_then(|status| status.phase.clone());
            old.is_none_or(|old| old.labels() != new.labels() || phase(old) != phase(new))
        })
        .watches(&networks.policies, |change| {
            let namespace = change.object.namespace().map(ObjectKey::cluster);
            let ours = NAMES.contains(&change.object.name_any().as_str());
            namespace.filter(|_| ours).into_iter().collect()
        })
        .watches(&networks.service, move |_| handled(&of_service))
        .watches(&networks.slices, move |_| handled(&of_slices))
        .watches(&networks.context.garden_caches.shoots, |change| {
            let used = |shoot: &Shoot| {
                let status = shoot.status.as_ref().and_then(|status| status.networking.clone());
                (shoot.spec.networking.clone(), status)
            };
            let same = change.old.as_ref().is_some_and(|old| used(old) == used(&change.object));
            let namespace = technical_id(&change.object).map(ObjectKey::cluster);
            namespace.filter(|_| !same && !change.deleted).into_iter().collect()
        })
}

async fn reconcile(networks: Arc<Networks>, namespace: Arc<Namespace>) -> Result<Next, Fault> {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    if namespace.metadata.deletion_timestamp.is_some() || phase != Some(ACTIVE) {
        return Ok(Next::Change);
    }
    let name = namespace.name_any();
    let wanted = networks.wanted(&namespace);
    let policies: Api<NetworkPolicy> = networks.context.in_seed(&name);
    for policy in &wanted {
        if !networks.is_there(policy) {
            apply(&policies, policy, MANAGER).await?;
        }
    }
    for obsolete in NAMES {
        let key = ObjectKey::namespaced(&name, obsolete);
        let is_wanted = wanted.iter().any(|policy| policy.name_any() == obsolete);
        let ours = networks.policies.get(&key).is_some_and(|policy| is_ours(&policy));
        if !is_wanted && ours {
            delete(&policies, obsolete).await?;
        }
    }
    Ok(Next::Change)
}

/// Whether a policy was written here: another one may have a name of ours in a namespace that is not.
fn is_ours(policy: &NetworkPolicy) -> bool {
    policy.annotations().contains_key(api_meta::annotations::DESCRIPTION)
}

impl Networks {
    fn wanted(&self, namespace: &Namespace) -> Vec<NetworkPolicy> {
        let slices = self.slices.list();
        let service = self.service.list().into_iter().next();
        let around = Surroundings {
            networks: self.context.config.seed.spec.networks.clone(),
            api_server: api_server(&slices, service.as_deref()),
        };
        let shoot = self.context.garden_caches.shoots_by_id.get(&namespace.name_any());
        desired(namespace, shoot.as_deref(), &around)
    }

    fn is_there(&self, wanted: &NetworkPolicy) -> bool {
        let present = self.policies.get(&ObjectKey::of(wanted));
        present.is_some_and(|present| present.spec == wanted.spec && present.annotations() == wanted.annotations())
    }
}
