//! Parts of a seed in a landscape of two: with a stolen credential of one, nothing of the other is to be had, and everything
//! that they do by themselves is allowed.

use std::sync::{Arc, Mutex};

use api_core::v1beta1::{BackupBucket, Project, Seed, Shoot};
use cluster_apiserver::AuditRecord;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use landscape_local::{apply_all, documents};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, World, merge, wait};

const SEEDS: [&str; 2] = ["local", "local-2"];
/// The Shoot of the second seed.
const THEIRS: &str = "theirs";

fn shoot_on(seed: &str, name: &str) -> Value {
    let mut shoot = documents(SHOOT).unwrap().remove(0);
    shoot["metadata"]["name"] = json!(name);
    shoot["spec"]["seedName"] = json!(seed);
    shoot
}

async fn two_seeds() -> World {
    World::start_with(|settings| *settings = settings.clone().with_seeds(2)).await
}

fn client(world: &World, user: &str, groups: &[&str]) -> Client {
    let kubeconfig = world.landscape.garden.kubeconfig(user, groups).unwrap();
    world.landscape.connector().client(&kubeconfig).unwrap()
}

fn gardenlet(world: &World, seed: &str) -> Client {
    let user = format!("gardener.cloud:system:seed:{seed}");
    client(world, &user, &["gardener.cloud:system:seeds"])
}

fn extension(world: &World, seed: &str) -> Client {
    let user = format!("system:serviceaccount:seed-{seed}:extension-x");
    let group = format!("system:serviceaccounts:seed-{seed}");
    client(world, &user, &["system:serviceaccounts", &group])
}

/// The refusal of an attack.
fn refused<T>(what: &str, outcome: Result<T, kube::Error>) -> String {
    let status = match outcome {
        Err(kube::Error::Api(status)) if status.code == 403 => Some(status),
        _ => None,
    };
    assert!(status.is_some(), "{what} was not refused with 403");
    status.map(|status| status.message.clone()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_stolen_credential_of_one_seed_opens_nothing_of_another() {
    let world = two_seeds().await;
    world.apply(&SURROUNDINGS).await;
    apply_all(
        &world.garden,
        vec![shoot_on("local", NAME), shoot_on("local-2", THEIRS)],
    )
    .await
    .unwrap();
    let ours = world.succeeded(NAMESPACE, NAME).await;
    world.succeeded(NAMESPACE, THEIRS).await;
    assert_eq!(ours.spec.seed_name.as_deref(), Some("local"));
    let seeds: Api<Seed> = Api::all(world.garden.clone());
    let other_uid = seeds.get("local-2").await.unwrap().uid().unwrap();
    for stolen in [gardenlet(&world, "local"), extension(&world, "local")] {
        for (what, attempt) in attacks(&stolen, &other_uid).await {
            let text = refused(what, attempt);
            assert!(text.contains("of seed \"local\" may not "), "{what}: {text}");
            assert!(text.contains("(allowed: "), "{what}: {text}");
        }
        let own = Api::<Shoot>::namespaced(stolen.clone(), NAMESPACE)
            .get(NAME)
            .await
            .unwrap();
        assert_eq!(own.name_any(), NAME);
    }
    // The same credential still gets what it is for.
    let own = gardenlet(&world, "local");
    let key = format!("{NAME}.ssh-keypair");
    assert!(
        Api::<Secret>::namespaced(own.clone(), NAMESPACE)
            .get(&key)
            .await
            .is_ok()
    );
    let labelled = ListParams::default().labels("name.seed.gardener.cloud/local=true");
    let listed = Api::<Shoot>::all(own).list(&labelled).await.unwrap();
    assert_eq!(
        listed.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        [NAME]
    );
}

type Attempts = Vec<(&'static str, Result<(), kube::Error>)>;

/// What a thief would try.
async fn attacks(stolen: &Client, other_uid: &str) -> Attempts {
    let mut attempts = reads(stolen, other_uid).await;
    attempts.extend(writes(stolen, other_uid).await);
    attempts.extend(widening(stolen).await);
    attempts
}

/// What is another's to read.
async fn reads(stolen: &Client, other_uid: &str) -> Attempts {
    let (everywhere, all) = (|| stolen.clone(), ListParams::default());
    let secrets: Api<Secret> = Api::namespaced(everywhere(), NAMESPACE);
    let in_garden: Api<Secret> = Api::namespaced(everywhere(), "garden");
    let shoots: Api<Shoot> = Api::namespaced(everywhere(), NAMESPACE);
    let seeds: Api<Seed> = Api::all(everywhere());
    let buckets: Api<BackupBucket> = Api::all(everywhere());
    let internal = GroupVersionKind::gvk("core.gardener.cloud", "v1beta1", "InternalSecret");
    let internal: Api<DynamicObject> = Api::namespaced_with(
        everywhere(),
        NAMESPACE,
        &ApiResource::from_gvk_with_plural(&internal, "internalsecrets"),
    );
    vec![
        (
            "read a Secret of another seed's Shoot",
            secrets.get("theirs.ssh-keypair").await.map(drop),
        ),
        (
            "read the authority of another seed's Shoot",
            internal.get("theirs.ca-client").await.map(drop),
        ),
        (
            "read another seed's backup credentials",
            in_garden.get("backup-local-2").await.map(drop),
        ),
        (
            "read another seed's DNS credentials",
            in_garden.get("dns-local-2").await.map(drop),
        ),
        ("list Secrets of a project", secrets.list(&all).await.map(drop)),
        (
            "list all Secrets",
            Api::<Secret>::all(everywhere()).list(&all).await.map(drop),
        ),
        (
            "list Secrets of another seed",
            Api::<Secret>::namespaced(everywhere(), "seed-local-2")
                .list(&all)
                .await
                .map(drop),
        ),
        (
            "list all ConfigMaps",
            Api::<ConfigMap>::all(everywhere()).list(&all).await.map(drop),
        ),
        (
            "list Projects",
            Api::<Project>::all(everywhere()).list(&all).await.map(drop),
        ),
        (
            "list all Shoots",
            Api::<Shoot>::all(everywhere()).list(&all).await.map(drop),
        ),
        ("list all Seeds", seeds.list(&all).await.map(drop)),
        ("read another Seed", seeds.get("local-2").await.map(drop)),
        ("read another seed's bucket", buckets.get(other_uid).await.map(drop)),
        ("read another seed's Shoot", shoots.get(THEIRS).await.map(drop)),
    ]
}

/// What belongs to another seed, or to no seed.
async fn writes(stolen: &Client, other_uid: &str) -> Attempts {
    let secrets: Api<Secret> = Api::namespaced(stolen.clone(), NAMESPACE);
    let shoots: Api<Shoot> = Api::namespaced(stolen.clone(), NAMESPACE);
    let seeds: Api<Seed> = Api::all(stolen.clone());
    let buckets: Api<BackupBucket> = Api::all(stolen.clone());
    let accounts: Api<ServiceAccount> = Api::namespaced(stolen.clone(), "seed-local-2");
    let (ours, merge) = (PatchParams::default(), |patch: Value| Patch::Merge(patch));
    let moving = merge(json!({"spec": {"seedName": "local"}}));
    vec![
        (
            "delete another seed's bucket",
            buckets.delete(other_uid, &DeleteParams::default()).await.map(drop),
        ),
        (
            "move another seed's Shoot here",
            shoots.patch(THEIRS, &ours, &moving).await.map(drop),
        ),
        (
            "move an own Shoot away",
            shoots
                .patch(NAME, &ours, &merge(json!({"spec": {"seedName": "local-2"}})))
                .await
                .map(drop),
        ),
        (
            "bind a Shoot",
            shoots
                .patch_subresource("binding", THEIRS, &ours, &moving)
                .await
                .map(drop),
        ),
        (
            "write the status of another seed's Shoot",
            shoots
                .patch_status(THEIRS, &ours, &merge(json!({"status": {"hibernated": true}})))
                .await
                .map(drop),
        ),
        (
            "delete another seed's Shoot",
            shoots.delete(THEIRS, &DeleteParams::default()).await.map(drop),
        ),
        (
            "write another seed's status",
            seeds
                .patch_status("local-2", &ours, &merge(json!({"status": {"kubernetesVersion": "v1"}})))
                .await
                .map(drop),
        ),
        (
            "make an account of another seed",
            accounts
                .create(&PostParams::default(), &ServiceAccount::default())
                .await
                .map(drop),
        ),
        (
            "write another project's Secret",
            secrets
                .patch("theirs.ssh-keypair", &ours, &merge(json!({"data": {}})))
                .await
                .map(drop),
        ),
    ]
}

/// What would open the way to more, if it were allowed.
async fn widening(stolen: &Client) -> Attempts {
    let seeds: Api<Seed> = Api::all(stolen.clone());
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "backup-local-2"});
    let seed = Patch::Merge(json!({"spec": {"backup": {"credentialsRef": reference}}}));
    let bucket = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "BackupBucket", "metadata": {"name": "mine"},
        "spec": {"provider": {"type": "local", "region": "local"}, "seedName": "local", "credentialsRef": reference}});
    let bucket: BackupBucket = serde_json::from_value(bucket).unwrap();
    let buckets: Api<BackupBucket> = Api::all(stolen.clone());
    let shoots: Api<Shoot> = Api::namespaced(stolen.clone(), NAMESPACE);
    vec![
        (
            "make an own Shoot refer to another's Secret",
            shoots
                .patch(
                    NAME,
                    &PatchParams::default(),
                    &Patch::Merge(json!({"spec": {"resources": [
            {"name": "x", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "theirs.ssh-keypair"}}]}})),
                )
                .await
                .map(drop),
        ),
        (
            "make the own Seed refer to another's Secret",
            seeds.patch("local", &PatchParams::default(), &seed).await.map(drop),
        ),
        (
            "make a bucket that refers to another's Secret",
            buckets.create(&PostParams::default(), &bucket).await.map(drop),
        ),
    ]
}

/// Refusals of what parts of seeds ask for, as they come.
fn watched(world: &World) -> Arc<Mutex<Vec<String>>> {
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let recorded = refusals.clone();
    world
        .landscape
        .garden
        .server()
        .audit()
        .subscribe(move |record: &AuditRecord| {
            let of_seed = [
                "gardener.cloud:system:seed:",
                "orangery:builtin-operator",
                "system:serviceaccount:seed-",
            ];
            if record.code == 403 && of_seed.iter().any(|prefix| record.user.starts_with(prefix)) {
                let AuditRecord { user, verb, path, .. } = record;
                recorded.lock().unwrap().push(format!("{user} {verb} {path}"));
            }
        });
    refusals
}

#[tokio::test(start_paused = true)]
async fn all_that_parts_of_seeds_do_is_allowed() {
    let world = two_seeds().await;
    let refusals = watched(&world);
    world.apply(&SURROUNDINGS).await;
    let names = [("local", NAME), ("local-2", THEIRS)];
    apply_all(&world.garden, names.map(|(seed, name)| shoot_on(seed, name)).into())
        .await
        .unwrap();
    for (_, name) in names {
        world.succeeded(NAMESPACE, name).await;
    }
    for enabled in [true, false] {
        for (_, name) in names {
            let wish = json!({"spec": {"hibernation": {"enabled": enabled}}});
            merge(&world.shoots(NAMESPACE), name, &wish).await;
        }
        for (_, name) in names {
            world.succeeded(NAMESPACE, name).await;
        }
    }
    for (_, name) in names {
        world.delete_shoot(NAMESPACE, name).await;
    }
    let seeds: Api<Seed> = Api::all(world.garden.clone());
    for seed in SEEDS {
        wait(&seeds, seed, |seed| seed.map(drop)).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let refusals = refusals.lock().unwrap().clone();
    assert!(refusals.is_empty(), "{refusals:#?}");
}

#[tokio::test(start_paused = true)]
async fn identities_that_name_no_seed_clearly_get_nothing() {
    let world = two_seeds().await;
    let all = ListParams::default();
    for (user, groups) in [
        (
            "gardener.cloud:system:seed:",
            &["gardener.cloud:system:seeds"] as &[&str],
        ),
        ("somebody", &["gardener.cloud:system:seeds"]),
        ("gardener.cloud:system:seed:local", &[]),
        ("gardener.cloud:system:seed:nowhere", &["gardener.cloud:system:seeds"]),
    ] {
        let stolen = client(&world, user, groups);
        let text = refused(user, Api::<Shoot>::all(stolen.clone()).list(&all).await);
        assert!(
            text.contains("it is not clear which seed") || text.contains("of seed \"nowhere\" may not"),
            "{text}"
        );
        refused(user, Api::<Seed>::all(stolen.clone()).get("local").await);
        refused(
            user,
            Api::<Secret>::namespaced(stolen, "garden").get("backup-local").await,
        );
    }
}
