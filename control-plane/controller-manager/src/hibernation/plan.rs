//! What a Shoot's hibernation schedules demand at a moment, and when they demand something next.

use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use api_rules::{HibernationEvents, HibernationOperation, HibernationScheduleError};
use jiff::{SignedDuration, Timestamp};

use super::schedules;

/// How far back events are looked for, whatever the deadline.
const LOOK_BACK_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What to do now.
    pub(crate) act: Option<HibernationOperation>,
    /// When the next event is; none if there is none.
    pub(crate) next: Option<Timestamp>,
}

/// The newest event since the last one that was acted on decides, if it is not older than `deadline`.
///
/// # Errors
/// When a schedule cannot be read.
pub(crate) fn plan(shoot: &Shoot, deadline: SignedDuration, now: Timestamp) -> Result<Plan, HibernationScheduleError> {
    if shoot.metadata.deletion_timestamp.is_some() {
        return Ok(Plan::default());
    }
    let events = HibernationEvents::of_schedules(schedules(shoot))?;
    let next = events.iter().filter_map(|events| events.next_after(now)).min();
    if has_failed(shoot) {
        return Ok(Plan { act: None, next });
    }
    let after = earliest(shoot, deadline, now);
    let mut newest: Option<(Timestamp, HibernationOperation)> = None;
    for events in &events {
        let latest = events.latest_between(after, now);
        // The first in the Shoot of two events at the same time counts.
        if let Some(at) = latest.filter(|at| newest.is_none_or(|(newest, _)| newest < *at)) {
            newest = Some((at, events.operation));
        }
    }
    let act = newest.map(|(_, operation)| operation);
    Ok(Plan { act, next })
}

/// The moment after which events count.
fn earliest(shoot: &Shoot, deadline: SignedDuration, now: Timestamp) -> Timestamp {
    let triggered = shoot
        .status
        .as_ref()
        .and_then(|status| status.last_hibernation_trigger_time.as_ref());
    let since = triggered.or(shoot.metadata.creation_timestamp.as_ref());
    let since = since.map_or(Timestamp::MIN, |since| since.0);
    let bounds = [deadline, LOOK_BACK_MAX].map(|back| now.checked_sub(back).unwrap_or(Timestamp::MIN));
    bounds.into_iter().fold(since, Timestamp::max)
}

/// Whether gardenlet has given the Shoot up as it is. A change of its spec would start the operation again.
fn has_failed(shoot: &Shoot) -> bool {
    shoot.status.as_ref().is_some_and(|status| {
        let operation = status.last_operation.as_ref();
        operation.is_some_and(|operation| operation.state == LastOperationState::Failed)
            && status.observed_generation == shoot.metadata.generation
            && status.gardener.version == env!("CARGO_PKG_VERSION")
    })
}

#[cfg(test)]
mod tests {
    use api_rules::HibernationOperation::{Hibernate, WakeUp};
    use serde_json::{Value, json};

    use super::super::{TRIGGER_DEADLINE, apply};
    use super::*;

    /// Longer than any test.
    const NO_DEADLINE: SignedDuration = SignedDuration::from_hours(24 * 365);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn shoot(schedules: Value, status: Value) -> Shoot {
        serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "garden-p", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3},
            "spec": {"hibernation": {"schedules": schedules}}, "status": status}))
        .unwrap()
    }

    /// The plan, after which nothing is left to do at the same moment.
    fn planned(shoot: &Shoot, deadline: SignedDuration, now: &str) -> Plan {
        let now = at(now);
        let first = plan(shoot, deadline, now).unwrap();
        if let Some(operation) = first.act {
            let done = apply::noted(&apply::decided(shoot, operation), now);
            let again = plan(&done, deadline, now).unwrap();
            assert_eq!((again.act, again.next), (None, first.next), "nothing is left to do");
        }
        first
    }

    fn act(schedules: &Value, status: Value, now: &str) -> Option<HibernationOperation> {
        planned(&shoot(schedules.clone(), status), TRIGGER_DEADLINE, now).act
    }

    fn triggered(time: &str) -> Value {
        json!({ "lastHibernationTriggerTime": time })
    }

    #[test]
    fn the_newest_event_of_all_schedules_wins() {
        let parallel = json!([
            {"start": "0 19 * * *", "end": "0 7 * * *"}, {"start": "0 20 * * *", "end": "30 19 * * *"}]);
        let awake = || triggered("2026-01-10T12:00:00Z");
        let cases = [
            ("2026-01-10T18:59:59Z", None, "2026-01-10T19:00:00Z"),
            ("2026-01-10T19:00:00Z", Some(Hibernate), "2026-01-10T19:30:00Z"),
            ("2026-01-10T19:00:00.1Z", Some(Hibernate), "2026-01-10T19:30:00Z"),
            ("2026-01-10T19:45:00Z", Some(WakeUp), "2026-01-10T20:00:00Z"),
            ("2026-01-10T20:01:00Z", Some(Hibernate), "2026-01-11T07:00:00Z"),
        ];
        for (now, expected, next) in cases {
            let found = planned(&shoot(parallel.clone(), awake()), TRIGGER_DEADLINE, now);
            assert_eq!((found.act, found.next), (expected, Some(at(next))), "{now}");
        }
    }

    #[test]
    fn of_events_at_the_same_time_the_first_in_the_shoot_wins() {
        let same = json!([{"end": "0 20 * * *"}, {"start": "00 20 * * *"}]);
        assert_eq!(act(&same, json!({}), "2026-01-10T20:00:00Z"), Some(WakeUp));
        let one = json!([{"start": "0 20 * * *", "end": "00 20 * * *"}]);
        assert_eq!(act(&one, json!({}), "2026-01-10T20:00:00Z"), Some(Hibernate));
    }

    #[test]
    fn an_event_is_acted_on_once() {
        let daily = json!([{"start": "0 20 * * *"}]);
        let now = "2026-01-10T20:10:00Z";
        assert_eq!(act(&daily, triggered("2026-01-10T19:59:59Z"), now), Some(Hibernate));
        // Statuses are read back in whole seconds.
        assert_eq!(act(&daily, triggered("2026-01-10T20:00:00Z"), now), None);
        assert_eq!(act(&daily, triggered("2026-01-10T20:00:01Z"), now), None);
    }

    #[test]
    fn an_event_older_than_the_deadline_is_let_go() {
        let daily = json!([{"start": "0 20 * * *"}]);
        let long_ago = || triggered("2026-01-05T20:00:00Z");
        assert_eq!(act(&daily, long_ago(), "2026-01-10T21:59:59Z"), Some(Hibernate));
        assert_eq!(act(&daily, long_ago(), "2026-01-10T22:00:00Z"), None);
        let of_the_day_before = shoot(daily, long_ago());
        let found = planned(&of_the_day_before, NO_DEADLINE, "2026-01-10T12:00:00Z");
        assert_eq!(found.act, Some(Hibernate), "with a longer deadline it counts");
    }

    #[test]
    fn events_before_the_creation_do_not_count() {
        let daily = json!([{"start": "0 0 * * *"}]);
        assert_eq!(act(&daily, json!({}), "2026-01-01T00:30:00Z"), None);
        assert_eq!(act(&daily, json!({}), "2026-01-02T00:30:00Z"), Some(Hibernate));
    }

    #[test]
    fn nothing_older_than_seven_days_counts() {
        let yearly = json!([{"start": "0 0 5 1 *"}]);
        let on = |now: &str| planned(&shoot(yearly.clone(), json!({})), NO_DEADLINE, now).act;
        assert_eq!(on("2026-01-11T23:59:59Z"), Some(Hibernate));
        assert_eq!(on("2026-01-12T00:00:01Z"), None);
    }

    #[test]
    fn a_shoot_in_deletion_is_left_alone() {
        let mut shoot = shoot(json!([{"start": "* * * * *"}]), json!({}));
        shoot.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
        assert_eq!(
            planned(&shoot, TRIGGER_DEADLINE, "2026-01-03T00:00:00Z"),
            Plan::default()
        );
    }

    #[test]
    fn a_failed_shoot_waits_for_an_event_after_it_was_mended() {
        let version = env!("CARGO_PKG_VERSION");
        let cases = [
            ("Failed", 3, version, None),
            ("Error", 3, version, Some(Hibernate)),
            ("Processing", 3, version, Some(Hibernate)),
            // Another spec or another program tries again anyway.
            ("Failed", 2, version, Some(Hibernate)),
            ("Failed", 3, "0.0.0", Some(Hibernate)),
        ];
        for (state, observed, version, expected) in cases {
            let status = json!({"lastOperation": {"type": "Reconcile", "state": state},
                "observedGeneration": observed, "gardener": {"id": "", "name": "", "version": version}});
            let found = planned(
                &shoot(json!([{"start": "0 20 * * *"}]), status),
                TRIGGER_DEADLINE,
                "2026-01-10T20:00:00Z",
            );
            assert_eq!(found.act, expected, "{state} {observed} {version}");
            assert_eq!(found.next, Some(at("2026-01-11T20:00:00Z")));
        }
    }

    #[test]
    fn schedules_without_events_are_never_due() {
        let never = json!([{"start": "0 0 31 2 *"}]);
        assert_eq!(
            planned(&shoot(never, json!({})), TRIGGER_DEADLINE, "2026-01-10T20:00:00Z"),
            Plan::default()
        );
        assert_eq!(
            planned(&shoot(json!([]), json!({})), TRIGGER_DEADLINE, "2026-01-10T20:00:00Z"),
            Plan::default()
        );
        let unreadable = shoot(json!([{"start": "x"}]), json!({}));
        assert!(plan(&unreadable, TRIGGER_DEADLINE, at("2026-01-10T20:00:00Z")).is_err());
    }

    /// Lets time pass from event to event and notes what is done when, in UTC.
    fn followed(schedules: &Value, from: &str, until: &str) -> Vec<String> {
        let mut shoot = shoot(schedules.clone(), triggered(from));
        let mut now = at(from);
        let mut done = Vec::new();
        while now <= at(until) {
            let found = planned(&shoot, TRIGGER_DEADLINE, &now.to_string());
            if let Some(operation) = found.act {
                shoot = apply::noted(&apply::decided(&shoot, operation), now);
                let word = if operation == Hibernate { "sleep" } else { "wake" };
                done.push(format!("{word} {}", now.strftime("%d %H:%M")));
            }
            now = found.next.unwrap();
        }
        done
    }

    #[test]
    fn berlin_sleeps_and_wakes_by_its_own_clock_around_both_changes() {
        let nights = json!([{"start": "0 20 * * *", "end": "0 7 * * *", "location": "Europe/Berlin"}]);
        assert_eq!(
            followed(&nights, "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"),
            ["sleep 28 19:00", "wake 29 05:00", "sleep 29 18:00", "wake 30 05:00"]
        );
        assert_eq!(
            followed(&nights, "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"),
            ["sleep 24 18:00", "wake 25 06:00", "sleep 25 19:00", "wake 26 06:00"]
        );
        // 02:30 does not exist on 29 March and comes twice on 25 October, as for robfig/cron.
        let early = json!([{"start": "30 2 * * *", "end": "30 3 * * *", "location": "Europe/Berlin"}]);
        assert_eq!(
            followed(&early, "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"),
            ["wake 29 01:30", "sleep 30 00:30", "wake 30 01:30"]
        );
        assert_eq!(
            followed(&early, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
            ["sleep 25 00:30", "sleep 25 01:30", "wake 25 02:30"]
        );
    }

    #[test]
    fn new_york_sleeps_and_wakes_by_its_own_clock_around_both_changes() {
        let nights = json!([{"start": "0 20 * * *", "end": "0 7 * * *", "location": "America/New_York"}]);
        assert_eq!(
            followed(&nights, "2026-03-07T12:00:00Z", "2026-03-08T23:59:00Z"),
            ["sleep 08 01:00", "wake 08 11:00"]
        );
        assert_eq!(
            followed(&nights, "2026-10-31T12:00:00Z", "2026-11-01T23:59:00Z"),
            ["sleep 01 00:00", "wake 01 12:00"]
        );
    }

    #[test]
    fn a_zone_without_summer_time_keeps_its_distance_to_utc() {
        let nights = json!([{"start": "0 20 * * *", "end": "0 7 * * *", "location": "Asia/Kolkata"}]);
        for (from, until, day) in [
            ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", ["28", "29"]),
            ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", ["24", "25"]),
        ] {
            let [first, second] = day;
            assert_eq!(
                followed(&nights, from, until),
                [format!("sleep {first} 14:30"), format!("wake {second} 01:30")]
            );
        }
    }
}
