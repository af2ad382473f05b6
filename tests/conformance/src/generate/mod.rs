//! Sequences of requests drawn from a seed, and reduction of those that differ. A sequence is printed as the text of a case,
//! so that it can be copied into a file of cases.

mod draw;
mod kinds;
mod shape;
mod shrink;

use std::fmt::Write;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::Outcome;
use crate::script::{self, Case};
use draw::Draw;
use kinds::Resource;
pub use shrink::smallest;

/// The file name of drawn cases.
pub const FILE: &str = "generated";
/// Requests of a sequence.
const REQUESTS: std::ops::RangeInclusive<usize> = 3..=10;
/// Definitions of a run: enough that schemas differ, and few because each takes time to be served.
const DEFINITIONS: usize = 24;

/// The resources of all sequences of one seed.
pub struct World {
    seed: u64,
    resources: Vec<Resource>,
    definitions: Vec<Value>,
}

/// A sequence of requests.
#[derive(Clone, Debug)]
pub struct Sequence {
    number: u64,
    /// The last part of the path of its resource.
    resource: String,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    /// Later requests refer to its answer by this number.
    number: usize,
    line: String,
    headers: Vec<&'static str>,
    body: Option<Value>,
}

impl World {
    /// The world of a seed.
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

    /// The sequence of this number as it is drawn, and its definition: after reduction the cause of a difference may be lost.
    #[must_use]
    pub fn shown(&self, number: u64) -> String {
        let text = self.draw(number).text();
        let is_about = |definition: &&Value| {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            [" ", "/", "?", "\n"]
                .iter()
                .any(|end| text.contains(&format!("/{plural}{end}")))
        };
        match self.definitions.iter().find(is_about) {
            Some(definition) => format!("{}\n{text}", definition["spec"]["versions"][0]),
            None => text,
        }
    }

    /// A case per definition, which makes it and waits until it is served.
    ///
    /// # Errors
    /// A definition that cannot be written as a case.
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

    /// The case of an attempt: each attempt needs a namespace of its own.
    ///
    /// # Errors
    /// When it cannot be written as a case.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fill::{Answers, fill};
    use crate::ours::{Ours, Storage};

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
    fn every_sequence_is_a_case_that_refers_only_to_earlier_answers() {
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
    async fn drawn_definitions_are_accepted_by_a_server() {
        let ours = Ours::start(Storage::Memory).await.unwrap();
        let mut connection = ours.endpoint.connect().await.unwrap();
        for case in World::new(3).beforehand().unwrap() {
            let call = fill(&case.steps[0], &case.namespace, &Answers::new()).unwrap();
            let answer = connection.send(&call).await.unwrap();
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        }
    }
}
