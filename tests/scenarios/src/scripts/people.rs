//! Two people with different roles in a project act on the same objects, with transcripts in `docs/transcripts`: what
//! needs both of them, what needs a verb of its own, what the server writes itself, and whose credentials a Shoot has.

use crate::transcript::{Cluster, Transcript};
use crate::{Clients, SURROUNDINGS, wait};
use api_core::v1beta1::{Project, ProjectPhase};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use landscape_local::example;
use serde_json::{Value, json};

const DEV: &str = "garden-dev";
const CONFIRMATION: &str = "confirmation.gardener.cloud/deletion";
const CONFIRMED_BY: &str = "deletion.gardener.cloud/confirmed-by";

const PROJECT: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata:
  name: dev
spec:
  namespace: garden-dev
  owner:
    apiGroup: rbac.authorization.k8s.io
    kind: User
    name: alice
  members:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: bob
    role: admin
";
const APPROVAL: &str = "  dualApprovalForDeletion:
  - resource: shoots
    selector: {}
";
const PLUM: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata:
  name: plum
  namespace: garden-dev
spec:
  cloudProfile:
    kind: CloudProfile
    name: local
  region: local
  kubernetes:
    version: 1.35.0
  provider:
    type: local
";

/// A landscape's people, its page, and who is in front of the garden: its administrator, alice and bob.
struct Scene {
    clients: Clients,
    page: Transcript,
    garden: Cluster,
    alice: Cluster,
    bob: Cluster,
}

impl Scene {
    async fn start(clients: Clients, name: &'static str, title: &str, about: &str) -> Self {
        let project = example::apply_project(&clients.garden).await;
        project.unwrap_or_else(|fault| panic!("{fault}"));
        clients.apply(&SURROUNDINGS[1..]).await;
        let garden = Cluster::new("garden", &clients.garden);
        Self {
            page: Transcript::on_both_forms(name, title, about, &clients),
            alice: garden.for_user("alice"),
            bob: garden.for_user("bob"),
            garden,
            clients,
        }
    }

    /// Applies the Project `dev` and waits for the rights of its members.
    async fn project(&mut self, manifest: &str) {
        self.page.step(
            "A project of alice, with bob as admin",
            "`garden` is the landscape's administrator, who acts for alice and for bob by `--as`.",
        );
        self.page.apply(&self.garden, "project.yaml", manifest).await;
        self.ready("dev").await;
    }

    async fn ready(&self, name: &str) {
        let projects: Api<Project> = Api::all(self.clients.garden.clone());
        wait(&projects, name, |project| {
            (project?.status.as_ref()?.phase == Some(ProjectPhase::Ready)).then_some(())
        })
        .await;
        let namespaces: Api<Namespace> = Api::all(self.clients.garden.clone());
        wait(&namespaces, &format!("garden-{name}"), |found| found.map(drop)).await;
    }
}

pub(super) async fn dual_approval(clients: Clients) -> Transcript {
    let about = "A project can demand that who confirms the deletion of a Shoot is not who deletes it.";
    let mut scene = Scene::start(clients, "dual-approval", "Deletions that need two people", about).await;
    scene.project(&format!("{PROJECT}{APPROVAL}")).await;
    let Scene {
        clients,
        mut page,
        alice,
        bob,
        ..
    } = scene;
    let plum = (DEV, "shoots", "plum");
    let by = format!(".metadata.annotations.{}", CONFIRMED_BY.replace('.', "\\."));

    page.step("Alice cannot delete alone", "");
    page.apply(&alice, "plum.yaml", PLUM).await;
    clients.succeeded(DEV, "plum").await;
    page.delete(&alice, plum).await;
    page.annotate(&alice, plum, &[(CONFIRMATION, Some("true"))]).await;
    page.value(&alice, plum, &by).await;
    page.delete(&alice, plum).await;

    page.step(
        "Another name in the annotation does not help",
        "The server writes it, and what it wrote stays.",
    );
    page.annotate(&alice, plum, &[(CONFIRMED_BY, Some("bob"))]).await;
    page.annotate(&alice, plum, &[(CONFIRMED_BY, None)]).await;
    page.value(&alice, plum, &by).await;
    page.note("A confirmation that is taken back takes its author with it:");
    let both = [(CONFIRMATION, None), (CONFIRMED_BY, Some("bob"))];
    page.annotate(&alice, plum, &both).await;
    page.value(&alice, plum, &by).await;
    page.delete(&bob, plum).await;

    page.step("Bob deletes what alice confirmed", "");
    let both = [(CONFIRMATION, Some("true")), (CONFIRMED_BY, Some("bob"))];
    page.annotate(&alice, plum, &both).await;
    page.value(&bob, plum, &by).await;
    page.delete(&bob, plum).await;
    wait(&clients.shoots(DEV), "plum", |shoot| shoot.is_none().then_some(())).await;
    page.get(&alice, DEV, "shoots", "").await;
    page
}

const WHITELIST: &str = r#"{"spec":{"tolerations":{"whitelist":[{"key":"gpu"}]}}}"#;
const VERB: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: versions
  namespace: garden-dev
rules:
- apiGroups: [core.gardener.cloud]
  resources: [namespacedcloudprofiles]
  verbs: [modify-spec-kubernetes]
";
const BINDING: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: versions
  namespace: garden-dev
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: versions
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: bob
";

fn profile(fields: &str) -> String {
    format!(
        "apiVersion: core.gardener.cloud/v1beta1\nkind: NamespacedCloudProfile\nmetadata:\n  name: own\n  namespace: garden-dev\n\
         spec:\n  parent:\n    kind: CloudProfile\n    name: local\n{fields}"
    )
}

/// The members of the project and bob with these roles, and this one more.
fn members(more: &Value) -> Value {
    let user = |name: &str, role: &str, roles: &[&str]| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name, "role": role, "roles": roles});
    json!({"spec": {"members": [user("bob", "admin", &[]), user("alice", "admin", &["owner"]), more]}})
}

pub(super) async fn guarded_fields(clients: Clients) -> Transcript {
    let about = "Some fields of Projects and of NamespacedCloudProfiles need a verb that `update` does not include.";
    let mut scene = Scene::start(clients, "guarded-fields", "Fields that need a verb of their own", about).await;
    scene.project(PROJECT).await;
    let Scene {
        mut page,
        garden,
        alice,
        bob,
        ..
    } = scene;
    let dev = ("", "projects", "dev");

    page.step(
        "Members",
        "People are added by the owner, or by members with role `uam`; service accounts by admins too.",
    );
    let carol = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol", "role": "viewer"});
    page.patch(&bob, dev, &members(&carol)).await;
    let robot = |role: &str| json!({"kind": "ServiceAccount", "name": "robot", "namespace": DEV, "role": role});
    page.patch(&bob, dev, &members(&robot("admin"))).await;
    page.patch(&bob, dev, &members(&robot("uam"))).await;
    page.patch(&alice, dev, &members(&carol)).await;
    page.note("The owner is changed by the owner alone, or by members with role `uam`:");
    let owner = |name: &str| json!({"spec": {"owner": {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}}});
    page.patch(&bob, dev, &owner("bob")).await;
    page.patch(&alice, dev, &owner("bob")).await;
    page.value(&alice, dev, ".spec.owner.name").await;

    page.step(
        "Tolerations",
        "Which tainted seeds a project may use is decided by who runs the landscape.",
    );
    let whitelist: Value = serde_json::from_str(WHITELIST).unwrap();
    page.patch(&alice, dev, &whitelist).await;
    let tolerant = format!("{PLUM}  tolerations:\n  - key: gpu\n");
    page.apply(&alice, "plum.yaml", &tolerant).await;
    page.patch(&garden, dev, &whitelist).await;
    page.note("The same Shoot is accepted now:");
    page.apply_again(&alice, "plum.yaml", &tolerant).await;

    page.step("A cloud profile of the project", "");
    let versions =
        "  kubernetes:\n    versions:\n    - version: 1.35.0\n      expirationDate: \"2027-01-01T00:00:00Z\"\n";
    let images = "  machineImages:\n  - name: local\n    versions:\n    - version: 1.0.0\n      expirationDate: \"2027-01-01T00:00:00Z\"\n";
    page.apply(&bob, "versions.yaml", &profile(versions)).await;
    page.apply(&bob, "images.yaml", &profile(images)).await;
    page.note("The role is the administrator's to write, because bob cannot grant a verb that he does not hold:");
    page.apply(&bob, "role.yaml", VERB).await;
    page.apply_again(&garden, "role.yaml", VERB).await;
    page.apply(&garden, "binding.yaml", BINDING).await;
    // An API server that delegates authorization keeps a denial for some seconds.
    bob.until_applicable(&profile(versions)).await;
    page.apply_again(&bob, "versions.yaml", &profile(versions)).await;
    page
}

/// Name of the role and the binding by which alice may create projects.
pub(super) const CREATORS_NAME: &str = "project-creators";
const CREATORS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: project-creators
rules:
- apiGroups: [core.gardener.cloud]
  resources: [projects]
  verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: project-creators
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: project-creators
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: alice
";
const FORGED_PROJECT: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata:
  name: dev
spec:
  namespace: garden-dev
  createdBy:
    apiGroup: rbac.authorization.k8s.io
    kind: User
    name: carol
  members:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: bob
    role: admin
";

pub(super) async fn forged_fields(clients: Clients) -> Transcript {
    let about = "The creator of an object, its status, its seed and its finalizer are written by the server and its controllers alone.";
    let mut scene = Scene::start(clients, "forged-fields", "Fields that only the server writes", about).await;
    let dev = ("", "projects", "dev");
    let plum = (DEV, "shoots", "plum");
    let page = &mut scene.page;
    page.step(
        "The creator of a Project",
        "It is the user of the request, who becomes the owner unless another is named.",
    );
    page.apply(&scene.garden, "creators.yaml", CREATORS).await;
    page.apply(&scene.alice, "project.yaml", FORGED_PROJECT).await;
    scene.ready("dev").await;
    let Scene {
        clients,
        mut page,
        garden,
        alice,
        bob,
    } = scene;
    page.value(&alice, dev, ".spec.createdBy.name").await;
    page.value(&alice, dev, ".spec.owner.name").await;
    let creator =
        json!({"spec": {"createdBy": {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}}});
    page.patch(&alice, dev, &creator).await;

    page.step("The creator of a Shoot", "");
    let forged = PLUM.replacen(
        "spec:\n",
        "  annotations:\n    gardener.cloud/created-by: alice\nspec:\n",
        1,
    );
    page.apply(&bob, "plum.yaml", &forged).await;
    page.value(&bob, plum, ".metadata.annotations.gardener\\.cloud/created-by")
        .await;
    clients.succeeded(DEV, "plum").await;

    page.step(
        "Its status",
        "The main resource leaves the status as it is, and `shoots/status` is gardenlet's.",
    );
    let status = json!({"status": {"technicalID": "shoot--bank--vault"}});
    page.patch(&alice, plum, &status).await;
    page.value(&alice, plum, ".status.technicalID").await;
    page.patch_status(&alice, plum, &status).await;

    page.step(
        "Its seed",
        "The scheduler chooses it, and whoever may write `shoots/binding`.",
    );
    let named = PLUM.replacen("plum", "pear", 1) + "  seedName: local\n";
    page.apply(&alice, "pear.yaml", &named).await;
    page.patch(&alice, plum, &json!({"spec": {"seedName": null}})).await;

    page.step(
        "Its finalizer",
        "It holds the Shoot until everything that belongs to it has gone.",
    );
    page.patch(&alice, plum, &json!({"metadata": {"finalizers": null}}))
        .await;
    page.value(&garden, plum, ".metadata.finalizers").await;
    page
}

const BANK: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata:
  name: bank
spec:
  namespace: garden-bank
  owner:
    apiGroup: rbac.authorization.k8s.io
    kind: User
    name: bob
";

fn secret(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: account\n  namespace: {namespace}\n  labels:\n    provider.shoot.gardener.cloud/local: \"true\"\n"
    )
}

fn binding(name: &str, namespace: &str) -> String {
    format!(
        "apiVersion: security.gardener.cloud/v1alpha1\nkind: CredentialsBinding\nmetadata:\n  name: {name}\n  namespace: garden-dev\n\
         provider:\n  type: local\ncredentialsRef:\n  apiVersion: v1\n  kind: Secret\n  name: account\n  namespace: {namespace}\n"
    )
}

pub(super) async fn credentials(clients: Clients) -> Transcript {
    let about =
        "A binding gives Shoots of one project the credentials of another, whose Secret its members cannot read.";
    let mut scene = Scene::start(clients, "credentials", "Whose credentials a Shoot has", about).await;
    scene.project(PROJECT).await;
    scene
        .page
        .note("Bob has a second project, of which alice is no member:");
    scene.page.apply(&scene.garden, "bank.yaml", BANK).await;
    scene.ready("bank").await;
    let Scene {
        clients,
        mut page,
        alice,
        bob,
        ..
    } = scene;
    let plum = (DEV, "shoots", "plum");

    page.step("A binding needs the right to read its Secret", "");
    page.apply(&bob, "account.yaml", &secret("garden-bank")).await;
    page.get(&alice, "garden-bank", "secrets", "").await;
    page.apply(&alice, "bank-binding.yaml", &binding("bank", "garden-bank"))
        .await;
    page.apply_again(&bob, "bank-binding.yaml", &binding("bank", "garden-bank"))
        .await;

    page.step("Its Shoots need no such right", "");
    let pool = "    workers:\n    - name: a\n      minimum: 1\n      maximum: 1\n      machine:\n        type: local\n  networking:\n    type: local\n";
    let shoot = format!("{PLUM}{pool}  credentialsBindingName: bank\n");
    page.apply(&alice, "plum.yaml", &shoot).await;
    clients.succeeded(DEV, "plum").await;

    page.step(
        "Another account",
        "A Shoot that is moved to another account leaves its machines in the former one. So the move needs the right to read both.",
    );
    page.apply(&alice, "own-account.yaml", &secret(DEV)).await;
    page.apply(&alice, "own-binding.yaml", &binding("own", DEV)).await;
    let own = json!({"spec": {"credentialsBindingName": "own"}});
    page.patch(&alice, plum, &own).await;
    page.patch(&bob, plum, &own).await;
    page.value(&alice, plum, ".spec.credentialsBindingName").await;
    page.note("Alice cannot go back to what she cannot read either:");
    page.patch(&alice, plum, &json!({"spec": {"credentialsBindingName": "bank"}}))
        .await;
    let secrets: Api<Secret> = Api::namespaced(clients.garden.clone(), "garden-bank");
    assert!(secrets.get_opt("account").await.unwrap().is_some());
    page
}
