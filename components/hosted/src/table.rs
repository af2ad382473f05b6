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

// One line per component but machine-controller-manager, whose image no catalogue has a body for yet: its pods would stay
// pending and the shoot unhealthy. In the order in which tasks and troubles are shown.
components! {
    Etcd: crate::etcd::Etcd,
    ApiServer: crate::api_server::ApiServer,
    ControllerManager: crate::controller_manager::ControllerManager,
    Scheduler: crate::scheduler::Scheduler,
    ResourceManager: crate::resource_manager::ResourceManager,
    MachineControllerManager: crate::machine_controller_manager::MachineControllerManager,
}

impl ComponentId {
    /// The component that it stands for.
    #[must_use]
    pub fn component(self) -> &'static dyn Component {
        component(self)
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
