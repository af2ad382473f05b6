//! Which components have steps of their own in flows, and which share another's.

use components_hosted::{ComponentId, HostedCluster, existing};

#[test]
fn every_component_is_handled_by_exactly_one_step() {
    let handled: Vec<ComponentId> = ComponentId::with_steps().flat_map(ComponentId::members).collect();
    let mut sorted = handled.clone();
    sorted.sort();
    assert_eq!(sorted, ComponentId::ALL);
    for id in ComponentId::ALL {
        assert!(id.leader().members().any(|one| one == *id), "{id}");
        assert_eq!(id.leader().leader(), id.leader(), "{id} joins one that joins another");
    }
}

#[test]
fn what_shares_a_step_shares_place_titles_and_the_shoots_that_have_it() {
    for workerless in [false, true] {
        let cluster = HostedCluster {
            workerless,
            ..HostedCluster::default()
        };
        let existing: Vec<ComponentId> = existing(&cluster).collect();
        for id in ComponentId::ALL {
            let leader = id.leader();
            assert_eq!(existing.contains(id), existing.contains(&leader), "{id}");
            assert_eq!(id.component().place(), leader.component().place(), "{id}");
            assert_eq!(id.component().titles(), leader.component().titles(), "{id}");
        }
    }
}

#[test]
fn the_etcd_of_events_shares_the_steps_of_the_main_one() {
    let members: Vec<String> = ComponentId::EtcdMain.members().map(|id| id.to_string()).collect();
    assert_eq!(members, ["etcd-main", "etcd-events"]);
}
