//! The webhooks of an extension in a garden on real Kubernetes: what provider-fake's admission program does with Shoots.

use std::net::Ipv4Addr;
use std::sync::Arc;

use api_core::v1beta1::Shoot;
use base_client::Https;
use base_clock::{Clock, Entropy};
use extensions_provider_fake::{ADMISSION, admission};
use extensions_sdk::Flags;
use extensions_sdk::run::{BindAddress, Place, Setup, serve_in};
use extensions_webhooks::{GardenWebhookFlags, ModeName, WebhookFlags};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use tests_kit::free_port;
use tests_production::PATIENCE;
use tests_production::garden::Garden;
use tests_production::objects::{NAMESPACE, shoot};
use tokio_util::sync::CancellationToken;

const NAME: &str = "fake";

fn flags(port: u16) -> (Flags, GardenWebhookFlags) {
    let program = Flags {
        namespace: Some("default".to_owned()),
        metrics_bind_address: BindAddress::off(),
        health_bind_address: BindAddress::off(),
        ..Flags::default()
    };
    let webhooks = WebhookFlags {
        mode: ModeName::Url,
        url: Some(format!("127.0.0.1:{port}")),
        server_host: Some(Ipv4Addr::LOCALHOST.into()),
        server_port: port,
        service_port: 443,
        owner_namespace: None,
    };
    let garden_kubeconfig = None;
    (
        program,
        GardenWebhookFlags {
            webhooks,
            garden_kubeconfig,
        },
    )
}

/// Runs the program for Shoots of type `prov` until the token is cancelled.
async fn serve(garden: Client, port: u16, stop: CancellationToken) {
    let place = Place {
        client: garden,
        connector: Arc::new(Https::new(ADMISSION.name)),
        clock: Clock::real(),
        entropy: Entropy::os(),
        terms: base_controller::Terms::default(),
        stop: Box::pin(stop.cancelled_owned()),
    };
    let (program, webhooks) = flags(port);
    let served = serve_in(ADMISSION, place, &program, async |setup: &mut Setup| {
        let garden = webhooks.garden(setup).await?;
        webhooks.serve(setup, &garden, admission("prov"))
    });
    served.await.unwrap();
}

/// A Shoot whose machines of zone `a` have this range.
fn with_range(range: &str) -> Shoot {
    let mut wanted = shoot(NAME);
    wanted["spec"]["provider"]["infrastructureConfig"] = json!({
        "apiVersion": "fake.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig",
        "networks": {"zones": [{"name": "a", "workers": range}]},
    });
    serde_json::from_value(wanted).unwrap()
}

fn network_of(shoot: &Shoot) -> Value {
    shoot.spec.provider.infrastructure_config.as_ref().unwrap().value()["networks"]["vpc"].clone()
}

fn refusal(result: Result<Shoot, Error>) -> Option<String> {
    match result {
        Err(Error::Api(status)) if status.code == 422 => Some(status.message),
        _ => None,
    }
}

/// Completed and refused when it is created, updated and applied; labels and the status pass.
pub(crate) async fn is_completed_and_refused(garden: &Garden, operator: &Client) {
    let (stop, port) = (CancellationToken::new(), free_port().unwrap());
    let served = tokio::spawn(serve(garden.admin.clone(), port, stop.clone()));
    let shoots: Api<Shoot> = Api::namespaced(operator.clone(), NAMESPACE);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // The API server learns of the registration by a watch.
    let refused = async {
        loop {
            if let Some(message) = refusal(shoots.create(&dry_run, &with_range("10.1.0.0/20")).await) {
                break message;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let message = tokio::time::timeout(PATIENCE, refused).await.unwrap();
    let field = "spec.provider.infrastructureConfig.networks";
    let expected = format!("{field}.zones[0].workers is 10.1.0.0/20; expected a part of the network 10.250.0.0/16");
    assert!(message.contains(&expected), "{message}");

    let created = shoots
        .create(&PostParams::default(), &with_range("10.250.0.0/20"))
        .await
        .unwrap();
    assert_eq!(network_of(&created), json!({"cidr": "10.250.0.0/16"}));
    let moved = json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "spec": {"provider": {"infrastructureConfig": {"networks": {"vpc": {"cidr": "10.0.0.0/8"}}}}},
    });
    let merged = shoots.patch(NAME, &PatchParams::default(), &Patch::Merge(&moved)).await;
    let merged = refusal(merged).unwrap();
    let expected =
        format!("{field}.vpc has become the range 10.0.0.0/8 and cannot change; expected the range 10.250.0.0/16");
    assert!(merged.contains(&expected), "{merged}");
    let whole = serde_json::to_value(with_range("10.250.0.0/20")).unwrap();
    let mut applied = moved.clone();
    applied["spec"]["provider"]["infrastructureConfig"] = whole["spec"]["provider"]["infrastructureConfig"].clone();
    applied["spec"]["provider"]["infrastructureConfig"]["networks"]["vpc"] = json!({"id": "net-1"});
    let params = PatchParams::apply("gitops").force();
    let refused = refusal(shoots.patch(NAME, &params, &Patch::Apply(&applied)).await).unwrap();
    // An applied configuration is merged with the one that is stored.
    assert!(refused.contains("vpc names both cidr and id"), "{refused}");
    applied["spec"]["provider"]["infrastructureConfig"]["networks"]
        .as_object_mut()
        .unwrap()
        .remove("vpc");
    let applied = shoots.patch(NAME, &params, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(network_of(&applied), json!({"cidr": "10.250.0.0/16"}));

    // Without its server, what is none of its business still passes.
    stop.cancel();
    served.await.unwrap();
    let labelled = json!({"metadata": {"labels": {"team": "x"}}});
    assert!(
        shoots
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&labelled))
            .await
            .is_err(),
        "its policy is Fail"
    );
    let admin: Api<Shoot> = Api::namespaced(garden.admin.clone(), NAMESPACE);
    let status = json!({"status": {"technicalID": "shoot--p--fake"}});
    let patched = admin
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(patched.status.unwrap().technical_id, "shoot--p--fake");
}
