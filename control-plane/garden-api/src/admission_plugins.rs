//! The names by which admission plug-ins are switched, as gardener-apiserver knows them (gardener/gardener v1.150
//! plugin/pkg/plugins.go). What this product refuses because nothing acts on it yet has no name here: it stays on.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::admission::Plugin;

/// Where the work of a plug-in is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// By the garden's kinds, as long as the plug-in is on.
    Here,
    /// By the API server itself, which cannot do without: it stays on.
    Always,
    /// Nowhere, for this reason: switching it changes nothing.
    Nowhere(&'static str),
}

macro_rules! plugins {
    ($($name:ident: $default:literal, $work:expr, $does:literal;)*) => {
        /// An admission plug-in of gardener-apiserver, by its name there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AdmissionPlugin {
            $(#[doc = $does] $name,)*
        }

        impl AdmissionPlugin {
            /// Every plug-in, in the order in which gardener-apiserver calls them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it does here, in a few words.
            #[must_use]
            pub const fn does(self) -> &'static str {
                match self { $(Self::$name => $does,)* }
            }

            /// Where its work is done.
            #[must_use]
            pub const fn work(self) -> Work {
                match self { $(Self::$name => $work,)* }
            }

            /// Whether it is on when no flag names it, as in gardener-apiserver.
            #[must_use]
            pub const fn is_on_by_default(self) -> bool {
                match self { $(Self::$name => $default,)* }
            }

            const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

const NO_MANAGED_SEEDS: Work = Work::Nowhere("nothing makes a seed of a Shoot yet");

plugins! {
    NamespaceLifecycle: true, Work::Always,
        "Refuses objects in namespaces that are missing or being deleted.";
    ResourceReferenceManager: true, Work::Here,
        "Refuses references to what is missing or what the user may not read, two Quotas of one scope, a Gardenlet named as a ManagedSeed, a Project in the namespace of another, and the removal of versions that Shoots use.";
    ExtensionValidator: true, Work::Here,
        "Refuses kinds and types of extensions that no ControllerRegistration controls.";
    ExtensionLabels: true, Work::Here,
        "Labels objects with the types of their extensions.";
    ShootTolerationRestriction: true, Work::Here,
        "Gives Shoots the default tolerations of their Project and refuses those outside of its whitelist.";
    ShootExposureClass: true, Work::Here,
        "Gives Shoots the seed selector and the tolerations of their exposure class.";
    ShootDNS: true, Work::Here,
        "Gives Shoots a domain and a primary DNS provider, and refuses foreign names below a default domain.";
    ShootManagedSeed: true, NO_MANAGED_SEEDS,
        "Protects Shoots that are seeds.";
    ShootNodeLocalDNSEnabledByDefault: false, Work::Here,
        "Sets `spec.systemComponents.nodeLocalDNS.enabled` of new Shoots.";
    ShootDNSRewriting: false, Work::Nowhere("it has the suffixes from a configuration file, which is not read"),
        "Adds suffixes that DNS rewriting leaves alone.";
    ShootQuotaValidator: true, Work::Here,
        "Refuses Shoots beyond the Quotas of their credentials.";
    ShootMutator: true, Work::Here,
        "Completes Shoots from their cloud profile and their Seed, notes the creator, and requests deploy tasks.";
    ShootValidator: true, Work::Here,
        "Refuses Shoots that do not fit their Project, cloud profile, Seed, credentials or the domains of others.";
    SeedValidator: true, Work::Here,
        "Refuses the deletion of Seeds with Shoots, the removal of their zones, and backups whose WorkloadIdentity has another type.";
    SeedMutator: true, Work::Here,
        "Labels Seeds with their name.";
    ControllerRegistrationResources: true, Work::Here,
        "Refuses a second ControllerRegistration that controls a kind and type primarily.";
    NamespacedCloudProfileValidator: true, Work::Here,
        "Refuses NamespacedCloudProfiles without a parent, or that extend versions wrongly.";
    ProjectMutator: true, Work::Here,
        "Notes the creator of Projects, and makes them owner if none is named.";
    DeletionConfirmation: true, Work::Here,
        "Refuses deletions that were not confirmed, or that need a second person.";
    FinalizerRemoval: true, Work::Here,
        "Refuses the early removal of the finalizer gardener.";
    CustomVerbAuthorizer: true, Work::Here,
        "Refuses changes of guarded fields to users without the verb for them.";
    ShootVPAEnabledByDefault: true, Work::Here,
        "Enables vertical pod autoscaling for new Shoots.";
    ShootResourceReservation: true, Work::Here,
        "Reserves resources of nodes for the kubelet.";
    ManagedSeed: true, NO_MANAGED_SEEDS,
        "Validates ManagedSeeds.";
    ManagedSeedShoot: true, NO_MANAGED_SEEDS,
        "Protects ManagedSeeds whose seed has Shoots.";
    Bastion: true, Work::Here,
        "Completes Bastions from their Shoot.";
    BackupBucketValidator: true, Work::Here,
        "Refuses BackupBuckets whose WorkloadIdentity has another type.";
    MutatingAdmissionPolicy: false, Work::Nowhere("MutatingAdmissionPolicies are not served"),
        "Applies MutatingAdmissionPolicies.";
    MutatingAdmissionWebhook: true, Work::Always,
        "Calls mutating webhooks.";
    ValidatingAdmissionPolicy: true, Work::Always,
        "Applies ValidatingAdmissionPolicies.";
    ValidatingAdmissionWebhook: true, Work::Always,
        "Calls validating webhooks.";
    ResourceQuota: true, Work::Always,
        "Refuses what exceeds a ResourceQuota.";
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no plug-in's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlugin(String);

impl fmt::Display for UnknownPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no admission plug-in is called {:?}", self.0)
    }
}

impl std::error::Error for UnknownPlugin {}

impl FromStr for AdmissionPlugin {
    type Err = UnknownPlugin;

    fn from_str(text: &str) -> Result<Self, UnknownPlugin> {
        let mut all = Self::ALL.iter().copied();
        all.find(|plugin| plugin.name() == text)
            .ok_or_else(|| UnknownPlugin(text.to_owned()))
    }
}

/// The plug-ins that are on; by default those of [`AdmissionPlugin::is_on_by_default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins(BTreeSet<AdmissionPlugin>);

impl Default for AdmissionPlugins {
    fn default() -> Self {
        let all = AdmissionPlugin::ALL.iter().copied();
        Self(all.filter(|plugin| plugin.is_on_by_default()).collect())
    }
}

impl AdmissionPlugins {
    /// The same with this plug-in on.
    #[must_use]
    pub fn with(mut self, plugin: AdmissionPlugin) -> Self {
        self.0.insert(plugin);
        self
    }

    /// The same with this plug-in off.
    #[must_use]
    pub fn without(mut self, plugin: AdmissionPlugin) -> Self {
        self.0.remove(&plugin);
        self
    }

    /// Whether the plug-in is on.
    #[must_use]
    pub fn has(&self, plugin: AdmissionPlugin) -> bool {
        self.0.contains(&plugin)
    }

    /// Those of `plugins` that are on, or that no name switches.
    pub(crate) fn filter<const N: usize>(&self, plugins: [Arc<dyn Plugin>; N]) -> Vec<Arc<dyn Plugin>> {
        let is_on = |plugin: &Arc<dyn Plugin>| plugin.name().is_none_or(|name| self.has(name));
        plugins.into_iter().filter(is_on).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_as_it_is_printed() {
        for plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(*plugin));
        }
        assert!("shootdns".parse::<AdmissionPlugin>().is_err());
        assert_eq!(AdmissionPlugin::ALL.len(), 32);
    }

    #[test]
    fn a_plugin_is_on_by_default_or_by_name() {
        let default = AdmissionPlugins::default();
        assert!(default.has(AdmissionPlugin::ShootDNS));
        assert!(!default.has(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault));
        let changed = default
            .without(AdmissionPlugin::ShootDNS)
            .with(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault);
        assert!(!changed.has(AdmissionPlugin::ShootDNS));
        assert!(changed.has(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault));
    }
}
