//! Draws one request of a sequence: good or bad input for a verb, about one of two objects.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};

use super::Request;
use super::kinds::Resource;
use super::shape::{Shape, text};

/// Objects of a sequence; two, so that most requests meet one that is there.
const NAMES: [&str; 2] = ["a", "b"];

/// Draws one request.
pub(super) struct Draw<'a> {
    pub(super) resource: &'a Resource,
    pub(super) number: usize,
    /// Earlier requests that are about one object.
    pub(super) objects: &'a [usize],
    /// Earlier requests that are for a page of a list.
    pub(super) pages: &'a [usize],
    pub(super) rng: &'a mut StdRng,
}

impl Draw<'_> {
    pub(super) fn request(self) -> Request {
        // The first creates an object for the others.
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
            // A watch takes a second, so that they are rarer.
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
            // Real Kubernetes stores an empty map or list of a custom resource, and a null, omits it from answers, and loses it
            // with the next write, which is one for that alone.
            let has_null = |value: &Value| value.as_object().is_some_and(|map| map.values().any(Value::is_null));
            let empty = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
            metadata.retain(|_, value| !empty(value) && !has_null(value));
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
        // The page behind an earlier one; the last page has nothing to continue from.
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
        // Real Kubernetes stores a new claim again with its first write, whatever that is: its versions are not ours.
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
                // A whole object without its kind would be read into a type that no client knows.
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

    /// A number that the object does not have yet, sometimes a bad one.
    fn replicas(&mut self) -> i64 {
        match self.rng.random_bool(0.1) {
            true => -1,
            false => 10 + self.number as i64,
        }
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
                let part = json!({"spec": {"replicas": self.replicas()}});
                self.made(format!("MERGE {path}/{name}/scale{query}"), Vec::new(), Some(part))
            }
            _ => {
                let spec = json!({"replicas": self.replicas()});
                let scale =
                    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec});
                self.made(format!("PUT {path}/{name}/scale{query}"), Vec::new(), Some(scale))
            }
        }
    }

    /// A watch from an earlier answer on. When real Kubernetes sends bookmarks depends on its clock, so that only curated cases
    /// have them.
    fn watch(mut self) -> Request {
        // A new claim has one more event in real Kubernetes, which stores it again.
        let is_claim = self.resource.path.ends_with("claims");
        let since = match self.earlier().filter(|_| !is_claim) {
            Some(earlier) => format!("&resourceVersion=<r{earlier}.metadata.resourceVersion>"),
            None => String::new(),
        };
        let only = self.some(&["", "", "&labelSelector=a", "&fieldSelector=metadata.name=a"]);
        let line = format!("GET {}?watch=true&timeoutSeconds=1{since}{only}", self.resource.path);
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
