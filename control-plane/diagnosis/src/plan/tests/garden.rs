//! What the garden alone tells: the scheduler, gardenlets, annotations, generations, deletions.

use super::*;

#[test]
fn an_annotation_that_holds_the_shoot_is_named_and_nothing_else() {
    let mut ignored = with(
        |shoot| shoot["metadata"]["annotations"] = json!({"shoot.gardener.cloud/ignore": "true"}),
        vec![object("Infrastructure", requested)],
    );
    assert_mentions(
        &only(&ignored, Cause::Ignored),
        &["shoot.gardener.cloud/ignore", "garden-dev/s"],
    );
    ignored.shoot.metadata.annotations = None;
    if let Seen::Present(seed) = &mut ignored.seed {
        let key = "shoot.gardener.cloud/emergency-stop-reconciliations".to_owned();
        seed.metadata.annotations = Some([(key, "true".to_owned())].into());
    }
    assert_mentions(&only(&ignored, Cause::Ignored), &["emergency-stop", "Seed seed"]);
}

#[test]
fn a_gardenlet_without_a_beat_stands_before_what_it_has_left_undone() {
    let mut silent = facts(|shoot| shoot["status"]["observedGeneration"] = json!(1));
    silent.gardenlet = Seen::Present(at(BEFORE));
    let blocker = only(&silent, Cause::GardenletSilent);
    assert_mentions(&blocker, &["has not renewed its lease for 300 s", "Seed seed"]);
    assert_eq!(blocker.since, Some(at(BEFORE)));

    silent.seed = Seen::Absent;
    assert_mentions(&only(&silent, Cause::SeedGone), &["its Seed seed does not exist"]);
    silent.seed = Seen::Unknown("no answer".to_owned());
    silent.gardenlet = Seen::Unknown("no answer".to_owned());
    assert_eq!(
        causes(&plan(&silent)),
        [Cause::NotObserved],
        "what is unknown is not gone"
    );
}

#[test]
fn an_unobserved_generation_is_reported_with_both_numbers() {
    let facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["observedGeneration"] = json!(1);
    });
    assert_mentions(
        &only(&facts, Cause::NotObserved),
        &["generation 2 is wanted", "looked at 1"],
    );
}

#[test]
fn a_deletion_reports_what_holds_it() {
    let unconfirmed = facts(|shoot| {
        deleted(shoot);
        shoot["metadata"]["annotations"] = Value::Null;
    });
    assert_mentions(
        &only(&unconfirmed, Cause::DeletionNotConfirmed),
        &["confirmation.gardener.cloud/deletion"],
    );

    let foreign = facts(|shoot| {
        deleted(shoot);
        shoot["metadata"]["finalizers"] = json!(["example.com/mine"]);
        shoot["status"]["lastOperation"]["state"] = json!("Succeeded");
    });
    assert_mentions(&only(&foreign, Cause::FinalizerHolds), &["example.com/mine"]);

    let left = facts(|shoot| {
        deleted(shoot);
        let text = "objects in the shoot are still there: ConfigMap a/b";
        let problem = Problem {
            hint: "look".to_owned(),
            codes: vec![ErrorCode::CleanupClusterResources],
            ..problem("Cleaning Kubernetes resources", text)
        };
        failing(shoot, "Error", problem);
    });
    let blocker = only(&left, Cause::ObjectsLeft);
    assert_mentions(&blocker, &["ConfigMap a/b"]);
    assert_eq!(blocker.tasks, ["Cleaning Kubernetes resources"]);

    let going = ExtensionFact {
        deleting: Some(at(BEFORE)),
        finalizers: vec!["example.com/mine".to_owned()],
        ..object("Worker", |reported| {
            reported.last_operation = operation("Reconcile", "Succeeded")
        })
    };
    let held = with(deleted, vec![going.clone()]);
    assert_mentions(
        &only(&held, Cause::FinalizerHolds),
        &["finalizers of others hold it: example.com/mine"],
    );
    let own = ExtensionFact {
        finalizers: vec!["extensions.gardener.cloud/worker".to_owned()],
        ..going
    };
    assert_mentions(
        &only(&with(deleted, vec![own.clone()]), Cause::ExtensionSilent),
        &["has not deleted it yet"],
    );
    let mut lying = own;
    lying.reported.last_operation = operation("Delete", "Succeeded");
    assert_mentions(
        &only(&with(deleted, vec![lying]), Cause::FinalizerHolds),
        &["still holds it by a finalizer"],
    );
}

#[test]
fn an_operation_that_was_given_up_reports_how_to_start_it_again() {
    let problem = Problem {
        hint: "name another zone".to_owned(),
        codes: vec![ErrorCode::ConfigurationProblem],
        ..problem("T", "task failed: the zone is gone")
    };
    let facts = facts(|shoot| failing(shoot, "Failed", problem));
    let blocker = only(&facts, Cause::GivenUp);
    assert_eq!(
        (blocker.class, blocker.to_do.as_str()),
        (Some("user"), "name another zone")
    );
    assert_eq!(blocker.next_try, "none before you act");
    assert_mentions(&blocker, &["operation=retry", "the zone is gone"]);
}

#[test]
fn without_the_seed_the_garden_still_reports_what_is_waited_for() {
    let wait = Wait {
        task: "Waiting until X".to_owned(),
        subject: Subject::Object(ObjectName::new("Infrastructure", Some("a"), "b")),
        reason: "not picked up".to_owned(),
        since: at(BEFORE),
    };
    let mut blind = facts(|shoot| running(shoot, "Waiting until X", vec![wait]));
    blind.in_seed = Seen::Unknown("cannot read seed.kubeconfig".to_owned());
    assert_mentions(&only(&blind, Cause::Waiting), &["Infrastructure a/b: not picked up"]);
    assert_eq!(
        plan(&blind).unknown,
        ["what is in the seed: cannot read seed.kubeconfig"]
    );
    blind.shoot = shoot(settled);
    assert_eq!(plan(&blind).state, State::Healthy);
}
