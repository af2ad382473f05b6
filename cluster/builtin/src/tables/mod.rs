//! Tables made from Kubernetes' published documents and its types in Go.

pub(crate) mod documents;
pub(crate) mod gzip;
pub(crate) mod kinds;
