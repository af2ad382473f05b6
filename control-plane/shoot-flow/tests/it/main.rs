//! Printed flows of each flavour of shoot, and the order of extension kinds in them.

mod picture;

use base_flow::Flow;
use control_plane_shoot_flow::{DeletionFacts, ExtensionTimeouts, Goal, ShootFacts, ShootTask as Task, shoot_flow};

const STANDARD: ShootFacts = ShootFacts {
    workerless: false,
    has_credentials: true,
    has_backup: true,
    has_internal_domain: true,
    has_external_domain: true,
    nodes_cidr_known: true,
    skip_readiness: false,
    extension_timeouts: ExtensionTimeouts::STANDARD,
};
const WORKERLESS: ShootFacts = ShootFacts {
    workerless: true,
    has_credentials: false,
    ..STANDARD
};
/// Two pools do not change the graph (pools are objects inside a task); what does here: no nodes network of its own,
/// no backup, no domain of its own.
const TWO_POOLS: ShootFacts = ShootFacts {
    nodes_cidr_known: false,
    has_backup: false,
    has_external_domain: false,
    ..STANDARD
};

const ALL_THERE: DeletionFacts = DeletionFacts {
    namespace_active: true,
    shoot_cleanup: true,
    control_plane_needed: true,
};

fn deletion() -> Goal {
    Goal::Delete(ALL_THERE)
}

fn flow(facts: ShootFacts, goal: Goal) -> Flow<Task> {
    shoot_flow(&facts, &goal).expect("the graph is sound")
}

#[test]
fn printed_flows_match_their_goldens() {
    for (name, facts) in [
        ("standard", STANDARD),
        ("workerless", WORKERLESS),
        ("two-pools", TWO_POOLS),
    ] {
        golden(
            &format!("reconcile-{name}.txt"),
            &flow(facts, Goal::Reconcile).to_string(),
        );
        golden(&format!("delete-{name}.txt"), &flow(facts, deletion()).to_string());
    }
    let nothing_left = Goal::Delete(DeletionFacts::default());
    golden("delete-nothing-left.txt", &flow(STANDARD, nothing_left).to_string());
    // As a deletion finds it that was interrupted late.
    let api_gone = Goal::Delete(DeletionFacts {
        namespace_active: true,
        ..DeletionFacts::default()
    });
    golden("delete-api-gone.txt", &flow(STANDARD, api_gone).to_string());
}

#[test]
fn the_graph_is_sound_whatever_the_facts() {
    for bits in 0..1u32 << 10 {
        let bit = |index: u32| bits & (1 << index) != 0;
        let facts = ShootFacts {
            workerless: bit(0),
            has_credentials: bit(1),
            has_backup: bit(2),
            has_internal_domain: bit(3),
            has_external_domain: bit(4),
            nodes_cidr_known: bit(5),
            skip_readiness: bit(6),
            extension_timeouts: ExtensionTimeouts::STANDARD,
        };
        let there = DeletionFacts {
            namespace_active: bit(7),
            shoot_cleanup: bit(8),
            control_plane_needed: bit(9),
        };
        shoot_flow(&facts, &Goal::Reconcile).unwrap();
        shoot_flow(&facts, &Goal::Delete(there)).unwrap();
    }
}

/// Rows of the upstream flow page, section 1 with the groups of section 5: left is ready before right begins.
const RECONCILE_ORDER: &[(Task, Task)] = &[
    (Task::WaitInfrastructure, Task::DeployExtensionsBeforeApiServer),
    (Task::WaitInfrastructure, Task::DeployControlPlane),
    (Task::WaitInfrastructure, Task::DeployOsConfigs),
    (Task::WaitInfrastructure, Task::DeployNetwork),
    (Task::WaitInfrastructure, Task::ConfigureWorkers),
    (Task::WaitApiServerService, Task::DeployInternalDnsRecord),
    (Task::WaitApiServerService, Task::DeployExternalDnsRecord),
    (Task::WaitBackupEntry, Task::DeployEtcd),
    (Task::WaitEtcd, Task::DeployApiServer),
    (Task::WaitExtensionsBeforeApiServer, Task::DeployApiServer),
    (Task::WaitApiServer, Task::DeployResourceManager),
    (Task::WaitResourceManager, Task::DeployControlPlane),
    (Task::DeployInternalDnsRecord, Task::InitializeShootConnection),
    (Task::InitializeShootConnection, Task::DeployExtensionsAfterApiServer),
    (Task::WaitControlPlane, Task::DeployOsConfigs),
    (Task::WaitControlPlane, Task::DeployNetwork),
    (Task::WaitExtensionsAfterApiServer, Task::DeployOsConfigs),
    (Task::WaitExtensionsAfterApiServer, Task::DeployNetwork),
    (Task::WaitOsConfigs, Task::DeployNodeAgent),
    (Task::WaitOsConfigs, Task::DeployMachineControllers),
    (Task::WaitOsConfigs, Task::ConfigureWorkers),
    (Task::DeployNodeAgent, Task::ConfigureWorkers),
    (Task::DeployMachineControllers, Task::ConfigureWorkers),
    (Task::DeployShootSystem, Task::ConfigureWorkers),
    (Task::WaitMachineDeployments, Task::DeployExtensionsAfterWorkers),
    (Task::WaitMachineDeployments, Task::WaitWorkers),
    (Task::InitializeShootConnection, Task::DeleteStaleExtensions),
];

/// The same of section 2.
const DELETE_ORDER: &[(Task, Task)] = &[
    (Task::WaitApiServerForDeletion, Task::InitializeShootConnection),
    (Task::WaitRedeployedControlPlane, Task::CleanKubernetesResources),
    (Task::WaitControllerManagerActive, Task::CleanKubernetesResources),
    (Task::CleanKubernetesResources, Task::DestroyNetwork),
    (Task::CleanKubernetesResources, Task::DestroyWorkers),
    (Task::DeployMachineControllers, Task::DestroyWorkers),
    (Task::WaitWorkersDestroyed, Task::DeleteMachineControllers),
    (Task::WaitWorkersDestroyed, Task::DeleteOsConfigs),
    (Task::WaitWorkersDestroyed, Task::DeleteManagedResources),
    (Task::WaitOsConfigsDeleted, Task::DeleteExtensionsBeforeApiServer),
    (Task::WaitManagedResourcesDeleted, Task::DeleteExtensionsBeforeApiServer),
    (Task::WaitExtensionsBeforeApiServerDeleted, Task::DestroyControlPlane),
    (Task::WaitStaleExtensionsDeleted, Task::DestroyControlPlane),
    (Task::WaitNetworkDestroyed, Task::DestroyControlPlane),
    (Task::WaitWorkersDestroyed, Task::DestroyControlPlane),
    (Task::WaitControlPlaneDestroyed, Task::DestroyInfrastructure),
    (Task::WaitControlPlaneDestroyed, Task::DeleteApiServer),
    (Task::WaitApiServerDeleted, Task::DeleteExtensionsAfterApiServer),
    (Task::WaitApiServerDeleted, Task::DestroyExternalDnsRecord),
    (Task::WaitInfrastructureDestroyed, Task::DestroyInternalDnsRecord),
    (
        Task::WaitExtensionsAfterApiServerDeleted,
        Task::DestroyInternalDnsRecord,
    ),
    (Task::WaitInfrastructureDestroyed, Task::DestroyEtcd),
    (Task::WaitAllExtensionsDeleted, Task::DestroyEtcd),
    (Task::WaitEtcdDestroyed, Task::DeleteNamespace),
    (Task::DestroyInternalDnsRecord, Task::DeleteNamespace),
];

/// What must not wait for each other: a failing one would hold the other back.
const INDEPENDENT: &[(Task, Task)] = &[
    (Task::WaitInfrastructure, Task::DeployBackupEntry),
    (Task::WaitInfrastructure, Task::DeployEtcd),
    (Task::WaitInfrastructure, Task::DeployInternalDnsRecord),
    (Task::WaitNetwork, Task::ConfigureWorkers),
    (Task::WaitWorkers, Task::DeployExtensionsAfterWorkers),
    (Task::WaitShootSystem, Task::ConfigureWorkers),
    (Task::DeployExternalDnsRecord, Task::InitializeShootConnection),
];

#[test]
fn extension_kinds_come_in_upstream_order() {
    for facts in [STANDARD, WORKERLESS, TWO_POOLS] {
        let reconcile = flow(facts, Goal::Reconcile);
        for (earlier, later) in RECONCILE_ORDER {
            assert!(
                reconcile.precedes(*earlier, *later),
                "reconcile: {earlier:?} must come before {later:?}"
            );
        }
        let delete = flow(facts, deletion());
        for (earlier, later) in DELETE_ORDER {
            assert!(
                delete.precedes(*earlier, *later),
                "delete: {earlier:?} must come before {later:?}"
            );
        }
    }
}

#[test]
fn the_api_server_waits_for_the_infrastructure_only_while_the_nodes_network_is_unknown() {
    let order = (Task::WaitInfrastructure, Task::DeployApiServerService);
    assert!(!flow(STANDARD, Goal::Reconcile).precedes(order.0, order.1));
    assert!(flow(TWO_POOLS, Goal::Reconcile).precedes(order.0, order.1));
}

#[test]
fn branches_that_can_go_on_alone_are_not_tied_together() {
    let reconcile = flow(STANDARD, Goal::Reconcile);
    for (one, other) in INDEPENDENT {
        assert!(!reconcile.precedes(*one, *other), "{other:?} must not wait for {one:?}");
    }
}

#[test]
fn every_task_is_used_and_every_one_is_bounded() {
    let flows = [flow(STANDARD, Goal::Reconcile), flow(STANDARD, deletion())];
    for task in Task::ALL {
        assert!(
            flows.iter().any(|flow| flow.step(*task).is_some()),
            "{task:?} is in no flow"
        );
    }
    for step in flows.iter().flat_map(Flow::steps) {
        let settings = step.settings();
        assert!(settings.timeout.is_some(), "{:?} has no time-out", step.task());
        assert!(settings.retry.is_some(), "{:?} is never tried again", step.task());
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
