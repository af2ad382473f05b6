//! What the readers of configurations take, warn of and refuse. Reads no files.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn scheduler(more: Value) -> Value {
    let mut document = json!({"apiVersion": SchedulerConfiguration::API_VERSION, "kind": "SchedulerConfiguration"});
    let fields = document.as_object_mut().unwrap();
    fields.extend(more.as_object().cloned().unwrap());
    document
}

fn gardenlet(more: Value) -> Value {
    let mut document = json!({"apiVersion": GardenletConfiguration::API_VERSION, "kind": "GardenletConfiguration",
        "seedConfig": {"metadata": {"name": "s"}, "spec": {"provider": {"type": "local", "region": "r"}}}});
    let fields = document.as_object_mut().unwrap();
    fields.extend(more.as_object().cloned().unwrap());
    document
}

fn problems<T: Configuration + std::fmt::Debug>(document: Value) -> Vec<String> {
    read::<T>(document)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn absent_fields_have_gardeners_defaults() {
    let read: Read<SchedulerConfiguration> = read(scheduler(json!({}))).unwrap();
    let Process {
        leader_election,
        log_level,
        log_format,
        health_probes,
        metrics,
    } = read.configuration.process;
    assert!(leader_election.leader_elect);
    assert_eq!(leader_election.lease_duration, Duration::from_secs(15));
    assert_eq!(leader_election.resource_name, "gardener-scheduler-leader-election");
    assert_eq!(leader_election.resource_namespace.as_deref(), Some("garden"));
    assert_eq!((log_level, log_format), (LogLevel::Info, LogFormat::Json));
    assert_eq!((health_probes.port, metrics.port), (10251, 19251));
    assert_eq!(read.configuration.strategy, Strategy::SameRegion);
    assert!(read.unknown.is_empty() && read.without_effect.is_empty());
}

#[test]
fn unknown_fields_and_fields_without_effect_are_named_by_path() {
    let document = scheduler(json!({
        "clientConnection": {"kubeconfig": "/k", "qps": 50.5, "burst": 100, "colour": "red"},
        "schedulers": {"shoot": {"concurrentSyncs": 5, "candidateDeterminationStrategy": "MinimalDistance"}},
        "featureGates": {"A": true}, "typo": 1, "logLevel": null,
    }));
    let read: Read<SchedulerConfiguration> = read(document).unwrap();
    assert_eq!(read.configuration.kubeconfig.as_deref(), Some("/k"));
    assert_eq!(read.configuration.strategy, Strategy::MinimalDistance);
    assert_eq!(read.unknown, ["clientConnection.colour", "typo"]);
    let without = [
        "clientConnection.qps",
        "clientConnection.burst",
        "featureGates",
        "schedulers.shoot.concurrentSyncs",
    ];
    assert_eq!(read.without_effect, without);
}

#[test]
fn every_wrong_value_is_reported_with_its_path_and_what_is_allowed() {
    let document = scheduler(json!({
        "clientConnection": {"qps": "fast"}, "logLevel": "loud", "leaderElection": "yes",
        "server": {"metrics": {"port": 70000, "bindAddress": "here"}},
        "schedulers": {"shoot": {"candidateDeterminationStrategy": "Best"}},
    }));
    let expected = [
        "clientConnection.qps is \"fast\", allowed is a number",
        "leaderElection is \"yes\", allowed is an object",
        "logLevel is \"loud\", allowed is one of debug, info, error",
        "server.metrics.bindAddress is \"here\", allowed is an IP address",
        "server.metrics.port is 70000, allowed is a whole number from 1 to 65535",
        "schedulers.shoot.candidateDeterminationStrategy is \"Best\", allowed is one of SameRegion, MinimalDistance",
    ];
    assert_eq!(problems::<SchedulerConfiguration>(document), expected);
    let other = json!({"apiVersion": "scheduler.config.gardener.cloud/v2", "kind": "Scheduler"});
    let expected = [
        "apiVersion is \"scheduler.config.gardener.cloud/v2\", allowed is scheduler.config.gardener.cloud/v1alpha1",
        "kind is \"Scheduler\", allowed is SchedulerConfiguration",
    ];
    assert_eq!(problems::<SchedulerConfiguration>(other), expected);
    let list = problems::<SchedulerConfiguration>(json!([1]));
    assert_eq!(list[0], "the document is [1], allowed is an object");
}

#[test]
fn times_of_an_election_must_leave_room_for_tries() {
    let election = |more: Value| problems::<SchedulerConfiguration>(scheduler(json!({"leaderElection": more})));
    let short = election(json!({"leaseDuration": "10s"}));
    let expected = ["leaderElection.renewDeadline is 10s, allowed is less than leaseDuration, which is 10s"];
    assert_eq!(short, expected);
    let hasty = election(json!({"retryPeriod": "9s"}));
    assert!(hasty[0].starts_with("leaderElection.retryPeriod is 9s"), "{hasty:?}");
    let negative = election(json!({"retryPeriod": "-1s"}));
    assert!(negative[0].contains("a duration such as 30s"), "{negative:?}");
}

#[test]
fn a_gardenlet_has_a_named_seed_and_an_address_for_a_shared_url() {
    let read: Read<GardenletConfiguration> = read(gardenlet(json!({
        "gardenClientConnection": {"gardenClusterAddress": "https://garden.example"},
        "controllers": {
            "shoot": {"concurrentSyncs": 3, "syncPeriod": "30m", "retryDuration": "12h"},
            "shootCare": {"staleExtensionHealthChecks": {"enabled": false},
                "conditionThresholds": [{"type": "APIServerAvailable", "duration": "2m"}]},
            "backupEntry": {"deletionGracePeriodHours": 2},
        },
        "orangery": {"addressing": {"type": "Shared", "url": "https://127.0.0.1:7443", "address": "127.0.0.1"}},
    })))
    .unwrap();
    let configuration = read.configuration;
    assert_eq!(configuration.seed.metadata.name.as_deref(), Some("s"));
    assert_eq!(configuration.shoots_max, 3);
    assert_eq!(configuration.sync_period, Duration::from_secs(1800));
    assert_eq!(configuration.backup_grace, Duration::from_secs(7200));
    assert_eq!(configuration.care.stale_after, None);
    let thresholds = configuration.care.thresholds.unwrap();
    assert_eq!(thresholds["APIServerAvailable"], Duration::from_secs(120));
    assert!(matches!(configuration.orangery.addressing, Addressing::Shared { .. }));
    assert_eq!(read.without_effect, ["controllers.shoot.retryDuration"]);

    let none = problems::<GardenletConfiguration>(gardenlet(json!({"seedConfig": null})));
    assert!(none[0].starts_with("seedConfig is absent"), "{none:?}");
    let unnamed = problems::<GardenletConfiguration>(gardenlet(json!({"seedConfig": {"metadata": {}}})));
    assert!(
        unnamed[0].starts_with("seedConfig.metadata.name is absent"),
        "{unnamed:?}"
    );
    let shared = gardenlet(json!({"orangery": {"addressing": {"type": "Shared", "url": "http://x"}}}));
    let expected = [
        "orangery.addressing.url is \"http://x\", allowed is https://HOST:PORT, since type is Shared",
        "orangery.addressing.address is absent, allowed is an IP address, since type is Shared",
    ];
    assert_eq!(problems::<GardenletConfiguration>(shared), expected);
    let tunnel = gardenlet(json!({"orangery": {"nodeAccess": {"type": "VPN"}}}));
    let expected = ["orangery.nodeAccess.type is \"VPN\", allowed is one of Direct, Tunnel"];
    assert_eq!(problems::<GardenletConfiguration>(tunnel), expected);
    let vector = gardenlet(json!({"orangery": {"images": {"overwrites": [{"name": "etcd"}, {"repository": "r"}]}}}));
    let expected = ["orangery.images.overwrites[1].name is \"\", allowed is the name of an image"];
    assert_eq!(problems::<GardenletConfiguration>(vector), expected);
}

#[test]
fn nodes_are_reached_through_a_tunnel_unless_api_servers_share_one_url() {
    let shared = json!({"type": "Shared", "url": "https://127.0.0.1:7443", "address": "127.0.0.1"});
    for (orangery, expected) in [
        (json!({}), NodeAccess::Tunnel),
        (json!({"addressing": shared}), NodeAccess::Direct),
        (json!({"nodeAccess": {"type": "Direct"}}), NodeAccess::Direct),
        (
            json!({"addressing": shared, "nodeAccess": {"type": "Tunnel"}}),
            NodeAccess::Tunnel,
        ),
    ] {
        let read: Read<GardenletConfiguration> = read(gardenlet(json!({"orangery": orangery}))).unwrap();
        assert_eq!(read.configuration.orangery.node_access, expected, "{orangery}");
    }
}

#[test]
fn a_resource_manager_of_the_default_class_takes_resources_without_one() {
    let document = |more: Value| {
        let mut document = json!({"apiVersion": ResourceManagerConfiguration::API_VERSION,
            "kind": "ResourceManagerConfiguration"});
        let fields = document.as_object_mut().unwrap();
        fields.extend(more.as_object().cloned().unwrap());
        document
    };
    let plain: Read<ResourceManagerConfiguration> = read(document(json!({}))).unwrap();
    assert_eq!(plain.configuration.class, None);
    assert_eq!(plain.configuration.process.leader_election.resource_namespace, None);
    assert!(plain.configuration.webhooks.is_none() && plain.configuration.network_policies.is_none());
    let full: Read<ResourceManagerConfiguration> = read(document(json!({
        "sourceClientConnection": {"namespaces": ["a"]},
        "server": {"webhooks": {"port": 9450, "tls": {"serverCertDir": "/tls"}}},
        "controllers": {"resourceClass": "seed", "garbageCollector": {"enabled": true},
            "networkPolicy": {"enabled": true, "namespaceSelectors": [{"matchLabels": {"a": "b"}}]},
            "csrApprover": {"enabled": true, "machineNamespace": "m"}, "tokenRequestor": {"enabled": true}},
    })))
    .unwrap();
    let full = full.configuration;
    assert_eq!(full.machine_namespace.as_deref(), Some("m"));
    assert_eq!(full.class.as_deref(), Some("seed"));
    assert_eq!(full.namespace.as_deref(), Some("a"));
    assert_eq!(full.token_requestor.as_deref(), Some("shoot"));
    assert_eq!(full.network_policies.unwrap().namespace_selectors.len(), 1);
    assert_eq!(full.webhooks.unwrap().server.port, 9450);
    let nowhere = document(json!({"controllers": {"csrApprover": {"enabled": true}}}));
    let expected =
        ["controllers.csrApprover.machineNamespace is \"\", allowed is the name of a namespace, since enabled is true"];
    assert_eq!(problems::<ResourceManagerConfiguration>(nowhere), expected);
    let two = document(json!({"sourceClientConnection": {"namespaces": ["a", "b"]}}));
    let expected = ["sourceClientConnection.namespaces is [a, b], allowed is at most one namespace"];
    assert_eq!(problems::<ResourceManagerConfiguration>(two), expected);
}

#[test]
fn every_field_is_described_once() {
    for described in [
        describe::<ControllerManagerConfiguration>(),
        describe::<SchedulerConfiguration>(),
        describe::<GardenletConfiguration>(),
        describe::<ResourceManagerConfiguration>(),
    ] {
        let mut paths: Vec<&str> = described.iter().map(|one| one.path.as_str()).collect();
        paths.sort_unstable();
        let all = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), all);
    }
}
