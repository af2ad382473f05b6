//! Shoots without seed: the scheduler's reasons as data, and without them.

use api_meta::{SeedMismatch, Unscheduled};

use super::*;

const SENTENCE: &str = "Failed to schedule Shoot: 0 of 2 seeds fit: far is in region \"x\"; it is far; near is full";

/// A Shoot that the scheduler has looked at, with or without data.
fn unplaced(why: Option<Unscheduled>) -> Facts {
    let mut facts = facts(|shoot| {
        shoot["spec"]["seedName"] = Value::Null;
        shoot["status"] = json!({"lastOperation": {"type": "Create", "state": "Pending", "description": SENTENCE, "lastUpdateTime": BEFORE}});
        if let Some(why) = why {
            let report = OperationReport {
                unscheduled: Some(why),
                ..OperationReport::default()
            };
            put(shoot, report);
        }
    });
    facts.seed = Seen::Absent;
    facts
}

fn none_fits(reasons: impl IntoIterator<Item = (&'static str, SeedMismatch)>) -> Unscheduled {
    let reasons = reasons.into_iter().map(|(seed, reason)| (seed.to_owned(), reason));
    Unscheduled::none_fits(reasons.collect())
}

fn full() -> SeedMismatch {
    SeedMismatch::Full { shoots: 2, room: 2 }
}

#[test]
fn a_shoot_that_fits_no_seed_names_each_seed_with_its_whole_reason() {
    let far = SeedMismatch::Taint {
        key: "far; near is full: 1".to_owned(),
    };
    let mut facts = unplaced(Some(none_fits([("far", far), ("near", full())])));
    let blocker = only(&facts, Cause::NotScheduled);
    assert_eq!(blocker.message, "it has no seed: 0 of 2 seeds fit");
    assert_eq!(
        blocker.details,
        [
            "near is full: 2 of 2 shoots",
            "far has taint \"far; near is full: 1\", which the shoot does not tolerate"
        ]
    );
    assert_eq!(
        blocker.to_do,
        "delete a Shoot of Seed near, or let its gardenlet take more (status.allocatable), or add a Seed that fits"
    );
    assert_eq!((blocker.since, blocker.class), (Some(at(BEFORE)), Some("dependency")));
    assert_eq!(objects(&blocker), ["Shoot garden-dev/s"]);

    facts.shoot.status = None;
    facts.shoot.spec.scheduler_name = Some("mine".to_owned());
    assert_mentions(
        &only(&facts, Cause::NotScheduled),
        &["has not reported anything", "scheduler \"mine\""],
    );
}

#[test]
fn what_is_missing_is_named_as_an_object_and_no_seeds_are_none() {
    let missing = ObjectName::new("CloudProfile", None, "p");
    let blocker = only(&unplaced(Some(Unscheduled::Missing(missing))), Cause::NotScheduled);
    assert_eq!(blocker.message, "it has no seed: CloudProfile \"p\" does not exist");
    assert_eq!(objects(&blocker), ["Shoot garden-dev/s", "CloudProfile p"]);
    let blocker = only(&unplaced(Some(none_fits([]))), Cause::NotScheduled);
    assert_mentions(&blocker, &["there are no seeds", "add a Seed"]);
}

#[test]
fn hundreds_of_seeds_with_one_reason_are_one_line() {
    let names: Vec<&'static str> = (0..300).map(|seed| &*format!("s{seed:03}").leak()).collect();
    let blocker = only(
        &unplaced(Some(none_fits(names.into_iter().map(|seed| (seed, full()))))),
        Cause::NotScheduled,
    );
    assert_eq!(blocker.details.len(), 1);
    assert_mentions(&blocker, &["0 of 300 seeds fit", "and 292 more is full"]);
}

#[test]
fn without_data_about_the_status_as_it_is_the_sentence_is_shown_whole() {
    let mut damaged = unplaced(Some(none_fits([("near", full())])));
    damaged.shoot.metadata.annotations = Some(BTreeMap::from([(
        "status.orangery.dev/operation-report".to_owned(),
        "{\"form\":1".to_owned(),
    )]));
    let mut stale = unplaced(Some(none_fits([("near", full())])));
    let last = stale.shoot.status.as_mut().unwrap().last_operation.as_mut().unwrap();
    last.last_update_time = Time(at(NOW));
    for facts in [unplaced(None), damaged, stale] {
        let blocker = only(&facts, Cause::NotScheduled);
        assert_eq!(blocker.message, format!("it has no seed: {SENTENCE}"));
        assert_eq!((blocker.details.len(), blocker.class), (0, Some("dependency")));
        assert_mentions(&blocker, &["do what the reason requires"]);
    }
}
