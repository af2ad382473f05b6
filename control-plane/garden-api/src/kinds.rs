//! The list of the garden's kinds: names, versions, rules, plug-ins, columns. Data, and no decisions.

use std::sync::Arc;

use api_core::operations::Bastion;
use api_core::security::{CredentialsBinding, WorkloadIdentity};
use api_core::v1beta1::{
    BackupBucket, BackupEntry, CloudProfile, ControllerInstallation, ControllerRegistration, ExposureClass,
    InternalSecret, NamespacedCloudProfile, Project, Quota, SecretBinding, Seed, ShootState,
};
use api_meta::finalizers;
use cluster_apiserver::kind::SelectableField;
use cluster_apiserver::{Kind, ResourceInfo};
use schemars::JsonSchema;

use crate::admission::{
    DeletionConfirmation, ExtensionLabels, ExtensionTypes, FinalizerRemoval, InUse, ManageMembers, OfOwnShoot,
    OneProject, Plugin, ProjectNamespace, ProjectOwner, References, SecretInUse, SeedInUse, SinglePrimary,
    TolerationsWhitelist, Unserved,
};
use crate::convert::CORE;
use crate::typed::{Rules, Strategy, Typed};
use crate::{GardenSettings, columns, deployment, shoot};

const BETA: &str = "v1beta1";
const SECURITY: &str = "security.gardener.cloud";
const OPERATIONS: &str = "operations.gardener.cloud";
const ALPHA: &str = "v1alpha1";

pub(crate) fn all(settings: &GardenSettings) -> Vec<Arc<dyn Kind>> {
    let mut kinds = vec![
        shoot::kind(settings),
        seed(),
        project(),
        Arc::new(deployment::Deployments::new()) as Arc<dyn Kind>,
    ];
    kinds.extend(profiles());
    kinds.extend(registrations());
    kinds.extend(backups());
    kinds.extend(credentials());
    kinds.extend(others());
    kinds
}

pub(crate) fn namespaced<T: JsonSchema + api_meta::Kind>(plural: &'static str) -> Typed<T> {
    Typed::new(ResourceInfo::namespaced(CORE, BETA, T::KIND, plural))
}

fn cluster<T: JsonSchema + api_meta::Kind>(plural: &'static str) -> Typed<T> {
    Typed::new(ResourceInfo::cluster(CORE, BETA, T::KIND, plural))
}

fn fields(names: &[&str]) -> Vec<SelectableField> {
    names.iter().map(|name| SelectableField::new(name)).collect()
}

fn plugins<const N: usize>(plugins: [Arc<dyn Plugin>; N]) -> Vec<Arc<dyn Plugin>> {
    plugins.into()
}

fn seed() -> Arc<dyn Kind> {
    Arc::new(cluster::<Seed>("seeds").with(|kind| {
        kind.info = kind.info.clone().with_status();
        kind.rules = Rules {
            default: api_rules::default_seed,
            validate: api_rules::validate_seed,
            validate_update: api_rules::validate_seed_update,
            ..Rules::default()
        };
        kind.strategy.refuse_name = cluster_apiserver::schema::names::dns_label;
        kind.print = columns::seeds();
        kind.plugins = plugins([Arc::new(ExtensionLabels), Arc::new(ExtensionTypes), Arc::new(SeedInUse)]);
    }))
}

fn project() -> Arc<dyn Kind> {
    Arc::new(cluster::<Project>("projects").with(|kind| {
        kind.info = kind.info.clone().with_status();
        kind.rules = Rules {
            validate: api_rules::validate_project,
            validate_update: api_rules::validate_project_update,
            ..Rules::default()
        };
        kind.strategy = Strategy {
            refuse_name: cluster_apiserver::schema::names::dns_label,
            finalizers: &[finalizers::GARDENER],
            ..Strategy::default()
        };
        kind.fields = fields(&["spec.namespace"]);
        kind.print = columns::by_paths(&[
            ("Namespace", ".spec.namespace"),
            ("Status", ".status.phase"),
            ("Owner", ".spec.owner.name"),
            ("Creator", ".spec.createdBy.name"),
        ]);
        kind.plugins = plugins([
            Arc::new(ProjectOwner),
            Arc::new(OneProject),
            Arc::new(ManageMembers),
            Arc::new(TolerationsWhitelist),
            Arc::new(DeletionConfirmation),
        ]);
        kind.guards = vec![Arc::new(ProjectNamespace)];
    }))
}

fn profiles() -> [Arc<dyn Kind>; 3] {
    let cloud_profile = cluster::<CloudProfile>("cloudprofiles").with(|kind| {
        kind.info = kind.info.clone().short(&["cprofile", "cpfl"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_cloud_profile,
            validate_update: api_rules::validate_cloud_profile_update,
            ..Rules::default()
        };
        kind.print = columns::by_paths(&[("Type", ".spec.type")]);
        kind.plugins = plugins([Arc::new(ExtensionLabels), Arc::new(InUse::CLOUD_PROFILE)]);
    });
    let namespaced_profile = namespaced::<NamespacedCloudProfile>("namespacedcloudprofiles").with(|kind| {
        kind.info = kind.info.clone().short(&["ncpfl", "nscpfl"]).with_status();
        kind.print = columns::by_paths(&[
            ("Type", ".status.cloudProfileSpec.type"),
            ("Parent", ".spec.parent.name"),
        ]);
        kind.plugins = plugins([
            Arc::new(InUse::NAMESPACED_CLOUD_PROFILE),
            Arc::new(Unserved::NAMESPACED_CLOUD_PROFILE),
        ]);
    });
    let exposure_class = cluster::<ExposureClass>("exposureclasses").with(|kind| {
        kind.info = kind.info.clone().short(&["expclass", "expcls"]);
        kind.rules.validate_update = |new, old| {
            let (handler, scheduling) = (api_rules::Path::new("handler"), api_rules::Path::new("scheduling"));
            let errors = [
                handler.immutable(&new.handler, &old.handler),
                scheduling.immutable(&new.scheduling, &old.scheduling),
            ];
            errors.into_iter().flatten().collect()
        };
        kind.print = columns::by_paths(&[("Handler", ".handler")]);
    });
    [
        Arc::new(cloud_profile),
        Arc::new(namespaced_profile),
        Arc::new(exposure_class),
    ]
}

fn registrations() -> [Arc<dyn Kind>; 2] {
    let registration = cluster::<ControllerRegistration>("controllerregistrations").with(|kind| {
        kind.info = kind.info.clone().short(&["ctrlreg"]);
        kind.rules = Rules {
            default: api_rules::default_controller_registration,
            validate: api_rules::validate_controller_registration,
            validate_update: api_rules::validate_controller_registration_update,
            ..Rules::default()
        };
        kind.print = columns::registrations();
        kind.plugins = plugins([Arc::new(SinglePrimary)]);
    });
    let installation = cluster::<ControllerInstallation>("controllerinstallations").with(|kind| {
        kind.info = kind.info.clone().short(&["ctrlinst"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_controller_installation,
            validate_update: api_rules::validate_controller_installation_update,
            ..Rules::default()
        };
        kind.fields = fields(&[
            "spec.registrationRef.name",
            "spec.seedRef.name",
            "spec.shootRef.name",
            "spec.shootRef.namespace",
        ]);
        kind.print = columns::installations();
    });
    [Arc::new(registration), Arc::new(installation)]
}

fn backups() -> [Arc<dyn Kind>; 3] {
    let columns = || columns::by_paths(&[("Status", ".status.lastOperation.state"), ("Seed", ".spec.seedName")]);
    let bucket = cluster::<BackupBucket>("backupbuckets").with(|kind| {
        kind.info = kind.info.clone().short(&["bb"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_backup_bucket,
            validate_update: api_rules::validate_backup_bucket_update,
            ..Rules::default()
        };
        kind.fields = fields(&["spec.seedName"]);
        kind.print = columns();
        kind.plugins = plugins([Arc::new(ExtensionLabels), Arc::new(ExtensionTypes)]);
    });
    let entry = namespaced::<BackupEntry>("backupentries").with(|kind| {
        kind.info = kind.info.clone().short(&["bec"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_backup_entry,
            validate_update: api_rules::validate_backup_entry_update,
            ..Rules::default()
        };
        kind.fields = fields(&["spec.bucketName", "spec.seedName"]);
        kind.print = columns();
        kind.plugins = plugins([
            Arc::new(ExtensionLabels),
            Arc::new(ExtensionTypes),
            Arc::new(OfOwnShoot),
        ]);
    });
    let state = namespaced::<ShootState>("shootstates").with(|kind| {
        kind.print = columns::by_paths(&[]);
        kind.plugins = plugins([Arc::new(DeletionConfirmation)]);
    });
    [Arc::new(bucket), Arc::new(entry), Arc::new(state)]
}

fn credentials() -> [Arc<dyn Kind>; 3] {
    let secret_binding = namespaced::<SecretBinding>("secretbindings").with(|kind| {
        kind.info = kind.info.clone().short(&["sb"]);
        kind.rules = Rules {
            validate: api_rules::validate_secret_binding,
            validate_update: api_rules::validate_secret_binding_update,
            ..Rules::default()
        };
        kind.fields = fields(&["provider.type"]);
        kind.print = columns::by_paths(&[
            ("Secret Namespace", ".secretRef.namespace"),
            ("Secret Name", ".secretRef.name"),
            ("Provider", ".provider.type"),
        ]);
        kind.plugins = plugins([
            Arc::new(ExtensionLabels),
            Arc::new(FinalizerRemoval),
            Arc::new(InUse::SECRET_BINDING),
            Arc::new(References::SECRET_BINDING),
        ]);
        // For both kinds of bindings.
        kind.guards = vec![Arc::new(SecretInUse)];
    });
    let info = ResourceInfo::namespaced(SECURITY, ALPHA, "CredentialsBinding", "credentialsbindings");
    let credentials_binding = Typed::<CredentialsBinding>::new(info.short(&["cb"])).with(|kind| {
        kind.rules = Rules {
            validate: api_rules::validate_credentials_binding,
            validate_update: api_rules::validate_credentials_binding_update,
            ..Rules::default()
        };
        kind.fields = fields(&["provider.type"]);
        kind.print = columns::by_paths(&[
            ("Credentials Kind", ".credentialsRef.kind"),
            ("Credentials Namespace", ".credentialsRef.namespace"),
            ("Credentials Name", ".credentialsRef.name"),
            ("Provider", ".provider.type"),
        ]);
        kind.plugins = plugins([
            Arc::new(ExtensionLabels),
            Arc::new(FinalizerRemoval),
            Arc::new(InUse::CREDENTIALS_BINDING),
            Arc::new(References::CREDENTIALS_BINDING),
            Arc::new(Unserved::BINDING_OF_WORKLOAD_IDENTITY),
        ]);
    });
    let info = ResourceInfo::namespaced(SECURITY, ALPHA, "WorkloadIdentity", "workloadidentities");
    let workload_identity = Typed::<WorkloadIdentity>::new(info.short(&["wlid"]).with_status()).with(|kind| {
        kind.print = columns::by_paths(&[("Sub", ".status.sub"), ("Target", ".spec.targetSystem.type")]);
        kind.plugins = plugins([Arc::new(Unserved::WORKLOAD_IDENTITY)]);
    });
    [
        Arc::new(secret_binding),
        Arc::new(credentials_binding),
        Arc::new(workload_identity),
    ]
}

fn others() -> [Arc<dyn Kind>; 3] {
    let internal_secret = namespaced::<InternalSecret>("internalsecrets").with(|kind| {
        kind.rules.default = default_internal_secret;
        kind.rules.validate_update = validate_internal_secret_update;
        kind.fields = fields(&["type"]);
        kind.print = columns::by_paths(&[("Type", ".type")]);
    });
    let quota = namespaced::<Quota>("quotas").with(|kind| {
        kind.info = kind.info.clone().short(&["squota"]);
        kind.print = columns::by_paths(&[("Scope", ".spec.scope.kind")]);
        kind.plugins = plugins([Arc::new(Unserved::QUOTA)]);
    });
    let info = ResourceInfo::namespaced(OPERATIONS, ALPHA, "Bastion", "bastions");
    let bastion = Typed::<Bastion>::new(info.with_status()).with(|kind| {
        kind.fields = fields(&["spec.seedName", "spec.shootRef.name"]);
        kind.print = columns::by_paths(&[
            ("Shoot", ".spec.shootRef.name"),
            ("Seed", ".spec.seedName"),
            ("IP", ".status.ingress.ip"),
            ("Hostname", ".status.ingress.hostname"),
        ]);
        kind.plugins = plugins([Arc::new(Unserved::BASTION)]);
    });
    [Arc::new(internal_secret), Arc::new(quota), Arc::new(bastion)]
}

/// `stringData` is written into `data` and forgotten, as for Secrets.
fn default_internal_secret(secret: &mut InternalSecret) {
    for (key, text) in std::mem::take(&mut secret.string_data) {
        secret.data.insert(key, k8s_openapi::ByteString(text.into_bytes()));
    }
    secret.type_.get_or_insert_with(|| "Opaque".to_owned());
}

fn validate_internal_secret_update(new: &InternalSecret, old: &InternalSecret) -> Vec<api_rules::FieldError> {
    let mut errors: Vec<_> = api_rules::Path::new("type")
        .immutable(&new.type_, &old.type_)
        .into_iter()
        .collect();
    if old.immutable == Some(true) {
        let words = "field is immutable when `immutable` is set";
        if new.immutable != Some(true) {
            errors.push(api_rules::Path::new("immutable").forbidden(words));
        }
        if new.data != old.data {
            errors.push(api_rules::Path::new("data").forbidden(words));
        }
    }
    errors
}
