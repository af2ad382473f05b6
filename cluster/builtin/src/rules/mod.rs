//! Rules of kinds, as kube-apiserver has them in code. They never read other objects.

pub(crate) mod admission_rules;
pub(crate) mod api_service_rules;
pub(crate) mod autoscaler_rules;
pub(crate) mod certificate_rules;
pub(crate) mod checks;
pub(crate) mod claim_rules;
pub(crate) mod core_rules;
pub(crate) mod definition_history;
pub(crate) mod definition_rules;
pub(crate) mod disruption_budget_rules;
pub(crate) mod endpoint_slice_rules;
pub(crate) mod ephemeral_container_rules;
pub(crate) mod ingress_rules;
pub(crate) mod lease_rules;
pub(crate) mod network_policy_rules;
pub(crate) mod pod_rules;
pub(crate) mod policy_rules;
pub(crate) mod priority_class_rules;
pub(crate) mod rbac_rules;
pub(crate) mod service_rules;
pub(crate) mod validate;
pub(crate) mod workload_rules;
