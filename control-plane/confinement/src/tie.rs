//! How closely an object is tied to a seed: by the graph, and by names that say whose an object is, whether it is there yet or
//! not. It knows no verbs.

use api_meta::names::{
    CLUSTER_IDENTITY, GARDEN_NAMESPACE, SEED_LEASE_NAMESPACE, SEED_NAMESPACE_PREFIX, SYSTEM_NAMESPACE,
    SYSTEM_PUBLIC_NAMESPACE,
};

use crate::graph::Graph;
use crate::identity::{Identity, Party};
use crate::kinds::Kind;

/// ConfigMap with public facts of the garden, in namespace `gardener-system-public`.
const GARDENER_INFO: &str = "gardener-info";
/// What a gardenlet publishes of a Shoot in its project's namespace, as `SHOOT.SUFFIX`
/// (gardener/gardener v1.150 pkg/utils/gardener/shoot.go).
const SECRETS_OF_SHOOT: [&str; 4] = ["ca-cluster", "monitoring", "ssh-keypair", "ssh-keypair.old"];
const INTERNAL_SECRETS_OF_SHOOT: [&str; 1] = ["ca-client"];
const CONFIG_MAPS_OF_SHOOT: [&str; 2] = ["ca-cluster", "ca-kubelet"];
/// Prefix of a Secret in namespace `garden` with the credentials that were made for a bucket.
const GENERATED_BUCKET_SECRET_PREFIX: &str = "generated-bucket-";

/// How closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tie {
    /// Not at all.
    None,
    /// It is needed by what is of the seed: to be read.
    Referred,
    /// It is of the seed: to be read and written.
    Owned,
}

impl Graph {
    /// The tie of an object, which need not exist, to the seed of an identity.
    pub fn tie(&self, identity: &Identity, kind: Kind, namespace: &str, name: &str) -> Tie {
        let seed = identity.seed.as_str();
        let in_own = is_own_namespace(namespace, seed);
        let reaches = |kind, namespace, name| self.reaches(kind, namespace, name, seed);
        match kind {
            _ if name.is_empty() => Tie::None,
            Kind::CloudProfile | Kind::ControllerDeployment | Kind::ControllerRegistration | Kind::ExposureClass => {
                Tie::Referred
            }
            Kind::Seed => owned(name == seed),
            Kind::Gardenlet => owned(namespace == GARDEN_NAMESPACE && name == seed),
            Kind::Lease => owned(match identity.party {
                Party::Gardenlet => namespace == SEED_LEASE_NAMESPACE && name == seed,
                Party::Extension => in_own,
            }),
            Kind::ServiceAccount => match identity.party {
                Party::Gardenlet => owned(in_own),
                Party::Extension => referred(in_own),
            },
            Kind::Namespace => {
                referred(name == GARDEN_NAMESPACE || is_own_namespace(name, seed) || reaches(Kind::Namespace, "", name))
            }
            // They have no names before they are made.
            Kind::Event => {
                owned(self.tie(identity, Kind::Namespace, "", namespace) > Tie::None || namespace == "default")
            }
            Kind::Secret => {
                let bucket = name.strip_prefix(GENERATED_BUCKET_SECRET_PREFIX);
                let bucket = bucket.filter(|_| namespace == GARDEN_NAMESPACE);
                if bucket.is_some_and(|bucket| reaches(Kind::BackupBucket, "", bucket))
                    || self.is_of_shoot(seed, namespace, name, &SECRETS_OF_SHOOT)
                {
                    return Tie::Owned;
                }
                referred(in_own || reaches(kind, namespace, name))
            }
            Kind::InternalSecret if self.is_of_shoot(seed, namespace, name, &INTERNAL_SECRETS_OF_SHOOT) => Tie::Owned,
            Kind::ConfigMap if self.is_of_shoot(seed, namespace, name, &CONFIG_MAPS_OF_SHOOT) => Tie::Owned,
            Kind::ConfigMap => {
                let public = [
                    (SYSTEM_NAMESPACE, CLUSTER_IDENTITY),
                    (SYSTEM_PUBLIC_NAMESPACE, GARDENER_INFO),
                ];
                referred(in_own || public.contains(&(namespace, name)) || reaches(kind, namespace, name))
            }
            Kind::ShootState => owned(reaches(Kind::Shoot, namespace, name)),
            Kind::BackupBucket
            | Kind::BackupEntry
            | Kind::Bastion
            | Kind::CertificateSigningRequest
            | Kind::ControllerInstallation
            | Kind::ManagedSeed
            | Kind::Shoot => owned(reaches(kind, namespace, name)),
            Kind::CredentialsBinding
            | Kind::InternalSecret
            | Kind::NamespacedCloudProfile
            | Kind::Project
            | Kind::Quota
            | Kind::SecretBinding
            | Kind::WorkloadIdentity => referred(reaches(kind, namespace, name)),
        }
    }

    /// Whether it is named after a Shoot of the seed. Shoots have no dots in their names.
    fn is_of_shoot(&self, seed: &str, namespace: &str, name: &str, suffixes: &[&str]) -> bool {
        name.split_once('.').is_some_and(|(shoot, suffix)| {
            suffixes.contains(&suffix) && self.reaches(Kind::Shoot, namespace, shoot, seed)
        })
    }
}

/// Whether it is the namespace of the seed in the garden.
pub(crate) fn is_own_namespace(namespace: &str, seed: &str) -> bool {
    namespace.strip_prefix(SEED_NAMESPACE_PREFIX) == Some(seed)
}

fn owned(is: bool) -> Tie {
    if is { Tie::Owned } else { Tie::None }
}

fn referred(is: bool) -> Tie {
    if is { Tie::Referred } else { Tie::None }
}
