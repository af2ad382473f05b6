//! Two projects act against each other: what a member may do in a project of their own reaches no other project.

use api_core::v1beta1::{BackupEntry, Project, ProjectPhase, Shoot};
use api_extensions as extensions;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, Client, ResourceExt};
use landscape_local::{BACKUPS, apply_all, documents};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SURROUNDINGS, World, merge, wait};

const WORKERLESS: &str = include_str!("../../../../examples/41-shoot-workerless.yaml");
const EVIL: &str = "garden-evil";

/// Makes a second project, and gives a client of eve, who is its admin and nothing else anywhere.
async fn eve(world: &World) -> Client {
    let member = json!({"kind": "ServiceAccount", "name": "eve", "namespace": EVIL, "role": "admin"});
    let project = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": "evil"},
        "spec": {"namespace": EVIL, "members": [member]}});
    apply_all(&world.garden, vec![project]).await.unwrap();
    wait(&Api::<Project>::all(world.garden.clone()), "evil", |project| {
        (project?.status.as_ref()?.phase == Some(ProjectPhase::Ready)).then_some(())
    })
    .await;
    wait(&Api::<Namespace>::all(world.garden.clone()), EVIL, |namespace| {
        namespace.map(drop)
    })
    .await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.garden.clone(), EVIL);
    let account = object(json!({"metadata": {"name": "eve"}}));
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request: TokenRequest = object(json!({"spec": {"audiences": []}}));
    let token = accounts
        .create_token_request("eve", &PostParams::default(), &request)
        .await
        .unwrap();
    let mut kubeconfig = world.landscape.garden_kubeconfig().unwrap();
    kubeconfig.auth_infos[0].auth_info = Some(AuthInfo {
        token: Some(token.status.unwrap().token.into()),
        ..AuthInfo::default()
    });
    world.landscape.connector().client(&kubeconfig).unwrap()
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// The example Shoot without workers in eve's project, with these fields of its spec.
fn shoot(name: &str, fields: &Value) -> Shoot {
    let mut shoot = documents(WORKERLESS).unwrap().remove(0);
    shoot["metadata"] = json!({"name": name, "namespace": EVIL});
    shoot["spec"]
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    object(shoot)
}

fn refused<T: std::fmt::Debug>(answer: Result<T, kube::Error>, code: u16, parts: &[&str]) {
    match answer.unwrap_err() {
        kube::Error::Api(status) => {
            assert_eq!(status.code, code, "{}", status.message);
            for part in parts {
                assert!(status.message.contains(part), "{}\nlacks {part}", status.message);
            }
        }
        error => unreachable!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_cannot_reach_the_backups_of_another_project() {
    let world = World::with_example_shoot().await;
    let eve = eve(&world).await;
    let theirs: Api<BackupEntry> = Api::namespaced(world.garden.clone(), NAMESPACE);
    let victim = theirs.list(&ListParams::default()).await.unwrap().items.remove(0);
    let (name, bucket) = (victim.name_any(), victim.spec.bucket_name.clone());
    let folder = world.folder().join(BACKUPS).join("buckets").join(&bucket).join(&name);
    assert!(folder.is_dir(), "{}", folder.display());

    let copy: BackupEntry = object(json!({"metadata": {"name": name}, "spec": victim.spec}));
    let own: Api<BackupEntry> = Api::namespaced(eve.clone(), EVIL);
    refused(
        own.create(&PostParams::default(), &copy).await,
        403,
        &["cannot create", "backupentries"],
    );
    refused(
        own.delete(&name, &DeleteParams::default()).await,
        403,
        &["cannot delete", "backupentries"],
    );
    assert!(
        own.list(&ListParams::default()).await.unwrap().items.is_empty(),
        "looking is theirs"
    );
    let by_admin: Api<BackupEntry> = Api::namespaced(world.garden.clone(), EVIL);
    let expected = [
        "metadata.name: Invalid value",
        "of a Shoot outside of namespace garden-evil",
    ];
    refused(by_admin.create(&PostParams::default(), &copy).await, 422, &expected);

    let in_seed: Api<extensions::BackupEntry> = Api::all(world.seed.clone());
    let left = in_seed.get(&name).await.unwrap();
    assert_eq!(left.annotations()["backup.orangery.dev/owner-namespace"], NAMESPACE);
    assert_eq!(left.metadata.deletion_timestamp, None);
    assert!(folder.is_dir());
}

#[tokio::test(start_paused = true)]
async fn a_user_cannot_take_the_name_of_another_api_server() {
    let world = World::with_example_shoot().await;
    let eve = eve(&world).await;
    let secrets: Api<Secret> = Api::namespaced(eve.clone(), EVIL);
    let secret = object(json!({"metadata": {"name": "dns"}}));
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let shoots: Api<Shoot> = Api::namespaced(eve.clone(), EVIL);
    let create = async |name: &str, domain: &str| {
        let providers =
            json!([{"type": "local", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "dns"}}]);
        let request = shoot(name, &json!({"dns": {"domain": domain, "providers": providers}}));
        shoots.create(&PostParams::default(), &request).await
    };
    for (domain, expected) in [
        (
            "local.local.internal.local.gardener.cloud",
            "a domain of the landscape's own",
        ),
        ("local.gardener.cloud", "a domain of the landscape's own"),
        (
            "local.local.external.local.gardener.cloud",
            "only thief.evil.external.local.gardener.cloud is",
        ),
        (
            "external.local.gardener.cloud",
            "only thief.evil.external.local.gardener.cloud is",
        ),
    ] {
        let field = format!("spec.dns.domain: Invalid value: {domain:?}");
        refused(create("thief", domain).await, 422, &[&field, expected]);
    }
    create("first", "plum.example").await.unwrap();
    refused(
        create("second", "api.plum.example").await,
        422,
        &["the domain of Shoot garden-evil/first"],
    );
    create("third", "third.evil.external.local.gardener.cloud")
        .await
        .unwrap();
    world.succeeded(EVIL, "third").await;

    let victim = world.shoot_client(NAMESPACE, NAME).await;
    let namespaces: Api<Namespace> = Api::all(victim);
    assert!(!namespaces.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_project_tolerates_what_the_landscape_lets_it() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    let eve = eve(&world).await;
    let protected = json!({"key": "seed.gardener.cloud/protected"});
    let shoots: Api<Shoot> = Api::namespaced(eve.clone(), EVIL);
    let create = async |name: &str, tolerations: &Value| {
        let request = shoot(name, &json!({"tolerations": tolerations}));
        shoots.create(&PostParams::default(), &request).await
    };
    let expected = [
        "spec.tolerations[0]: Forbidden",
        "whitelist of project evil, which has nothing",
    ];
    refused(create("s", &json!([protected])).await, 403, &expected);

    let wanted =
        json!({"spec": {"tolerations": {"whitelist": [protected, {"key": "given"}], "defaults": [{"key": "given"}]}}});
    let projects: Api<Project> = Api::all(eve.clone());
    let answer = projects
        .patch("evil", &PatchParams::default(), &Patch::Merge(&wanted))
        .await;
    refused(
        answer,
        403,
        &["spec.tolerations.whitelist", "modify-spec-tolerations-whitelist"],
    );

    merge(&Api::<Project>::all(world.garden.clone()), "evil", &wanted).await;
    let made = create("s", &json!([protected])).await.unwrap();
    let keys: Vec<&str> = made.spec.tolerations.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["seed.gardener.cloud/protected", "given"]);
}
