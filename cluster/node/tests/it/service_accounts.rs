//! Who a container is to its API.

use std::sync::Arc;
use std::time::Duration;

use cluster_node::{ContainerContext, Exit, ImageCatalogue, SERVICE_ACCOUNT_FOLDER};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::mpsc;

use crate::cluster::{ByToken, Cluster};

/// Reports its user now and after two hours, which no token of an hour outlives.
async fn reads_own_user(context: ContainerContext, sender: mpsc::UnboundedSender<String>) -> Exit {
    let client = match context.client() {
        Ok(client) => client,
        Err(fault) => return Exit::failed(fault.chain()),
    };
    context.ready.set(true);
    for _ in 0..2 {
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        let answer = reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await;
        let user = answer.map(|review| review.status.and_then(|status| status.user_info)?.username);
        let token = context
            .files
            .read_text(&format!("{SERVICE_ACCOUNT_FOLDER}/token"))
            .unwrap_or_default();
        sender.send(format!("{user:?} {token}")).unwrap();
        tokio::time::sleep(Duration::from_secs(7200)).await;
    }
    Exit::done()
}

#[tokio::test(start_paused = true)]
async fn a_container_keeps_its_service_accounts_access_beyond_a_tokens_life() {
    let (cluster, server) = Cluster::with_tokens().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let app = move |context: ContainerContext| reads_own_user(context, sender.clone());
    let _node = cluster.node_over(
        "node-a",
        ImageCatalogue::new().with("app", app),
        Arc::new(ByToken(server)),
    );
    cluster
        .create(&cluster.api::<ServiceAccount>(), json!({"metadata": {"name": "robot"}}))
        .await;
    let spec = json!({"automountServiceAccountToken": true, "serviceAccountName": "robot"});
    cluster.pod("p", json!({}), spec).await;
    let (first, later) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    let user = |answer: &str| answer.split(' ').next().map(str::to_owned);
    assert_eq!(
        user(&first).as_deref(),
        Some("Ok(Some(\"system:serviceaccount:ns:robot\"))"),
        "{first}"
    );
    assert_eq!(user(&first), user(&later), "{later}");
    assert_ne!(first, later, "the token was renewed");
}
