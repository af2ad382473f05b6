//! Defaults and validation of the garden's kinds: plain functions that server, CLI and webhooks share.
//! It never reads anything by itself: other objects, the time and random numbers are arguments.

mod backup;
mod bastion;
mod bindings;
mod capabilities;
mod checks;
mod cidr;
mod cloud_profile;
mod cloud_profile_defaults;
mod cron;
mod deployment;
#[cfg(test)]
mod drawn;
mod dual_approval;
mod exposure_class;
mod feature_gates;
mod field_error;
mod force_deletion;
mod gardenlet;
mod gardenlet_config;
mod hibernation;
mod installation;
mod managed_seed_set;
mod node_ranges;
mod old_spellings;
mod other_kinds;
mod project;
mod quantity;
mod quota_usage;
mod registration;
mod required_types;
mod seed;
mod shoot;
mod shoot_addons;
mod shoot_against;
mod shoot_api_server;
mod shoot_components;
mod shoot_defaults;
mod shoot_kubelet;
mod shoot_kubernetes_defaults;
mod shoot_maintenance;
mod shoot_networks;
mod shoot_ranges;
mod shoot_runtimes;
mod shoot_scaling;
mod shoot_scaling_defaults;
mod shoot_settle;
mod shoot_update;
mod shoot_values;
mod shoot_workers;
#[cfg(test)]
mod single_rules;
mod ssh_key;
mod token_request;
mod versions;
mod workload_identity;

pub use backup::{
    validate_backup_bucket, validate_backup_bucket_update, validate_backup_entry, validate_backup_entry_update,
};
pub use bastion::{validate_bastion, validate_bastion_status, validate_bastion_update};
pub use bindings::{
    default_credentials_binding, default_secret_binding, validate_credentials_binding,
    validate_credentials_binding_update, validate_secret_binding, validate_secret_binding_update,
};
pub use cidr::overlaps;
pub use cloud_profile::{validate_cloud_profile, validate_cloud_profile_update};
pub use cloud_profile_defaults::{default_cloud_profile, default_namespaced_cloud_profile, drop_inactive_versions};
pub use cron::CronError;
pub use deployment::{
    ConversionError, deployment_to_v1, deployment_to_v1beta1, validate_controller_deployment,
    validate_controller_deployment_v1beta1,
};
pub use dual_approval::needs_second_person;
pub use exposure_class::unite_with_exposure_class;
pub use field_error::{FieldError, FieldErrorKind, Path};
pub use force_deletion::validate_force_deletion;
pub use gardenlet::{
    default_gardenlet, default_managed_seed, validate_gardenlet, validate_gardenlet_update, validate_managed_seed,
    validate_managed_seed_update, validate_observed_generation,
};
pub use hibernation::{
    HibernationEvents, HibernationOperation, HibernationScheduleError, is_hibernation_enabled, is_in_hibernation,
};
pub use installation::{validate_controller_installation, validate_controller_installation_update};
pub use managed_seed_set::{
    default_managed_seed_set, validate_managed_seed_set, validate_managed_seed_set_status,
    validate_managed_seed_set_update,
};
pub use node_ranges::validate_node_ranges;
pub use old_spellings::accept_old_spellings;
pub use other_kinds::{
    validate_exposure_class, validate_internal_secret, validate_namespaced_cloud_profile,
    validate_namespaced_cloud_profile_update, validate_quota, validate_shoot_state,
};
pub use project::{
    SeveralProjects, default_project, project_among, project_of_namespace, validate_project, validate_project_update,
};
pub use quota_usage::{QuotaUsage, exceeded_metrics, may_count_more};
pub use registration::{
    competing_primaries, default_controller_registration, is_primary, validate_controller_registration,
    validate_controller_registration_update,
};
pub use required_types::{
    KindType, extensions_of_seed, is_responsible, required_types_for_seed, required_types_for_shoot,
    unregistered_types, unregistered_types_of_seed,
};
pub use seed::{default_seed, validate_seed, validate_seed_update};
pub use shoot::{is_workerless, validate_shoot, validate_shoot_creation, validate_technical_id};
pub use shoot_against::{cloud_profile_name, unresolved_version, validate_shoot_against};
pub use shoot_defaults::{ShootDefaults, default_shoot, default_shoot_networks};
pub use shoot_kubernetes_defaults::default_shoot_kubernetes;
pub use shoot_networks::validate_shoot_networks;
pub use shoot_settle::settle_shoot;
pub use shoot_update::{validate_shoot_binding, validate_shoot_status_update, validate_shoot_update};
pub use token_request::{default_token_request, granted_token_validity, validate_token_request};
pub use workload_identity::{
    subject_of_workload_identity, validate_workload_identity, validate_workload_identity_update,
};
