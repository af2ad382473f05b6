//! How an empty Kubernetes answers objects before they are applied to a real one: fields that it does not know, values
//! that it refuses, versions that go away. The Kubernetes is the embedded one, in memory, made for the request and gone
//! with the answer. It changes nothing anywhere.

mod answer;
mod kinds;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use api_meta::Fault;
use base_client::fault_of;
use cluster_bare::Cluster;
use cluster_fields::names;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;
use serde_json::{Value, json};

use answer::{Answer, problems_of};
use kinds::{Found, Kind, Kinds};

/// The kind whose objects define kinds.
const DEFINITION: &str = "CustomResourceDefinition";
/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// The kind whose objects others lie in.
const NAMESPACE: &str = "Namespace";
/// Groups and kinds that others need, so that they are created and not only tried. None of them makes the embedded server
/// call another server.
const MADE: [(&str, &str); 4] = [
    ("apiextensions.k8s.io", DEFINITION),
    ("", NAMESPACE),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
];

/// A problem of one of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The object's place among those that are checked
    pub place: usize,
    /// The problem
    pub problem: Problem,
}

/// What Kubernetes reports about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has an unknown field, as in `unknown field "spec.imag"`: a request without strict validation would not report it.
    UnknownField(String),
    /// It would refuse the object, for this reason.
    Refused(String),
    /// It would accept the object, with this warning.
    Warning(String),
    /// The kind belongs to another API, and the objects do not define it: the object cannot be checked.
    UnknownKind,
    /// The kind is namespaced, and the object names no namespace.
    NoNamespace,
    /// It is the same object as the one at this place.
    Again(usize),
    /// It is a definition that is known already, and would replace that.
    Known,
}

/// Reports what a Kubernetes that has nothing but the definitions in `known` finds wrong with `objects`, in this order,
/// definitions and namespaces first. Namespaces that objects name are there, whether or not they are among the objects; an
/// object that names none is checked in `namespace`. A valid object is not reported.
///
/// # Errors
/// The embedded Kubernetes does not start, does not answer or refuses what is `known`, or `namespace` is no name of one.
pub async fn dry_run(
    known: &[CustomResourceDefinition],
    objects: &[Value],
    namespace: &str,
) -> Result<Vec<Remark>, Fault> {
    if let Some(why) = names::dns_label(namespace) {
        return Err(
            Fault::user(format!("{namespace:?} is no name of a namespace: {why}")).hint("give another namespace")
        );
    }
    let cluster = Cluster::builder().without_controllers().start().await?;
    let mut trial = Trial {
        cluster: &cluster,
        known: known
            .iter()
            .filter_map(|known| known.metadata.name.as_deref())
            .collect(),
        kinds: Kinds::default(),
        namespace,
        namespaces: BTreeSet::new(),
        checked: BTreeMap::new(),
        remarks: BTreeMap::new(),
    };
    let made = match trial.make_known(known).await {
        Ok(()) => trial.check_all(objects).await,
        refused => refused,
    };
    let remarks = trial.remarks;
    cluster.stop().await;
    made?;
    let remark =
        |(place, problems): (usize, Vec<Problem>)| problems.into_iter().map(move |problem| Remark { place, problem });
    Ok(remarks.into_iter().flat_map(remark).collect())
}

/// What identifies an object: group, kind, namespace and name.
type Identity = [String; 4];

struct Trial<'a> {
    cluster: &'a Cluster,
    /// Names of definitions
    known: BTreeSet<&'a str>,
    kinds: Kinds,
    namespace: &'a str,
    /// Those that are there
    namespaces: BTreeSet<String>,
    /// Places of objects that were checked
    checked: BTreeMap<Identity, usize>,
    /// By the places of objects
    remarks: BTreeMap<usize, Vec<Problem>>,
}

impl Trial<'_> {
    async fn make_known(&self, known: &[CustomResourceDefinition]) -> Result<(), Fault> {
        let api = Api::all(self.cluster.client());
        for definition in known {
            let made = api.create(&PostParams::default(), definition).await;
            made.map_err(|error| fault_of(error, "define what the cluster is known to have"))?;
        }
        Ok(())
    }

    async fn check_all(&mut self, objects: &[Value]) -> Result<(), Fault> {
        let is_first = |object: &Value| MADE.contains(&(group_of(object), text(object, "kind")));
        // What others need is created; the rest is only checked.
        for (place, object) in objects.iter().enumerate().filter(|(_, object)| is_first(object)) {
            if let Some((kind, object)) = self.check(place, object).await? {
                self.make(place, &kind, object).await?;
            }
        }
        // Definitions have added kinds.
        self.kinds = Kinds::default();
        self.make_namespace(self.namespace).await?;
        for (place, object) in objects.iter().enumerate().filter(|(_, object)| !is_first(object)) {
            self.check(place, object).await?;
        }
        Ok(())
    }

    /// Reports what is wrong with an object. Returns it without its namespace, with its kind, if that is served.
    async fn check(&mut self, place: usize, object: &Value) -> Result<Option<(Kind, Value)>, Fault> {
        let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
        let found = self.kinds.find(self.cluster, api_version, kind).await?;
        self.report_duplicate(place, object, &found);
        let kind = match found {
            Found::Served(kind) => kind,
            Found::Gone(why) => {
                self.report(place, Problem::Refused(why));
                return Ok(None);
            }
            Found::Unknown => {
                self.report(place, Problem::UnknownKind);
                return Ok(None);
            }
        };
        let mut object = object.clone();
        let namespace = object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty());
        let namespace = namespace.map(str::to_owned);
        match &namespace {
            None if kind.is_namespaced => self.report(place, Problem::NoNamespace),
            Some(namespace) if kind.is_namespaced => {
                if let Some(why) = names::dns_label(namespace) {
                    let why = format!("metadata.namespace: Invalid value: {namespace:?}: {why}");
                    self.report(place, Problem::Refused(why));
                    return Ok(None);
                }
                self.make_namespace(namespace).await?;
            }
            _ => (),
        }
        let within = namespace.unwrap_or_else(|| self.namespace.to_owned());
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // The path has it; that of a cluster-scoped object is ignored, as clients that apply the object ignore it.
            metadata.remove("namespace");
        }
        let strict = self
            .create(&kind, &within, &object, Mode::DryRun, Strictness::Strict)
            .await?;
        self.warn(place, &strict);
        let unknown = strict.unknown_fields();
        for field in &unknown {
            self.report(place, Problem::UnknownField(field.clone()));
        }
        let last = if unknown.is_empty() {
            strict
        } else {
            // Unknown fields hide what else is wrong.
            self.create(&kind, &within, &object, Mode::DryRun, Strictness::Ignore)
                .await?
        };
        for problem in problems_of(&last) {
            self.report(place, Problem::Refused(problem));
        }
        Ok(Some((kind, object)))
    }

    /// Reports an object that was checked already.
    fn report_duplicate(&mut self, place: usize, object: &Value, found: &Found) {
        let metadata = |field| object["metadata"][field].as_str().unwrap_or_default();
        if metadata("name").is_empty() {
            return;
        }
        let namespace = match (found, metadata("namespace")) {
            (Found::Served(kind), _) if !kind.is_namespaced => "",
            (Found::Served(_), "") => DEFAULT_NAMESPACE,
            (_, namespace) => namespace,
        };
        let identity = [group_of(object), text(object, "kind"), namespace, metadata("name")];
        match self.checked.entry(identity.map(str::to_owned)) {
            Entry::Occupied(first) => {
                let first = *first.get();
                self.report(place, Problem::Again(first));
            }
            Entry::Vacant(vacant) => {
                vacant.insert(place);
            }
        }
    }

    /// Creates a checked object, as far as possible.
    async fn make(&mut self, place: usize, kind: &Kind, mut object: Value) -> Result<(), Fault> {
        let is_definition = text(&object, "kind") == DEFINITION;
        if is_definition && let Some(spec) = object["spec"].as_object_mut() {
            // The conversion webhook is not there, and this server calls no other.
            spec.remove("conversion");
        }
        let answer = self.create(kind, "", &object, Mode::Make, Strictness::Ignore).await?;
        if !is_definition {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match answer.status {
            StatusCode::CREATED => self.report_names_in_use(place, &kind.path_of("", name)).await,
            StatusCode::CONFLICT if self.known.contains(name) => {
                self.report(place, Problem::Known);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reports a definition whose names are in use: it is accepted, and its kind never served.
    async fn report_names_in_use(&mut self, place: usize, path: &str) -> Result<(), Fault> {
        let made = send(self.cluster, Method::GET, path, String::new()).await?.body;
        let conditions = made["status"]["conditions"].as_array().into_iter().flatten();
        let is_refused = |condition: &&Value| condition["type"] == "NamesAccepted" && condition["status"] == "False";
        for condition in conditions.filter(is_refused) {
            let why = text(condition, "message");
            self.report(
                place,
                Problem::Refused(format!("its kind would never be served: {why}")),
            );
        }
        Ok(())
    }

    fn warn(&mut self, place: usize, answer: &Answer) {
        for warning in &answer.warnings {
            self.report(place, Problem::Warning(warning.clone()));
        }
    }

    fn report(&mut self, place: usize, problem: Problem) {
        let all = self.remarks.entry(place).or_default();
        if !all.contains(&problem) {
            all.push(problem);
        }
    }

    async fn make_namespace(&mut self, name: &str) -> Result<(), Fault> {
        if !self.namespaces.insert(name.to_owned()) {
            return Ok(());
        }
        let object = json!({"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": name}});
        let kind = Kind::of_namespaces();
        let answer = self.create(&kind, "", &object, Mode::Make, Strictness::Ignore).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
            status => Err(Fault::bug(format!(
                "the embedded Kubernetes answers {status} to a new namespace {name}"
            ))),
        }
    }

    async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: &Value,
        mode: Mode,
        strictness: Strictness,
    ) -> Result<Answer, Fault> {
        let path = kind.path(namespace);
        let uri = format!("{path}?{}{}", strictness.query(), mode.query());
        send(self.cluster, Method::POST, &uri, object.to_string()).await
    }
}

fn text<'o>(object: &'o Value, field: &str) -> &'o str {
    object[field].as_str().unwrap_or_default()
}

fn group_of(object: &Value) -> &str {
    text(object, "apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// Whether an object is created or only checked.
#[derive(Clone, Copy)]
enum Mode {
    Make,
    DryRun,
}

impl Mode {
    fn query(self) -> &'static str {
        match self {
            Self::Make => "",
            Self::DryRun => "&dryRun=All",
        }
    }
}

/// What becomes of unknown fields.
#[derive(Clone, Copy)]
enum Strictness {
    Strict,
    Ignore,
}

impl Strictness {
    fn query(self) -> &'static str {
        match self {
            Self::Strict => "fieldValidation=Strict",
            Self::Ignore => "fieldValidation=Ignore",
        }
    }
}

/// A request of the cluster's admin, and all of its answer.
async fn send(cluster: &Cluster, method: Method, uri: &str, body: String) -> Result<Answer, Fault> {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.into_bytes()))
        .map_err(|error| Fault::bug(format!("{uri} is no request: {error}")))?;
    let unanswered = |error: kube::Error| fault_of(error, "call the embedded Kubernetes");
    let response = cluster.client().send(request).await.map_err(unanswered)?;
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_err(unanswered)?.to_bytes();
    Ok(Answer::of(&head, &bytes))
}
