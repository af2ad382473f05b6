//! The order of tasks beside the one that gardener/gardener v1.150 has (`pkg/gardenlet/controller/shoot/shoot/flow_*.go`), as
//! data: `LATER < EARLIER` in `upstream-order.txt`, a line each, without what follows from others. Tasks that do not exist
//! here are looked through, but for two, whose order would only delay machines: "Scaling down cluster autoscaler" and those that
//! wait for kube-controller-manager to renew ServiceAccounts and authorities.

use std::collections::BTreeMap;

use base_flow::{Flow, Name};
use control_plane_shoot_flow::{Goal, ShootFacts, ShootTask};

use crate::{HIBERNATE, STANDARD, TWO_POOLS, WIDEST, WORKERLESS, deletion, flow};

const UPSTREAM: &str = include_str!("upstream-order.txt");

/// Names of upstream's tasks while a shoot hibernates, where they differ.
const HIBERNATING: &[(&str, &str)] = &[
    (
        "Deploying extension resources after kube-apiserver",
        "Hibernating extension resources before kube-apiserver hibernation",
    ),
    (
        "Waiting until extension resources handled after kube-apiserver are ready",
        "Waiting until extension resources hibernated before kube-apiserver hibernation are ready",
    ),
];

type Pair = (&'static str, &'static str);

fn section(title: &str) -> Vec<Pair> {
    let lines = UPSTREAM
        .lines()
        .skip_while(|line| *line != format!("# {title}"))
        .skip(1);
    let pairs = lines
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split_once(" < ").expect("LATER < EARLIER"));
    pairs.collect()
}

/// Pairs of names, later and earlier, that hold for a shoot with these facts on its way to this goal.
pub(crate) fn upstream(facts: &ShootFacts, goal: Goal) -> Vec<Pair> {
    if let Goal::Delete(_) = goal {
        return section("delete");
    }
    let mut pairs = section("reconcile");
    if !facts.nodes_cidr_known {
        pairs.extend(section("nodes unknown"));
    }
    let named = |name: &'static str| match goal {
        Goal::Hibernate(_) => HIBERNATING
            .iter()
            .find(|(awake, _)| *awake == name)
            .map_or(name, |(_, asleep)| asleep),
        _ => name,
    };
    pairs
        .into_iter()
        .map(|(later, earlier)| (named(later), named(earlier)))
        .collect()
}

/// Pairs that a flow with both tasks does not have in this order.
pub(crate) fn violated(flow: &Flow<ShootTask>, pairs: &[Pair]) -> Vec<String> {
    let tasks: BTreeMap<&str, ShootTask> = flow.steps().map(|step| (step.task().name(), step.task())).collect();
    let violates = |(later, earlier): &&Pair| {
        let both = tasks.get(later).zip(tasks.get(earlier));
        both.is_some_and(|(later, earlier)| !flow.precedes(*earlier, *later))
    };
    pairs
        .iter()
        .filter(violates)
        .map(|(later, earlier)| format!("{later} < {earlier}"))
        .collect()
}

#[test]
fn tasks_come_in_upstreams_order() {
    for facts in [STANDARD, WORKERLESS, TWO_POOLS, WIDEST] {
        for goal in [Goal::Reconcile, HIBERNATE, Goal::Wake, deletion()] {
            let pairs = upstream(&facts, goal);
            assert!(pairs.len() > 50, "{}", pairs.len());
            assert_eq!(violated(&flow(facts, goal), &pairs), Vec::<String>::new(), "{goal:?}");
        }
    }
}

#[test]
fn every_task_of_upstreams_order_is_one_of_ours() {
    let flows = [Goal::Reconcile, HIBERNATE, deletion()].map(|goal| flow(WIDEST, goal));
    let ours: Vec<&str> = flows
        .iter()
        .flat_map(Flow::steps)
        .map(|step| step.task().name())
        .collect();
    for (later, earlier) in [section("reconcile"), section("delete"), section("nodes unknown")].concat() {
        for name in [later, earlier] {
            assert!(ours.contains(&name), "{name:?} is no task of any flow");
        }
    }
}
