//! The PriorityClasses that pods in a seed name: control planes of shoots, components of the seed, extensions.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::json;

use crate::object::typed;

const SEED_SYSTEM: &str = "PriorityClass for Seed system components";
const CONTROL_PLANE: &str = "PriorityClass for Shoot control plane components";

/// Names, values and descriptions (gardener/gardener v1.150 `pkg/component/seed/system` and, for the critical one,
/// `charts/gardener/gardenlet`). A value never changes once it is in a cluster: PriorityClasses are immutable.
const CLASSES: [(&str, i32, &str); 11] = [
    ("gardener-system-critical", 999_998_950, SEED_SYSTEM),
    ("gardener-system-900", 999_998_900, SEED_SYSTEM),
    ("gardener-system-800", 999_998_800, SEED_SYSTEM),
    ("gardener-system-700", 999_998_700, SEED_SYSTEM),
    ("gardener-system-600", 999_998_600, SEED_SYSTEM),
    ("gardener-system-500", 999_998_500, CONTROL_PLANE),
    ("gardener-system-400", 999_998_400, CONTROL_PLANE),
    ("gardener-system-300", 999_998_300, CONTROL_PLANE),
    ("gardener-system-200", 999_998_200, CONTROL_PLANE),
    ("gardener-system-100", 999_998_100, CONTROL_PLANE),
    (
        "gardener-reserve-excess-capacity",
        -5,
        "PriorityClass for reserving excess capacity on a Seed cluster",
    ),
];

/// Every PriorityClass of a seed. `globalDefault` is left out: `false` is not stored, so that every other manager that applies it
/// meets a conflict with ours.
#[must_use]
pub fn priority_classes() -> Vec<PriorityClass> {
    let class = |(name, value, description)| {
        typed(json!({
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }))
    };
    CLASSES.map(class).into()
}
