//! Who may change or refuse a write: webhooks, policies, quota, and the plug-ins of kube-apiserver. It stores nothing but
//! what a quota counts.

pub(crate) mod admission_review;
pub(crate) mod attributes;
pub(crate) mod confirmation;
pub(crate) mod deletion;
pub(crate) mod escalation;
pub(crate) mod expressions;
pub(crate) mod gatekeeping;
pub(crate) mod json_patch;
pub(crate) mod mutating;
pub(crate) mod namespace_lifecycle;
pub(crate) mod node_restriction;
pub(crate) mod outcome;
pub(crate) mod pod_admission;
pub(crate) mod policies;
pub(crate) mod quota;
pub(crate) mod selection;
pub(crate) mod signing_rights;
pub(crate) mod subresource_body;
pub(crate) mod validating;
pub(crate) mod webhook_calls;
