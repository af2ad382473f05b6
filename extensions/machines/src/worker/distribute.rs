//! How the numbers of a pool are shared among its zones, and how many machines there are in the end. Pure.
//! Source: gardener/gardener v1.150 extensions/pkg/controller/worker/helper/distribute.go.

use api_extensions::WorkerPool;
use api_meta::{ErrorCode, Fault};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The share of zone `index` of `zones`: what cannot be shared evenly goes to the first ones.
pub(super) fn share(total: i32, index: i32, zones: i32) -> i32 {
    total / zones + i32::from(index < total % zones)
}

/// A zone's share of a number; percentages are of the zone's own number already.
pub(super) fn share_of(value: &IntOrString, index: i32, zones: i32) -> IntOrString {
    match value {
        IntOrString::Int(number) => IntOrString::Int(share(*number, index, zones)),
        percent @ IntOrString::String(_) => percent.clone(),
    }
}

/// How many machines: what is there within its bounds, so that an autoscaler's decision stays; none while the shoot
/// is hibernated; the minimum for a new pool and on waking up.
pub(super) fn replicas(minimum: i32, maximum: i32, present: Option<i32>, hibernated: bool) -> i32 {
    match present {
        _ if hibernated => 0,
        Some(present) if present > 0 => present.clamp(minimum, maximum.max(minimum)),
        _ => minimum,
    }
}

/// Whether machines of the pool can be replaced at all. The garden refuses such a Shoot as well.
///
/// # Errors
/// The user's: surge and unavailability are both zero.
pub(super) fn check_room(pool: &WorkerPool) -> Result<(), Fault> {
    let is_zero = |value: &IntOrString| match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => text.trim_end_matches('%').parse() == Ok(0),
    };
    if !(is_zero(&pool.max_surge) && is_zero(&pool.max_unavailable)) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "pool {}: maxSurge and maxUnavailable are both 0, so no machine could ever be replaced; one of them must be more than 0",
        pool.name
    ))
    .code(ErrorCode::ConfigurationProblem)
    .hint(format!(
        "set maxSurge of the pool {} in spec.provider.workers of the Shoot to 1",
        pool.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_the_first_zones_have_the_remainder() {
        for total in 0..20 {
            for zones in 1..5 {
                let shares: Vec<i32> = (0..zones).map(|index| share(total, index, zones)).collect();
                assert_eq!(shares.iter().sum::<i32>(), total);
                assert!(shares.is_sorted_by(|a, b| a >= b) && shares[0] - shares[shares.len() - 1] <= 1);
            }
        }
        let percent = IntOrString::String("30%".into());
        assert_eq!(share_of(&percent, 1, 3), percent);
        assert_eq!(share_of(&IntOrString::Int(4), 1, 3), IntOrString::Int(1));
    }

    #[test]
    fn present_machines_stay_within_bounds_and_sleep_and_wake_are_followed() {
        assert_eq!(replicas(1, 3, None, false), 1);
        assert_eq!(replicas(1, 3, Some(2), false), 2);
        assert_eq!(replicas(1, 3, Some(9), false), 3);
        assert_eq!(replicas(1, 3, Some(2), true), 0);
        assert_eq!(replicas(1, 3, Some(0), false), 1);
        assert_eq!(replicas(0, 3, Some(0), false), 0);
        assert_eq!(replicas(4, 3, Some(2), false), 4);
    }

    #[test]
    fn a_pool_whose_machines_cannot_be_replaced_is_refused() {
        let pool = |surge: IntOrString, unavailable: IntOrString| WorkerPool {
            name: "p".into(),
            max_surge: surge,
            max_unavailable: unavailable,
            ..Default::default()
        };
        let (number, text) = (IntOrString::Int, |text: &str| IntOrString::String(text.into()));
        assert!(check_room(&pool(number(1), number(0))).is_ok());
        assert!(check_room(&pool(number(0), text("1%"))).is_ok());
        for (surge, unavailable) in [(number(0), number(0)), (text("0%"), number(0))] {
            let fault = check_room(&pool(surge, unavailable)).unwrap_err();
            assert_eq!(fault.codes, [ErrorCode::ConfigurationProblem]);
        }
    }
}
