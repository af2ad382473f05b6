//! The table of extension kinds: one row for each kind, with what other parts must know of all of them. Caches, watches,
//! registrations, deletion protection, `orangery why` and the SDK derive from it and hold no list of their own. It only
//! describes.
//!
//! A new kind is a row here and a file of its own: its types, its `kind!` line (names and scope), and its [`OwnPart`].

use api_meta::labels::extension_types as type_labels;
use api_meta::{Kind, RawJson};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::object::{CommonStatus, ExtensionObject, OwnPart, StatusView, extension_object};
use crate::{
    BackupBucket, BackupEntry, Bastion, ContainerRuntime, ControlPlane, DNSRecord, Extension, ExtensionClass,
    Infrastructure, Network, OperatingSystemConfig, SelfHostedShootExposure, Worker,
};

/// What a row holds. Names and scope stand in the kind's own file.
struct Row {
    /// Its name in the middle of a sentence.
    noun: &'static str,
    /// How the finalizers of its extensions end, unless an extension chooses another end (gardener/gardener v1.150
    /// extensions/pkg/controller/*/reconciler.go).
    finalizer_suffix: &'static str,
    /// Whose objects these are.
    owner: Owner,
    /// The classes that its objects may have (same version, pkg/operator/controller/extension/required/runtime and
    /// pkg/provider-local/controller/*/add.go).
    classes: &'static [ExtensionClass],
    /// Which label of garden objects names its type.
    type_label: &'static str,
    /// What protects its objects from being deleted by mistake (same version,
    /// pkg/resourcemanager/webhook/crddeletionprotection).
    protection: DeletionProtection,
    /// What its extensions may forget without a word of their own.
    forgetting: Forgetting,
    /// JSON names of the status fields that only this kind has.
    own_status: &'static [&'static str],
}

/// Whose an extension object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A shoot's: in its namespace of the seed; named after this namespace where the kind is cluster-scoped.
    Shoot,
    /// The seed's: named after the UID of its Seed.
    Seed,
}

/// What protects objects of a kind from being deleted by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionProtection {
    /// The annotation `confirmation.gardener.cloud/deletion` must be set before.
    Confirmation,
    /// Nothing.
    None,
}

/// Whether an extension whose author says nothing else may forget an object of a kind without taking anything down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgetting {
    /// At a migration and at a forced deletion: nothing of it exists outside the seed.
    Always,
    /// At a migration: what exists outside the seed belongs to the shoot wherever that is hosted, and is found there by its
    /// name. A forced deletion deletes it, as those of Gardener's DNS providers do: a name that is left behind points to
    /// addresses that others may get (gardener/gardener-extension-provider-aws pkg/controller/dnsrecord).
    AtMigration,
    /// Never.
    Never,
}

/// Something that is done for a kind, whichever it is: how a value of [`ExtensionKind`] becomes a type.
pub trait ForKind {
    /// What comes of it.
    type Output;

    /// Does it for the kind `K`.
    fn call<K: ExtensionObject>(self) -> Self::Output;
}

/// A type for each kind, such as its cache.
pub trait Family {
    /// The type for the kind `K`.
    type Of<K: ExtensionObject>;

    /// Makes the value for the kind `K`.
    fn make<K: ExtensionObject>(&mut self) -> Self::Of<K>;
}

macro_rules! extension_kinds {
    ($($(#[$about:meta])* $kind:ident: $row:expr;)+) => {
        /// A kind of `extensions.gardener.cloud` that extensions act on: all of the group but Cluster.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExtensionKind {
            $($(#[$about])* $kind,)+
        }

        impl ExtensionKind {
            /// Every kind, in alphabetical order.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// The names of all, in the same order.
            pub const NAMES: &'static [&'static str] = &[$(<$kind as Kind>::KIND,)+];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$kind => const { &$row },)+
                }
            }

            /// Its name, such as `Worker`.
            pub const fn kind(self) -> &'static str {
                match self {
                    $(Self::$kind => <$kind as Kind>::KIND,)+
                }
            }

            /// Its name in URLs.
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$kind => <$kind as Kind>::PLURAL,)+
                }
            }

            /// Whether its objects live in namespaces.
            pub const fn is_namespaced(self) -> bool {
                match self {
                    $(Self::$kind => <$kind as Kind>::NAMESPACED,)+
                }
            }

            /// Its custom resource definition.
            pub fn definition(self) -> CustomResourceDefinition {
                match self {
                    $(Self::$kind => <$kind as OwnPart>::definition().build(),)+
                }
            }

            /// Does something for this kind.
            pub fn with<F: ForKind>(self, what: F) -> F::Output {
                match self {
                    $(Self::$kind => what.call::<$kind>(),)+
                }
            }
        }

        /// One value for each kind, of a type that depends on the kind.
        #[expect(non_snake_case, reason = "each field bears the name of its kind")]
        pub struct PerKind<F: Family> {
            $($kind: F::Of<$kind>,)+
        }

        impl<F: Family> PerKind<F> {
            /// Makes the values, in alphabetical order of kinds.
            pub fn new(mut family: F) -> Self {
                Self {
                    $($kind: family.make::<$kind>(),)+
                }
            }
        }

        $(extension_object!($kind);)+
    };
}

extension_kinds! {
    /// A bucket for the backups of a seed's shoots.
    BackupBucket: Row {
        noun: "backupbucket",
        finalizer_suffix: "backupbucket",
        owner: Owner::Seed,
        classes: &[ExtensionClass::Garden, ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &["generatedSecretRef"],
    };
    /// A shoot's place in a bucket.
    BackupEntry: Row {
        noun: "backupentry",
        finalizer_suffix: "backupentry",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &[],
    };
    /// A host by which a person reaches a shoot's nodes.
    Bastion: Row {
        noun: "bastion",
        finalizer_suffix: "bastion",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::None,
        forgetting: Forgetting::Never,
        own_status: &["ingress"],
    };
    /// A container runtime of a pool, beside the one that each machine has.
    ContainerRuntime: Row {
        noun: "container runtime",
        finalizer_suffix: "containerruntime",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::CONTAINER_RUNTIME,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &[],
    };
    /// The provider's part of a control plane.
    ControlPlane: Row {
        noun: "controlplane",
        finalizer_suffix: "controlplane",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &[],
    };
    /// A DNS record.
    DNSRecord: Row {
        noun: "dnsrecord",
        finalizer_suffix: "dnsrecord",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Garden, ExtensionClass::Seed, ExtensionClass::Shoot],
        type_label: type_labels::DNS_RECORD,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::AtMigration,
        own_status: &["zone"],
    };
    /// Anything else that an extension adds.
    Extension: Row {
        noun: "extension",
        finalizer_suffix: "extension",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Garden, ExtensionClass::Seed, ExtensionClass::Shoot],
        type_label: type_labels::EXTENSION,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &[],
    };
    /// Networks and the like that machines need.
    Infrastructure: Row {
        noun: "infrastructure",
        finalizer_suffix: "infrastructure",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &["egressCIDRs", "networking", "nodesCIDR"],
    };
    /// The network of pods.
    Network: Row {
        noun: "network",
        finalizer_suffix: "network",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::NETWORKING,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &["ipFamilies"],
    };
    /// What a machine becomes.
    OperatingSystemConfig: Row {
        noun: "operating system config",
        finalizer_suffix: "operatingsystemconfigs",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::OPERATING_SYSTEM_CONFIG,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Always,
        own_status: &["cloudConfig", "extensionFiles", "extensionUnits", "inPlaceUpdates"],
    };
    /// How the control plane of a self-hosted shoot is reached.
    SelfHostedShootExposure: Row {
        noun: "self-hosted shoot exposure",
        finalizer_suffix: "selfhostedshootexposure",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::SELF_HOSTED_SHOOT_EXPOSURE,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &["ingress"],
    };
    /// A shoot's machines.
    Worker: Row {
        noun: "worker",
        finalizer_suffix: "worker",
        owner: Owner::Shoot,
        classes: &[ExtensionClass::Shoot],
        type_label: type_labels::PROVIDER,
        protection: DeletionProtection::Confirmation,
        forgetting: Forgetting::Never,
        own_status: &["inPlaceUpdates", "machineDeployments", "machineDeploymentsLastUpdateTime"],
    };
}

impl ExtensionKind {
    /// The group of all kinds.
    pub const GROUP: &'static str = <Worker as Kind>::GROUP;

    /// The kind of this name.
    pub fn of(kind: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.kind() == kind)
    }

    /// Its name in the middle of a sentence.
    pub const fn noun(self) -> &'static str {
        self.row().noun
    }

    /// What finalizers of its extensions end with, behind `extensions.gardener.cloud/`, unless an extension chooses
    /// another end.
    pub const fn finalizer_suffix(self) -> &'static str {
        self.row().finalizer_suffix
    }

    /// Whose its objects are.
    pub const fn owner(self) -> Owner {
        self.row().owner
    }

    /// The classes that its objects may have.
    pub const fn classes(self) -> &'static [ExtensionClass] {
        self.row().classes
    }

    /// The label of garden objects that names a type of this kind: this, followed by the type.
    pub const fn type_label(self) -> &'static str {
        self.row().type_label
    }

    /// What protects its objects from being deleted by mistake.
    pub const fn protection(self) -> DeletionProtection {
        self.row().protection
    }

    /// What its extensions may forget without taking it down, unless an extension does otherwise.
    pub const fn forgetting(self) -> Forgetting {
        self.row().forgetting
    }

    /// JSON names of the status fields that only this kind has, in alphabetical order.
    pub const fn own_status(self) -> &'static [&'static str] {
        self.row().own_status
    }

    /// Whether an object of this kind belongs to the shoot that has this namespace in the seed.
    pub fn is_of_shoot(self, object: &ObjectMeta, namespace: &str) -> bool {
        if self.is_namespaced() {
            return object.namespace.as_deref() == Some(namespace);
        }
        let name = object.name.as_deref().unwrap_or_default();
        self.owner() == Owner::Shoot && name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with("--"))
    }
}

impl std::fmt::Display for ExtensionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}

impl AsRef<str> for ExtensionKind {
    fn as_ref(&self) -> &str {
        self.kind()
    }
}

impl<F: Family> PerKind<F> {
    /// The value of a kind.
    pub fn of<K: ExtensionObject>(&self) -> &F::Of<K> {
        K::field(self)
    }
}
