//! Transcripts: steps of a scenario that are executed against a landscape and written down as a shell session of kubectl.
//! The page is compared with `docs/transcripts/NAME.md`. Tables are those that the API servers return to kubectl. It decides
//! nothing: a scenario waits for what it expects before it records the answer.

mod server;

use std::path::Path;
use std::time::Duration;

use http::Method;
use kube::Client;
use landscape_local::documents;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Clients, PATIENCE};
use server::{
    collection, fetch, group_of, items, path_of, printed, reference, refusal, send, singular, suffix, within,
};

/// The form in which kubectl requests tables.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Media type of `kubectl patch --type merge`.
const MERGE: &str = "application/merge-patch+json";
/// Field manager of `kubectl apply --server-side`.
const MANAGER: &str = "kubectl";
/// Beginning of the name of an extension's kubeconfig for the garden.
const GARDEN_KUBECONFIG: &str = "generic-garden-kubeconfig";
/// What every page begins with, after its title.
const HEAD: &str = "\
A test of `tests/scenarios` executes these steps on a whole landscape, in virtual time, and compares the answers with this
page. ";
/// Where the same steps are executed on the production form too.
const ON_BOTH_FORMS: &str = "\
A test of `tests/production` executes the same steps on programs beside real Kubernetes, with the same answers.
";
const HEAD_END: &str = "\
[Extensions from charts](../extensions-from-charts.md#shell-functions) defines `garden`, `seed`, `conditions` and
`events`. The column AGE is left out, and random endings of names are replaced by fixed ones.
";

/// An API server, and the shell function under which a reader reaches it.
#[derive(Clone)]
pub struct Cluster {
    shell: String,
    client: Client,
    /// Whom the client's user impersonates.
    user: Option<String>,
}

impl Cluster {
    /// `shell` is the function or command that stands for kubectl.
    #[must_use]
    pub fn new(shell: &str, client: &Client) -> Self {
        Self {
            shell: shell.to_owned(),
            client: client.clone(),
            user: None,
        }
    }

    /// The same API server for another user: `kubectl --as`.
    #[must_use]
    pub fn for_user(&self, user: &str) -> Self {
        Self {
            shell: format!("{} --as {user}", self.shell),
            client: self.client.clone(),
            user: Some(user.to_owned()),
        }
    }
}

/// Between two tries of what no watch tells of.
const TRY_PAUSE: Duration = Duration::from_millis(250);

impl Cluster {
    /// Waits until a manifest would be accepted, by trying without effect.
    pub(crate) async fn until_applicable(&self, yaml: &str) {
        let end = Instant::now() + PATIENCE;
        for object in documents(yaml).unwrap() {
            let path = format!("{}?fieldManager={MANAGER}&dryRun=All", path_of(&object));
            loop {
                let (code, answer) = send(self, Method::PATCH, &path, "application/apply-patch+yaml", &object).await;
                if code.is_success() {
                    break;
                }
                assert!(Instant::now() < end, "{}", refusal(&answer));
                tokio::time::sleep(TRY_PAUSE).await;
            }
        }
    }
}

/// A page that is being written.
pub struct Transcript {
    name: &'static str,
    garden: Cluster,
    seeds: Vec<Cluster>,
    text: String,
    in_block: bool,
    stand_ins: Vec<(String, String)>,
}

impl Transcript {
    /// The page `docs/transcripts/NAME.md`. `about` describes in a sentence or two what it shows.
    #[must_use]
    pub fn new(name: &'static str, title: &str, about: &str, clients: &Clients) -> Self {
        Self {
            name,
            garden: Cluster::new("garden", &clients.garden),
            seeds: clients.seeds.iter().map(|seed| Cluster::new("seed", seed)).collect(),
            text: format!("# {title}\n{about}\n\n{HEAD}{HEAD_END}"),
            in_block: false,
            stand_ins: Vec::new(),
        }
    }

    /// The page of a script that is executed on both forms of the product.
    #[must_use]
    pub(crate) fn on_both_forms(name: &'static str, title: &str, about: &str, clients: &Clients) -> Self {
        Self {
            text: format!("# {title}\n{about}\n\n{HEAD}{ON_BOTH_FORMS}{HEAD_END}"),
            ..Self::new(name, title, about, clients)
        }
    }

    /// From now on the page has `shown` where the API servers have `real`: for what is long, or differs between machines.
    pub fn stand_in(&mut self, shown: &str, real: &str) {
        self.stand_ins.push((shown.to_owned(), real.to_owned()));
    }

    /// Registers a stand-in for every name that has a random part, so that a page depends on no other use of randomness.
    async fn learn_names(&mut self) {
        let installations = items(&self.garden, &collection("", "controllerinstallations")).await;
        for installation in &installations {
            let text = |pointer: &str| {
                installation
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let registration = text("/spec/registrationRef/name");
            let of = format!("{registration} {}", text("/spec/seedRef/name"));
            self.name_instead(registration, &of, text("/metadata/name"));
        }
        for seed in self.seeds.clone() {
            for pod in items(&seed, &collection("", "pods")).await {
                let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let deployment = text("/metadata/name").rsplitn(3, '-').last().unwrap_or_default();
                let of = format!("{deployment} {}", text("/spec/containers/0/image"));
                if text("/metadata/namespace").starts_with("extension-") {
                    self.name_instead(deployment, &of, text("/metadata/name"));
                }
            }
            for secret in items(&seed, &collection("", "secrets")).await {
                let name = secret["metadata"]["name"].as_str().unwrap_or_default();
                if name.starts_with(GARDEN_KUBECONFIG) {
                    self.name_instead(GARDEN_KUBECONFIG, GARDEN_KUBECONFIG, name);
                }
            }
        }
    }

    fn name_instead(&mut self, start: &str, of: &str, real: &str) {
        if self.stand_ins.iter().all(|(_, known)| known != real) {
            self.stand_in(&format!("{start}-{}", suffix(of)), real);
        }
    }

    /// Begins a step. `why` is text below the title; it may be empty.
    pub fn step(&mut self, title: &str, why: &str) {
        self.end_block();
        self.text.push_str(&format!("\n## {title}\n"));
        if !why.is_empty() {
            self.text.push_str(&format!("{why}\n"));
        }
    }

    /// Text between two blocks.
    pub fn note(&mut self, text: &str) {
        self.end_block();
        self.text.push_str(&format!("\n{text}\n"));
    }

    /// Shows a file.
    pub fn file(&mut self, name: &str, language: &str, content: &str) {
        self.end_block();
        let content = content.trim_end();
        self.text
            .push_str(&format!("\n`{name}`:\n```{language}\n{content}\n```\n"));
    }

    /// Shows a manifest and applies it.
    pub async fn apply(&mut self, cluster: &Cluster, name: &str, yaml: &str) {
        self.file(name, "yaml", yaml);
        let answers = self.applied(cluster, yaml).await;
        self.command(cluster, &format!("apply --server-side -f {name}"), &answers);
    }

    /// Applies a manifest that the page has shown already.
    pub async fn apply_again(&mut self, cluster: &Cluster, name: &str, yaml: &str) {
        let answers = self.applied(cluster, yaml).await;
        self.command(cluster, &format!("apply --server-side -f {name}"), &answers);
    }

    /// Applies a manifest that is a changed file: `sed` is the expression that changes it.
    pub async fn apply_changed(&mut self, cluster: &Cluster, sed: &str, name: &str, yaml: &str) {
        let answers = self.applied(cluster, yaml).await;
        let line = format!("sed '{sed}' {name} | {} apply --server-side -f -", cluster.shell);
        self.line(&line, &answers);
    }

    async fn applied(&self, cluster: &Cluster, yaml: &str) -> String {
        let real = self.real(yaml);
        let mut answers = String::new();
        for object in documents(&real).unwrap() {
            let path = format!("{}?fieldManager={MANAGER}", path_of(&object));
            let (code, answer) = send(cluster, Method::PATCH, &path, "application/apply-patch+yaml", &object).await;
            answers.push_str(&match code.is_success() {
                true => format!("{} serverside-applied\n", reference(&answer)),
                false => refusal(&answer),
            });
        }
        answers
    }

    /// `kubectl patch --type merge`. Cluster-scoped objects have an empty namespace.
    pub async fn patch(&mut self, cluster: &Cluster, (namespace, resource, name): (&str, &str, &str), patch: &Value) {
        let path = format!("{}/{name}?fieldManager=kubectl-patch", collection(namespace, resource));
        let real: Value = serde_json::from_str(&self.real(&patch.to_string())).unwrap();
        let (code, answer) = send(cluster, Method::PATCH, &path, MERGE, &real).await;
        let answer = match code.is_success() {
            true => format!("{} patched\n", reference(&answer)),
            false => refusal(&answer),
        };
        let line = format!(
            "{}patch {resource} {name} --type merge --patch '{patch}'",
            within(namespace)
        );
        self.command(cluster, &line, &answer);
    }

    /// `kubectl patch --type merge --subresource status`.
    pub async fn patch_status(
        &mut self,
        cluster: &Cluster,
        (namespace, resource, name): (&str, &str, &str),
        patch: &Value,
    ) {
        let path = format!(
            "{}/{name}/status?fieldManager=kubectl-patch",
            collection(namespace, resource)
        );
        let (code, answer) = send(cluster, Method::PATCH, &path, MERGE, patch).await;
        let answer = match code.is_success() {
            true => format!("{} patched\n", reference(&answer)),
            false => refusal(&answer),
        };
        let line = format!(
            "{}patch {resource} {name} --type merge --subresource status --patch '{patch}'",
            within(namespace)
        );
        self.command(cluster, &line, &answer);
    }

    /// `kubectl label`: a label without a value is removed.
    pub async fn label(&mut self, cluster: &Cluster, resource: &str, name: &str, key: &str, value: Option<&str>) {
        let path = format!("{}/{name}?fieldManager=kubectl-label", collection("", resource));
        let patch = json!({"metadata": {"labels": {key: value}}});
        let (code, answer) = send(cluster, Method::PATCH, &path, MERGE, &patch).await;
        assert!(code.is_success(), "{answer}");
        let (label, what) = match value {
            Some(value) => (format!("{key}={value}"), "labeled"),
            None => (format!("{key}-"), "unlabeled"),
        };
        let answer = format!("{} {what}\n", reference(&answer));
        self.command(cluster, &format!("label {resource} {name} {label}"), &answer);
    }

    /// `kubectl annotate`: an annotation without a value is removed.
    pub async fn annotate(
        &mut self,
        cluster: &Cluster,
        (namespace, resource, name): (&str, &str, &str),
        annotations: &[(&str, Option<&str>)],
    ) {
        self.learn_names().await;
        let path = format!(
            "{}/{name}?fieldManager=kubectl-annotate",
            collection(namespace, resource)
        );
        let values: serde_json::Map<String, Value> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let patch = json!({"metadata": {"annotations": values}});
        let (code, answer) = send(cluster, Method::PATCH, &path, MERGE, &patch).await;
        assert!(code.is_success(), "{answer}");
        let words: Vec<String> = annotations
            .iter()
            .map(|(key, value)| value.map_or_else(|| format!("{key}-"), |value| format!("{key}={value}")))
            .collect();
        let line = format!("{}annotate {resource} {name} {}", within(namespace), words.join(" "));
        self.command(cluster, &line, &format!("{} annotated\n", reference(&answer)));
    }

    /// Confirms the deletion of a Shoot and requests it, as its user does.
    pub async fn delete_shoot(&mut self, garden: &Cluster, namespace: &str, name: &str) {
        let confirmation = [("confirmation.gardener.cloud/deletion", Some("true"))];
        self.annotate(garden, (namespace, "shoots", name), &confirmation).await;
        self.delete(garden, (namespace, "shoots", name)).await;
    }

    /// `kubectl delete --wait=false`: the scenario waits for the end itself.
    pub async fn delete(&mut self, cluster: &Cluster, (namespace, resource, name): (&str, &str, &str)) {
        self.learn_names().await;
        let path = format!("{}/{name}", collection(namespace, resource));
        let (code, answer) = send(cluster, Method::DELETE, &path, "application/json", &Value::Null).await;
        let singular = singular(resource);
        let group = group_of(resource);
        let answer = match code.is_success() {
            true => format!("{singular}{group} \"{name}\" deleted\n"),
            false => refusal(&answer),
        };
        let line = format!("{}delete {resource} {name} --wait=false", within(namespace));
        self.command(cluster, &line, &answer);
    }

    /// `kubectl get`, as a table. `selector` is a label selector, or empty.
    pub async fn get(&mut self, cluster: &Cluster, namespace: &str, resource: &str, selector: &str) {
        self.learn_names().await;
        let (query, flag) = match selector {
            "" => (String::new(), String::new()),
            some => (format!("?labelSelector={some}"), format!(" --selector {some}")),
        };
        let path = format!("{}{query}", collection(namespace, resource));
        let (code, table) = fetch(cluster, &path, TABLE).await;
        let line = format!("{}get {resource}{flag}", within(namespace));
        let answer = match printed(&table, |text| self.shown(text)) {
            _ if !code.is_success() => refusal(&table),
            rows if rows.is_empty() && namespace.is_empty() => "No resources found\n".to_owned(),
            rows if rows.is_empty() => format!("No resources found in {namespace} namespace.\n"),
            rows => rows,
        };
        self.command(cluster, &line, &answer);
    }

    /// `kubectl get -A`, as a table.
    pub async fn get_everywhere(&mut self, cluster: &Cluster, resource: &str) {
        self.learn_names().await;
        let (code, mut table) = fetch(cluster, &collection("", resource), TABLE).await;
        assert!(code.is_success(), "{table}");
        if let Some(columns) = table["columnDefinitions"].as_array_mut() {
            columns.insert(0, json!({"name": "Namespace", "priority": 0}));
        }
        for row in table["rows"].as_array_mut().into_iter().flatten() {
            let namespace = row["object"]["metadata"]["namespace"].clone();
            row["cells"].as_array_mut().unwrap().insert(0, namespace);
        }
        let answer = match printed(&table, |text| self.shown(text)) {
            rows if rows.is_empty() => "No resources found\n".to_owned(),
            rows => rows,
        };
        self.command(cluster, &format!("get {resource} -A"), &answer);
    }

    /// One value of an object, as text: `kubectl get -o jsonpath`. The path has dots, indices and escaped dots alone.
    pub async fn value(&mut self, cluster: &Cluster, (namespace, resource, name): (&str, &str, &str), path: &str) {
        self.learn_names().await;
        let url = format!("{}/{name}", collection(namespace, resource));
        let (code, object) = fetch(cluster, &url, "application/json").await;
        let answer = match code.is_success() {
            true => match object.pointer(&pointer_of(path)) {
                Some(Value::String(text)) => format!("{}\n", text.trim_end()),
                Some(other) => format!("{other}\n"),
                None => "\n".to_owned(),
            },
            false => refusal(&object),
        };
        let line = format!("{}get {resource} {name} -o jsonpath='{{{path}}}'", within(namespace));
        self.command(cluster, &line, &answer);
    }

    /// The conditions of an installation, by the shell function `conditions`.
    pub async fn conditions(&mut self, garden: &Cluster, installation: &str) {
        self.learn_names().await;
        let url = format!("{}/{installation}", collection("", "controllerinstallations"));
        let (code, object) = fetch(garden, &url, "application/json").await;
        assert!(code.is_success(), "{object}");
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let mut lines: Vec<String> = conditions
            .iter()
            .map(|one| {
                let [kind, status, reason, message] = ["type", "status", "reason", "message"].map(|key| text(one, key));
                format!("{kind} {status} {reason}: {message}\n")
            })
            .collect();
        lines.sort();
        self.line(&format!("conditions {installation}"), &lines.concat());
    }

    /// The events of an object, by the shell function `events`.
    pub async fn events(&mut self, garden: &Cluster, name: &str) {
        self.learn_names().await;
        let url = format!("/api/v1/events?fieldSelector=involvedObject.name={name}");
        let (code, list) = fetch(garden, &url, "application/json").await;
        assert!(code.is_success(), "{list}");
        let events = list["items"].as_array().cloned().unwrap_or_default();
        let mut lines: Vec<String> = events
            .iter()
            .map(|event| {
                let [kind, reason, message] =
                    ["type", "reason", "message"].map(|key| event[key].as_str().unwrap_or_default());
                format!("{kind} {reason}: {message}\n")
            })
            .collect();
        lines.sort();
        self.line(&format!("events {name}"), &lines.concat());
    }

    /// A command of kubectl and its answer.
    pub fn command(&mut self, cluster: &Cluster, line: &str, answer: &str) {
        self.line(&format!("{} {line}", cluster.shell), answer);
    }

    /// Any command and its answer.
    pub fn line(&mut self, line: &str, answer: &str) {
        if !self.in_block {
            self.text.push_str("\n```console\n");
            self.in_block = true;
        }
        let (line, answer) = (self.shown(line), self.shown(answer));
        self.text.push_str(&format!("$ {line}\n{answer}"));
    }

    /// Compares the page with the committed one.
    ///
    /// # Panics
    /// When they differ.
    #[track_caller]
    pub fn finish(mut self) {
        self.end_block();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/transcripts");
        tests_kit::assert_golden(folder.join(format!("{}.md", self.name)), &self.text);
    }

    fn end_block(&mut self) {
        if std::mem::take(&mut self.in_block) {
            self.text.push_str("```\n");
        }
    }

    fn shown(&self, text: &str) -> String {
        let replace = |text: String, (shown, real): &(String, String)| text.replace(real, shown);
        self.stand_ins.iter().fold(text.to_owned(), replace)
    }

    fn real(&self, text: &str) -> String {
        let replace = |text: String, (shown, real): &(String, String)| text.replace(shown, real);
        self.stand_ins.iter().fold(text.to_owned(), replace)
    }
}

/// `.a.b\.c/d[0]` as a JSON pointer.
fn pointer_of(path: &str) -> String {
    const DOT: &str = "\u{0}";
    let keys = path.replace('/', "~1").replace("\\.", DOT);
    keys.replace(['.', '['], "/").replace(']', "").replace(DOT, ".")
}
