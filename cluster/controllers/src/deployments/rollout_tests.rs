//! Rollouts played to their end: the plan is applied to a world in which pods come up at once or not at all.

use super::*;
use crate::deployments::Seen;
use serde_json::json;

fn deployment(replicas: i32, image: &str, strategy: serde_json::Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "annotations": {"note": "x", LAST_APPLIED: "secret"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "strategy": strategy,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
    }))
    .unwrap()
}

/// Sets as a cluster would have them: each has as many available pods as `works` allows.
struct World {
    sets: Vec<ReplicaSet>,
    works: fn(&ReplicaSet) -> bool,
    log: Vec<String>,
}

impl World {
    fn step(&mut self, deployment: &Deployment) -> bool {
        for set in &mut self.sets {
            let replicas = size(set);
            let available = if (self.works)(set) { replicas } else { 0 };
            set.status =
                Some(serde_json::from_value(json!({"replicas": replicas, "availableReplicas": available})).unwrap());
        }
        let old_pods_run = self
            .sets
            .iter()
            .any(|set| !is_made_from(set, deployment) && size(set) > 0);
        let sets = self.sets.iter().cloned().map(Arc::new).collect();
        let plan = plan(&Seen {
            deployment: Arc::new(deployment.clone()),
            sets,
            old_pods_run,
        });
        assert!(!plan.collision);
        let idle = plan.create.is_none() && plan.change.is_empty() && plan.delete.is_empty();
        self.sets.retain(|set| !plan.delete.contains(&set.name_any()));
        for (before, after) in plan.change {
            let set = self
                .sets
                .iter_mut()
                .find(|set| set.name_any() == before.name_any())
                .unwrap();
            *set = after;
        }
        self.sets.extend(plan.create);
        self.log.push(
            self.sets
                .iter()
                .map(|set| size(set).to_string())
                .collect::<Vec<_>>()
                .join("+"),
        );
        !idle
    }

    fn settle(&mut self, deployment: &Deployment) -> Vec<String> {
        self.log.clear();
        for _ in 0..50 {
            if !self.step(deployment) {
                return std::mem::take(&mut self.log);
            }
        }
        panic!("the rollout does not settle: {:?}", self.log);
    }
}

fn world(works: fn(&ReplicaSet) -> bool) -> World {
    World {
        sets: Vec::new(),
        works,
        log: Vec::new(),
    }
}

fn image(set: &ReplicaSet) -> String {
    set.spec
        .as_ref()
        .unwrap()
        .template
        .as_ref()
        .unwrap()
        .spec
        .as_ref()
        .unwrap()
        .containers[0]
        .image
        .clone()
        .unwrap()
}

#[test]
fn rollout_surges_and_shrinks_within_its_bounds_and_counts_revisions() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    let mut world = world(|_| true);
    assert_eq!(world.settle(&deployment(4, "one", rolling.clone())), ["4", "4"]);
    let log = world.settle(&deployment(4, "two", rolling.clone()));
    assert_eq!(log, ["4+1", "2+1", "2+3", "0+3", "0+4", "0+4"]);
    assert_eq!(world.sets[1].annotations()[REVISION], "2");
    assert_eq!(world.sets[1].annotations()["note"], "x");
    assert!(!world.sets[1].annotations().contains_key(LAST_APPLIED));
    // Back to the first template: its set is used again under a new revision.
    world.settle(&deployment(4, "one", rolling));
    assert_eq!(
        (world.sets.len(), world.sets[0].annotations()[REVISION].as_str()),
        (2, "3")
    );
    assert_eq!((size(&world.sets[0]), size(&world.sets[1])), (4, 0));
}

#[test]
fn broken_template_never_takes_away_more_pods_than_may_be_unavailable() {
    let rolling = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let mut world = world(|set| image(set) != "broken");
    world.settle(&deployment(3, "good", rolling.clone()));
    assert_eq!(world.settle(&deployment(3, "broken", rolling.clone())), ["3+1", "3+1"]);
    // A third template replaces the broken pods first.
    let log = world.settle(&deployment(3, "better", rolling));
    assert_eq!(log.last().map(String::as_str), Some("0+0+3"));
    assert!(log.iter().all(|line| !line.starts_with("2+1")), "{log:?}");
}

#[test]
fn deployments_scale_to_zero_and_back() {
    let mut world = world(|_| true);
    world.settle(&deployment(3, "one", json!({})));
    assert_eq!(world.settle(&deployment(0, "one", json!({}))), ["0", "0"]);
    assert_eq!(world.settle(&deployment(2, "one", json!({}))), ["2", "2"]);
    assert_eq!(world.sets[0].annotations()[DESIRED], "2");
    assert_eq!(
        world
            .settle(&deployment(0, "two", json!({})))
            .last()
            .map(String::as_str),
        Some("0+0")
    );
}

#[test]
fn recreate_waits_until_the_last_old_pod_is_gone() {
    let recreate = json!({"type": "Recreate"});
    let mut world = world(|_| true);
    world.settle(&deployment(2, "one", recreate.clone()));
    assert_eq!(world.settle(&deployment(2, "two", recreate)), ["0", "0+2", "0+2"]);
}

#[test]
fn paused_deployment_is_scaled_but_not_rolled() {
    let mut world = world(|_| true);
    world.settle(&deployment(2, "one", json!({})));
    let mut paused = deployment(3, "two", json!({}));
    paused.spec.as_mut().unwrap().paused = Some(true);
    assert_eq!(world.settle(&paused), ["3", "3"]);
    assert_eq!(image(&world.sets[0]), "one");
}

#[test]
fn history_retains_as_many_empty_sets_as_requested() {
    let mut world = world(|_| true);
    for image in ["1", "2", "3", "4", "5"] {
        let mut deployment = deployment(1, image, json!({}));
        deployment.spec.as_mut().unwrap().revision_history_limit = Some(2);
        world.settle(&deployment);
    }
    let left: Vec<String> = world.sets.iter().map(image).collect();
    assert_eq!(left, ["3", "4", "5"]);
}

#[test]
fn percentages_round_surge_up_and_unavailable_down() {
    let text = |text: &str| IntOrString::String(text.to_owned());
    assert_eq!((share(&text("25%"), 3, true), share(&text("25%"), 3, false)), (1, 0));
    assert_eq!(
        (share(&text("100%"), 3, false), share(&text("nonsense"), 3, true)),
        (3, 0)
    );
    assert_eq!(share(&IntOrString::Int(-1), 3, true), 0);
    let spec = deployment(3, "x", json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}))
        .spec
        .unwrap();
    assert_eq!(
        Bounds::of(&spec),
        Bounds {
            surge: 0,
            unavailable: 1
        }
    );
}

#[test]
fn lagging_status_does_not_let_more_pods_go() {
    let rolling = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let mut world = world(|_| true);
    world.settle(&deployment(4, "one", rolling.clone()));
    let new = deployment(4, "two", rolling);
    for _ in 0..3 {
        world.step(&new);
    }
    assert_eq!(world.log.last().map(String::as_str), Some("2+3"));
    // The old set has been made smaller, its status still shows four pods, and no new pod has come up.
    world.sets[0].status = serde_json::from_value(json!({"replicas": 4, "availableReplicas": 4})).unwrap();
    world.sets[1].status = serde_json::from_value(json!({"replicas": 3, "availableReplicas": 0})).unwrap();
    let sets = world.sets.iter().cloned().map(Arc::new).collect();
    let plan = plan(&Seen {
        deployment: Arc::new(new),
        sets,
        old_pods_run: true,
    });
    let old = plan
        .change
        .iter()
        .find(|(before, _)| before.name_any() == world.sets[0].name_any());
    assert!(old.is_none(), "{old:?}");
}
