//! The graph's checks, its order and its printed forms.

use std::collections::BTreeSet;

use base_flow::{After, Flow, FlowBuilder, FlowError, Name, Progress, group, sync_point};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Namespace,
    Secrets,
    Network,
    WaitNetwork,
    Server,
    Twin,
}

impl Name for Task {
    fn name(&self) -> &'static str {
        match self {
            Task::Namespace => "Deploying namespace",
            Task::Secrets => "Initializing \"secrets\"",
            Task::Network => "Deploying network",
            Task::WaitNetwork => "Waiting until network is ready",
            Task::Server => "Deploying server",
            Task::Twin => "Deploying server",
        }
    }
}

fn sample(workerless: bool) -> FlowBuilder<Task> {
    let mut flow = Flow::builder("sample flow");
    flow.group("base");
    flow.group("network").after([group("base")]);
    flow.task(Task::Namespace).in_group("base");
    flow.task(Task::Secrets).in_group("base").after([Task::Namespace]);
    flow.task(Task::Network)
        .in_group("network")
        .skip_if(workerless, "workerless")
        .skip_if(true, "never kept");
    flow.task(Task::WaitNetwork).in_group("network").after([Task::Network]);
    flow.sync_point("ready", [group("network"), Task::Secrets.into()]);
    flow.task(Task::Server).after([sync_point("ready")]);
    flow
}

#[test]
fn printed_flow_and_graph_match_their_goldens() {
    let flow = sample(true).build().unwrap();
    golden("sample.txt", &flow.to_string());
    golden("sample.dot", &flow.dot());
}

#[test]
fn order_goes_through_groups_sync_points_and_skipped_tasks() {
    let flow = sample(true).build().unwrap();
    assert!(flow.precedes(Task::Namespace, Task::Server));
    assert!(flow.precedes(Task::Network, Task::WaitNetwork));
    assert!(
        flow.precedes(Task::Secrets, Task::Network),
        "a group's own edges hold for each of its tasks"
    );
    assert!(!flow.precedes(Task::Server, Task::Namespace));
    assert_eq!(
        flow.step(Task::Network).unwrap().skipped(),
        Some("workerless"),
        "the first reason is kept"
    );
}

#[test]
fn work_looks_through_what_is_skipped_and_leaves_out_what_follows_anyway() {
    let work = sample(false).build().unwrap().work();
    let expected = [
        (Task::Namespace, vec![]),
        (Task::Secrets, vec![Task::Namespace]),
        (Task::WaitNetwork, vec![Task::Secrets]),
        (Task::Server, vec![Task::WaitNetwork]),
    ];
    assert_eq!(work, expected);
}

#[test]
fn mistakes_in_a_graph_are_named() {
    let mut twice = sample(false);
    twice.task(Task::Server);
    assert_eq!(
        twice.build().unwrap_err(),
        FlowError::Duplicate("Deploying server".into())
    );

    let mut same_name = sample(false);
    same_name.task(Task::Twin);
    assert_eq!(
        same_name.build().unwrap_err(),
        FlowError::Duplicate("Deploying server".into())
    );

    let mut unknown = Flow::builder("f");
    unknown.task(Task::Server).after([Task::Network]);
    assert_eq!(
        unknown.build().unwrap_err().to_string(),
        "Deploying server waits for Deploying network, which is not in the flow"
    );

    let mut no_group = Flow::builder("f");
    no_group.task(Task::Server).after([group("nowhere")]);
    assert!(matches!(no_group.build(), Err(FlowError::Unknown { missing, .. }) if missing == "[nowhere]"));

    let mut stray = Flow::builder("f");
    stray.task(Task::Server).in_group("nowhere");
    assert!(matches!(stray.build(), Err(FlowError::Unknown { missing, .. }) if missing == "[nowhere]"));

    let mut empty: FlowBuilder<Task> = Flow::builder("f");
    empty.group("empty");
    assert_eq!(empty.build().unwrap_err(), FlowError::EmptyGroup("[empty]".into()));

    let mut groups: FlowBuilder<Task> = Flow::builder("f");
    groups.group("g");
    groups.group("g");
    assert_eq!(groups.build().unwrap_err(), FlowError::Duplicate("[g]".into()));
}

#[test]
fn a_cycle_is_shown_as_the_way_round() {
    let mut flow = Flow::builder("f");
    flow.group("g").after([Task::Server]);
    flow.task(Task::Namespace);
    flow.task(Task::Network).in_group("g").after([Task::Namespace]);
    flow.sync_point("meet", [group("g")]);
    flow.task(Task::Server).after([sync_point("meet")]);
    assert_eq!(
        flow.build().unwrap_err().to_string(),
        "tasks wait for each other: Deploying network -> Deploying server -> (meet) -> Deploying network"
    );
    let mut alone = Flow::builder("f");
    alone.task(Task::Server).after([Task::Server]);
    assert!(matches!(alone.build(), Err(FlowError::Cycle(way)) if way.len() == 2));
}

#[test]
fn progress_leaves_skipped_tasks_out_of_the_total() {
    let flow = sample(true).build().unwrap();
    let mut progress = Progress::new(&flow);
    assert_eq!(
        (progress.percent(), progress.description()),
        (0, "Starting sample flow".into())
    );
    progress.start(Task::Server);
    progress.start(Task::Namespace);
    assert_eq!(progress.description(), "Deploying namespace, Deploying server");
    progress.succeed(Task::Namespace);
    assert_eq!(
        (progress.percent(), progress.description()),
        (25, "Deploying server".into())
    );
    progress.fail(Task::Server);
    assert_eq!(progress.percent(), 25);
    progress.finish();
    assert_eq!(progress.description(), "sample flow finished");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered(u8);

impl Name for Numbered {
    fn name(&self) -> &'static str {
        // Twelve names are enough for the graphs below.
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][usize::from(self.0)]
    }
}

proptest! {
    #[test]
    fn a_graph_builds_exactly_when_it_has_no_cycle(edges in prop::collection::btree_set((0u8..8, 0u8..8), 0..14)) {
        let mut flow = Flow::builder("random");
        for task in 0..8 {
            let after: Vec<After<Numbered>> =
                edges.iter().filter(|(_, to)| *to == task).map(|(from, _)| Numbered(*from).into()).collect();
            flow.task(Numbered(task)).after(after);
        }
        // Reachability by repeated multiplication: an independent way to see cycles.
        let mut reach: BTreeSet<(u8, u8)> = edges.clone();
        for _ in 0..8 {
            let more: Vec<(u8, u8)> = reach.iter()
                .flat_map(|(a, b)| edges.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (*a, *d)))
                .collect();
            reach.extend(more);
        }
        let cyclic = (0..8).any(|task| reach.contains(&(task, task)));
        match flow.build() {
            Ok(flow) => {
                prop_assert!(!cyclic);
                for (from, to) in &reach {
                    prop_assert!(flow.precedes(Numbered(*from), Numbered(*to)));
                }
            }
            Err(error) => prop_assert!(cyclic, "{error}"),
        }
    }
}

fn golden(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, actual).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, actual, "{name} differs; UPDATE_GOLDENS=1 rewrites it");
}
