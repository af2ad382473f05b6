//! Printed flows of each flavour of shoot, the order of their tasks beside upstream's, and what carries data in them.

mod mutants;
mod order;
mod picture;

use base_flow::Flow;
use components_hosted::ComponentId;
use control_plane_shoot_flow::{
    DeletionFacts, ExtensionTimeouts, ExtensionVerb, Goal, HibernationFacts, Kind, Managed, Point, ShootFacts,
    ShootFlowError, ShootTask, Single, Slot, Step, Tunnel, Verb, Way, shoot_flow,
};

const STANDARD: ShootFacts = ShootFacts {
    workerless: false,
    has_credentials: true,
    has_backup: true,
    has_internal_domain: true,
    has_external_domain: true,
    nodes_cidr_known: true,
    skip_readiness: false,
    restart_requested: false,
    tunnel: Tunnel::None,
    extension_timeouts: ExtensionTimeouts::STANDARD,
};
const TUNNEL: ShootFacts = ShootFacts {
    tunnel: Tunnel::Wanted,
    ..STANDARD
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
/// Everything that a flow can have.
const WIDEST: ShootFacts = ShootFacts {
    nodes_cidr_known: false,
    restart_requested: true,
    tunnel: Tunnel::Wanted,
    ..STANDARD
};

const ALL_THERE: DeletionFacts = DeletionFacts {
    namespace_active: true,
    shoot_cleanup: true,
    control_plane_needed: true,
};

const HIBERNATE: Goal = Goal::Hibernate(HibernationFacts { api_server_runs: true });
/// The goal of a shoot that is hibernated already, or was created so.
const ASLEEP: Goal = Goal::Hibernate(HibernationFacts { api_server_runs: false });

fn deletion() -> Goal {
    Goal::Delete(ALL_THERE)
}

fn flow(facts: ShootFacts, goal: Goal) -> Flow<ShootTask> {
    shoot_flow(&facts, &goal).expect("the graph is sound")
}

/// A task of the flow to a goal.
fn on(goal: Goal) -> impl Fn(Step) -> ShootTask {
    let way = goal.way();
    move |step| ShootTask { way, step }
}

#[test]
fn printed_flows_match_their_goldens() {
    let flavours = [
        ("standard", STANDARD),
        ("workerless", WORKERLESS),
        ("two-pools", TWO_POOLS),
        ("tunnel", TUNNEL),
    ];
    for (name, facts) in flavours {
        for (way, goal) in [
            ("reconcile", Goal::Reconcile),
            ("hibernate", HIBERNATE),
            ("wake", Goal::Wake),
            ("delete", deletion()),
        ] {
            golden(&format!("{way}-{name}.txt"), &flow(facts, goal).to_string());
        }
        golden(&format!("asleep-{name}.txt"), &flow(facts, ASLEEP).to_string());
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

/// A flow is refused if its graph is none, and if a task reads what no task before it gives.
#[test]
fn every_combination_of_facts_and_goals_makes_a_sound_flow() {
    let tunnels = [Tunnel::None, Tunnel::Wanted, Tunnel::Leftover];
    let combinations = tunnels
        .into_iter()
        .flat_map(|tunnel| (0..1u32 << 8).map(move |bits| (tunnel, bits)));
    for (tunnel, bits) in combinations {
        let bit = |index: u32| bits & (1 << index) != 0;
        let facts = ShootFacts {
            workerless: bit(0),
            has_credentials: bit(1),
            has_backup: bit(2),
            has_internal_domain: bit(3),
            has_external_domain: bit(4),
            nodes_cidr_known: bit(5),
            skip_readiness: bit(6),
            restart_requested: bit(7),
            tunnel,
            extension_timeouts: ExtensionTimeouts::STANDARD,
        };
        for goal in [Goal::Reconcile, HIBERNATE, ASLEEP, Goal::Wake] {
            shoot_flow(&facts, &goal).unwrap();
        }
        for there in 0..1u32 << 3 {
            let there = DeletionFacts {
                namespace_active: there & 1 != 0,
                // There is something to clean only in a namespace that is there.
                shoot_cleanup: there & 3 == 3,
                control_plane_needed: there & 4 != 0,
            };
            shoot_flow(&facts, &Goal::Delete(there)).unwrap();
        }
    }
}

#[test]
fn goals_without_a_flow_are_refused_by_name() {
    for goal in [Goal::Migrate, Goal::Restore, Goal::ForceDelete] {
        let refused = shoot_flow(&STANDARD, &goal).unwrap_err();
        assert_eq!(refused, ShootFlowError::NotYet(goal.way()));
    }
}

#[test]
fn hibernation_and_waking_request_a_reconcile_of_extensions() {
    let verbs = [
        Goal::Reconcile,
        HIBERNATE,
        Goal::Wake,
        Goal::Restore,
        Goal::Migrate,
        deletion(),
    ]
    .map(|goal| goal.way().verb());
    use ExtensionVerb::{Delete, Migrate, Reconcile, Restore};
    assert_eq!(verbs, [Reconcile, Reconcile, Reconcile, Restore, Migrate, Delete]);
}

/// Sentences of the seed document on registrations: "during shoot hibernation the opposite rule is applied".
#[test]
fn hibernation_handles_extensions_in_the_opposite_order() {
    let before = Step::Extensions(Point::BeforeApiServer, Verb::Wait);
    let after = Step::Extensions(Point::AfterApiServer, Verb::Deploy);
    let api_server = Step::Component(ComponentId::ApiServer, Verb::Wait);
    for goal in [Goal::Reconcile, Goal::Wake] {
        let (flow, task) = (flow(STANDARD, goal), on(goal));
        assert!(flow.precedes(task(before), task(api_server)), "{goal:?}");
        assert!(flow.precedes(task(api_server), task(after)), "{goal:?}");
    }
    let (flow, task) = (flow(STANDARD, HIBERNATE), on(HIBERNATE));
    let asleep = Step::Single(Single::HibernateControlPlane);
    let after = Step::Extensions(Point::AfterApiServer, Verb::Wait);
    let before = Step::Extensions(Point::BeforeApiServer, Verb::Deploy);
    assert!(flow.precedes(task(after), task(asleep)));
    assert!(flow.precedes(task(asleep), task(before)));
}

#[test]
fn machines_are_gone_before_the_control_plane_falls_asleep() {
    for facts in [STANDARD, TWO_POOLS] {
        let (flow, task) = (flow(facts, HIBERNATE), on(HIBERNATE));
        let workers = Step::Kind(Kind::Worker, Verb::Wait);
        assert!(flow.precedes(task(workers), task(Step::Single(Single::HibernateControlPlane))));
        assert_eq!(flow.step(task(workers)).unwrap().skipped(), None);
    }
}

/// What must not wait for each other: a failing one would hold the other back.
const INDEPENDENT: &[(Step, Step)] = &[
    (
        Step::Kind(Kind::Infrastructure, Verb::Wait),
        Step::Single(Single::DeployBackupEntry),
    ),
    (
        Step::Kind(Kind::Infrastructure, Verb::Wait),
        Step::Component(ComponentId::EtcdMain, Verb::Deploy),
    ),
    (
        Step::Kind(Kind::Infrastructure, Verb::Wait),
        Step::Kind(Kind::InternalDnsRecord, Verb::Deploy),
    ),
    (
        Step::Kind(Kind::Network, Verb::Wait),
        Step::Kind(Kind::Worker, Verb::Deploy),
    ),
    (
        Step::Kind(Kind::Worker, Verb::Wait),
        Step::Extensions(Point::AfterWorkers, Verb::Deploy),
    ),
    (
        Step::Managed(Managed::ShootSystem, Verb::Wait),
        Step::Kind(Kind::Worker, Verb::Deploy),
    ),
    (
        Step::Kind(Kind::ExternalDnsRecord, Verb::Deploy),
        Step::Single(Single::InitializeShootConnection),
    ),
];

#[test]
fn branches_that_can_go_on_alone_are_not_tied_together() {
    let (reconcile, task) = (flow(STANDARD, Goal::Reconcile), on(Goal::Reconcile));
    for (one, other) in INDEPENDENT {
        assert!(
            !reconcile.precedes(task(*one), task(*other)),
            "{other:?} must not wait for {one:?}"
        );
    }
}

#[test]
fn the_api_server_waits_for_infrastructure_only_while_nodes_network_is_unknown() {
    let task = on(Goal::Reconcile);
    let infrastructure = task(Step::Kind(Kind::Infrastructure, Verb::Wait));
    let service = task(Step::Single(Single::DeployApiServerService));
    assert!(!flow(STANDARD, Goal::Reconcile).precedes(infrastructure, service));
    assert!(flow(TWO_POOLS, Goal::Reconcile).precedes(infrastructure, service));
}

#[test]
fn every_single_step_is_used_and_every_task_is_bounded() {
    let flows = [
        flow(WIDEST, Goal::Reconcile),
        flow(WIDEST, HIBERNATE),
        flow(WIDEST, deletion()),
    ];
    for single in Single::ALL {
        let step = Step::Single(*single);
        let used = flows.iter().flat_map(Flow::steps).any(|task| task.task().step == step);
        assert!(used, "{single:?} is in no flow");
    }
    for id in ComponentId::ALL {
        let written = Slot::Written(*id);
        let deploys = flows[0].steps().filter(|task| task.task().gives().contains(&written));
        let steps: Vec<Step> = deploys.map(|task| task.task().step).collect();
        assert_eq!(
            steps,
            [Step::Component(id.leader(), Verb::Deploy)],
            "one step deploys {id:?}"
        );
    }
    for step in flows.iter().flat_map(Flow::steps) {
        let settings = step.settings();
        assert!(settings.timeout.is_some(), "{:?} has no time-out", step.task());
        assert!(settings.retry.is_some(), "{:?} is never tried again", step.task());
    }
}

/// ManagedResources are destroyed together by a step of their own, and no deletion has a point after the workers.
#[test]
fn every_subject_is_deployed_by_a_reconciliation_and_destroyed_by_a_deletion() {
    let (reconcile, delete) = (flow(WIDEST, Goal::Reconcile), flow(WIDEST, deletion()));
    let has = |flow: &Flow<ShootTask>, step: Step| flow.steps().any(|task| task.task().step == step);
    let mut missing = Vec::new();
    let mut expect = |flow: &Flow<ShootTask>, step: Step| {
        if !has(flow, step) {
            missing.push(step);
        }
    };
    for kind in Kind::ALL.iter().copied() {
        expect(&reconcile, Step::Kind(kind, Verb::Deploy));
        expect(&delete, Step::Kind(kind, Verb::Destroy));
    }
    for id in ComponentId::with_steps() {
        expect(&reconcile, Step::Component(id, Verb::Deploy));
        expect(&delete, Step::Component(id, Verb::Destroy));
    }
    for point in Point::ALL.iter().copied() {
        expect(&reconcile, Step::Extensions(point, Verb::Deploy));
        if point != Point::AfterWorkers {
            expect(&delete, Step::Extensions(point, Verb::Destroy));
        }
    }
    for managed in Managed::ALL.iter().copied() {
        expect(&reconcile, Step::Managed(managed, Verb::Deploy));
    }
    assert_eq!(missing, Vec::<Step>::new());
}

#[test]
fn a_task_name_includes_the_way_only_where_upstreams_does() {
    let step = Step::Extensions(Point::AfterApiServer, Verb::Deploy);
    let name = |way| base_flow::Name::name(&ShootTask { way, step });
    assert_eq!(name(Way::Reconcile), name(Way::Wake));
    assert_eq!(
        name(Way::Hibernate),
        "Hibernating extension resources before kube-apiserver hibernation"
    );
}

/// A tunnel that is no longer wanted goes after the API server that used it was replaced; no other flow has a step about one.
#[test]
fn a_tunnel_is_in_a_flow_only_where_there_is_one() {
    let about = |tunnel, goal| {
        let flow = flow(ShootFacts { tunnel, ..STANDARD }, goal);
        let is = |step| {
            matches!(
                step,
                Step::Component(ComponentId::VpnSeedServer, _) | Step::Managed(Managed::VpnShoot, _)
            )
        };
        let mut steps: Vec<Step> = flow
            .steps()
            .map(|step| step.task().step)
            .filter(|step| is(*step))
            .collect();
        steps.sort();
        steps
    };
    for goal in [Goal::Reconcile, HIBERNATE, ASLEEP, Goal::Wake, deletion()] {
        assert_eq!(about(Tunnel::None, goal), [], "{goal:?}");
    }
    let server = |verb| Step::Component(ComponentId::VpnSeedServer, verb);
    let agent = |verb| Step::Managed(Managed::VpnShoot, verb);
    let expected = [server(Verb::Destroy), agent(Verb::Destroy), agent(Verb::WaitDestroyed)];
    assert_eq!(about(Tunnel::Leftover, Goal::Reconcile), expected);
    for tunnel in [Tunnel::Wanted, Tunnel::Leftover] {
        assert_eq!(about(tunnel, deletion()), [server(Verb::Destroy)]);
    }
    let facts = ShootFacts {
        tunnel: Tunnel::Leftover,
        ..STANDARD
    };
    let (flow, task) = (flow(facts, Goal::Reconcile), on(Goal::Reconcile));
    let api_server = Step::Component(ComponentId::ApiServer, Verb::Wait);
    assert!(flow.precedes(task(api_server), task(server(Verb::Destroy))));
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
