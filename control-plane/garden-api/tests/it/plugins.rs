//! Each admission plug-in has cases that it alone refuses or changes: with it on they are refused or changed, with it
//! alone switched off by name they are accepted or stay as they were written.

use std::collections::BTreeSet;

use control_plane_garden_api::AdmissionPlugin as Name;
use control_plane_garden_api::{AdmissionPlugins, Work};
use http::Method;
use serde_json::{Value, json};

use crate::SHOOTS;
use crate::garden::{Garden, registration, shoot};

const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
const BINDINGS: &str = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/credentialsbindings";
const PROFILES: &str = "/apis/core.gardener.cloud/v1beta1/namespaces/garden-p/namespacedcloudprofiles";
/// May read and write everything of Gardener, but has none of the verbs that guard single fields.
const ALICE: &str = "alice";

/// A request: method, path, body.
type Request = (Method, String, Value);

struct Row {
    plugin: Name,
    /// Requests by the administrator, which must succeed.
    before: Vec<Request>,
    user: Option<&'static str>,
    request: Request,
    effect: Effect,
}

enum Effect {
    /// Refused with this code, by a message with this part.
    Refused(u16, &'static str),
    /// What stands at a pointer with the plug-in on, and with it off.
    Changed(&'static str, Value, Value),
}

fn refused(plugin: Name, request: Request, code: u16, part: &'static str) -> Row {
    let effect = Effect::Refused(code, part);
    Row {
        plugin,
        before: Vec::new(),
        user: None,
        request,
        effect,
    }
}

fn changed(plugin: Name, request: Request, pointer: &'static str, on: Value, off: Value) -> Row {
    let effect = Effect::Changed(pointer, on, off);
    Row {
        plugin,
        before: Vec::new(),
        user: None,
        request,
        effect,
    }
}

impl Row {
    fn after(mut self, request: Request) -> Self {
        self.before.push(request);
        self
    }

    fn by(mut self, user: &'static str) -> Self {
        self.user = Some(user);
        self
    }
}

fn post(path: impl Into<String>, body: Value) -> Request {
    (Method::POST, path.into(), body)
}

fn patch(path: impl Into<String>, body: Value) -> Request {
    (Method::PATCH, path.into(), body)
}

fn delete(path: impl Into<String>) -> Request {
    (Method::DELETE, path.into(), Value::Null)
}

/// A new Shoot whose versions are complete, with these fields of its spec.
fn new_shoot(fields: Value) -> Request {
    let mut new = shoot("t");
    new["spec"]["kubernetes"]["version"] = json!("1.35.0");
    new["spec"]["provider"]["workers"][0]["machine"] =
        json!({"type": "small", "architecture": "amd64", "image": {"name": "linux", "version": "1.0.0"}});
    for (field, value) in fields.as_object().unwrap() {
        new["spec"][field] = value.clone();
    }
    post(SHOOTS, new)
}

fn of_shoot(suffix: &str) -> String {
    format!("{SHOOTS}/t{suffix}")
}

fn binding(name: &str, secret: &str) -> Request {
    let to = json!({"apiVersion": "v1", "kind": "Secret", "name": secret, "namespace": "garden-p"});
    post(
        BINDINGS,
        json!({"metadata": {"name": name}, "provider": {"type": "prov"}, "credentialsRef": to}),
    )
}

fn identity_of_another_type() -> Request {
    let body = json!({"metadata": {"name": "i"}, "spec": {"audiences": ["a"], "targetSystem": {"type": "other"}}});
    post(
        "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/workloadidentities",
        body,
    )
}

fn by_identity() -> Value {
    json!({"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "WorkloadIdentity", "name": "i", "namespace": "garden-p"})
}

fn seed_path() -> String {
    format!("{CORE}/seeds/seed")
}

fn new_seed(backup: &Value) -> Request {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"});
    let spec = json!({"provider": {"type": "prov", "region": "r"}, "backup": backup,
        "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "nodes": "10.3.0.0/16"},
        "dns": {"internal": {"domain": "other.example", "type": "names", "credentialsRef": secret},
            "provider": {"type": "names", "secretRef": {"name": "n", "namespace": "garden"}}}});
    post(
        format!("{CORE}/seeds"),
        json!({"metadata": {"name": "t"}, "spec": spec}),
    )
}

fn default_domain() -> Request {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"});
    let defaults = json!([{"domain": "d.example", "type": "names", "credentialsRef": secret}]);
    patch(seed_path(), json!({"spec": {"dns": {"defaults": defaults}}}))
}

fn rows_of_extensions() -> Vec<Row> {
    let plain = || new_shoot(json!({}));
    vec![
        refused(
            Name::ExtensionValidator,
            new_shoot(json!({"networking": {"type": "other", "nodes": "10.250.0.0/16"}})),
            403,
            "spec.networking.type",
        ),
        changed(
            Name::ExtensionLabels,
            plain(),
            "/metadata/labels/networking.extensions.gardener.cloud~1net",
            json!("true"),
            Value::Null,
        ),
        refused(
            Name::ShootTolerationRestriction,
            new_shoot(json!({"tolerations": [{"key": "k"}]})),
            403,
            "whitelist",
        ),
    ]
}

fn rows_of_completion() -> Vec<Row> {
    let on_seed = || new_shoot(json!({"seedName": "seed"}));
    let plain = || new_shoot(json!({}));
    let mut forged = plain();
    forged.2["metadata"]["annotations"] = json!({"gardener.cloud/created-by": "bob"});
    let domain = json!({"domain": "another.p.d.example"});
    vec![
        refused(Name::ShootDNS, new_shoot(json!({"dns": domain})), 422, "default domain").after(default_domain()),
        changed(
            Name::ShootDNS,
            on_seed(),
            "/spec/dns/domain",
            json!("t.p.d.example"),
            Value::Null,
        )
        .after(default_domain()),
        changed(
            Name::ShootNodeLocalDNSEnabledByDefault,
            plain(),
            "/spec/systemComponents/nodeLocalDNS/enabled",
            json!(true),
            Value::Null,
        ),
        changed(
            Name::ShootMutator,
            forged,
            "/metadata/annotations/gardener.cloud~1created-by",
            json!("admin"),
            json!("bob"),
        ),
        changed(
            Name::ShootMutator,
            on_seed(),
            "/spec/networking/pods",
            json!("100.96.0.0/11"),
            Value::Null,
        ),
        changed(
            Name::ShootVPAEnabledByDefault,
            plain(),
            "/spec/kubernetes/verticalPodAutoscaler/enabled",
            json!(true),
            Value::Null,
        ),
        changed(
            Name::ShootResourceReservation,
            plain(),
            "/spec/kubernetes/kubelet/kubeReserved/cpu",
            json!("80m"),
            Value::Null,
        ),
    ]
}

fn rows_of_validation() -> Vec<Row> {
    let on_seed = || new_shoot(json!({"seedName": "seed"}));
    let plain = || new_shoot(json!({}));
    vec![
        refused(
            Name::ShootValidator,
            new_shoot(json!({"region": "mars"})),
            403,
            "spec.region",
        ),
        refused(Name::ShootValidator, on_seed(), 403, ".spec.seedName").by(ALICE),
        refused(
            Name::ShootValidator,
            patch(of_shoot(""), json!({"spec": {"credentialsBindingName": "c"}})),
            403,
            "previously referenced Secret",
        )
        .by(ALICE)
        .after(binding("c", "c"))
        .after(plain()),
        refused(
            Name::ShootValidator,
            new_shoot(json!({"dns": {"domain": "x.own.example"}})),
            422,
            "the domain of",
        )
        .after({
            let mut other = new_shoot(json!({"dns": {"domain": "own.example"}}));
            other.2["metadata"]["name"] = json!("s");
            other
        }),
        refused(
            Name::DeletionConfirmation,
            delete(of_shoot("")),
            403,
            "confirmation.gardener.cloud/deletion",
        )
        .after(plain()),
        refused(
            Name::DeletionConfirmation,
            delete(SHOOTS),
            403,
            "confirmation.gardener.cloud/deletion",
        )
        .after(plain()),
        changed(
            Name::DeletionConfirmation,
            patch(
                of_shoot(""),
                json!({"metadata": {"annotations": {"deletion.gardener.cloud/confirmed-by": "bob"}}}),
            ),
            "/metadata/annotations/deletion.gardener.cloud~1confirmed-by",
            Value::Null,
            json!("bob"),
        )
        .after(plain()),
    ]
}

fn rows_of_classes_and_bastions() -> Vec<Row> {
    let scheduling = json!({"seedSelector": {"matchLabels": {"l": "1"}}});
    let class = json!({"metadata": {"name": "inner"}, "handler": "inner", "scheduling": scheduling});
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ";
    let bastion = json!({"metadata": {"name": "t"}, "spec": {"shootRef": {"name": "gone"}, "sshPublicKey": key,
        "ingress": [{"ipBlock": {"cidr": "1.2.3.4/32"}}]}});
    let bastions = "/apis/operations.gardener.cloud/v1alpha1/namespaces/garden-p/bastions";
    vec![
        changed(
            Name::ShootExposureClass,
            new_shoot(json!({"exposureClassName": "inner"})),
            "/spec/seedSelector/matchLabels/l",
            json!("1"),
            Value::Null,
        )
        .after(post(format!("{CORE}/exposureclasses"), class)),
        refused(Name::Bastion, post(bastions, bastion), 422, "there is no Shoot"),
    ]
}

fn rows_of_quotas() -> Vec<Row> {
    let scope = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"scope": scope, "metrics": {"cpu": "1"}}});
    let mut limited = binding("limited", "c");
    limited.2["quotas"] = json!([{"name": "q", "namespace": "garden-p"}]);
    let quotas = format!("{CORE}/namespaces/garden-p/quotas");
    let two_cores = new_shoot(json!({"credentialsBindingName": "limited"}));
    vec![
        refused(Name::ShootQuotaValidator, two_cores, 403, "no more cpu")
            .after(post(quotas, quota))
            .after(limited),
    ]
}

fn rows_of_seeds_and_backups() -> Vec<Row> {
    let bucket = json!({"metadata": {"name": "t"}, "spec": {"provider": {"type": "prov", "region": "r"}, "seedName": "seed", "credentialsRef": by_identity()}});
    let backups = || {
        post(
            format!("{CORE}/controllerregistrations"),
            registration("backups", &[("BackupBucket", "prov"), ("BackupEntry", "prov")]),
        )
    };
    vec![
        changed(
            Name::SeedMutator,
            new_seed(&Value::Null),
            "/metadata/labels/name.seed.gardener.cloud~1t",
            json!("true"),
            Value::Null,
        ),
        refused(Name::SeedValidator, delete(seed_path()), 403, "still used by shoot")
            .after(new_shoot(json!({"seedName": "seed"}))),
        refused(
            Name::SeedValidator,
            patch(seed_path(), json!({"spec": {"provider": {"zones": ["a"]}}})),
            403,
            "remove zones b",
        )
        .after(patch(seed_path(), json!({"spec": {"provider": {"zones": ["a", "b"]}}})))
        .after(new_shoot(json!({"seedName": "seed"}))),
        refused(
            Name::SeedValidator,
            new_seed(&json!({"provider": "prov", "region": "r", "credentialsRef": by_identity()})),
            403,
            "cannot use WorkloadIdentity",
        )
        .after(backups())
        .after(identity_of_another_type()),
        refused(
            Name::BackupBucketValidator,
            post(format!("{CORE}/backupbuckets"), bucket),
            403,
            "cannot use WorkloadIdentity",
        )
        .after(backups())
        .after(identity_of_another_type()),
    ]
}

fn rows_of_projects() -> Vec<Row> {
    let projects = format!("{CORE}/projects");
    let creator = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    let profile = |spec: Value| json!({"metadata": {"name": "t"}, "spec": spec});
    let parent = json!({"kind": "CloudProfile", "name": "cloud"});
    let dated = json!({"versions": [{"version": "1.35.0", "expirationDate": "2099-01-01T00:00:00Z"}]});
    let unknown = json!({"versions": [{"version": "1.99.0", "expirationDate": "2099-01-01T00:00:00Z"}]});
    vec![
        refused(
            Name::NamespacedCloudProfileValidator,
            post(PROFILES, profile(json!({"parent": parent, "kubernetes": unknown}))),
            500,
            "no version of the parent",
        ),
        changed(
            Name::ProjectMutator,
            post(
                &projects,
                json!({"metadata": {"name": "q"}, "spec": {"createdBy": creator("bob")}}),
            ),
            "/spec/createdBy/name",
            json!("admin"),
            json!("bob"),
        ),
        refused(
            Name::CustomVerbAuthorizer,
            post(PROFILES, profile(json!({"parent": parent, "kubernetes": dated}))),
            403,
            "modify-spec-kubernetes",
        )
        .by(ALICE),
        refused(
            Name::CustomVerbAuthorizer,
            patch(
                format!("{projects}/p"),
                json!({"spec": {"tolerations": {"whitelist": [{"key": "k"}]}}}),
            ),
            403,
            "modify-spec-tolerations-whitelist",
        )
        .by(ALICE),
        refused(
            Name::CustomVerbAuthorizer,
            patch(format!("{projects}/p"), json!({"spec": {"owner": creator(ALICE)}})),
            403,
            "manage-members",
        )
        .by(ALICE),
    ]
}

fn rows_of_references() -> Vec<Row> {
    let versions =
        json!({"spec": {"kubernetes": {"versions": [{"version": "1.34.0", "classification": "supported"}]}}});
    let projects = format!("{CORE}/projects");
    vec![
        refused(
            Name::ResourceReferenceManager,
            binding("t", "gone"),
            403,
            "no Secret garden-p/gone",
        ),
        refused(
            Name::ResourceReferenceManager,
            post(
                &projects,
                json!({"metadata": {"name": "q"}, "spec": {"namespace": "garden-p"}}),
            ),
            422,
            "spec.namespace",
        ),
        refused(
            Name::ResourceReferenceManager,
            patch(format!("{CORE}/cloudprofiles/cloud"), versions),
            403,
            "still used by shoot",
        )
        .after(new_shoot(json!({}))),
        refused(
            Name::ControllerRegistrationResources,
            post(
                format!("{CORE}/controllerregistrations"),
                registration("second", &[("Network", "net")]),
            ),
            403,
            "Network/net",
        ),
        refused(
            Name::FinalizerRemoval,
            patch(format!("{BINDINGS}/b"), json!({"metadata": {"finalizers": null}})),
            403,
            "must not be removed",
        )
        .after(patch(
            format!("{BINDINGS}/b"),
            json!({"metadata": {"finalizers": ["gardener"]}}),
        ))
        .after(new_shoot(json!({}))),
    ]
}

async fn answer(row: &Row, plugins: AdmissionPlugins) -> (u16, Value) {
    let garden = Garden::with_plugins(plugins).await;
    let groups = ["core.gardener.cloud", "security.gardener.cloud"];
    let verbs = ["get", "list", "create", "update", "patch", "delete"];
    let resources = ["shoots", "projects", "namespacedcloudprofiles", "credentialsbindings"];
    let role =
        json!({"metadata": {"name": ALICE}, "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}]});
    let bound = json!({"metadata": {"name": ALICE}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ALICE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ALICE}]});
    let rights = "/apis/rbac.authorization.k8s.io/v1";
    garden.ok(Method::POST, &format!("{rights}/clusterroles"), &role).await;
    garden
        .ok(Method::POST, &format!("{rights}/clusterrolebindings"), &bound)
        .await;
    for (method, path, body) in &row.before {
        garden.ok(method.clone(), path, body).await;
    }
    let garden = row.user.map_or_else(|| garden.clone(), |user| garden.by(user));
    let (method, path, body) = &row.request;
    garden.call(method.clone(), path, body).await
}

#[tokio::test(start_paused = true)]
async fn each_plugin_alone_refuses_or_changes_its_cases() {
    let rows: Vec<Row> = [
        rows_of_extensions(),
        rows_of_completion(),
        rows_of_validation(),
        rows_of_quotas(),
        rows_of_classes_and_bastions(),
        rows_of_seeds_and_backups(),
        rows_of_projects(),
        rows_of_references(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut failures = Vec::new();
    for row in &rows {
        let (name, request) = (
            row.plugin,
            format!("{} {} {}", row.request.0, row.request.1, row.request.2),
        );
        let on = answer(row, AdmissionPlugins::default().with(name)).await;
        let off = answer(row, AdmissionPlugins::default().without(name)).await;
        let accepted = |(code, _): &(u16, Value)| (200..300).contains(code);
        let is_right = match &row.effect {
            Effect::Refused(code, part) => {
                on.0 == *code && on.1["message"].as_str().is_some_and(|text| text.contains(part)) && accepted(&off)
            }
            Effect::Changed(pointer, with, without) => {
                let at = |answer: &(u16, Value)| answer.1.pointer(pointer).cloned().unwrap_or_default();
                accepted(&on) && accepted(&off) && at(&on) == *with && at(&off) == *without
            }
        };
        if !is_right {
            failures.push(format!(
                "{name}: {request}\n  on: {} {}\n  off: {} {}",
                on.0, on.1, off.0, off.1
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let tested: BTreeSet<Name> = rows.iter().map(|row| row.plugin).collect();
    let works: BTreeSet<Name> = Name::ALL
        .iter()
        .copied()
        .filter(|name| name.work() == Work::Here)
        .collect();
    assert_eq!(tested, works, "each plug-in that works here has a case, and no other");
}
