//! The list of components. Deployment, scale, destruction, care, certificates and tests come from it.

use std::fmt;

use crate::component::{Component, HostedCluster};

macro_rules! components {
    ($($id:ident: $component:path,)+) => {
        /// A component of a shoot's control plane.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ComponentId {
            $(#[doc = concat!("The component of `", stringify!($component), "`.")] $id,)+
        }

        impl ComponentId {
            /// Every component.
            pub const ALL: &'static [Self] = &[$(Self::$id,)+];
        }

        /// The component that `id` stands for.
        #[must_use]
        pub fn component(id: ComponentId) -> &'static dyn Component {
            match id {
                $(ComponentId::$id => &$component,)+
            }
        }
    };
}

// One line per component, in the order in which tasks and troubles are shown.
components! {
    EtcdMain: crate::etcd::Etcd::Main,
    EtcdEvents: crate::etcd::Etcd::Events,
    ApiServer: crate::api_server::ApiServer,
    ControllerManager: crate::controller_manager::ControllerManager,
    Scheduler: crate::scheduler::Scheduler,
    ResourceManager: crate::resource_manager::ResourceManager,
    VpnSeedServer: crate::vpn_seed_server::VpnSeedServer,
    MachineControllerManager: crate::machine_controller_manager::MachineControllerManager,
}

impl ComponentId {
    /// The component that it stands for.
    #[must_use]
    pub fn component(self) -> &'static dyn Component {
        component(self)
    }

    /// The components that flows have steps for: each but those that join another.
    pub fn with_steps() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|id| id.component().joins().is_none())
    }

    /// The component whose steps handle it: itself, or the one that it joins.
    #[must_use]
    pub fn leader(self) -> Self {
        self.component().joins().unwrap_or(self)
    }

    /// The components that a step of this one handles: itself and those that join it, in the order of the table.
    pub fn members(self) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |id| id.leader() == self)
    }
}

impl fmt::Display for ComponentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.component().name())
    }
}

/// The components that a shoot has.
pub fn existing(cluster: &HostedCluster) -> impl Iterator<Item = ComponentId> + '_ {
    ComponentId::ALL
        .iter()
        .copied()
        .filter(|id| id.component().exists(cluster))
}
