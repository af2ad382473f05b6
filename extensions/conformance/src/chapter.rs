//! The chapters of a run: each brings an object from its creation to its end and looks at some rules on the way. Their
//! order is that of `run`.

pub(crate) mod bystanders;
pub(crate) mod contention;
pub(crate) mod crash;
pub(crate) mod deletion;
pub(crate) mod errors;
pub(crate) mod heartbeat;
pub(crate) mod life;
pub(crate) mod migration;
pub(crate) mod secondary;
pub(crate) mod webhooks;

/// Why rules about a cloud are skipped without the author's command.
pub(crate) const NO_CLOUD_CHECK: &str = "no command was given that prints what the cloud holds (--cloud-check)";
/// Why rules about the Shoot are skipped for kinds that are cluster-scoped.
pub(crate) const NO_SHOOT: &str = "objects of this kind are in no Shoot's namespace";
/// Why rules about the Shoot are skipped for other classes.
pub(crate) const NOT_OF_A_SHOOT: &str = "objects of this class belong to no Shoot";
