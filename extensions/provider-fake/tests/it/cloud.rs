//! The cloud in both forms: the same story in memory and over HTTP.

use std::net::Ipv4Addr;
use std::sync::Arc;

use extensions_provider_fake::cloud::{
    Calls, Cloud, CloudApi, CloudConnector, CloudError, Harm, Harms, HttpCloud, InstanceSpec, Item, ItemChange, Kind,
    Moment, NetworkSpec, Reason, Rule, SecurityGroupSpec, Settings, Spec, State, SubnetSpec, Tags, UserData,
    VolumeSpec, serve,
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

const REGION: &str = "fake-1";

/// A client of a cloud, and what keeps its server alive.
struct Client {
    cloud: Cloud,
    api: Arc<dyn CloudApi>,
    _serves: Option<DropGuard>,
}

/// A client of each form.
async fn clients(settings: &Settings) -> Vec<Client> {
    let here = Cloud::new(settings.clone());
    let api = here.connect(&here.issue_keys("a"), REGION);
    let there = Cloud::new(settings.clone());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(there.clone(), listener, stop.clone()));
    let http = HttpCloud::new(&format!("http://{address}")).unwrap();
    let over_http = http.connect(&there.issue_keys("a"), REGION);
    vec![
        Client {
            cloud: here,
            api,
            _serves: None,
        },
        Client {
            cloud: there,
            api: over_http,
            _serves: Some(stop.drop_guard()),
        },
    ]
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn network() -> Spec {
    Spec::Network(NetworkSpec {
        cidr: "10.0.0.0/16".parse().unwrap(),
    })
}

fn subnet(network: &Item, zone: &str, cidr: &str) -> Spec {
    Spec::Subnet(SubnetSpec {
        network: network.id.clone(),
        zone: zone.to_owned(),
        cidr: cidr.parse().unwrap(),
    })
}

fn instance(subnet: &Item, group: &Item) -> Spec {
    Spec::Instance(InstanceSpec {
        subnet: subnet.id.clone(),
        security_groups: vec![group.id.clone()],
        key_pair: None,
        image: "gardenlinux".to_owned(),
        machine_type: "small".to_owned(),
        user_data: UserData("token".to_owned()),
        client_token: None,
    })
}

fn volume() -> Spec {
    Spec::Volume(VolumeSpec {
        zone: "fake-1a".to_owned(),
        gigabytes: 20,
        attached_to: None,
    })
}

fn reason<T: std::fmt::Debug>(result: Result<T, CloudError>) -> Reason {
    result.unwrap_err().reason
}

async fn create(client: &Client, spec: Spec) -> Item {
    client.api.create(spec, Tags::new()).await.unwrap()
}

/// A network with a subnet, a security group and an instance.
async fn surroundings(client: &Client) -> [Item; 4] {
    let net = create(client, network()).await;
    let part = create(client, subnet(&net, "fake-1a", "10.0.0.0/20")).await;
    let spec = Spec::SecurityGroup(SecurityGroupSpec {
        network: net.id.clone(),
        rules: Vec::new(),
    });
    let group = create(client, spec).await;
    let machine = create(client, instance(&part, &group)).await;
    [net, part, group, machine]
}

#[tokio::test]
async fn things_are_made_changed_and_deleted_in_the_order_of_their_dependencies() {
    for client in clients(&Settings::default()).await {
        let [net, part, group, machine] = surroundings(&client).await;
        assert_eq!(net.address, Some(Ipv4Addr::new(198, 18, 0, 1)));
        assert_eq!(machine.address, Some(Ipv4Addr::new(10, 0, 0, 4)));
        let Spec::Instance(spec) = &machine.spec else {
            panic!("{machine:?}")
        };
        assert_eq!(spec.user_data, UserData::default(), "it is not given back");

        let rules = vec![Rule {
            source: "0.0.0.0/0".parse().unwrap(),
            port: 443,
            port_end: 443,
        }];
        let change = ItemChange::Rules(rules.clone());
        client.api.change(Kind::SecurityGroup, &group.id, change).await.unwrap();
        let seen = client.api.get(Kind::SecurityGroup, &group.id).await.unwrap().unwrap();
        assert!(matches!(seen.spec, Spec::SecurityGroup(spec) if spec.rules == rules));

        for item in [&net, &part, &group] {
            let error = client.api.delete(item.kind(), &item.id).await.unwrap_err();
            assert_eq!(error.reason, Reason::DependencyViolation);
        }
        for item in [machine, group, part, net] {
            client.api.delete(item.kind(), &item.id).await.unwrap();
            assert_eq!(client.api.get(item.kind(), &item.id).await.unwrap(), None);
            assert_eq!(reason(client.api.delete(item.kind(), &item.id).await), Reason::NotFound);
        }
        assert!(client.cloud.held().is_empty());
    }
}

#[tokio::test]
async fn two_requests_make_two_things_that_show_as_doubled() {
    for client in clients(&Settings::default()).await {
        let marks = tags(&[("cluster", "c"), ("slot", "network")]);
        let mut ids = Vec::new();
        for _ in 0..2 {
            ids.push(client.api.create(network(), marks.clone()).await.unwrap().id);
        }
        client.api.create(network(), tags(&[("cluster", "d")])).await.unwrap();
        assert_eq!(client.cloud.held().doubled(&["cluster", "slot"]).len(), 2);
        assert!(
            client
                .cloud
                .held()
                .tagged("cluster", "d")
                .doubled(&["cluster"])
                .is_empty()
        );
        let listed = client.api.list(Kind::Network, &marks).await.unwrap();
        assert_eq!(listed.into_iter().map(|item| item.id).collect::<Vec<_>>(), ids);
    }
}

#[tokio::test]
async fn lists_and_looks_lag_behind_by_calls() {
    let settings = Settings {
        list_lag: 2,
        get_lag: 1,
        ..Settings::default()
    };
    for client in clients(&settings).await {
        let marks = tags(&[("tag", "t")]);
        let made = client.api.create(network(), marks.clone()).await.unwrap();
        let shown = async || client.api.list(Kind::Network, &marks).await.unwrap().len();
        let found = async || client.api.get(Kind::Network, &made.id).await.unwrap().is_some();
        assert_eq!([found().await, found().await], [false, true]);
        client
            .api
            .list(Kind::Network, &tags(&[("tag", "other")]))
            .await
            .unwrap();
        assert_eq!(
            [shown().await, shown().await, shown().await],
            [0, 0, 1],
            "other lists do not count"
        );
        client.api.delete(Kind::Network, &made.id).await.unwrap();
        assert!(client.cloud.held().is_empty());
        assert_eq!([found().await, found().await], [true, false]);
        assert_eq!([shown().await, shown().await, shown().await], [1, 1, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_list_lags_longer_than_the_cloud_promises() {
    let cloud = Cloud::new(Settings {
        list_lag: u32::MAX,
        get_lag: u32::MAX,
        ..Settings::default()
    });
    let api = cloud.connect(&cloud.issue_keys("a"), REGION);
    let made = api.create(network(), Tags::new()).await.unwrap();
    for seen in [false, true] {
        assert_eq!(!api.list(Kind::Network, &Tags::new()).await.unwrap().is_empty(), seen);
        assert_eq!(api.get(Kind::Network, &made.id).await.unwrap().is_some(), seen);
        tokio::time::sleep(Settings::default().lag_max).await;
    }
}

#[tokio::test]
async fn an_instance_starts_and_ends_over_calls_and_holds_its_subnet_meanwhile() {
    let settings = Settings {
        settle: 2,
        ..Settings::default()
    };
    for client in clients(&settings).await {
        let [_, part, _, machine] = surroundings(&client).await;
        assert_eq!((machine.state, machine.address), (State::Pending, None));
        let state = async || {
            client
                .api
                .get(Kind::Instance, &machine.id)
                .await
                .unwrap()
                .map(|item| item.state)
        };
        assert_eq!(
            [state().await, state().await],
            [Some(State::Pending), Some(State::Running)]
        );
        client.api.delete(Kind::Instance, &machine.id).await.unwrap();
        assert_eq!(
            reason(client.api.delete(Kind::Subnet, &part.id).await),
            Reason::DependencyViolation
        );
        assert_eq!(state().await, None, "it is gone with the second call");
        client.api.delete(Kind::Subnet, &part.id).await.unwrap();
    }
}

#[tokio::test]
async fn quotas_capacity_keys_and_parameters_are_refused_by_name() {
    let settings = Settings {
        quotas: [(Kind::Volume, 1)].into(),
        machine_types: [("small".to_owned(), 1)].into(),
        ..Settings::default()
    };
    for client in clients(&settings).await {
        let [net, part, group, _] = surroundings(&client).await;
        let api = &client.api;
        create(&client, volume()).await;
        let error = api.create(volume(), Tags::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "QuotaExceeded: the account has 1 of 1 volumes");
        let more = api.create(instance(&part, &group), Tags::new()).await;
        assert_eq!(reason(more), Reason::InsufficientCapacity);
        for wrong in [
            subnet(&net, "fake-2a", "10.0.16.0/20"),
            subnet(&net, "fake-1b", "10.1.0.0/20"),
            subnet(&net, "fake-1b", "10.0.8.0/21"),
            Spec::Volume(VolumeSpec {
                zone: "fake-1a".to_owned(),
                gigabytes: 0,
                attached_to: None,
            }),
        ] {
            assert_eq!(
                reason(api.create(wrong.clone(), Tags::new()).await),
                Reason::InvalidParameter,
                "{wrong:?}"
            );
        }
    }
}

#[tokio::test]
async fn revoked_keys_and_those_of_another_account_see_nothing() {
    let cloud = Cloud::default();
    let (old, new) = (cloud.issue_keys("a"), cloud.issue_keys("a"));
    let made = cloud
        .connect(&old, REGION)
        .create(network(), Tags::new())
        .await
        .unwrap();
    cloud.revoke_keys(&old);
    let looked = cloud.connect(&old, REGION).get(Kind::Network, &made.id).await;
    assert_eq!(reason(looked), Reason::AuthFailure);
    let looked = async |keys| cloud.connect(&keys, REGION).get(Kind::Network, &made.id).await.unwrap();
    assert!(looked(new.clone()).await.is_some());
    assert!(looked(cloud.issue_keys("b")).await.is_none());
    let elsewhere = cloud.connect(&new, "fake-2").list(Kind::Network, &Tags::new()).await;
    assert_eq!(reason(elsewhere), Reason::InvalidParameter);
    assert!(!format!("{new:?}").contains("secret-of"), "{new:?}");
}

#[tokio::test]
async fn each_harm_has_its_effect_or_none_and_its_error() {
    for (harm, expected, made) in [
        (
            Harm::Refused(Reason::RequestLimitExceeded),
            Reason::RequestLimitExceeded,
            0,
        ),
        (Harm::Refused(Reason::InternalError), Reason::InternalError, 0),
        (Harm::Broken, Reason::InternalError, 1),
        (Harm::Lost, Reason::Unanswered, 1),
    ] {
        for client in clients(&Settings::default()).await {
            client.cloud.harm(Harms::decided(
                move |number, _| if number == 1 { harm } else { Harm::None },
            ));
            assert_eq!(reason(client.api.create(network(), Tags::new()).await), expected);
            assert_eq!(client.cloud.held().len(), made, "{harm:?}");
            assert_eq!(client.cloud.calls(), 1, "no client tries a call twice");
            client.api.list(Kind::Network, &Tags::new()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_volume_moves_between_instances_only_when_it_is_free() {
    for client in clients(&Settings::default()).await {
        let [_, part, group, first] = surroundings(&client).await;
        let second = create(&client, instance(&part, &group)).await;
        assert_eq!(second.address, Some(Ipv4Addr::new(10, 0, 0, 5)));
        let disk = create(&client, volume()).await;
        let attach = async |to: Option<&Item>| {
            let change = ItemChange::Attachment(to.map(|item| item.id.clone()));
            client.api.change(Kind::Volume, &disk.id, change).await
        };
        attach(Some(&first)).await.unwrap();
        assert_eq!(reason(attach(Some(&second)).await), Reason::DependencyViolation);
        assert_eq!(
            reason(client.api.delete(Kind::Volume, &disk.id).await),
            Reason::DependencyViolation
        );
        client.api.delete(Kind::Instance, &first.id).await.unwrap();
        attach(Some(&second)).await.unwrap();
        attach(None).await.unwrap();
        client.api.delete(Kind::Volume, &disk.id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_ends_before_or_after_the_effect_of_its_call() {
    for before in [true, false] {
        let cloud = Cloud::default();
        let calls = Calls::new(Some(Moment { call: 2, before }));
        let api = calls
            .around(Arc::new(cloud.clone()))
            .connect(&cloud.issue_keys("a"), REGION);
        let process = async {
            for _ in 0..3 {
                api.create(network(), Tags::new()).await.unwrap();
            }
        };
        tokio::select! {
            () = process => panic!("it goes on"),
            () = calls.ended() => {}
        }
        assert_eq!(cloud.held().len(), if before { 1 } else { 2 });
        assert_eq!(calls.records().len(), 2);
        assert_eq!(calls.records()[1].what, "create network");
    }
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    for endpoint in ["", "localhost:80", "https://cloud", "http://a/b", "http://a?b"] {
        let fault = HttpCloud::new(endpoint).unwrap_err();
        assert!(fault.hint.contains("http://127.0.0.1:8080"), "{endpoint}");
    }
    HttpCloud::new("http://127.0.0.1:8080/").unwrap();
}
