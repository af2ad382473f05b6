//! Reads the recorded cases and sends their requests, each case after the others, to one garden.

use control_plane_garden_api::{GardenSettings, kinds};
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tests_kit::{Embedded, embedded_with};

use super::normal::{Answer, answer_of};

const USER: &str = "admin";

/// One request of a case.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Step {
    pub(super) method: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) body: Value,
    /// The body is the answer to that step, changed by `changes`.
    from: Option<usize>,
    /// Fields by path, its keys separated by `|`, with what is written there or `{"$delete": true}`.
    #[serde(default)]
    changes: Vec<(String, Value)>,
    content_type: Option<String>,
    accept: Option<String>,
    /// The user who sends it; without it, the administrator.
    #[serde(rename = "as")]
    pub(super) user: Option<String>,
    /// The maintenance window is random.
    #[serde(default)]
    random_window: bool,
}

/// Requests and the answers recorded for them; `None` where a step's answer does not matter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    pub(super) expect: Vec<Option<Answer>>,
}

/// Every case, and the requests that come before all of them.
pub(super) struct Recorded {
    pub(super) fixtures: Vec<Step>,
    pub(super) cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Fixture { fixture: Step },
    Case(Case),
}

impl Recorded {
    pub(super) fn read(lines: &str) -> Self {
        let (mut fixtures, mut cases) = (Vec::new(), Vec::new());
        for line in lines.lines() {
            match serde_json::from_str(line).unwrap() {
                Line::Fixture { fixture } => fixtures.push(fixture),
                Line::Case(case) => cases.push(case),
            }
        }
        Self { fixtures, cases }
    }
}

/// A garden and its clients.
pub(super) struct Replay {
    garden: Embedded,
    admin: Client,
}

impl Replay {
    pub(super) async fn start(fixtures: &[Step]) -> Self {
        let settings = GardenSettings {
            entropy: base_clock::Entropy::seeded(3),
            gateway: None,
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        };
        let garden = embedded_with("garden", kinds(&settings), |builder| builder).await;
        let replay = Self {
            admin: garden.admin(),
            garden,
        };
        for (step, answer) in fixtures.iter().zip(replay.run(fixtures).await) {
            assert!(answer.code < 300, "{} {}: {answer:?}", step.method, step.path);
        }
        replay
    }

    /// Sends the steps of one case.
    pub(super) async fn run(&self, steps: &[Step]) -> Vec<Answer> {
        let (mut raw, mut answers): (Vec<Value>, Vec<Answer>) = (Vec::new(), Vec::new());
        for step in steps {
            let mut body = step.body.clone();
            if let Some(from) = step.from {
                body = raw[from].clone();
                for (path, value) in &step.changes {
                    change(&mut body, path, value);
                }
            }
            let (code, answer) = self.send(step, &body).await;
            let mut comparable = answer_of(code, &answer, USER, step.random_window);
            let named = body.pointer("/metadata/name").is_some();
            if step.method == "POST" && code < 300 && !named {
                let name = comparable.object.pointer_mut("/metadata/name");
                if let Some(name) = name {
                    *name = "<generated>".into();
                }
            }
            raw.push(answer);
            answers.push(comparable);
        }
        answers
    }

    /// Sends one request as the administrator.
    pub(super) async fn call(&self, method: http::Method, path: &str, body: &Value) -> (u16, Value) {
        let step = Step {
            method: method.to_string(),
            path: path.to_owned(),
            body: Value::Null,
            from: None,
            changes: Vec::new(),
            content_type: None,
            accept: None,
            user: None,
            random_window: false,
        };
        self.send(&step, body).await
    }

    async fn send(&self, step: &Step, body: &Value) -> (u16, Value) {
        let client = match &step.user {
            Some(user) => self.garden.client(user, &[]),
            None => self.admin.clone(),
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body).unwrap()
        };
        let request = Request::builder()
            .method(step.method.as_str())
            .uri(&step.path)
            .header(
                "content-type",
                step.content_type.as_deref().unwrap_or("application/json"),
            )
            .header("accept", step.accept.as_deref().unwrap_or("application/json"))
            .body(kube::client::Body::from(bytes))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

/// Writes a value below a path, whose numbers are indices of lists and whose `-` appends to one.
fn change(object: &mut Value, path: &str, value: &Value) {
    let mut parts: Vec<&str> = path.split('|').collect();
    let last = parts.pop().unwrap_or_default();
    let mut here = object;
    for part in parts {
        if !here.is_array() && here.get(part).is_none() {
            here[part] = Value::Object(serde_json::Map::new());
        }
        here = match here {
            Value::Array(items) => &mut items[part.parse::<usize>().unwrap()],
            other => &mut other[part],
        };
    }
    let deletes = value["$delete"] == true;
    match here {
        Value::Array(items) if deletes => {
            items.remove(last.parse().unwrap());
        }
        Value::Array(items) if last == "-" => items.push(value.clone()),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value.clone(),
        other if deletes => {
            other.as_object_mut().and_then(|fields| fields.remove(last));
        }
        other => other[last] = value.clone(),
    }
}
