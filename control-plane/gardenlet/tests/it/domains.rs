//! The names of a shoot's API server, as records of the seed.

use api_extensions::DNSRecord;
use api_meta::ErrorCode;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::world::{World, shoot};
use crate::{errors, succeeded};

#[tokio::test(start_paused = true)]
async fn a_provider_without_credentials_of_its_own_works_with_those_of_the_shoot() {
    let world = World::start().await;
    let mut wanted = shoot();
    wanted["spec"]["dns"] = json!({"domain": "own.example", "providers": [{"type": "moon", "primary": true}]});
    world.create_shoot(&wanted).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    let record = world.seed::<DNSRecord>().get("b-external").await.unwrap().spec;
    assert_eq!(
        (record.type_.as_str(), record.name.as_str(), record.values.as_slice()),
        ("moon", "api.own.example", &["127.0.0.1".to_owned()][..])
    );
    let secrets = world.seed::<Secret>();
    let secret = secrets.get(&record.secret_ref.name.unwrap()).await.unwrap();
    assert_eq!(secret.data.unwrap()["key"].0, b"value");
    let of_the_landscape = secrets.get("dnsrecord-b-internal").await.unwrap();
    assert_eq!(
        of_the_landscape.data, None,
        "the landscape's record has the landscape's"
    );
    world.shoots().delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&world.shoots(), "b").await;
}

#[tokio::test(start_paused = true)]
async fn an_unserved_domain_stops_a_shoot_but_not_its_deletion() {
    let world = World::start().await;
    let mut wanted = shoot();
    wanted["spec"]["dns"] = json!({"domain": "own.example"});
    world.create_shoot(&wanted).await;
    let shoots = world.shoots();
    let reported = |shoot: &api_core::v1beta1::Shoot| !errors(shoot).is_empty();
    let shoot = until(&shoots, "b", "refused", reported).await;
    let error = shoot.status.unwrap().last_errors.remove(0);
    assert_eq!(error.codes, [ErrorCode::ConfigurationProblem]);
    assert!(
        error
            .description
            .contains("spec.dns.domain: \"own.example\": no provider serves it")
            && error.description.contains("(the seed has none)"),
        "{}",
        error.description
    );
    shoots.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&shoots, "b").await;
}
