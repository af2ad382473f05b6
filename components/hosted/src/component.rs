//! A hosted component as a value: what it is called, where a flow deploys it, what it needs, how big it is and which objects
//! it consists of. Everything here is a function of its arguments.

use std::collections::BTreeMap;

use api_meta::conditions;
use base_secrets::{Managed, Wanted};

use crate::inventory;
use crate::mount::Mounted;
use crate::object::{HostedObject, ObjectKind, Reference};
use crate::secrets::{self, CA_CLIENT};
use crate::shoot::Object;
use crate::shoot_access_secret_name;
use crate::table::ComponentId;

/// One component of a shoot's control plane in its seed.
pub trait Component: Sync {
    /// Name of its workload, its label `app.kubernetes.io/name`, and after `shoot-access-` of its kubeconfig's Secret.
    fn name(&self) -> &'static str;

    /// What users read about it: names of tasks.
    fn titles(&self) -> Titles;

    /// The component whose steps deploy, await and destroy it too, at the same time; it has no steps of its own then, and
    /// shares the other's place and titles.
    fn joins(&self) -> Option<ComponentId> {
        None
    }

    /// Its image.
    fn image(&self) -> Image;

    /// What of its objects is rolled out, scaled and cared for; [`Component::name`] names it.
    fn workload(&self) -> Workload {
        Workload::Deployment
    }

    /// Where a flow deploys it.
    fn place(&self) -> Place;

    /// Whether a shoot has it.
    fn exists(&self, _cluster: &HostedCluster) -> bool {
        true
    }

    /// Who it is in the shoot, if it is a client of the shoot's API server.
    fn client(&self) -> Option<ShootClient> {
        None
    }

    /// Certificates and keys of its own. What several share is in [`secrets::cluster_secrets`].
    fn secrets(&self, _cluster: &HostedCluster) -> Vec<Wanted> {
        self.client().iter().map(ShootClient::certificate).collect()
    }

    /// How many pods it is to have.
    fn scale(&self, facts: &ScaleFacts) -> i32 {
        facts.standard()
    }

    /// Objects that a step of their own deploys before the component: an address must be known before the certificate that
    /// names it. They count in the inventory.
    fn early_objects(&self, _cluster: &HostedCluster) -> Vec<HostedObject> {
        Vec::new()
    }

    /// The other objects that it consists of in the seed, in the order of application, its workload last. To be called
    /// through [`build`], which writes the inventory.
    ///
    /// # Errors
    /// When `issued` lacks a Secret that it mounts.
    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret>;

    /// What it needs inside the shoot, rights above all: a ManagedResource of its own brings that there.
    fn shoot_objects(&self) -> Vec<Object> {
        Vec::new()
    }

    /// Conditions of the Shoot that the health of its workload counts for.
    fn conditions(&self) -> &'static [&'static str] {
        &[conditions::shoot::CONTROL_PLANE_HEALTHY]
    }
}

/// What a deployment of `component` applies, in this order: its objects but for the early ones, the workload last and with
/// the inventory on it.
///
/// # Errors
/// When `issued` lacks a Secret that the component mounts.
pub fn build(
    component: &dyn Component,
    cluster: &HostedCluster,
    issued: &Issued,
) -> Result<Vec<HostedObject>, MissingSecret> {
    let workload = component.workload().reference(component.name());
    let mut objects = component.objects(cluster, issued)?;
    let early = component.early_objects(cluster);
    let others: Vec<Reference> = early.iter().chain(&objects).map(HostedObject::reference).collect();
    let others: Vec<Reference> = others.into_iter().filter(|one| *one != workload).collect();
    for object in objects.iter_mut().filter(|object| object.reference() == workload) {
        inventory::write(object, &others);
    }
    Ok(objects)
}

/// What components may know about a shoot: validated values, never the raw spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostedCluster {
    /// The shoot's namespace in the seed; also the cluster's name.
    pub namespace: String,
    /// Kubernetes version without `v`.
    pub version: String,
    /// Whether it has no worker pools.
    pub workerless: bool,
    /// Networks of pods, in CIDR form; none without workers.
    pub pods: Vec<String>,
    /// Networks of services, in CIDR form.
    pub services: Vec<String>,
    /// Prefix length of a node's part of the pod network, where the shoot sets it.
    pub node_mask_size: Option<u8>,
    /// The host under which clients outside the seed reach the API server.
    pub api_host: String,
    /// DNS names of the API server's certificate beyond those of its Services.
    pub server_names: Vec<String>,
    /// Sizes of etcd's volumes.
    pub etcd_storage: EtcdStorage,
    /// Whether its nodes are open to SSH.
    pub ssh_access: bool,
    /// How its API server reaches its nodes.
    pub node_access: NodeAccess,
}

/// How the API server of a shoot reaches nodes, pods and Services of the shoot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeAccess {
    /// By their addresses: a network leads from the seed to the nodes.
    #[default]
    Direct,
    /// Through a connection that an agent in the shoot holds open.
    Tunnel,
}

/// Sizes of etcd's volumes, as Kubernetes quantities. A volume that is there keeps the size it was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdStorage {
    /// The size for the store of everything but Events.
    pub main: String,
    /// The size for the store of Events.
    pub events: String,
}

/// What has been made for one deployment of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Certificates and keys by the name under which they were wanted.
    pub secrets: BTreeMap<String, Mounted>,
    /// Bundles of authorities and signing keys, by the same names.
    pub bundles: BTreeMap<String, Mounted>,
    /// The component's kubeconfig for the shoot.
    pub kubeconfig: Option<Mounted>,
}

impl Issued {
    /// Takes the shoot's managed secrets, each as it is to be mounted now.
    #[must_use]
    pub fn new(image: String, replicas: i32, managed: &BTreeMap<String, Managed>, kubeconfig: Option<Mounted>) -> Self {
        let mounted = |of: fn(&Managed) -> Mounted| managed.iter().map(|(name, one)| (name.clone(), of(one))).collect();
        Self {
            image,
            replicas,
            secrets: mounted(|one| Mounted::of(&one.current)),
            bundles: mounted(|one| Mounted::of(one.bundle.as_ref().unwrap_or(&one.current))),
            kubeconfig,
        }
    }

    /// Stand-ins of everything that could be wanted, for callers that need names of objects and nothing else.
    pub(crate) fn imagined(component: &dyn Component, cluster: &HostedCluster) -> Self {
        let stand_in = |secret: String| Mounted {
            secret,
            checksum: String::new(),
        };
        let wanted = secrets::wanted_secrets(cluster);
        let all: BTreeMap<String, Mounted> = wanted
            .into_iter()
            .chain(component.secrets(cluster))
            .map(|one| (one.name.clone(), stand_in(one.name)))
            .collect();
        Self {
            secrets: all.clone(),
            bundles: all,
            kubeconfig: Some(stand_in(shoot_access_secret_name(component.name()))),
            ..Self::default()
        }
    }

    /// A certificate, a key, or an authority with its key, to mount.
    ///
    /// # Errors
    /// When it was not issued.
    pub fn secret(&self, name: &str) -> Result<&Mounted, MissingSecret> {
        self.secrets.get(name).ok_or_else(|| MissingSecret {
            secret: name.to_owned(),
        })
    }

    /// The bundle of an authority or signing key, to mount.
    ///
    /// # Errors
    /// When it was not issued.
    pub fn bundle(&self, name: &str) -> Result<&Mounted, MissingSecret> {
        self.bundles.get(name).ok_or_else(|| MissingSecret {
            secret: format!("{name}-bundle"),
        })
    }

    /// The kubeconfig of the component `component`, to mount.
    ///
    /// # Errors
    /// When it was not issued.
    pub fn kubeconfig(&self, component: &str) -> Result<&Mounted, MissingSecret> {
        self.kubeconfig.as_ref().ok_or_else(|| MissingSecret {
            secret: shoot_access_secret_name(component),
        })
    }
}

/// A component mounts a Secret that was not issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret {secret:?} is to be mounted and has not been issued")]
pub struct MissingSecret {
    /// Its name as it is wanted, without the hash behind it.
    pub secret: String,
}

/// An image and where its tag comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Kubernetes' image of this name: the tag is the shoot's version.
    Kubernetes(&'static str),
    /// The product's image of this name: the tag is the product's version.
    Own(&'static str),
    /// The product's program `orangery`, of which the component is a subcommand.
    Program,
    /// The image of another project, in the release that the product was tested with.
    Upstream {
        /// Its name.
        name: &'static str,
        /// Its tag.
        tag: &'static str,
    },
}

/// What of a component's objects runs its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A Deployment.
    Deployment,
    /// A StatefulSet.
    StatefulSet,
}

impl Workload {
    /// Its kind.
    #[must_use]
    pub fn kind(self) -> ObjectKind {
        match self {
            Self::Deployment => ObjectKind::Deployment,
            Self::StatefulSet => ObjectKind::StatefulSet,
        }
    }

    /// The workload of this kind called `name`.
    #[must_use]
    pub fn reference(self, name: &str) -> Reference {
        Reference {
            kind: self.kind(),
            name: name.to_owned(),
        }
    }
}

/// Where a flow deploys a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The stores: before everything, and waited for.
    Etcd,
    /// The API server: when the stores serve, and waited for.
    ApiServer,
    /// The resource manager: when the API server serves, and waited for.
    ResourceManager,
    /// The rest of the control plane: when the shoot's secrets are made and the resource manager runs.
    ControlPlane {
        /// Whether the flow waits until it is rolled out.
        waits: bool,
        /// Whether the cloud's credentials must be in the namespace: a provider may mount them into its pods.
        needs_cloud_credentials: bool,
    },
    /// With the machine controllers: after infrastructure and OperatingSystemConfigs. Only shoots with workers get there.
    Machines,
}

/// A client of a shoot's API server that lives in the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShootClient {
    /// Its user in the shoot.
    pub user: &'static str,
    /// Under which name its certificate is wanted.
    pub secret: &'static str,
}

impl ShootClient {
    /// Its certificate.
    #[must_use]
    pub fn certificate(&self) -> Wanted {
        Wanted::certificate(self.secret, CA_CLIENT, secrets::client(self.user))
    }
}

/// How users read a component's tasks in progress texts and errors. The texts are a task's identity towards users and stay
/// as upstream spells them (gardener/gardener v1.150 pkg/gardenlet/controller/shoot/shoot/reconciler_reconcile.go and
/// reconciler_delete.go).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Titles {
    /// The component itself, such as "Kubernetes scheduler".
    pub title: &'static str,
    /// Applies it.
    pub deploy: &'static str,
    /// Waits for its roll-out.
    pub wait: &'static str,
    /// Applies it while a shoot is being deleted.
    pub deploy_for_deletion: &'static str,
    /// Waits for its roll-out while a shoot is being deleted.
    pub wait_for_deletion: &'static str,
    /// Deletes it.
    pub destroy: &'static str,
    /// Waits until it is gone.
    pub wait_destroyed: &'static str,
    /// The same for its early objects, if it has any.
    pub early: Option<&'static Titles>,
}

/// Titles of the component called `$name`, which a sentence calls `$title`.
macro_rules! titles {
    ($title:literal, $name:literal) => {
        $crate::component::Titles {
            title: $title,
            deploy: concat!("Deploying ", $title),
            wait: concat!("Waiting until ", $name, " reports readiness"),
            deploy_for_deletion: concat!("Deploying ", $title),
            wait_for_deletion: concat!("Waiting until ", $name, " reports readiness"),
            destroy: concat!("Destroying ", $title),
            wait_destroyed: concat!("Waiting until ", $title, " has been destroyed"),
            early: None,
        }
    };
}
pub(crate) use titles;

/// What decides how many pods a component has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleFacts {
    /// Whether the shoot runs.
    pub power: Power,
    /// How many pods its workload asks for at present; none where there is no workload.
    pub present: Option<i32>,
    /// Whether the control plane is to survive the failure of a node. No component reads it yet: etcd has one member.
    pub highly_available: bool,
    /// Whether the shoot is moving between seeds: nothing may change its machines before their state has moved too.
    pub migrating: bool,
}

impl ScaleFacts {
    /// One pod awake or waking, none hibernated, and what is there while hibernating: a later step of that flow scales it
    /// down.
    #[must_use]
    pub fn standard(&self) -> i32 {
        match self.power {
            Power::Awake | Power::Waking => 1,
            Power::Hibernating => self.present.unwrap_or(0),
            Power::Hibernated => 0,
        }
    }
}

/// Whether a shoot runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    Awake,
    /// It is being started again.
    Waking,
    /// It is being stopped, or was never started: machines may still be there.
    Hibernating,
    /// It is stopped.
    Hibernated,
}
