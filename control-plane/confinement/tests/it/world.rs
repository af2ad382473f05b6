//! A garden in which each seed has one of everything, every object named after its seed, and what each object is for.

use control_plane_confinement::{
    BackupBucket, BackupEntry, Bastion, CertificateSigningRequest, ControllerDeployment, ControllerInstallation,
    CredentialsBinding, Decision, Graph, Identity, Kind, ManagedSeed, Party, Project, Request, SecretBinding, Seed,
    Shoot, decide,
};
use serde_json::{Value, json};

/// Seeds of the garden.
pub(crate) const SEEDS: [&str; 2] = ["a", "b"];

/// The uid of a Seed, which is its bucket's name.
pub(crate) fn seed_uid(seed: &str) -> String {
    format!("uid-of-{seed}")
}

/// The namespace of the Shoots of a seed.
pub(crate) fn namespace(seed: &str) -> String {
    format!("garden-p{seed}")
}

/// An object with the edges that it draws: where the field stands, and what it makes belong to the seed.
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) object: Value,
    pub(crate) edges: Vec<(&'static str, Kind, String, String)>,
}

/// All that the graph of a seed is made of.
pub(crate) fn sources(seed: &str) -> Vec<Source> {
    let mut all = of_seed(seed);
    all.extend(of_project(seed));
    all.extend(entries(seed));
    all.extend(of_installations(seed));
    all
}

fn source(kind: Kind, object: Value, edges: Vec<(&'static str, Kind, &str, String)>) -> Source {
    let edges = edges.into_iter();
    Source {
        kind,
        object,
        edges: edges
            .map(|(field, kind, namespace, name)| (field, kind, namespace.to_owned(), name))
            .collect(),
    }
}

fn of_seed(seed: &str) -> Vec<Source> {
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": format!("{name}-{seed}")});
    let identity = |name: &str| {
        json!({"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "WorkloadIdentity", "namespace": "garden",
            "name": format!("{name}-{seed}")})
    };
    let resource = |kind: &str, name: &str| json!({"name": name, "resourceRef": {"apiVersion": "v1", "kind": kind, "name": format!("{name}-{seed}")}});
    let named = |name: &str| format!("{name}-{seed}");
    let bucket = seed_uid(seed);
    vec![
        source(
            Kind::Seed,
            json!({"metadata": {"name": seed, "uid": seed_uid(seed)}, "spec": {
                "backup": {"provider": "moon", "credentialsRef": secret("backup")},
                "dns": {
                    "provider": {"type": "moon", "credentialsRef": secret("dns")},
                    "internal": {"type": "moon", "domain": "i", "credentialsRef": identity("internal")},
                    "defaults": [{"type": "moon", "domain": "d", "credentialsRef": secret("default")}],
                },
                "resources": [resource("Secret", "seed-secret"), resource("ConfigMap", "seed-map")],
            }}),
            vec![
                ("/spec/backup/credentialsRef", Kind::Secret, "garden", named("backup")),
                (
                    "/spec/dns/provider/credentialsRef",
                    Kind::Secret,
                    "garden",
                    named("dns"),
                ),
                (
                    "/spec/dns/internal/credentialsRef",
                    Kind::WorkloadIdentity,
                    "garden",
                    named("internal"),
                ),
                (
                    "/spec/dns/defaults/0/credentialsRef",
                    Kind::Secret,
                    "garden",
                    named("default"),
                ),
                (
                    "/spec/resources/0/resourceRef",
                    Kind::Secret,
                    "garden",
                    named("seed-secret"),
                ),
                (
                    "/spec/resources/1/resourceRef",
                    Kind::ConfigMap,
                    "garden",
                    named("seed-map"),
                ),
            ],
        ),
        source(
            Kind::BackupBucket,
            json!({"metadata": {"name": format!("other-{bucket}")}, "spec": {"seedName": seed, "credentialsRef": secret("bucket")}}),
            vec![
                ("/spec/seedName", Kind::BackupBucket, "", format!("other-{bucket}")),
                ("/spec/credentialsRef", Kind::Secret, "garden", named("bucket")),
            ],
        ),
        source(
            Kind::CertificateSigningRequest,
            json!({"metadata": {"name": format!("csr-{seed}")}, "spec": {"username": format!("gardener.cloud:system:seed:{seed}")}}),
            vec![("/spec/username", Kind::CertificateSigningRequest, "", named("csr"))],
        ),
    ]
}

fn of_project(seed: &str) -> Vec<Source> {
    let inside = &namespace(seed);
    let named = |name: &str| format!("{name}-{seed}");
    let meta = |name: &str| json!({"name": named(name), "namespace": inside});
    let in_shared = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "namespace": "garden-shared", "name": named(name)});
    vec![
        source(
            Kind::Project,
            json!({"metadata": {"name": format!("p{seed}")}, "spec": {"namespace": inside}}),
            vec![("/spec/namespace", Kind::Project, "", format!("p{seed}"))],
        ),
        source(
            Kind::SecretBinding,
            json!({"metadata": meta("binding"), "secretRef": in_shared("Secret", "bound"), "quotas": [in_shared("Quota", "quota")]}),
            vec![
                ("/secretRef", Kind::Secret, "garden-shared", named("bound")),
                ("/quotas/0", Kind::Quota, "garden-shared", named("quota")),
            ],
        ),
        source(
            Kind::CredentialsBinding,
            json!({"metadata": meta("credentials"), "credentialsRef": in_shared("WorkloadIdentity", "workload"),
                "quotas": [in_shared("Quota", "other-quota")]}),
            vec![
                (
                    "/credentialsRef",
                    Kind::WorkloadIdentity,
                    "garden-shared",
                    named("workload"),
                ),
                ("/quotas/0", Kind::Quota, "garden-shared", named("other-quota")),
            ],
        ),
        source(
            Kind::CredentialsBinding,
            json!({"metadata": meta("second"), "credentialsRef": {"kind": "InternalSecret", "namespace": inside, "name": named("inner")}}),
            vec![("/credentialsRef", Kind::InternalSecret, inside, named("inner"))],
        ),
        source(
            Kind::Bastion,
            json!({"metadata": meta("bastion"), "spec": {"seedName": seed, "shootRef": {"name": named("shoot")}}}),
            vec![("/spec/seedName", Kind::Bastion, inside, named("bastion"))],
        ),
        source(
            Kind::ManagedSeed,
            json!({"metadata": meta("managed"), "spec": {"shoot": {"name": named("shoot")}}}),
            vec![("/spec/shoot", Kind::ManagedSeed, inside, named("managed"))],
        ),
        shoot(seed),
        source(
            Kind::Shoot,
            json!({"metadata": meta("leaving"), "spec": {"seedName": "elsewhere", "credentialsBindingName": named("second")},
                "status": {"seedName": seed}}),
            vec![("/status/seedName", Kind::Shoot, inside, named("leaving"))],
        ),
    ]
}

fn entries(seed: &str) -> Vec<Source> {
    let inside = &namespace(seed);
    let named = |name: &str| format!("{name}-{seed}");
    let meta = |name: &str| json!({"name": named(name), "namespace": inside});
    let owned = |name: &str| {
        let owner =
            json!([{"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "name": named("shoot"), "uid": "u"}]);
        json!({"name": named(name), "namespace": inside, "ownerReferences": owner})
    };
    vec![
        source(
            Kind::BackupEntry,
            json!({"metadata": meta("entry"), "spec": {"seedName": seed, "bucketName": seed_uid(seed)}}),
            vec![("/spec/seedName", Kind::BackupEntry, inside, named("entry"))],
        ),
        source(
            Kind::BackupEntry,
            json!({"metadata": meta("leaving"), "spec": {"seedName": "elsewhere"}, "status": {"seedName": seed}}),
            vec![("/status/seedName", Kind::BackupEntry, inside, named("leaving"))],
        ),
        source(
            Kind::BackupEntry,
            json!({"metadata": owned("of-shoot"), "spec": {"seedName": "elsewhere"}}),
            vec![(
                "/metadata/ownerReferences",
                Kind::BackupEntry,
                inside,
                named("of-shoot"),
            )],
        ),
    ]
}

/// A Shoot that refers to everything that a Shoot can refer to.
fn shoot(seed: &str) -> Source {
    let inside = &namespace(seed);
    let named = |name: &str| format!("{name}-{seed}");
    let resource = |kind: &str, name: &str| json!({"name": name, "resourceRef": {"apiVersion": "v1", "kind": kind, "name": named(name)}});
    let object = json!({
        "metadata": {"name": named("shoot"), "namespace": inside, "uid": "u"},
        "spec": {
            "seedName": seed,
            "secretBindingName": named("binding"),
            "credentialsBindingName": named("credentials"),
            "cloudProfile": {"kind": "NamespacedCloudProfile", "name": named("profile")},
            "kubernetes": {"version": "1.35.0", "kubeAPIServer": {
                "auditConfig": {"auditPolicy": {"configMapRef": {"name": named("audit")}}},
                "structuredAuthentication": {"configMapName": named("authentication")},
                "structuredAuthorization": {"configMapName": named("authorization"),
                    "kubeconfigs": [{"authorizerName": "w", "secretName": named("authorizer")}]},
                "admissionPlugins": [{"name": "P", "kubeconfigSecretName": named("plugin")}],
            }},
            "dns": {"providers": [
                {"type": "moon", "secretName": named("old-dns")},
                {"type": "moon", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": named("shoot-dns")}},
            ]},
            "resources": [resource("Secret", "extra"), resource("ConfigMap", "map"), resource("WorkloadIdentity", "identity")],
        },
        "status": {"technicalID": format!("shoot--p{seed}--shoot")},
    });
    let mut edges = edges_of_shoot(seed, inside);
    edges.extend(edges_of_lists(seed, inside));
    source(Kind::Shoot, object, edges)
}

fn edges_of_shoot<'a>(seed: &str, inside: &'a str) -> Vec<(&'static str, Kind, &'a str, String)> {
    let named = |name: &str| format!("{name}-{seed}");
    vec![
        ("/spec/seedName", Kind::Shoot, inside, named("shoot")),
        ("/spec/secretBindingName", Kind::SecretBinding, inside, named("binding")),
        (
            "/spec/credentialsBindingName",
            Kind::CredentialsBinding,
            inside,
            named("credentials"),
        ),
        (
            "/spec/cloudProfile",
            Kind::NamespacedCloudProfile,
            inside,
            named("profile"),
        ),
        (
            "/spec/kubernetes/kubeAPIServer/auditConfig",
            Kind::ConfigMap,
            inside,
            named("audit"),
        ),
        (
            "/spec/kubernetes/kubeAPIServer/structuredAuthentication",
            Kind::ConfigMap,
            inside,
            named("authentication"),
        ),
        (
            "/spec/kubernetes/kubeAPIServer/structuredAuthorization/configMapName",
            Kind::ConfigMap,
            inside,
            named("authorization"),
        ),
        (
            "/spec/kubernetes/kubeAPIServer/structuredAuthorization/kubeconfigs/0/secretName",
            Kind::Secret,
            inside,
            named("authorizer"),
        ),
        (
            "/spec/kubernetes/kubeAPIServer/admissionPlugins/0/kubeconfigSecretName",
            Kind::Secret,
            inside,
            named("plugin"),
        ),
    ]
}

/// What its lists refer to, and the entry of its backups.
fn edges_of_lists<'a>(seed: &str, inside: &'a str) -> Vec<(&'static str, Kind, &'a str, String)> {
    let named = |name: &str| format!("{name}-{seed}");
    vec![
        (
            "/spec/dns/providers/0/secretName",
            Kind::Secret,
            inside,
            named("old-dns"),
        ),
        (
            "/spec/dns/providers/1/credentialsRef",
            Kind::Secret,
            inside,
            named("shoot-dns"),
        ),
        ("/spec/resources/0/resourceRef", Kind::Secret, inside, named("extra")),
        ("/spec/resources/1/resourceRef", Kind::ConfigMap, inside, named("map")),
        (
            "/spec/resources/2/resourceRef",
            Kind::WorkloadIdentity,
            inside,
            named("identity"),
        ),
        (
            "/status/technicalID",
            Kind::BackupEntry,
            inside,
            format!("shoot--p{seed}--shoot--u"),
        ),
    ]
}

fn of_installations(seed: &str) -> Vec<Source> {
    let named = |name: &str| format!("{name}-{seed}");
    vec![
        source(
            Kind::ControllerInstallation,
            json!({"metadata": {"name": named("installation")}, "spec": {"seedRef": {"name": seed},
                "registrationRef": {"name": named("registration")}, "deploymentRef": {"name": named("deployment")}}}),
            vec![("/spec/seedRef", Kind::ControllerInstallation, "", named("installation"))],
        ),
        source(
            Kind::ControllerDeployment,
            json!({"metadata": {"name": named("deployment")},
            "helm": {"ociRepository": {"ref": "r", "pullSecretRef": {"name": named("pull")}, "caBundleSecretRef": {"name": named("bundle")}}},
            "resources": [
                {"name": "s", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": named("values")}},
                {"name": "m", "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": named("settings")}},
            ]}),
            vec![
                (
                    "/helm/ociRepository/pullSecretRef",
                    Kind::Secret,
                    "garden",
                    named("pull"),
                ),
                (
                    "/helm/ociRepository/caBundleSecretRef",
                    Kind::Secret,
                    "garden",
                    named("bundle"),
                ),
                ("/resources/0/resourceRef", Kind::Secret, "garden", named("values")),
                ("/resources/1/resourceRef", Kind::ConfigMap, "garden", named("settings")),
            ],
        ),
    ]
}

/// Takes in an object of a kind.
pub(crate) fn put(graph: &mut Graph, kind: Kind, object: &Value) -> bool {
    macro_rules! typed {
        ($($name:ident)*) => {
            match kind {
                $(Kind::$name => graph.put::<$name>(&serde_json::from_value(object.clone()).unwrap()),)*
                other => panic!("{other} holds nothing"),
            }
        };
    }
    typed!(
        BackupBucket BackupEntry Bastion CertificateSigningRequest ControllerDeployment ControllerInstallation
        CredentialsBinding ManagedSeed Project SecretBinding Seed Shoot
    )
}

/// The garden with all seeds.
pub(crate) fn garden() -> Graph {
    let mut graph = Graph::default();
    for seed in SEEDS {
        for source in sources(seed) {
            put(&mut graph, source.kind, &source.object);
        }
    }
    graph
}

/// Every object of a seed that an attacker could want: kind, namespace, name.
pub(crate) fn objects(seed: &str) -> Vec<(Kind, String, String)> {
    let inside = namespace(seed);
    let shoot = format!("shoot-{seed}");
    let mut all: Vec<(Kind, String, String)> = Vec::new();
    for source in sources(seed) {
        all.extend(
            source
                .edges
                .into_iter()
                .map(|(_, kind, namespace, name)| (kind, namespace, name)),
        );
    }
    let mut more = |kind, namespace: &str, name: &str| all.push((kind, namespace.to_owned(), name.to_owned()));
    more(Kind::Seed, "", seed);
    more(Kind::BackupBucket, "", &seed_uid(seed));
    more(Kind::Namespace, "", &inside);
    more(Kind::Namespace, "", &format!("seed-{seed}"));
    more(Kind::ShootState, &inside, &shoot);
    for suffix in ["ca-cluster", "monitoring", "ssh-keypair", "ssh-keypair.old"] {
        more(Kind::Secret, &inside, &format!("{shoot}.{suffix}"));
    }
    more(Kind::InternalSecret, &inside, &format!("{shoot}.ca-client"));
    more(Kind::ConfigMap, &inside, &format!("{shoot}.ca-cluster"));
    more(Kind::ConfigMap, &inside, &format!("{shoot}.ca-kubelet"));
    more(Kind::Secret, "garden", &format!("generated-bucket-{}", seed_uid(seed)));
    for kind in [Kind::Secret, Kind::ConfigMap, Kind::ServiceAccount, Kind::Lease] {
        more(kind, &format!("seed-{seed}"), "extension-x");
    }
    more(Kind::Lease, "gardener-system-seed-lease", seed);
    more(Kind::Gardenlet, "garden", seed);
    more(Kind::Event, &inside, "shoot.1");
    all
}

/// A part of a seed.
pub(crate) fn part(seed: &str, party: Party) -> Identity {
    Identity {
        seed: seed.to_owned(),
        party,
    }
}

/// Decides on one object of a kind.
pub(crate) fn decision_of(
    graph: &Graph,
    identity: &Identity,
    verb: &str,
    (kind, namespace, name): (Kind, &str, &str),
    subresource: &str,
) -> Decision {
    let request = Request {
        verb,
        group: kind.group(),
        resource: kind.plural(),
        subresource,
        namespace,
        name,
        ..Request::default()
    };
    decide(graph, identity, &request)
}
