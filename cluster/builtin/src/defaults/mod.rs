//! Defaults that kube-apiserver sets in code. They never read another object or the clock.

pub(crate) mod autoscaler_defaults;
pub(crate) mod default;
pub(crate) mod image_tag;
pub(crate) mod pod_defaults;
pub(crate) mod service_defaults;
