//! How a deployment's sets share its machines while one replaces another. Pure.
//! Source of the rules: gardener/machine-controller-manager pkg/controller/deployment_rolling.go, which are those
//! of Kubernetes' Deployments.

use api_machine::{MachineDeploymentStrategy, MachineDeploymentStrategyType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What there is to know of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetView {
    pub(crate) name: String,
    /// Desired machines.
    pub(crate) wanted: i32,
    /// Machines it has.
    pub(crate) present: i32,
    /// Machines of it whose node is ready.
    pub(crate) available: i32,
}

/// How far an update may go above and below the wanted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) surge: i32,
    pub(crate) unavailable: i32,
    /// Old machines all go before new ones come.
    pub(crate) recreate: bool,
}

/// More machines than any deployment has: sums and differences of two such numbers are far from overflowing.
const MACHINES_MAX: i32 = 100_000;

/// Percentages round up for the surge and down for the unavailable, and one of both is at least one: otherwise
/// nothing could move.
pub(crate) fn bounds(strategy: Option<&MachineDeploymentStrategy>, replicas: i32) -> Bounds {
    let recreate = strategy.and_then(|s| s.type_.as_ref()) == Some(&MachineDeploymentStrategyType::Recreate);
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let value = |of: Option<&IntOrString>, default, up| of.map_or(default, |value| resolve(value, replicas, up));
    let surge = value(rolling.and_then(|rolling| rolling.max_surge.as_ref()), 1, true);
    let unavailable = value(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), 0, false);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Bounds {
        surge: surge.min(MACHINES_MAX),
        unavailable: unavailable.min(MACHINES_MAX),
        recreate,
    }
}

/// A number, or a percentage of `total`; what is neither is zero.
pub(crate) fn resolve(value: &IntOrString, total: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let scaled = percent.max(0) * i64::from(total.max(0));
            i32::try_from(if up { (scaled + 99) / 100 } else { scaled / 100 }).unwrap_or(i32::MAX)
        }
    }
}

/// The desired number of each set: the new one and the old ones, in their order.
pub(crate) fn plan(replicas: i32, bounds: Bounds, new: &SetView, old: &[SetView]) -> (i32, Vec<i32>) {
    let old_wanted: i32 = old.iter().map(|set| set.wanted).sum();
    let old_present: i32 = old.iter().map(|set| set.present).sum();
    if old_wanted == 0 && old_present == 0 {
        return (replicas, old.iter().map(|_| 0).collect());
    }
    if bounds.recreate {
        return (
            if old_present == 0 {
                replicas
            } else {
                new.wanted.min(replicas)
            },
            old.iter().map(|_| 0).collect(),
        );
    }
    let room = (replicas + bounds.surge - (new.wanted + old_wanted)).max(0);
    let wanted = if new.wanted > replicas {
        replicas
    } else {
        (new.wanted + room).min(replicas)
    };
    let new_missing = (new.wanted - new.available).max(0);
    let available_min = replicas - bounds.unavailable;
    // What may go without falling below the minimum, if everything new that is not yet available counts as lost.
    let mut may_go = (new.wanted + old_wanted - available_min - new_missing).max(0);
    let mut left: Vec<i32> = old.iter().map(|set| set.wanted).collect();
    for (set, left) in old.iter().zip(&mut left) {
        let unhealthy = (set.wanted - set.available).max(0).min(may_go);
        *left -= unhealthy;
        may_go -= unhealthy;
    }
    let available: i32 = new.available
        + old
            .iter()
            .zip(&left)
            .map(|(set, left)| set.available.min(*left))
            .sum::<i32>();
    let mut may_go = (available - available_min).max(0);
    for left in &mut left {
        let going = (*left).min(may_go);
        *left -= going;
        may_go -= going;
    }
    (wanted, left)
}

#[cfg(test)]
mod tests {
    use api_machine::RollingUpdateMachineDeployment;

    use super::*;

    fn set(wanted: i32, available: i32) -> SetView {
        SetView {
            name: "s".into(),
            wanted,
            present: wanted,
            available,
        }
    }

    fn rolling(surge: i32, unavailable: i32) -> Bounds {
        Bounds {
            surge,
            unavailable,
            recreate: false,
        }
    }

    #[test]
    fn the_largest_numbers_move_everything_at_once() {
        for (surge, unavailable) in [(i32::MAX, 0), (0, i32::MAX), (i32::MAX, i32::MAX)] {
            let strategy = MachineDeploymentStrategy {
                rolling_update: Some(RollingUpdateMachineDeployment {
                    max_surge: Some(IntOrString::Int(surge)),
                    max_unavailable: Some(IntOrString::Int(unavailable)),
                }),
                ..Default::default()
            };
            let states = play(3, bounds(Some(&strategy), 3), 3);
            assert_eq!(states.last(), Some(&(3, 0)), "{states:?}");
        }
    }

    /// Plays an update to its end, every new machine becoming available between turns, and returns the states.
    fn play(replicas: i32, bounds: Bounds, old: i32) -> Vec<(i32, i32)> {
        let (mut new_set, mut old_set) = (set(0, 0), set(old, old));
        let mut states = vec![(0, old)];
        for _ in 0..50 {
            let (new, left) = plan(replicas, bounds, &new_set, &[old_set.clone()]);
            new_set = set(new, new_set.available.min(new));
            old_set = set(left[0], left[0]);
            let now = (new, left[0]);
            if states.last() == Some(&now) && new_set.available == new {
                return states;
            }
            if states.last() != Some(&now) {
                states.push(now);
            }
            assert!(new + left[0] <= replicas + bounds.surge, "{states:?}");
            assert!(
                new_set.available + left[0] >= replicas - bounds.unavailable,
                "{states:?}"
            );
            new_set.available = new;
        }
        panic!("it never settles: {states:?}");
    }

    #[test]
    fn an_update_stays_within_its_bounds_and_ends_with_only_new_machines() {
        assert_eq!(play(2, rolling(1, 0), 2), [(0, 2), (1, 2), (1, 1), (2, 1), (2, 0)]);
        assert_eq!(play(2, rolling(0, 1), 2), [(0, 2), (0, 1), (1, 1), (1, 0), (2, 0)]);
        for replicas in 0..6 {
            for (surge, unavailable) in [(1, 0), (0, 1), (2, 1), (6, 6)] {
                let states = play(replicas, rolling(surge, unavailable), replicas);
                assert_eq!(states.last(), Some(&(replicas, 0)));
            }
        }
    }

    #[test]
    fn machines_that_never_worked_go_first_and_stuck_updates_keep_old_ones() {
        let (new, old) = plan(3, rolling(1, 0), &set(1, 0), &[set(3, 3)]);
        assert_eq!((new, old), (1, vec![3]), "nothing may go before the new one is there");
        let (_, old) = plan(3, rolling(1, 0), &set(1, 1), &[set(3, 2)]);
        assert_eq!(old, [2]);
    }

    #[test]
    fn a_deployment_of_one_set_is_just_scaled() {
        assert_eq!(plan(5, rolling(1, 0), &set(2, 2), &[]), (5, vec![]));
        assert_eq!(plan(0, rolling(1, 0), &set(2, 2), &[set(0, 0)]), (0, vec![0]));
        let recreate = Bounds {
            recreate: true,
            ..rolling(1, 0)
        };
        assert_eq!(plan(2, recreate, &set(0, 0), &[set(2, 2)]), (0, vec![0]));
    }

    #[test]
    fn percentages_round_so_that_an_update_can_move() {
        let strategy = |surge: &str, unavailable: &str| MachineDeploymentStrategy {
            rolling_update: Some(RollingUpdateMachineDeployment {
                max_surge: Some(IntOrString::String(surge.into())),
                max_unavailable: Some(IntOrString::String(unavailable.into())),
            }),
            ..Default::default()
        };
        assert_eq!(bounds(Some(&strategy("10%", "25%")), 3), rolling(1, 0));
        assert_eq!(bounds(Some(&strategy("0%", "25%")), 3), rolling(0, 1));
        assert_eq!(bounds(None, 3), rolling(1, 0));
    }
}
