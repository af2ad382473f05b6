//! Flows without one of their edges. Each must be noticed: by the slots, if the edge carries data, or by upstream's order.

use std::collections::BTreeSet;

use base_flow::Node;
use components_hosted::{ComponentId, Place};
use control_plane_shoot_flow::{Goal, ShootTask, check_slots};

use crate::order::{upstream, violated};
use crate::{HIBERNATE, STANDARD, TWO_POOLS, WIDEST, WORKERLESS, deletion, flow};

/// Edges, later and earlier, that upstream does not have and that carry no data. Why they are there stands at them.
const OWN: &[(&str, &str)] = &[
    (
        "Hibernating control plane",
        "Deleting stale container runtime resources",
    ),
    ("Hibernating control plane", "Deleting stale extension resources"),
    ("Hibernating control plane", "Deploying vpn-seed-server"),
    ("Hibernating control plane", "Scaling down machine-controller-manager"),
    (
        "Hibernating control plane",
        "Waiting until container runtime resources are ready",
    ),
    (
        "Waiting until vpn-shoot system component is ready",
        "Waiting until worker pools have been reconciled",
    ),
    (
        "Waiting until worker pools have been reconciled",
        "Waiting until kube-controller-manager reports readiness",
    ),
];

fn title(node: Node<ShootTask>) -> &'static str {
    match node {
        Node::Task(task) => base_flow::Name::name(&task),
        Node::SyncPoint(name) => name,
    }
}

#[test]
fn a_flow_without_one_of_its_edges_is_noticed() {
    let (mut edges, mut implied, mut by_slots, mut by_order) = (0, 0, 0, 0);
    let mut unnoticed = BTreeSet::new();
    for facts in [STANDARD, WORKERLESS, TWO_POOLS, WIDEST] {
        for goal in [Goal::Reconcile, HIBERNATE, Goal::Wake, deletion()] {
            let whole = flow(facts, goal);
            let (work, pairs) = (whole.work(), upstream(&facts, goal));
            for (later, before) in whole.edges() {
                for earlier in before {
                    edges += 1;
                    let mutant = whole.without(*earlier, *later);
                    if mutant.work() == work {
                        implied += 1;
                        continue;
                    }
                    let slots = check_slots(&mutant).is_err();
                    let order = !violated(&mutant, &pairs).is_empty();
                    by_slots += usize::from(slots);
                    by_order += usize::from(order);
                    if !slots && !order {
                        unnoticed.insert((title(*later), title(*earlier)));
                    }
                }
            }
        }
    }
    println!(
        "{edges} edges, {implied} follow from others or are between skipped tasks; noticed by slots {by_slots}, by order {by_order}"
    );
    // The table of components makes these edges alike for all of them: that one is there shows that the others are.
    let of_table: Vec<_> = ComponentId::with_steps()
        .map(ComponentId::component)
        .filter(|component| matches!(component.place(), Place::ControlPlane { .. }))
        .flat_map(|component| [component.titles().deploy, component.titles().destroy])
        .collect();
    unnoticed.retain(|(step, _)| !of_table.contains(step));
    let expected: BTreeSet<_> = OWN.iter().copied().collect();
    assert_eq!(unnoticed, expected);
}
