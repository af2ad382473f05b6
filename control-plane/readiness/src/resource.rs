//! Whether what a ManagedResource applies runs well.

use api_meta::conditions::managed_resource::RESOURCES_HEALTHY;
use api_meta::{Condition, ConditionStatus};
use api_resources::ManagedResource;

/// Why what a ManagedResource has applied does not run well.
#[must_use]
pub fn unhealthy(resource: &ManagedResource) -> Option<String> {
    let status = resource.status.as_ref()?;
    let healthy = Condition::find(&status.conditions, RESOURCES_HEALTHY)?;
    (healthy.status == ConditionStatus::False).then(|| format!("{}: {}", healthy.reason, healthy.message))
}

#[cfg(test)]
mod tests {
    use api_resources::ManagedResourceStatus;
    use jiff::Timestamp;

    use api_meta::conditions::managed_resource::RESOURCES_APPLIED;
    use api_resources::not_applied;

    use super::*;

    #[test]
    fn only_what_was_reported_for_the_newest_form_is_applied() {
        let mut resource = ManagedResource::default();
        assert!(not_applied(&resource).is_some(), "it has no condition yet");
        resource.metadata.generation = Some(2);
        let condition = |status| Condition::new(RESOURCES_APPLIED, status, "R", "m", Timestamp::UNIX_EPOCH);
        let reported = |generation, conditions| {
            Some(ManagedResourceStatus {
                observed_generation: Some(generation),
                conditions,
                ..ManagedResourceStatus::default()
            })
        };
        for status in [
            reported(1, vec![condition(ConditionStatus::True)]),
            reported(2, vec![]),
            reported(2, vec![condition(ConditionStatus::Progressing)]),
        ] {
            resource.status = status;
            assert!(not_applied(&resource).is_some(), "{:?}", resource.status);
        }
        resource.status = reported(2, vec![condition(ConditionStatus::True)]);
        assert_eq!(not_applied(&resource), None);
    }

    #[test]
    fn only_what_is_reported_as_unhealthy_is() {
        let mut resource = ManagedResource::default();
        assert_eq!(unhealthy(&resource), None);
        for (status, expected) in [
            (ConditionStatus::True, None),
            (ConditionStatus::Progressing, None),
            (ConditionStatus::False, Some("R: m")),
        ] {
            let condition = Condition::new(RESOURCES_HEALTHY, status, "R", "m", Timestamp::UNIX_EPOCH);
            resource.status = Some(ManagedResourceStatus {
                conditions: vec![condition],
                ..ManagedResourceStatus::default()
            });
            assert_eq!(unhealthy(&resource).as_deref(), expected);
        }
    }
}
