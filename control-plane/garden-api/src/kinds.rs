//! The list of the garden's kinds: names, versions, rules, plug-ins, columns. Data, and no decisions.

use std::sync::Arc;

use api_core::operations::Bastion;
use api_core::security::{CredentialsBinding, WorkloadIdentity};
use api_core::seedmanagement::{Gardenlet, ManagedSeed, ManagedSeedSet, ManagedSeedStatus};
use api_core::v1beta1::{
    BackupBucket, BackupEntry, CloudProfile, ControllerInstallation, ControllerRegistration, ExposureClass,
    InternalSecret, NamespacedCloudProfile, Project, Quota, SecretBinding, Seed, ShootState,
};
use cluster_apiserver::kind::{Form, ScalePaths, SelectableField};
use cluster_apiserver::{Kind, ResourceInfo};
use schemars::JsonSchema;

use crate::admission::{
    self, BackupIdentity, CustomVerbs, DeletionConfirmation, ExtensionLabels, ExtensionTypes, FinalizerRemoval, InUse,
    ManageMembers, OfOwnShoot, OneGardenlet, OneProject, ParentProfile, ProjectNamespace, ProjectOwner, QuotaScopes,
    References, SecretInUse, SeedInUse, SeedLabel, SinglePrimary, TolerationsWhitelist, Unserved, VersionsInUse,
};
use crate::convert::{CORE, SECURITY, SEED_MANAGEMENT};
use crate::typed::{Rules, Strategy, Typed};
use crate::workload_token::TokenRequests;
use crate::{AdmissionPlugins, GardenSettings, columns, deployment, prepare, shoot};

const BETA: &str = "v1beta1";
const OPERATIONS: &str = "operations.gardener.cloud";
const ALPHA: &str = "v1alpha1";

pub(crate) fn all(settings: &GardenSettings) -> Vec<Arc<dyn Kind>> {
    let on = &settings.plugins;
    let mut kinds = vec![
        shoot::kind(settings),
        seed(on),
        project(on),
        Arc::new(deployment::Deployments::new()) as Arc<dyn Kind>,
    ];
    kinds.extend(profiles(on));
    kinds.extend(registrations(on));
    kinds.extend(backups(on));
    kinds.extend(credentials(on));
    kinds.extend(seed_management(on));
    kinds.extend(others(on));
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

fn seed(on: &AdmissionPlugins) -> Arc<dyn Kind> {
    Arc::new(cluster::<Seed>("seeds").with(|kind| {
        kind.info = kind.info.clone().with_status();
        kind.rules = Rules {
            default: api_rules::default_seed,
            validate: api_rules::validate_seed,
            validate_update: api_rules::validate_seed_update,
            ..Rules::default()
        };
        kind.strategy.refuse_name = cluster_apiserver::fields::names::dns_label;
        kind.strategy.prepare = prepare::seed;
        kind.strategy.changes_generation = prepare::changes_generation_of_seed;
        kind.print = columns::seeds();
        kind.plugins = on.filter([
            Arc::new(SeedLabel),
            Arc::new(ExtensionLabels),
            Arc::new(ExtensionTypes),
            Arc::new(SeedInUse),
            Arc::new(BackupIdentity::SEED),
        ]);
    }))
}

fn project(on: &AdmissionPlugins) -> Arc<dyn Kind> {
    Arc::new(cluster::<Project>("projects").with(|kind| {
        kind.info = kind.info.clone().with_status();
        kind.rules = Rules {
            validate: api_rules::validate_project,
            validate_update: api_rules::validate_project_update,
            ..Rules::default()
        };
        kind.strategy = Strategy {
            refuse_name: cluster_apiserver::fields::names::dns_label,
            ..Strategy::default()
        };
        kind.fields = fields(&["spec.namespace"]);
        kind.print = columns::projects();
        kind.plugins = on.filter([
            Arc::new(ProjectOwner::new(on)),
            Arc::new(OneProject),
            Arc::new(ManageMembers),
            Arc::new(TolerationsWhitelist),
            Arc::new(DeletionConfirmation),
        ]);
        kind.guards = vec![Arc::new(ProjectNamespace)];
    }))
}

fn profiles(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 3] {
    let cloud_profile = cluster::<CloudProfile>("cloudprofiles").with(|kind| {
        kind.strategy.has_generation = false;
        kind.info = kind.info.clone().short(&["cprofile", "cpfl"]).with_status();
        kind.strategy.prepare = prepare::cloud_profile;
        kind.rules = Rules {
            default: api_rules::default_cloud_profile,
            validate: api_rules::validate_cloud_profile,
            validate_update: api_rules::validate_cloud_profile_update,
            ..Rules::default()
        };
        kind.print = columns::cloud_profiles();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(InUse::CLOUD_PROFILE),
            Arc::new(VersionsInUse),
        ]);
    });
    let namespaced_profile = namespaced::<NamespacedCloudProfile>("namespacedcloudprofiles").with(|kind| {
        kind.info = kind.info.clone().short(&["nsprofile", "nscpfl"]).with_status();
        kind.rules = Rules {
            default: api_rules::default_namespaced_cloud_profile,
            validate: api_rules::validate_namespaced_cloud_profile,
            validate_update: api_rules::validate_namespaced_cloud_profile_update,
            ..Rules::default()
        };
        kind.strategy.prepare = prepare::namespaced_cloud_profile;
        kind.print = columns::namespaced_cloud_profiles();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(CustomVerbs),
            Arc::new(ParentProfile),
            Arc::new(InUse::NAMESPACED_CLOUD_PROFILE),
            Arc::new(Unserved::NAMESPACED_CLOUD_PROFILE),
        ]);
    });
    let exposure_class = cluster::<ExposureClass>("exposureclasses").with(|kind| {
        kind.strategy.has_generation = false;
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().short(&["expclass", "expcls"]);
        kind.rules.validate = api_rules::validate_exposure_class;
        kind.rules.validate_update = |new, old| {
            let (handler, scheduling) = (api_rules::Path::new("handler"), api_rules::Path::new("scheduling"));
            let errors = [
                handler.immutable(&new.handler, &old.handler),
                scheduling.immutable(&new.scheduling, &old.scheduling),
            ];
            errors.into_iter().flatten().collect()
        };
        kind.print = columns::exposure_classes();
    });
    [
        Arc::new(cloud_profile),
        Arc::new(namespaced_profile),
        Arc::new(exposure_class),
    ]
}

fn registrations(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 2] {
    let registration = cluster::<ControllerRegistration>("controllerregistrations").with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().category(&["all"]).short(&["ctrlreg"]);
        kind.rules = Rules {
            default: api_rules::default_controller_registration,
            validate: api_rules::validate_controller_registration,
            validate_update: api_rules::validate_controller_registration_update,
            ..Rules::default()
        };
        kind.print = columns::registrations();
        kind.plugins = on.filter([Arc::new(SinglePrimary), Arc::new(References::CONTROLLER_REGISTRATION)]);
    });
    let installation = cluster::<ControllerInstallation>("controllerinstallations").with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().category(&["all"]).short(&["ctrlinst"]).with_status();
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

fn backups(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 3] {
    let bucket = cluster::<BackupBucket>("backupbuckets").with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().category(&["all"]).short(&["bbc"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_backup_bucket,
            validate_update: api_rules::validate_backup_bucket_update,
            ..Rules::default()
        };
        kind.fields = fields(&["spec.seedName"]);
        kind.print = columns::backup_buckets();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(ExtensionTypes),
            Arc::new(References::BACKUP_BUCKET),
            Arc::new(BackupIdentity::BACKUP_BUCKET),
        ]);
    });
    let entry = namespaced::<BackupEntry>("backupentries").with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().category(&["all"]).short(&["bec"]).with_status();
        kind.rules = Rules {
            validate: api_rules::validate_backup_entry,
            validate_update: api_rules::validate_backup_entry_update,
            ..Rules::default()
        };
        kind.fields = fields(&["spec.bucketName", "spec.seedName"]);
        kind.strategy.prepare = prepare::backup_entry;
        kind.print = columns::backup_entries();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(ExtensionTypes),
            Arc::new(OfOwnShoot),
            Arc::new(References::BACKUP_ENTRY),
        ]);
    });
    let state = namespaced::<ShootState>("shootstates").with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.info = kind.info.clone().category(&["all"]);
        kind.rules.validate = api_rules::validate_shoot_state;
        kind.rules.validate_update = |new, _| api_rules::validate_shoot_state(new);
        kind.print = columns::shoot_states();
        kind.plugins = on.filter([Arc::new(DeletionConfirmation)]);
    });
    [Arc::new(bucket), Arc::new(entry), Arc::new(state)]
}

fn credentials(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 3] {
    let secret_binding = namespaced::<SecretBinding>("secretbindings").with(|kind| {
        kind.strategy.has_generation = false;
        kind.info = kind.info.clone().short(&["sb"]);
        kind.strategy.prepare =
            |_, object, old| prepare::references_of_new(object, old, api_rules::default_secret_binding);
        kind.rules = Rules {
            default: api_rules::default_secret_binding,
            validate: api_rules::validate_secret_binding,
            validate_update: api_rules::validate_secret_binding_update,
            ..Rules::default()
        };
        kind.fields = fields(&["provider.type"]);
        kind.print = columns::secret_bindings();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(FinalizerRemoval),
            Arc::new(InUse::SECRET_BINDING),
            Arc::new(References::SECRET_BINDING),
            Arc::new(QuotaScopes::SECRET_BINDING),
        ]);
        // For both kinds of bindings.
        kind.guards = vec![Arc::new(SecretInUse)];
    });
    let info = ResourceInfo::namespaced(SECURITY, ALPHA, "CredentialsBinding", "credentialsbindings");
    let credentials_binding = Typed::<CredentialsBinding>::new(info.short(&["cb"])).with(|kind| {
        kind.strategy.has_generation = false;
        kind.strategy.updates_unconditionally = false;
        kind.strategy.prepare =
            |_, object, old| prepare::references_of_new(object, old, api_rules::default_credentials_binding);
        kind.rules = Rules {
            default: api_rules::default_credentials_binding,
            validate: api_rules::validate_credentials_binding,
            validate_update: api_rules::validate_credentials_binding_update,
            ..Rules::default()
        };
        kind.fields = fields(&["provider.type"]);
        kind.print = columns::credentials_bindings();
        kind.plugins = on.filter([
            Arc::new(ExtensionLabels),
            Arc::new(FinalizerRemoval),
            Arc::new(InUse::CREDENTIALS_BINDING),
            Arc::new(References::CREDENTIALS_BINDING),
            Arc::new(QuotaScopes::CREDENTIALS_BINDING),
            Arc::new(Unserved::BINDING_OF_WORKLOAD_IDENTITY),
        ]);
    });
    let info = ResourceInfo::namespaced(SECURITY, ALPHA, "WorkloadIdentity", "workloadidentities");
    let token = (SECURITY, ALPHA, "TokenRequest");
    let info = info.short(&["wi"]).action("token", token, Arc::new(TokenRequests));
    let workload_identity = Typed::<WorkloadIdentity>::new(info).with(|kind| {
        kind.strategy.has_generation = false;
        kind.strategy.updates_unconditionally = false;
        kind.rules = Rules {
            validate: api_rules::validate_workload_identity,
            validate_update: api_rules::validate_workload_identity_update,
            ..Rules::default()
        };
        kind.strategy.prepare = prepare::workload_identity;
        kind.print = columns::workload_identities();
        kind.plugins = on.filter([Arc::new(ExtensionLabels), Arc::new(Unserved::WORKLOAD_IDENTITY)]);
    });
    [
        Arc::new(secret_binding),
        Arc::new(credentials_binding),
        Arc::new(workload_identity),
    ]
}

fn seed_management(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 3] {
    let info = ResourceInfo::namespaced(SEED_MANAGEMENT, ALPHA, "ManagedSeed", "managedseeds");
    let managed_seed = Typed::<ManagedSeed>::new(info.short(&["ms"]).with_status()).with(|kind| {
        kind.rules = Rules {
            default: api_rules::default_managed_seed,
            validate: api_rules::validate_managed_seed,
            validate_update: api_rules::validate_managed_seed_update,
            validate_status: |new, _| validate_observed(new.status.as_ref()),
            ..Rules::default()
        };
        kind.strategy = of_gardenlets();
        kind.fields = fields(&["spec.shoot.name"]);
        kind.print = columns::managed_seeds();
        kind.plugins = on.filter([Arc::new(OneGardenlet), Arc::new(Unserved::MANAGED_SEED)]);
    });
    let info = ResourceInfo::namespaced(SEED_MANAGEMENT, ALPHA, "Gardenlet", "gardenlets");
    let gardenlet = Typed::<Gardenlet>::new(info.short(&["gl", "glet"]).with_status()).with(|kind| {
        kind.rules = Rules {
            default: api_rules::default_gardenlet,
            validate: api_rules::validate_gardenlet,
            validate_update: api_rules::validate_gardenlet_update,
            validate_status: |new, _| validate_observed(new.status.as_ref()),
            ..Rules::default()
        };
        kind.strategy = of_gardenlets();
        kind.print = columns::gardenlets();
        kind.plugins = on.filter([Arc::new(OneGardenlet), Arc::new(Unserved::GARDENLET)]);
    });
    let scale = ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        selector: Some(".spec.selector".to_owned()),
    };
    let info = ResourceInfo::namespaced(SEED_MANAGEMENT, ALPHA, "ManagedSeedSet", "managedseedsets");
    let info = info.short(&["mss"]).with_status();
    let info = info.subresource("scale", Some(("autoscaling", "v1", "Scale")), Form::Scale(scale));
    let set = Typed::<ManagedSeedSet>::new(info).with(|kind| {
        kind.rules = Rules {
            default: api_rules::default_managed_seed_set,
            validate: api_rules::validate_managed_seed_set,
            validate_update: api_rules::validate_managed_seed_set_update,
            validate_status: api_rules::validate_managed_seed_set_status,
            validate_part: |_, new, old| api_rules::validate_managed_seed_set_update(new, old),
            ..Rules::default()
        };
        kind.strategy = Strategy {
            prepare: prepare::managed_seed_set,
            changes_generation: prepare::changes_generation_of_managed_seed_set,
            ..of_gardenlets()
        };
        kind.print = columns::managed_seed_sets();
        kind.plugins = on.filter([Arc::new(Unserved::MANAGED_SEED_SET)]);
    });
    [Arc::new(managed_seed), Arc::new(gardenlet), Arc::new(set)]
}

fn of_gardenlets() -> Strategy {
    Strategy {
        refuse_name: cluster_apiserver::fields::names::dns_label,
        prepare: prepare::gardenlet,
        changes_generation: prepare::changes_generation_of_gardenlet,
        updates_unconditionally: false,
        ..Strategy::default()
    }
}

fn validate_observed(status: Option<&ManagedSeedStatus>) -> Vec<api_rules::FieldError> {
    api_rules::validate_observed_generation(status.and_then(|status| status.observed_generation))
}

fn others(on: &AdmissionPlugins) -> [Arc<dyn Kind>; 3] {
    let internal_secret = namespaced::<InternalSecret>("internalsecrets").with(|kind| {
        kind.strategy.has_generation = false;
        kind.info = kind.info.clone().short(&["ins"]);
        kind.rules.default = default_internal_secret;
        kind.rules.validate = api_rules::validate_internal_secret;
        kind.rules.validate_update = validate_internal_secret_update;
        kind.fields = fields(&["type"]);
        kind.print = columns::internal_secrets();
    });
    let quota = namespaced::<Quota>("quotas").with(|kind| {
        kind.strategy.has_generation = false;
        kind.info = kind.info.clone().short(&["squota"]);
        kind.rules.validate = api_rules::validate_quota;
        kind.rules.validate_update = |new, _| api_rules::validate_quota(new);
        kind.print = columns::quotas();
        kind.plugins = on.filter([Arc::new(Unserved::QUOTA)]);
    });
    let info = ResourceInfo::namespaced(OPERATIONS, ALPHA, "Bastion", "bastions");
    let bastion = Typed::<Bastion>::new(info.category(&["all"]).with_status()).with(|kind| {
        kind.strategy.updates_unconditionally = false;
        kind.rules = Rules {
            validate: api_rules::validate_bastion,
            validate_update: api_rules::validate_bastion_update,
            validate_status_at: api_rules::validate_bastion_status,
            ..Rules::default()
        };
        kind.strategy.refuse_name = cluster_apiserver::fields::names::dns_label;
        kind.strategy.prepare = prepare::bastion;
        kind.strategy.changes_generation = prepare::changes_generation_of_bastion;
        kind.fields = fields(&["spec.seedName", "spec.shootRef.name"]);
        kind.print = columns::bastions();
        kind.plugins = on.filter([Arc::new(admission::Bastion), Arc::new(Unserved::BASTION)]);
    });
    [Arc::new(internal_secret), Arc::new(quota), Arc::new(bastion)]
}

/// `stringData` is written into `data` and forgotten, as for Secrets.
fn default_internal_secret(secret: &mut InternalSecret) {
    for (key, text) in std::mem::take(&mut secret.string_data) {
        secret.data.insert(key, k8s_openapi::ByteString(text.into_bytes()));
    }
}

fn validate_internal_secret_update(new: &InternalSecret, old: &InternalSecret) -> Vec<api_rules::FieldError> {
    let mut errors: Vec<_> = api_rules::Path::new("type")
        .immutable(&new.type_, &old.type_)
        .into_iter()
        .collect();
    errors.extend(api_rules::validate_internal_secret(new));
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
