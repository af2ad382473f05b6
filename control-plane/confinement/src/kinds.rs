//! The kinds that are decided here, as a table. All other kinds are left to roles.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $group:literal $plural:literal $scope:ident),* $(,)?) => {
        /// A kind of which it is decided here who may do what.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("`", $plural, ".", $group, "`")] $(#[$doc])* $name,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind of a resource.
            pub fn of(group: &str, plural: &str) -> Option<Self> {
                match (group, plural) {
                    $(($group, $plural) => Some(Self::$name),)*
                    ("events.k8s.io", "events") => Some(Self::Event),
                    _ => None,
                }
            }

            /// Its API group; empty for the core group.
            pub fn group(self) -> &'static str {
                match self {
                    $(Self::$name => $group,)*
                }
            }

            /// Its plural, lower case.
            pub fn plural(self) -> &'static str {
                match self {
                    $(Self::$name => $plural,)*
                }
            }

            /// Whether its objects lie in namespaces.
            pub fn is_namespaced(self) -> bool {
                match self {
                    $(Self::$name => kinds!(@ $scope),)*
                }
            }

            /// As its objects name it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
    (@ Namespaced) => { true };
    (@ Cluster) => { false };
}

kinds! {
    BackupBucket "core.gardener.cloud" "backupbuckets" Cluster,
    BackupEntry "core.gardener.cloud" "backupentries" Namespaced,
    Bastion "operations.gardener.cloud" "bastions" Namespaced,
    CertificateSigningRequest "certificates.k8s.io" "certificatesigningrequests" Cluster,
    CloudProfile "core.gardener.cloud" "cloudprofiles" Cluster,
    ConfigMap "" "configmaps" Namespaced,
    ControllerDeployment "core.gardener.cloud" "controllerdeployments" Cluster,
    ControllerInstallation "core.gardener.cloud" "controllerinstallations" Cluster,
    ControllerRegistration "core.gardener.cloud" "controllerregistrations" Cluster,
    CredentialsBinding "security.gardener.cloud" "credentialsbindings" Namespaced,
    /// And `events.events.k8s.io`.
    Event "" "events" Namespaced,
    ExposureClass "core.gardener.cloud" "exposureclasses" Cluster,
    Gardenlet "seedmanagement.gardener.cloud" "gardenlets" Namespaced,
    InternalSecret "core.gardener.cloud" "internalsecrets" Namespaced,
    Lease "coordination.k8s.io" "leases" Namespaced,
    ManagedSeed "seedmanagement.gardener.cloud" "managedseeds" Namespaced,
    Namespace "" "namespaces" Cluster,
    NamespacedCloudProfile "core.gardener.cloud" "namespacedcloudprofiles" Namespaced,
    Project "core.gardener.cloud" "projects" Cluster,
    Quota "core.gardener.cloud" "quotas" Namespaced,
    Secret "" "secrets" Namespaced,
    SecretBinding "core.gardener.cloud" "secretbindings" Namespaced,
    Seed "core.gardener.cloud" "seeds" Cluster,
    ServiceAccount "" "serviceaccounts" Namespaced,
    Shoot "core.gardener.cloud" "shoots" Namespaced,
    ShootState "core.gardener.cloud" "shootstates" Namespaced,
    WorkloadIdentity "security.gardener.cloud" "workloadidentities" Namespaced,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
