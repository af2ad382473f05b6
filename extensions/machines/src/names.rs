//! Literal names of the wire contract (gardener/machine-controller-manager pkg/util/provider/machineutils).

/// On machines, sets and deployments while something of theirs exists.
pub const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
/// Label on a Machine: the name of its Node.
pub const NODE_LABEL: &str = "node";
/// Label on a Machine with value `True`: do not drain, do not wait for the shoot.
pub const FORCE_DELETION_LABEL: &str = "force-deletion";
/// Annotation on a Machine: a number; those with the lowest go first when a set shrinks.
pub(crate) const PRIORITY_ANNOTATION: &str = "machinepriority.machine.sapcloud.io";
/// Annotation on a Machine that failed: tried again at once when it changes.
pub(crate) const TRY_AGAIN_ANNOTATION: &str = "machines.orangery.dev/try-again";
/// The priority of a machine that names none.
pub(crate) const PRIORITY_DEFAULT: i32 = 3;
/// Annotation on a Node: the labels, annotations and taints that its machine's template has put there.
pub(crate) const LAST_APPLIED_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
/// Label on sets and their machines that distinguishes the templates of one deployment.
pub(crate) const TEMPLATE_HASH_LABEL: &str = "machine-template-hash";
/// The Secret in a shoot's namespace with the kubeconfig for its nodes, in key `kubeconfig`.
pub const SHOOT_ACCESS_SECRET: &str = "shoot-access-machine-controller-manager";
/// The key in it.
pub(crate) const KUBECONFIG_KEY: &str = "kubeconfig";
