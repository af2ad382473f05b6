//! Sequences of requests drawn from a seed, and smaller ones of those that differ. A sequence says itself as the text of a
//! case, so that what was found can go into a file of cases as it is printed.

mod kinds;
mod shape;
mod shrink;

use std::fmt::Write;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::script::{self, Case};
use kinds::Resource;
use shape::{Shape, text};
pub use shrink::smallest;

/// The file that drawn cases say they are from.
pub const FILE: &str = "generated";
/// Requests of a sequence.
const REQUESTS: std::ops::RangeInclusive<usize> = 3..=10;
/// Definitions of a run: enough that schemas differ, few enough that each is worth its time to be served.
const DEFINITIONS: usize = 24;
/// Objects of a sequence; two, so that most requests meet one that is there.
const NAMES: [&str; 2] = ["a", "b"];

/// All that sequences of one seed are about.
pub struct World {
    seed: u64,
    resources: Vec<Resource>,
    definitions: Vec<Value>,
}

/// A sequence of requests.
#[derive(Clone, Debug)]
pub struct Sequence {
    number: u64,
    /// The last part of its path: what it is about.
    resource: String,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    /// Each answer can be spoken of later by the number of its request.
    number: usize,
    line: String,
    headers: Vec<&'static str>,
    body: Option<Value>,
}

impl World {
    /// That of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut resources = kinds::built_in();
        let mut definitions = Vec::new();
        for number in 0..DEFINITIONS {
            let (definition, resource) = kinds::definition(number, &mut rng);
            definitions.push(definition);
            resources.push(resource);
        }
        Self {
            seed,
            resources,
            definitions,
        }
    }

    /// How many definitions there are.
    #[must_use]
    pub fn definitions(&self) -> usize {
        self.definitions.len()
    }

    /// A case per definition, which makes it and waits until it is served.
    ///
    /// # Errors
    /// A definition that cannot be said as a case.
    pub fn beforehand(&self) -> Outcome<Vec<Case>> {
        let cases = self.definitions.iter().enumerate().map(|(number, definition)| {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            let text = format!(
                "== definition {number}\nPOST /apis/apiextensions.k8s.io/v1/customresourcedefinitions\n  {definition}\n\
                 AWAIT {}/v1/{plural}\n",
                kinds::GROUP
            );
            let mut cases = script::read(FILE, &text)?;
            for case in &mut cases {
                case.namespace = format!("{FILE}-definition-{number}");
            }
            Ok(cases)
        });
        Ok(cases.collect::<Outcome<Vec<_>>>()?.concat())
    }

    /// The sequence of this number: the same for the same seed, whatever else is drawn.
    #[must_use]
    pub fn draw(&self, number: u64) -> Sequence {
        let mut rng = StdRng::seed_from_u64(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number);
        let built_in = self.resources.len() - self.definitions.len();
        let resource = match rng.random_bool(0.5) {
            true => self.resources.get(rng.random_range(0..built_in)),
            false => self.resources.get(rng.random_range(built_in..self.resources.len())),
        };
        let mut requests = Vec::new();
        let about = resource.map(|resource| match resource.strategic {
            true => resource.path.rsplit('/').next().unwrap_or_default().to_owned(),
            false => "drawn".to_owned(),
        });
        if let Some(resource) = resource {
            let count = rng.random_range(REQUESTS);
            let (mut objects, mut pages) = (Vec::new(), Vec::new());
            for number in 1..=count {
                let drawn = Draw {
                    resource,
                    number,
                    objects: &objects,
                    pages: &pages,
                    rng: &mut rng,
                };
                let request = drawn.request();
                if request.line.contains("?limit=1") {
                    pages.push(number);
                }
                let path = request.line.split(['?', ' ']).nth(1).unwrap_or_default();
                if request.line.starts_with("POST ") || path != resource.path {
                    objects.push(number);
                }
                requests.push(request);
            }
        }
        Sequence {
            number,
            resource: about.unwrap_or_default(),
            requests,
        }
    }
}

impl Sequence {
    /// As a file of cases has it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("== {} {}\n", self.resource, self.number);
        for request in &self.requests {
            let _ = writeln!(text, "r{} = {}", request.number, request.line);
            for header in &request.headers {
                let _ = writeln!(text, "{header}");
            }
            if let Some(body) = &request.body {
                let _ = writeln!(text, "  {body}");
            }
        }
        text
    }

    /// To be run, the so many-th time: each time needs a namespace of its own.
    ///
    /// # Errors
    /// When it cannot be said as a case.
    pub fn case(&self, attempt: usize) -> Outcome<Case> {
        let mut cases = script::read(FILE, &self.text())?;
        let mut case = cases.pop().ok_or("a sequence without requests")?;
        case.namespace = format!("{FILE}-{}-{attempt}", self.number);
        Ok(case)
    }

    /// Sequences that are a little smaller: without one request, or without one field of a body; the boldest first.
    #[must_use]
    pub fn smaller(&self) -> Vec<Sequence> {
        let without = |index: usize| {
            let mut requests = self.requests.clone();
            requests.remove(index);
            Sequence {
                requests,
                ..self.clone()
            }
        };
        let fewer = (0..self.requests.len()).rev().map(without);
        let mut all: Vec<Sequence> = fewer.filter(|sequence| !sequence.requests.is_empty()).collect();
        for (index, request) in self.requests.iter().enumerate() {
            for body in request.body.iter().flat_map(without_one) {
                let mut sequence = self.clone();
                if let Some(request) = sequence.requests.get_mut(index) {
                    request.body = Some(body);
                }
                all.push(sequence);
            }
        }
        all
    }
}

/// The value without each of its fields and items in turn, outer ones first.
fn without_one(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(fields) => {
            for key in fields.keys() {
                let mut fewer = fields.clone();
                fewer.remove(key);
                all.push(fewer.into());
            }
            for (key, below) in fields {
                for below in without_one(below) {
                    let mut changed = fields.clone();
                    changed.insert(key.clone(), below);
                    all.push(changed.into());
                }
            }
        }
        Value::Array(items) => {
            for index in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(index);
                all.push(fewer.into());
            }
            for (index, below) in items.iter().enumerate() {
                for below in without_one(below) {
                    let mut changed = items.clone();
                    changed[index] = below;
                    all.push(changed.into());
                }
            }
        }
        _ => {}
    }
    all
}

/// Draws one request.
struct Draw<'a> {
    resource: &'a Resource,
    number: usize,
    /// Earlier requests that are about one object.
    objects: &'a [usize],
    /// Earlier requests that are for a page of a list.
    pages: &'a [usize],
    rng: &'a mut StdRng,
}

impl Draw<'_> {
    fn request(self) -> Request {
        // The first makes something, so that the others have something to meet.
        match if self.number == 1 {
            0
        } else {
            self.rng.random_range(0..22)
        } {
            0..=3 => self.create(),
            4 | 5 => self.get(),
            6 | 7 => self.list(),
            8..=10 => self.replace(),
            11 | 12 => self.merge(),
            13 => self.json_patch(),
            14 => self.strategic(),
            15..=17 => self.apply(),
            18 => self.status(),
            19 => self.scale(),
            // One lasts a second or three, so that they are fewer.
            20 if self.rng.random_bool(0.5) => self.watch(),
            20 => self.get(),
            _ => self.delete(),
        }
    }

    fn name(&mut self) -> &'static str {
        if self.rng.random_bool(0.8) { NAMES[0] } else { NAMES[1] }
    }

    fn some(&mut self, of: &[&'static str]) -> &'static str {
        of.choose(self.rng).copied().unwrap_or_default()
    }

    /// The query of a write, with its question mark.
    fn query(&mut self, more: &[&str]) -> String {
        let mut parts: Vec<&str> = more.to_vec();
        if self.rng.random_bool(0.25) {
            parts.push(self.some(&[
                "fieldValidation=Strict",
                "fieldValidation=Ignore",
                "fieldValidation=Warn",
            ]));
        }
        if self.rng.random_bool(0.1) {
            parts.push("dryRun=All");
        }
        if self.rng.random_bool(0.2) && !more.iter().any(|part| part.starts_with("fieldManager")) {
            parts.push(self.some(&["fieldManager=one", "fieldManager=two"]));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("?{}", parts.join("&")),
        }
    }

    fn form(&mut self) -> Vec<&'static str> {
        match self.rng.random_range(0..10) {
            0 => vec!["Accept: Table"],
            1 => vec!["Accept: PartialObjectMetadata"],
            _ => Vec::new(),
        }
    }

    /// The number of an earlier request, if one was about a single object: the version of a list is that of the store, in
    /// which others write meanwhile.
    fn earlier(&mut self) -> Option<usize> {
        self.objects.choose(self.rng).copied()
    }

    fn made(self, line: String, headers: Vec<&'static str>, body: Option<Value>) -> Request {
        Request {
            number: self.number,
            line,
            headers,
            body,
        }
    }

    fn metadata(&mut self) -> Map<String, Value> {
        let mut metadata = Map::new();
        let map = |of: &[&str]| Shape::Map(Box::new(text(of)));
        if self.rng.random_bool(0.4) {
            metadata.insert("labels".to_owned(), map(&["x", "y", ""]).draw(self.rng));
        }
        if self.rng.random_bool(0.3) {
            metadata.insert("annotations".to_owned(), map(&["x", "some words"]).draw(self.rng));
        }
        if self.rng.random_bool(0.1) {
            let of = vec!["example.com/one".to_owned(), "example.com/two".to_owned()];
            metadata.insert("finalizers".to_owned(), Shape::Set(of).draw(self.rng));
        }
        if !self.resource.strategic {
            // Real Kubernetes stores an empty map or list of a custom resource, shows it to nobody, and loses it with the next
            // write, which is one for that alone.
            let empty = |value: &Value| *value == json!({}) || *value == json!([]);
            metadata.retain(|_, value| !empty(value));
        }
        metadata
    }

    fn object(&mut self, name: &str) -> Value {
        let mut object = self.resource.shape.draw(self.rng);
        if !object.is_object() {
            object = json!({});
        }
        let mut metadata = self.metadata();
        metadata.insert("name".to_owned(), name.into());
        object["metadata"] = metadata.into();
        object["apiVersion"] = json!(self.resource.api_version);
        object["kind"] = json!(self.resource.kind);
        object
    }

    fn create(mut self) -> Request {
        let name = self.name();
        let object = self.object(name);
        let line = format!("POST {}{}", self.resource.path, self.query(&[]));
        let form = self.form();
        self.made(line, form, Some(object))
    }

    fn get(mut self) -> Request {
        let line = format!("GET {}/{}", self.resource.path, self.name());
        let form = self.form();
        self.made(line, form, None)
    }

    fn list(mut self) -> Request {
        let query = self.some(&[
            "",
            "",
            "?labelSelector=a",
            "?labelSelector=a=x",
            "?labelSelector=a in (x,y),!b",
            "?labelSelector=a!=x",
            "?fieldSelector=metadata.name=a",
            "?fieldSelector=metadata.name!=a",
            "?limit=1",
            "?limit=1",
            "?resourceVersion=0",
        ]);
        // What is behind an earlier page; behind the last one is nothing to go on from.
        let pages = self.pages;
        let line = match pages.choose(self.rng) {
            Some(page) if self.rng.random_bool(0.6) => {
                format!(
                    "GET {}?limit=1&continue=<r{page}.metadata.continue>",
                    self.resource.path
                )
            }
            _ => format!("GET {}{query}", self.resource.path),
        };
        let form = match self.rng.random_range(0..10) {
            0 => vec!["Accept: Table"],
            1 => vec!["Accept: PartialObjectMetadataList"],
            _ => Vec::new(),
        };
        self.made(line, form, None)
    }

    fn replace(mut self) -> Request {
        let name = self.name();
        let mut object = self.object(name);
        let earlier = self.earlier();
        // Real Kubernetes stores a new claim anew with its first write, whatever that is: its versions are not ours.
        let versioned = self.rng.random_bool(0.6) && !self.resource.path.ends_with("claims");
        if let Some(earlier) = earlier.filter(|_| versioned) {
            object["metadata"]["resourceVersion"] = json!(format!("<r{earlier}.metadata.resourceVersion>"));
        }
        if let Some(earlier) = earlier.filter(|_| self.rng.random_bool(0.1)) {
            object["metadata"]["uid"] = json!(format!("<r{earlier}.metadata.uid>"));
        }
        let line = format!("PUT {}/{name}{}", self.resource.path, self.query(&[]));
        self.made(line, Vec::new(), Some(object))
    }

    fn part(&mut self) -> Value {
        let mut part = self.resource.shape.draw_part(self.rng);
        let metadata = self.metadata();
        if !metadata.is_empty() && part.is_object() {
            part["metadata"] = metadata.into();
        }
        part
    }

    fn merge(mut self) -> Request {
        let part = self.part();
        let line = format!("MERGE {}/{}{}", self.resource.path, self.name(), self.query(&[]));
        self.made(line, Vec::new(), Some(part))
    }

    fn strategic(mut self) -> Request {
        if !self.resource.strategic {
            return self.merge();
        }
        let part = self.part();
        let line = format!("STRATEGIC {}/{}{}", self.resource.path, self.name(), self.query(&[]));
        self.made(line, Vec::new(), Some(part))
    }

    fn json_patch(mut self) -> Request {
        let operations: Vec<Value> = (0..self.rng.random_range(1..=3))
            .map(|_| {
                let (path, mut value) = self.resource.shape.draw_place(self.rng);
                // A whole object that does not say what it is would be read into a type that no client knows.
                if path.is_empty() && self.resource.strategic && value.is_object() {
                    value["apiVersion"] = json!(self.resource.api_version);
                    value["kind"] = json!(self.resource.kind);
                }
                match self.some(&["add", "replace", "remove", "test", "add"]) {
                    "remove" => json!({"op": "remove", "path": path}),
                    operation => json!({"op": operation, "path": path, "value": value}),
                }
            })
            .collect();
        let line = format!("JSONPATCH {}/{}{}", self.resource.path, self.name(), self.query(&[]));
        self.made(line, Vec::new(), Some(operations.into()))
    }

    fn apply(mut self) -> Request {
        let name = self.name();
        let object = self.object(name);
        let manager = self.some(&["fieldManager=one", "fieldManager=two"]);
        let force = self.some(&["force=true", "force=false", "force=true"]);
        let line = format!("APPLY {}/{name}{}", self.resource.path, self.query(&[manager, force]));
        self.made(line, Vec::new(), Some(object))
    }

    fn status(mut self) -> Request {
        let Some(status) = &self.resource.status else {
            return self.get();
        };
        let part = json!({"status": status.draw_part(self.rng)});
        let line = format!("MERGE {}/{}/status{}", self.resource.path, self.name(), self.query(&[]));
        self.made(line, Vec::new(), Some(part))
    }

    fn scale(mut self) -> Request {
        let resource = self.resource;
        if !resource.scales {
            return self.status();
        }
        let (path, name) = (&resource.path, self.name());
        let query = self.query(&[]);
        match self.rng.random_range(0..3) {
            0 => {
                let line = format!("GET {path}/{name}/scale");
                self.made(line, Vec::new(), None)
            }
            1 => {
                let part = json!({"spec": {"replicas": self.rng.random_range(-1..=5)}});
                self.made(format!("MERGE {path}/{name}/scale{query}"), Vec::new(), Some(part))
            }
            _ => {
                let spec = json!({"replicas": self.rng.random_range(0..=5)});
                let scale =
                    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec});
                self.made(format!("PUT {path}/{name}/scale{query}"), Vec::new(), Some(scale))
            }
        }
    }

    /// What happened since an earlier answer, or what is there and then a bookmark, which real Kubernetes may take more than
    /// a second for.
    fn watch(mut self) -> Request {
        let since = match self.earlier() {
            Some(earlier) if self.rng.random_bool(0.8) => {
                format!("timeoutSeconds=1&resourceVersion=<r{earlier}.metadata.resourceVersion>")
            }
            _ => "timeoutSeconds=3&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
                .to_owned(),
        };
        let only = self.some(&["", "", "&labelSelector=a", "&fieldSelector=metadata.name=a"]);
        let line = format!("GET {}?watch=true&{since}{only}", self.resource.path);
        let form = self.form();
        self.made(line, form, None)
    }

    fn delete(mut self) -> Request {
        let query = self.some(&[
            "",
            "",
            "?propagationPolicy=Background",
            "?propagationPolicy=Orphan",
            "?propagationPolicy=Foreground",
            "?gracePeriodSeconds=0",
            "?dryRun=All",
        ]);
        let line = match self.rng.random_bool(0.2) {
            true => format!("DELETE {}{query}", self.resource.path),
            false => format!("DELETE {}/{}{query}", self.resource.path, self.name()),
        };
        self.made(line, Vec::new(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::{Answers, fill};
    use crate::ours::{Keeps, Ours};

    #[test]
    fn a_seed_has_the_same_sequences_whatever_else_is_drawn() {
        let (world, again) = (World::new(5), World::new(5));
        let forth: Vec<String> = (0..50).map(|number| world.draw(number).text()).collect();
        let back: Vec<String> = (0..50).rev().map(|number| again.draw(number).text()).collect();
        assert!(forth.iter().eq(back.iter().rev()));
        let other = World::new(6);
        assert!((0..50).any(|number| other.draw(number).text() != forth[number as usize]));
    }

    #[test]
    fn every_sequence_is_a_case_that_speaks_of_earlier_answers_alone() {
        let world = World::new(1);
        for number in 0..500 {
            let sequence = world.draw(number);
            let case = sequence.case(0).unwrap();
            assert!((3..=10).contains(&case.steps.len()), "{}", sequence.text());
            let mut answers = Answers::new();
            for (step, request) in case.steps.iter().zip(&sequence.requests) {
                fill(step, &case.namespace, &answers).unwrap();
                answers.insert(format!("r{}", request.number), json!({}));
            }
        }
    }

    #[test]
    fn a_smaller_sequence_is_smaller() {
        let world = World::new(1);
        for number in 0..50 {
            let sequence = world.draw(number);
            let length = sequence.text().len();
            assert!(sequence.smaller().iter().all(|smaller| smaller.text().len() < length));
        }
    }

    #[tokio::test]
    async fn drawn_definitions_are_ones_that_a_server_takes() {
        let ours = Ours::start(Keeps::InMemory).await.unwrap();
        let mut connection = ours.endpoint.connect().await.unwrap();
        for case in World::new(3).beforehand().unwrap() {
            let call = fill(&case.steps[0], &case.namespace, &Answers::new()).unwrap();
            let answer = connection.send(&call).await.unwrap();
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        }
    }
}
