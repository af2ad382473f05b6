//! Resources whose objects change how a server behaves, as keys of the store name them. Names alone.

/// The group of the kinds that configure admission. They are exempt from it themselves.
pub(crate) const ADMISSION: &str = "admissionregistration.k8s.io";
/// What configures admission.
pub(crate) const ADMISSION_CONFIGURATION: [&str; 4] = [MUTATING, VALIDATING, POLICIES, BINDINGS];
pub(crate) const MUTATING: &str = "mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str = "validatingwebhookconfigurations";
pub(crate) const POLICIES: &str = "validatingadmissionpolicies";
pub(crate) const BINDINGS: &str = "validatingadmissionpolicybindings";
/// The resource of quotas.
pub(crate) const QUOTAS: &str = "resourcequotas";
/// The group of access rules.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of APIServices. It is always this server's own.
pub(crate) const API_REGISTRATION: &str = "apiregistration.k8s.io";
pub(crate) const API_SERVICES: &str = "apiregistration.k8s.io/apiservices";
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
