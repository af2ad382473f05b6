//! A cluster as a test of another project would use it: started, called in process and over TLS, stopped, restarted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod forward;
mod relay;

use std::sync::Arc;
use std::time::Duration;

use base_client::{Connector, Https, WaitState, wait_until};
use base_clock::{Clock, Entropy};
use cluster_bare::{Cluster, Keys};
use cluster_node::{ImageCatalogue, Volumes};
use cluster_store::MemoryStore;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, SelfSubjectReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// Many times what the slowest machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
const GROUP: &str = "rbac.authorization.k8s.io";

async fn groups(client: Client) -> Vec<String> {
    let review: Api<SelfSubjectReview> = Api::all(client);
    let answer = review
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .unwrap();
    let Some(SelfSubjectReviewStatus {
        user_info: Some(UserInfo { groups, .. }),
    }) = answer.status
    else {
        panic!("no user in {answer:?}")
    };
    groups.unwrap_or_default()
}

#[tokio::test]
async fn client_in_process_and_over_tls_is_the_same_administrator() {
    let cluster = Cluster::start().await.unwrap();
    let over_tls = Https::new("test").client(cluster.kubeconfig()).unwrap();
    let groups = (groups(cluster.client()).await, groups(over_tls).await);
    assert_eq!(groups.0, ["orangery:admins", "system:authenticated"]);
    assert_eq!(groups.0, groups.1);
}

#[tokio::test]
async fn the_port_answers_under_any_name() {
    let cluster = Cluster::start().await.unwrap();
    let mut kubeconfig = cluster.kubeconfig().clone();
    let entry = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    entry.server = Some(cluster.url().replace("127.0.0.1", "localhost"));
    let client = Https::new("test").client(&kubeconfig).unwrap();
    assert_eq!(
        client.apiserver_version().await.unwrap().git_version,
        cluster_apiserver::DEFAULT_GIT_VERSION
    );
}

#[tokio::test]
async fn controllers_run_and_a_namespace_is_deleted_with_its_content() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "a");
    wait_until(&accounts, "default", PATIENCE, |account| match account {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("it is not made".to_owned()),
    })
    .await
    .unwrap();
    namespaces.delete("a", &DeleteParams::default()).await.unwrap();
    wait_until(&namespaces, "a", PATIENCE, |namespace| match namespace {
        None => WaitState::Done(()),
        Some(_) => WaitState::NotYet("it is there".to_owned()),
    })
    .await
    .unwrap();
    assert!(accounts.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_deployment_runs_on_its_node() {
    let cluster = Cluster::builder()
        .node(ImageCatalogue::new().simulating(), Volumes::new())
        .start()
        .await
        .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    let deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
        },
    }}))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    wait_until(&deployments, "web", PATIENCE, |deployment| {
        let status = deployment
            .and_then(|deployment| deployment.status.clone())
            .unwrap_or_default();
        match status.available_replicas {
            Some(2) => WaitState::Done(()),
            other => WaitState::NotYet(format!("available: {other:?}")),
        }
    })
    .await
    .unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn without_controllers_nothing_changes_and_pods_need_no_account() {
    let cluster = Cluster::builder().without_controllers().start().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
    }}))
    .unwrap();
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(
        pods.get("p").await.unwrap().metadata.resource_version,
        made.metadata.resource_version
    );
    assert!(made.spec.unwrap().service_account_name.is_none());
}

#[tokio::test]
async fn stored_objects_are_served_again_to_earlier_clients() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::real());
    let keys = Keys::generate(&clock, &Entropy::os()).unwrap();
    let start = || Cluster::builder().store(store.clone()).keys(keys.clone()).start();
    let first = start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(first.client(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "m"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let mut kubeconfig = first.kubeconfig().clone();
    first.stop().await;

    let second = start().await.unwrap();
    let entry = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    entry.server = Some(second.url().to_owned());
    let before = Https::new("test").client(&kubeconfig).unwrap();
    Api::<ConfigMap>::namespaced(before, "default").get("m").await.unwrap();
}

/// The identity in a Lease of leadership.
async fn leader(client: &Client, lease: &str) -> String {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let held = wait_until(&leases, lease, PATIENCE, |lease| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
        match holder.filter(|holder| !holder.is_empty()) {
            Some(holder) => WaitState::Done(holder),
            None => WaitState::NotYet("it has no holder".to_owned()),
        }
    });
    held.await.unwrap()
}

#[tokio::test]
async fn replicas_follow_each_others_rules_and_one_of_them_runs_controllers() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::real());
    let keys = Keys::generate(&clock, &Entropy::os()).unwrap();
    let start = || {
        let builder = Cluster::builder().store(store.clone()).keys(keys.clone());
        builder.replicated(true).start()
    };
    let (first, second) = (start().await.unwrap(), start().await.unwrap());
    let rule = json!({"metadata": {"name": "r"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    let roles: Api<ClusterRole> = Api::all(first.client());
    let made = serde_json::from_value(rule).unwrap();
    roles.create(&PostParams::default(), &made).await.unwrap();
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "u", "apiGroup": GROUP}],
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"}});
    let bindings: Api<ClusterRoleBinding> = Api::all(first.client());
    let made = serde_json::from_value(binding).unwrap();
    bindings.create(&PostParams::default(), &made).await.unwrap();
    let may = |wanted: bool| {
        let reviews: Api<SubjectAccessReview> = Api::all(second.client());
        let review = json!({"metadata": {}, "spec": {"user": "u",
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let reached = async move {
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
                if answer.status.unwrap().allowed == wanted {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached)
    };
    may(true).await.expect("the other one's rule counts");
    bindings.delete("r", &DeleteParams::default()).await.unwrap();
    may(false).await.expect("and its end");

    let before = leader(&second.client(), "kube-controller-manager").await;
    let (stays, goes) = match before.starts_with(first.url()) {
        true => (second, first),
        false => (first, second),
    };
    goes.stop().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(stays.client(), "a");
    let made = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(stays.client());
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    wait_until(&accounts, "default", PATIENCE, |account| match account {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("it is not made".to_owned()),
    })
    .await
    .unwrap();
    assert_ne!(leader(&stays.client(), "kube-controller-manager").await, before);
}

#[tokio::test]
async fn dropped_cluster_closes_its_port() {
    let cluster = Cluster::start().await.unwrap();
    let client = Https::new("test").client(cluster.kubeconfig()).unwrap();
    client.apiserver_version().await.unwrap();
    let address = cluster.url().trim_start_matches("https://").to_owned();
    drop(cluster);
    let closed = async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
    client.apiserver_version().await.unwrap_err();
}
