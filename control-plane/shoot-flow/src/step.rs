//! What a flow is made of: a [`Step`] is an action on a subject, a [`ShootTask`] is a step on the way to a goal. The
//! order of the variants is the order in which running tasks and errors are shown.

use base_flow::Name;
use components_hosted::ComponentId;

use crate::names::name_of;
use crate::single::Single;

/// A closed enum that knows all its values.
macro_rules! closed {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}
pub(crate) use closed;

closed! {
    /// What is done to something that a flow deploys and destroys.
    Verb {
        /// Write the objects.
        Deploy,
        /// Wait until they are as written.
        Wait,
        /// Request their deletion.
        Destroy,
        /// Wait until they are gone.
        WaitDestroyed,
    }
}

closed! {
    /// An extension object that a shoot has one of, or one for each pool. Not a row of the table of kinds: a subject of
    /// steps with names of their own. Of DNSRecords there are two, Extensions have a [`Point`], and kinds that no flow
    /// brings about are not here.
    Kind {
        /// Networks and other ground in the cloud.
        Infrastructure,
        /// The DNS record of the API server below the landscape's domain.
        InternalDnsRecord,
        /// The DNS record of the API server below a domain of the shoot's own.
        ExternalDnsRecord,
        /// The provider's part of the control plane.
        ControlPlane,
        /// What machines become: two for each pool.
        OperatingSystemConfig,
        /// The network of pods.
        Network,
        /// Container runtimes of pools, beside the one that each machine has.
        ContainerRuntime,
        /// The machines.
        Worker,
    }
}

closed! {
    /// When in the life of a shoot objects of kind Extension are handled.
    Point {
        /// Before the API server is brought up, or before it goes.
        BeforeApiServer,
        /// After the API server is up, or after it is gone.
        AfterApiServer,
        /// When the machines have been ordered.
        AfterWorkers,
    }
}

closed! {
    /// A ManagedResource of ours: objects that gardener-resource-manager applies to the shoot.
    Managed {
        /// Namespaces of system components.
        ShootNamespaces,
        /// Roles, priorities, what the shoot knows about itself.
        ShootSystem,
        /// The identity of the cluster.
        ClusterIdentity,
        /// What node agents read.
        NodeAgent,
        /// The end of the tunnel inside the shoot.
        VpnShoot,
    }
}

/// What is done, to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// One of those that are about nothing else here.
    Single(Single),
    /// To an extension object.
    Kind(Kind, Verb),
    /// To a hosted component.
    Component(ComponentId, Verb),
    /// To the Extensions that are handled at a point.
    Extensions(Point, Verb),
    /// To a ManagedResource.
    Managed(Managed, Verb),
}

impl From<Single> for Step {
    fn from(single: Single) -> Self {
        Self::Single(single)
    }
}

/// What has verbs.
pub(crate) trait Subject {
    /// The step that does this to it.
    fn step(self, verb: Verb) -> Step;
}

macro_rules! subjects {
    ($($type:ty: $variant:ident),+) => {
        $(impl Subject for $type {
            fn step(self, verb: Verb) -> Step {
                Step::$variant(self, verb)
            }
        })+
    };
}

subjects!(Kind: Kind, ComponentId: Component, Point: Extensions, Managed: Managed);

/// The step that writes it.
pub(crate) fn deployed(subject: impl Subject) -> Step {
    subject.step(Verb::Deploy)
}

/// The step that waits until it is ready.
pub(crate) fn ready(subject: impl Subject) -> Step {
    subject.step(Verb::Wait)
}

/// The step that requests its deletion.
pub(crate) fn destroyed(subject: impl Subject) -> Step {
    subject.step(Verb::Destroy)
}

/// The step that waits until it is gone.
pub(crate) fn gone(subject: impl Subject) -> Step {
    subject.step(Verb::WaitDestroyed)
}

/// A goal without its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// To a running cluster as specified.
    Reconcile,
    /// To a cluster that uses nothing but its volumes.
    Hibernate,
    /// Back from there.
    Wake,
    /// Away from this seed.
    Migrate,
    /// Onto this seed, from another.
    Restore,
    /// To nothing.
    Delete,
    /// To nothing, without the shoot's own API.
    ForceDelete,
}

/// A step on the way to a goal: the same step may have another name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShootTask {
    /// Where to.
    pub way: Way,
    /// What is done.
    pub step: Step,
}

/// By the step first: running tasks are shown in this order.
impl Ord for ShootTask {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.step, self.way).cmp(&(other.step, other.way))
    }
}

impl PartialOrd for ShootTask {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Name for ShootTask {
    fn name(&self) -> &'static str {
        name_of(self.way, self.step)
    }
}
