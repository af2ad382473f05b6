//! What the graph reads of objects, and nothing else of them: a Shoot or a ControllerDeployment has a hundred times as much.
//! And where each object stands in the graph. Types and their fields: gardener/gardener v1.150 pkg/apis.

use std::borrow::Cow;

use api_meta::names::{GARDEN_NAMESPACE, SEED_USER_PREFIX, backup_entry};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use crate::kinds::Kind;

/// An object that is named, or that is named by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ref {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Where an object stands.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// Seeds that it names.
    pub(crate) seeds: Vec<String>,
    /// What belongs to these: itself, and what it refers to.
    pub(crate) places: Vec<Ref>,
    /// What belongs to whatever it belongs to.
    pub(crate) referred: Vec<Ref>,
    /// What it belongs to itself.
    pub(crate) through: Vec<Ref>,
}

/// An object that the graph is made of.
pub trait Holder: Resource<DynamicType = ()> {
    /// Its kind.
    const HOLDER: Kind;

    /// Where it stands.
    fn draw(&self) -> Drawn;

    /// Its namespace, empty if it has none, and its name.
    fn place(&self) -> (&str, &str) {
        let meta = self.meta();
        (
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }
}

macro_rules! holders {
    ($($(#[$doc:meta])* $name:ident $version:literal $scope:ident { $($field:ident: $type:ty,)* } draw($self:ident) $draw:block)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name {
                #[serde(deserialize_with = "little")]
                pub(crate) metadata: ObjectMeta,
                $(#[serde(deserialize_with = "or_default")] pub(crate) $field: $type,)*
            }

            impl Resource for $name {
                type DynamicType = ();
                type Scope = $scope;

                fn kind(_: &()) -> Cow<'_, str> {
                    stringify!($name).into()
                }
                fn group(_: &()) -> Cow<'_, str> {
                    Kind::$name.group().into()
                }
                fn version(_: &()) -> Cow<'_, str> {
                    $version.into()
                }
                fn plural(_: &()) -> Cow<'_, str> {
                    Kind::$name.plural().into()
                }
                fn meta(&self) -> &ObjectMeta {
                    &self.metadata
                }
                fn meta_mut(&mut self) -> &mut ObjectMeta {
                    &mut self.metadata
                }
            }

            impl Holder for $name {
                const HOLDER: Kind = Kind::$name;

                fn draw(&$self) -> Drawn $draw
            }
        )*
    };
}

holders! {
    /// A Seed: it holds its credentials, what it names of namespace `garden`, and the bucket with its uid for a name.
    Seed "v1beta1" ClusterResourceScope { spec: SeedSpec, } draw(self) {
        let mut places = self.references();
        places.push(self.itself());
        let uid = self.metadata.uid.iter().filter(|uid| !uid.is_empty());
        places.extend(uid.map(|uid| at(Kind::BackupBucket, "", uid)));
        Drawn { seeds: self.metadata.name.iter().cloned().collect(), places, ..Drawn::default() }
    }

    /// A Shoot: it belongs to the seed that it is to be on and to the one that it is on, with all that it names. The
    /// BackupEntry has its name from it before it is there.
    Shoot "v1beta1" NamespaceResourceScope { spec: ShootSpec, status: ShootStatus, } draw(self) {
        let mut places = self.references();
        places.push(self.itself());
        places.push(at(Kind::Namespace, "", self.place().0));
        if let (Some(id), Some(uid)) = (present(&self.status.technical_id), &self.metadata.uid) {
            places.push(at(Kind::BackupEntry, self.place().0, &backup_entry(id, uid)));
        }
        let seeds = [&self.spec.seed_name, &self.status.seed_name].into_iter().filter_map(present);
        Drawn { seeds: seeds.map(str::to_owned).collect(), places, ..Drawn::default() }
    }

    /// A Project belongs to the seeds of its namespace.
    Project "v1beta1" ClusterResourceScope { spec: ProjectSpec, } draw(self) {
        let namespace = present(&self.spec.namespace);
        Drawn { through: namespace.map(|name| at(Kind::Namespace, "", name)).into_iter().collect(), ..Drawn::default() }
    }

    /// A SecretBinding, with its Secret and quotas.
    SecretBinding "v1beta1" NamespaceResourceScope { secret_ref: Reference, quotas: Vec<Reference>, } draw(self) {
        let inside = self.place().0;
        let mut referred = quotas(&self.quotas, inside);
        referred.extend(self.secret_ref.at(Kind::Secret, inside));
        Drawn { referred, ..Drawn::default() }
    }

    /// A CredentialsBinding, with its credentials and quotas.
    CredentialsBinding "v1alpha1" NamespaceResourceScope { credentials_ref: Reference, quotas: Vec<Reference>, } draw(self) {
        let inside = self.place().0;
        let mut referred = quotas(&self.quotas, inside);
        referred.extend(self.credentials_ref.credentials(inside));
        Drawn { referred, ..Drawn::default() }
    }

    /// A ControllerInstallation, with its ControllerDeployment.
    ControllerInstallation "v1beta1" ClusterResourceScope { spec: InstallationSpec, } draw(self) {
        let mut places = vec![self.itself()];
        places.extend(self.spec.deployment_ref.at(Kind::ControllerDeployment, ""));
        Drawn { seeds: present(&self.spec.seed_ref.name).map(str::to_owned).into_iter().collect(), places, ..Drawn::default() }
    }

    /// A ControllerDeployment, with what it names of namespace `garden`.
    ControllerDeployment "v1" ClusterResourceScope { helm: Helm, resources: Vec<NamedReference>, } draw(self) {
        let repository = &self.helm.oci_repository;
        let secrets = [&repository.pull_secret_ref, &repository.ca_bundle_secret_ref];
        let mut referred: Vec<Ref> = secrets.into_iter().filter_map(|secret| secret.at(Kind::Secret, GARDEN_NAMESPACE)).collect();
        referred.extend(self.resources.iter().filter_map(|one| one.resource_ref.resource(GARDEN_NAMESPACE)));
        Drawn { referred, ..Drawn::default() }
    }

    /// A BackupBucket, with its credentials.
    BackupBucket "v1beta1" ClusterResourceScope { spec: BucketSpec, } draw(self) {
        let mut places = vec![self.itself()];
        places.extend(self.credentials());
        Drawn { seeds: present(&self.spec.seed_name).map(str::to_owned).into_iter().collect(), places, ..Drawn::default() }
    }

    /// A BackupEntry belongs to its seed, while it moves to both, and to those of its Shoot.
    BackupEntry "v1beta1" NamespaceResourceScope { spec: EntrySpec, status: SeedStatus, } draw(self) {
        let seeds = [&self.spec.seed_name, &self.status.seed_name].into_iter().filter_map(present);
        let owners = self.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Shoot");
        Drawn {
            seeds: seeds.map(str::to_owned).collect(),
            places: vec![self.itself()],
            through: owners.map(|owner| at(Kind::Shoot, self.place().0, &owner.name)).collect(),
            ..Drawn::default()
        }
    }

    /// A Bastion belongs to its seed.
    Bastion "v1alpha1" NamespaceResourceScope { spec: BastionSpec, } draw(self) {
        Drawn {
            seeds: present(&self.spec.seed_name).map(str::to_owned).into_iter().collect(),
            places: vec![self.itself()],
            ..Drawn::default()
        }
    }

    /// A ManagedSeed belongs to the seeds of the Shoot that it makes a seed.
    ManagedSeed "v1alpha1" NamespaceResourceScope { spec: ManagedSeedSpec, } draw(self) {
        Drawn { through: self.spec.shoot.at(Kind::Shoot, self.place().0).into_iter().collect(), ..Drawn::default() }
    }

    /// A CertificateSigningRequest belongs to the seed whose gardenlet made it.
    CertificateSigningRequest "v1" ClusterResourceScope { spec: RequestSpec, } draw(self) {
        let user = present(&self.spec.username).and_then(|user| user.strip_prefix(SEED_USER_PREFIX));
        Drawn { seeds: user.map(str::to_owned).into_iter().collect(), places: vec![self.itself()], ..Drawn::default() }
    }
}

/// Itself, as the graph names it.
trait Itself: Holder {
    fn itself(&self) -> Ref {
        let (namespace, name) = self.place();
        at(Self::HOLDER, namespace, name)
    }
}

impl<H: Holder> Itself for H {}

impl Seed {
    /// What its spec refers to.
    pub(crate) fn references(&self) -> Vec<Ref> {
        let SeedSpec { backup, dns, resources } = &self.spec;
        let defaults = dns.defaults.iter().map(|one| &one.credentials_ref);
        let credentials = [
            &backup.credentials_ref,
            &dns.provider.credentials_ref,
            &dns.internal.credentials_ref,
        ];
        let credentials = credentials.into_iter().chain(defaults);
        let mut all: Vec<Ref> = credentials
            .filter_map(|one| one.credentials(GARDEN_NAMESPACE))
            .collect();
        all.extend(
            resources
                .iter()
                .filter_map(|one| one.resource_ref.resource(GARDEN_NAMESPACE)),
        );
        all
    }
}

impl BackupBucket {
    /// Its credentials.
    pub(crate) fn credentials(&self) -> Option<Ref> {
        self.spec.credentials_ref.credentials(GARDEN_NAMESPACE)
    }
}

impl Shoot {
    /// What it refers to, all in its own namespace.
    pub(crate) fn references(&self) -> Vec<Ref> {
        let inside = self.place().0;
        let spec = &self.spec;
        let server = &spec.kubernetes.api_server;
        let named = |kind, name: &Option<String>| present(name).map(|name| at(kind, inside, name));
        let mut all = Vec::new();
        all.extend(named(Kind::SecretBinding, &spec.secret_binding_name));
        all.extend(named(Kind::CredentialsBinding, &spec.credentials_binding_name));
        if spec.cloud_profile.kind.as_deref() == Some("NamespacedCloudProfile") {
            all.extend(named(Kind::NamespacedCloudProfile, &spec.cloud_profile.name));
        }
        let maps = [
            &server.audit_config.audit_policy.config_map_ref.name,
            &server.structured_authentication.config_map_name,
            &server.structured_authorization.config_map_name,
        ];
        all.extend(maps.into_iter().filter_map(|name| named(Kind::ConfigMap, name)));
        let kubeconfigs = server
            .structured_authorization
            .kubeconfigs
            .iter()
            .map(|one| &one.secret_name);
        let plugins = server.admission_plugins.iter().map(|one| &one.kubeconfig_secret_name);
        let providers = spec.dns.providers.iter();
        let secrets = kubeconfigs
            .chain(plugins)
            .chain(providers.clone().map(|one| &one.secret_name));
        all.extend(secrets.filter_map(|name| named(Kind::Secret, name)));
        // They name no namespace: it is always the Shoot's.
        all.extend(providers.filter_map(|one| one.credentials_ref.resource(inside)));
        all.extend(
            spec.resources
                .iter()
                .filter_map(|one| one.resource_ref.resource(inside)),
        );
        all
    }
}

fn quotas(all: &[Reference], inside: &str) -> Vec<Ref> {
    all.iter().filter_map(|one| one.at(Kind::Quota, inside)).collect()
}

fn at(kind: Kind, namespace: &str, name: &str) -> Ref {
    Ref {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn present(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Reference {
    /// The object of a kind, in `inside` where it names no other namespace.
    fn at(&self, kind: Kind, inside: &str) -> Option<Ref> {
        let namespace = present(&self.namespace).unwrap_or(inside);
        present(&self.name).map(|name| at(kind, namespace, name))
    }

    /// Credentials, of whichever kind they are.
    fn credentials(&self, inside: &str) -> Option<Ref> {
        let kind = match self.kind.as_deref() {
            Some("WorkloadIdentity") => Kind::WorkloadIdentity,
            Some("InternalSecret") => Kind::InternalSecret,
            _ => Kind::Secret,
        };
        self.at(kind, inside)
    }

    /// One of the kinds of `resources`, in that namespace and no other.
    fn resource(&self, inside: &str) -> Option<Ref> {
        let kind = match self.kind.as_deref() {
            Some("Secret") => Kind::Secret,
            Some("ConfigMap") => Kind::ConfigMap,
            Some("WorkloadIdentity") => Kind::WorkloadIdentity,
            _ => return None,
        };
        present(&self.name).map(|name| at(kind, inside, name))
    }
}

macro_rules! parts {
    ($($name:ident { $($(#[$named:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            #[derive(Clone, Debug, Default, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub(crate) struct $name {
                $($(#[$named])* #[serde(deserialize_with = "or_default")] pub(crate) $field: $type,)*
            }
        )*
    };
}

parts! {
    Reference { kind: Option<String>, namespace: Option<String>, name: Option<String>, }
    NamedReference { resource_ref: Reference, }
    Credentials { credentials_ref: Reference, }
    SeedSpec { backup: Credentials, dns: SeedDns, resources: Vec<NamedReference>, }
    SeedDns { provider: Credentials, internal: Credentials, defaults: Vec<Credentials>, }
    ShootSpec {
        seed_name: Option<String>,
        secret_binding_name: Option<String>,
        credentials_binding_name: Option<String>,
        cloud_profile: Reference,
        kubernetes: Kubernetes,
        dns: ShootDns,
        resources: Vec<NamedReference>,
    }
    ShootStatus { seed_name: Option<String>, #[serde(rename = "technicalID")] technical_id: Option<String>, }
    ShootDns { providers: Vec<DnsProvider>, }
    DnsProvider { secret_name: Option<String>, credentials_ref: Reference, }
    Kubernetes { #[serde(rename = "kubeAPIServer")] api_server: ApiServer, }
    ApiServer {
        audit_config: AuditConfig,
        structured_authentication: Structured,
        structured_authorization: Structured,
        admission_plugins: Vec<AdmissionPlugin>,
    }
    AuditConfig { audit_policy: AuditPolicy, }
    AuditPolicy { config_map_ref: Reference, }
    Structured { config_map_name: Option<String>, kubeconfigs: Vec<Kubeconfig>, }
    Kubeconfig { secret_name: Option<String>, }
    AdmissionPlugin { kubeconfig_secret_name: Option<String>, }
    ProjectSpec { namespace: Option<String>, }
    InstallationSpec { seed_ref: Reference, deployment_ref: Reference, }
    Helm { oci_repository: Repository, }
    Repository { pull_secret_ref: Reference, ca_bundle_secret_ref: Reference, }
    BucketSpec { seed_name: Option<String>, credentials_ref: Reference, }
    EntrySpec { seed_name: Option<String>, bucket_name: Option<String>, }
    SeedStatus { seed_name: Option<String>, }
    BastionSpec { seed_name: Option<String>, }
    ManagedSeedSpec { shoot: Reference, }
    RequestSpec { username: Option<String>, }
}

/// Explicit nulls count as nothing.
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads only the metadata that is needed; managed fields alone are often half of an object.
fn little<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Little {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let Little {
        name,
        namespace,
        uid,
        resource_version,
        owner_references,
    } = Little::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        owner_references,
        ..ObjectMeta::default()
    })
}
