//! The Infrastructure on an embedded API server: what it makes, changes and deletes, what it refuses, and where it goes.

use api_extensions::Infrastructure;
use api_meta::ErrorCode;
use api_meta::LastOperationState::{Error, Succeeded};
use extensions_provider_fake::cloud::{
    Calls, CloudConnector, Harm, Harms, InstanceSpec, Kind, NetworkSpec, Reason, Settings, Spec, SubnetSpec, Tags,
};
use extensions_provider_fake::{CLUSTER_TAG, UNIQUE_TAG};
use serde_json::{Value, json};

use crate::world::{NAMESPACE, REGION, World, config};

const KEY: &str = "ssh-ed25519 AAAA first";
const ZONES: [(&str, &str); 2] = [("fake-1a", "10.250.0.0/20"), ("fake-1b", "10.250.16.0/20")];

async fn started(settings: Settings) -> World {
    let world = World::new(settings).await;
    let _runs_on = world.start(Calls::new(None));
    world
}

/// Codes and text of the last error.
fn error_of(object: &Infrastructure) -> (Vec<ErrorCode>, String) {
    let error = object
        .status
        .as_ref()
        .and_then(|status| status.last_error.clone())
        .unwrap();
    (error.codes, error.description)
}

/// The ids that the cloud holds, and the tag of each.
fn identities(world: &World) -> Vec<(String, String)> {
    let held = world.cloud.held().0;
    held.into_iter()
        .map(|item| (item.id, item.tags[UNIQUE_TAG].clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_infrastructure_is_made_reported_changed_and_deleted() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    let object = world.succeeds().await;
    assert_eq!(
        world.slots(),
        [
            "key-pair",
            "network",
            "security-group",
            "subnet/fake-1a",
            "subnet/fake-1b"
        ]
    );
    let status = object.status.unwrap();
    assert_eq!(status.nodes_cidr.as_deref(), Some("10.250.0.0/16"));
    assert_eq!(status.egress_cidrs, ["198.18.0.1/32"]);
    let networking = status.networking.unwrap();
    assert_eq!(networking.nodes, ["10.250.0.0/16"]);
    assert_eq!(networking.pods, ["100.96.0.0/11"]);
    let provider_status = status.provider_status.unwrap().value();
    assert_eq!(provider_status["network"], "net-00000001");
    assert_eq!(provider_status["zones"][1]["name"], "fake-1b");

    let zones = [ZONES[0], ("fake-1c", "10.250.32.0/20")];
    let wanted = (config(&zones, &["192.0.2.0/24"]), "ssh-ed25519 AAAA second");
    world.request("reconcile", Some(wanted)).await;
    world.succeeds().await;
    assert_eq!(
        world.slots(),
        [
            "key-pair",
            "network",
            "security-group",
            "subnet/fake-1a",
            "subnet/fake-1c"
        ]
    );
    let held = world.cloud.held().0;
    let is_second = |spec: &Spec| matches!(spec, Spec::KeyPair(key) if key.public_key.ends_with("second"));
    assert!(
        held.iter().any(|item| is_second(&item.spec)),
        "the cloud changes no key: it is another pair"
    );
    let group = held.iter().find(|item| item.kind() == Kind::SecurityGroup).unwrap();
    let Spec::SecurityGroup(group) = &group.spec else {
        panic!("{group:?}")
    };
    let sources: Vec<String> = group.rules.iter().map(|rule| rule.source.to_string()).collect();
    assert_eq!(sources, ["10.250.0.0/20", "10.250.32.0/20", "192.0.2.0/24"]);

    world.delete().await;
    world.goes().await;
    assert!(world.cloud.held().is_empty());
    assert_eq!(world.cloud.made().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_reconcile_changes_neither_the_cloud_nor_the_status() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    let first = world.succeeds().await.status.unwrap();
    let before = world.cloud.held();
    world.request("reconcile", None).await;
    let second = world.succeeds().await.status.unwrap();
    assert_eq!(world.cloud.held(), before);
    let text = |raw: &Option<api_meta::RawJson>| raw.as_ref().unwrap().get().to_owned();
    assert_eq!(text(&first.state), text(&second.state));
    assert_eq!(text(&first.provider_status), text(&second.provider_status));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_wrong_makes_nothing_and_names_all_fields() {
    let world = started(Settings::default()).await;
    let mut wrong = config(&[("fake-1b", "10.250.0.0")], &[]);
    wrong["networks"]["vcp"] = json!({});
    world.create(wrong, KEY).await;
    let (codes, text) = error_of(&world.becomes(Error).await);
    assert_eq!(codes, [ErrorCode::ConfigurationProblem]);
    assert!(
        text.contains("spec.provider.infrastructureConfig.networks.vcp is not known"),
        "{text}"
    );
    assert_eq!(world.cloud.calls(), 0);

    world
        .request("reconcile", Some((config(&[("fake-1b", "10.250.0.0")], &[]), KEY)))
        .await;
    let (_, text) = error_of(&world.becomes(Error).await);
    assert!(
        text.contains(".zones lacks the zone \"fake-1a\" of a worker pool"),
        "{text}"
    );
    assert!(
        text.contains(".zones[0].workers is \"10.250.0.0\"; expected a range"),
        "{text}"
    );

    world.request("reconcile", Some((config(&ZONES, &[]), KEY))).await;
    world.succeeds().await;
    world.delete().await;
    world.goes().await;
}

#[tokio::test(start_paused = true)]
async fn ranges_that_machines_may_stand_in_are_never_changed() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    world.succeeds().await;
    let before = identities(&world);
    let moved = [ZONES[0], ("fake-1b", "10.250.64.0/20")];
    let mut larger = config(&ZONES, &[]);
    larger["networks"]["vpc"] = json!({"cidr": "10.0.0.0/8"});
    let mut foreign = config(&ZONES, &[]);
    foreign["networks"]["vpc"] = json!({"id": "net-00000009"});
    for (wanted, expected) in [
        (
            config(&moved, &[]),
            "is 10.250.16.0/20 and cannot become 10.250.64.0/20",
        ),
        (larger, "is 10.250.0.0/16 and cannot become 10.0.0.0/8"),
        (
            foreign,
            "the shoot has the network net-00000001 and cannot move to net-00000009",
        ),
    ] {
        world.request("reconcile", Some((wanted, KEY))).await;
        let (codes, text) = error_of(&world.becomes(Error).await);
        assert!(text.contains(expected), "{text}");
        assert_eq!(codes, [ErrorCode::ConfigurationProblem]);
        assert_eq!(identities(&world), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subnet_of_a_former_zone_stays_until_its_machines_are_gone() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    world.succeeds().await;
    let held = world.cloud.held().0;
    let subnet = held
        .iter()
        .find(|item| matches!(&item.spec, Spec::Subnet(spec) if spec.zone == "fake-1b"))
        .unwrap();
    let machine = Spec::Instance(InstanceSpec {
        subnet: subnet.id.clone(),
        security_groups: Vec::new(),
        key_pair: None,
        image: "gardenlinux".to_owned(),
        machine_type: "small".to_owned(),
        user_data: Default::default(),
        client_token: None,
    });
    let api = world.cloud.connect(&world.keys, REGION);
    let tags = Tags::from([(CLUSTER_TAG.to_owned(), NAMESPACE.to_owned())]);
    let machine = api.create(machine, tags).await.unwrap();
    for expected in [true, false] {
        world.request("reconcile", Some((config(&ZONES[..1], &[]), KEY))).await;
        world.succeeds().await;
        let is_there = world.cloud.held().0.iter().any(|item| item.id == subnet.id);
        assert_eq!(is_there, expected);
        if expected {
            api.delete(Kind::Instance, &machine.id).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_of_the_owner_is_used_and_left_behind() {
    let world = started(Settings::default()).await;
    let api = world.cloud.connect(&world.keys, REGION);
    let spec = Spec::Network(NetworkSpec {
        cidr: "10.250.0.0/16".parse().unwrap(),
    });
    let own = api.create(spec, Tags::new()).await.unwrap();
    let mut wanted = config(&ZONES, &[]);
    wanted["networks"]["vpc"] = json!({"id": own.id});
    world.create(wanted, KEY).await;
    let object = world.succeeds().await;
    assert_eq!(
        object.status.unwrap().egress_cidrs,
        [format!("{}/32", own.address.unwrap())]
    );
    assert!(!world.slots().contains(&"network".to_owned()));
    world.delete().await;
    world.goes().await;
    assert_eq!(world.cloud.held().0, [own]);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_cloud_reach_the_status_with_their_codes() {
    for (reason, code) in [
        (Reason::AuthFailure, ErrorCode::InfraUnauthenticated),
        (Reason::UnauthorizedOperation, ErrorCode::InfraUnauthorized),
        (Reason::RequestLimitExceeded, ErrorCode::InfraRateLimitsExceeded),
    ] {
        let world = started(Settings::default()).await;
        world.cloud.harm(Harms::decided(move |_, _| Harm::Refused(reason)));
        world.create(config(&ZONES, &[]), KEY).await;
        let (codes, text) = error_of(&world.becomes(Error).await);
        assert_eq!(codes, [code], "{text}");
        world.cloud.harm(Harms::none());
        world.request("reconcile", None).await;
        world.succeeds().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_hang_on_the_network_is_reported_and_waited_for() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    world.succeeds().await;
    let api = world.cloud.connect(&world.keys, REGION);
    let spec = Spec::Subnet(SubnetSpec {
        network: "net-00000001".to_owned(),
        zone: "fake-1c".to_owned(),
        cidr: "10.250.128.0/20".parse().unwrap(),
    });
    let foreign = api.create(spec, Tags::new()).await.unwrap();
    world.delete().await;
    let (codes, text) = error_of(&world.becomes(Error).await);
    assert_eq!(codes, [ErrorCode::InfraDependencies]);
    assert!(
        text.contains("delete network net-00000001") && text.contains(&foreign.id),
        "{text}"
    );
    api.delete(Kind::Subnet, &foreign.id).await.unwrap();
    world.goes().await;
    assert!(world.cloud.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn rotated_keys_are_used_as_soon_as_they_are_there() {
    let world = started(Settings::default()).await;
    world.create(config(&ZONES, &[]), KEY).await;
    world.succeeds().await;
    let before = identities(&world);
    world.cloud.revoke_keys(&world.keys);
    world.request("reconcile", None).await;
    let (codes, _) = error_of(&world.becomes(Error).await);
    assert_eq!(codes, [ErrorCode::InfraUnauthenticated]);
    // Without a request: the Secret alone changes.
    world.give_keys(&world.cloud.issue_keys("account")).await;
    world.becomes(Succeeded).await;
    assert_eq!(identities(&world), before);
}

#[tokio::test(start_paused = true)]
async fn an_infrastructure_without_credentials_names_the_key_and_can_still_go() {
    let world = World::new(Settings::default()).await;
    let mut keys = world.keys.clone();
    keys.secret_access_key = String::new();
    world.give_keys(&keys).await;
    let _runs_on = world.start(Calls::new(None));
    world.create(config(&ZONES, &[]), KEY).await;
    let (codes, text) = error_of(&world.becomes(Error).await);
    assert_eq!(codes, [ErrorCode::ConfigurationProblem]);
    assert!(text.contains("secretAccessKey is empty"), "{text}");
    world.delete().await;
    world.goes().await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_touches_nothing_and_a_restore_takes_over() {
    let old = started(Settings::default()).await;
    old.create(config(&ZONES, &[]), KEY).await;
    old.succeeds().await;
    let (before, calls) = (old.cloud.held(), old.cloud.calls());
    old.request("migrate", None).await;
    let left = old.succeeds().await;
    assert_eq!(old.cloud.calls(), calls, "the cloud may be out of reach");
    assert!(left.metadata.finalizers.unwrap_or_default().is_empty());
    let state = left.status.unwrap().state.unwrap();

    // Another seed, whose extension begins with a state that gardenlet has carried there.
    let new = World::with_cloud(old.cloud.clone()).await;
    new.create_with(
        config(&ZONES, &[]),
        KEY,
        json!({"gardener.cloud/operation": "wait-for-state"}),
    )
    .await;
    let status: Value = json!({"status": {"state": state.value()}});
    new.write_status(status).await;
    let _runs_on = new.start(Calls::new(None));
    new.request("restore", None).await;
    new.succeeds().await;
    assert_eq!(new.cloud.held(), before);

    old.delete().await;
    old.goes().await;
    assert_eq!(new.cloud.held(), before, "the old seed has forgotten it");
    new.delete().await;
    new.goes().await;
    assert!(new.cloud.held().is_empty());
}
