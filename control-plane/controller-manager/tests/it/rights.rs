//! What members of a project can and cannot get, each with the roles that the project gives them and nothing else.

use std::fmt::Debug;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::{Project, ProjectMember, ProjectPhase, SecretBinding};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_kit::until;

use crate::Garden;

/// Project `team` in a garden that runs; `ann` is its admin and `zoe` its owner.
async fn team() -> (Garden, Client) {
    let garden = Garden::start().await;
    let member = |name: &str, role: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name, "role": role});
    let members = [member("ann", "admin"), member("zoe", "owner")];
    let project = json!({"metadata": {"name": "team"}, "spec": {"namespace": "garden-team", "members": members}});
    garden.all::<Project>(project).await;
    let ready = |project: &Project| {
        project.status.as_ref().and_then(|status| status.phase.clone()) == Some(ProjectPhase::Ready)
    };
    for name in ["team", "p"] {
        until(&garden.api::<Project>(), name, "ready", ready).await;
    }
    let ann = garden.embedded.client("ann", &[]);
    (garden, ann)
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Code and message of a refusal.
fn refused<T: Debug>(answer: Result<T, kube::Error>) -> (u16, String) {
    match answer.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message),
        error => (0, error.to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_to_an_unreadable_secret_is_refused() {
    let (garden, ann) = team().await;
    let secret = |name: &str| object::<Secret>(json!({"metadata": {"name": name}}));
    let foreign: Api<Secret> = Api::namespaced(garden.client.clone(), "garden-p");
    foreign
        .create(&Default::default(), &secret("prod-creds"))
        .await
        .unwrap();
    let own: Api<Secret> = Api::namespaced(ann.clone(), "garden-team");
    own.create(&Default::default(), &secret("own")).await.unwrap();

    let credentials: Api<CredentialsBinding> = Api::namespaced(ann.clone(), "garden-team");
    let old: Api<SecretBinding> = Api::namespaced(ann, "garden-team");
    let bind = async |namespace: &str, name: &str| {
        let binding = object(json!({"metadata": {"name": "b"}, "provider": {"type": "prov"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": namespace}}));
        credentials.create(&Default::default(), &binding).await
    };
    let bind_old = async |namespace: &str, name: &str| {
        let binding = object(json!({"metadata": {"name": "b"}, "provider": {"type": "prov"},
            "secretRef": {"name": name, "namespace": namespace}}));
        old.create(&Default::default(), &binding).await
    };
    let mut reported = Vec::new();
    for name in ["prod-creds", "nowhere"] {
        let (code, message) = refused(bind("garden-p", name).await);
        assert_eq!(code, 403, "{message}");
        assert!(
            message.contains(&format!(
                "credentialsRef: user \"ann\" is not allowed to read Secret garden-p/{name}"
            )),
            "{message}"
        );
        reported.push(message.replace(name, "NAME"));
        let (code, message) = refused(bind_old("garden-p", name).await);
        assert_eq!(code, 403, "{message}");
        assert!(message.contains("secretRef: user \"ann\""), "{message}");
    }
    assert_eq!(reported[0], reported[1], "whether it exists is not theirs to know");
    let (code, message) = refused(bind("garden-team", "nowhere").await);
    assert!(
        code == 403 && message.contains("there is no Secret garden-team/nowhere"),
        "{code} {message}"
    );
    bind("garden-team", "own").await.unwrap();
    bind_old("garden-team", "own").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_one_project() {
    let (garden, _) = team().await;
    let projects = garden.api::<Project>();
    let labels = json!({"project.gardener.cloud/name": "other"});
    let namespace = json!({"metadata": {"name": "garden-reserved", "labels": labels}});
    garden.all::<Namespace>(namespace).await;
    let make = async |name: &str, namespace: Option<&str>| {
        let project = object(json!({"metadata": {"name": name}, "spec": {"namespace": namespace}}));
        projects.create(&Default::default(), &project).await
    };
    let (code, message) = refused(make("thief", Some("garden-team")).await);
    assert!(code == 422, "{code} {message}");
    assert!(
        message.contains("spec.namespace: Invalid value: \"garden-team\": belongs to project team;"),
        "{message}"
    );
    let (code, message) = refused(make("thief", Some("garden-reserved")).await);
    assert!(
        code == 422 && message.contains("belongs to project other"),
        "{code} {message}"
    );
    make("other", Some("garden-reserved")).await.unwrap();
    make("first", Some("garden-later")).await.unwrap();
    let (code, message) = refused(make("later", None).await);
    assert!(
        code == 422 && message.contains("belongs to project first"),
        "{code} {message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_admin_of_a_project_cannot_change_its_owner() {
    let (garden, _) = team().await;
    let projects = |name: &str| Api::<Project>::all(garden.embedded.client(name, &[]));
    let stored = projects("ann").get("team").await.unwrap();
    let with = |change: &dyn Fn(&mut Vec<ProjectMember>)| {
        let mut members = stored.spec.members.clone();
        change(&mut members);
        Patch::Merge(json!({"spec": {"members": members}}))
    };
    let member = |kind: &str, name: &str, roles: &[&str]| -> ProjectMember {
        let account = kind == "ServiceAccount";
        object(
            json!({"kind": kind, "name": name, "role": roles[0], "roles": roles[1..],
            "apiGroup": (!account).then_some("rbac.authorization.k8s.io"), "namespace": account.then_some("garden-team")}),
        )
    };
    let change =
        async |user: &str, patch: &Patch<Value>| projects(user).patch("team", &PatchParams::default(), patch).await;
    let owner = with(&|members| {
        members
            .iter_mut()
            .for_each(|member| member.roles = vec!["owner".into(), "uam".into()])
    });
    let mallory = with(&|members| members.push(member("User", "mallory", &["admin"])));
    let robot = with(&|members| members.push(member("ServiceAccount", "robot", &["admin"])));
    let risen = with(&|members| members.push(member("ServiceAccount", "robot", &["viewer", "uam"])));
    let itself = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"});
    let seized = Patch::Merge(json!({"spec": {"owner": itself}}));
    for patch in [&owner, &mallory, &risen, &seized] {
        let (code, message) = refused(change("ann", patch).await);
        assert_eq!(code, 403, "{message}");
        assert!(
            message.contains("\"ann\" is not allowed to manage-members"),
            "{message}"
        );
    }
    change("ann", &Patch::Merge(json!({"spec": {"description": "ours"}})))
        .await
        .unwrap();
    change("ann", &robot).await.unwrap();
    change("zoe", &mallory).await.unwrap();
}
