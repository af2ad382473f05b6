//! Runs cases on both servers and returns what differs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::behind::Behind;
use crate::compare::{body, differences, picture};
use crate::fill::{Answers, fill};
use crate::known::{Explained, Table};
use crate::mask::Mask;
use crate::script::{Body, Case, Step};
use crate::webhook::Webhook;
use crate::wire::{Answer, Connection};
use crate::{Call, Difference, Endpoint, Outcome};

/// Longer than real Kubernetes takes to serve a new resource.
const AWAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two checks: nothing announces that a resource is served.
const AWAIT_PAUSE: Duration = Duration::from_millis(20);

/// The result of one case.
#[derive(Debug)]
pub struct Verdict {
    /// Its name.
    pub case: String,
    /// Each request with its unknown differences.
    pub unexplained: Vec<(String, Vec<Difference>)>,
    /// The entries that explain its known differences.
    pub known: BTreeSet<Explained>,
    /// Each request with the masked answer of the real server.
    pub transcript: Vec<(String, Value)>,
}

/// Both servers, with a connection to each.
pub struct Comparer {
    real: Connection,
    ours: Connection,
    webhook: Webhook,
    /// The server behind each of them.
    behind: [Behind; 2],
}

impl Comparer {
    /// Connects to both.
    ///
    /// # Errors
    /// When one cannot be reached.
    pub async fn connect(real: &Endpoint, ours: &Endpoint) -> Outcome<Self> {
        Ok(Self {
            real: real.connect().await?,
            ours: ours.connect().await?,
            webhook: Webhook::start().await?,
            behind: [
                Behind::start(&real.front_authority).await?,
                Behind::start(&ours.front_authority).await?,
            ],
        })
    }

    /// Runs one case on both.
    ///
    /// # Errors
    /// When a server does not answer or a reference cannot be resolved: then there is nothing to compare.
    pub async fn compare(&mut self, case: &Case, table: &Table) -> Outcome<Verdict> {
        let of_case = |why: String| format!("{}: {why}", case.name);
        self.prepare(case).await.map_err(of_case)?;
        let mut verdict = Verdict {
            case: case.name.clone(),
            unexplained: Vec::new(),
            known: BTreeSet::new(),
            transcript: Vec::new(),
        };
        let known = |behind: &Behind| {
            Answers::from([
                ("webhook".to_owned(), self.webhook.known()),
                ("behind".to_owned(), behind.known()),
            ])
        };
        let [behind_real, behind_ours] = self.behind.each_ref().map(known);
        let mut real = Side::new(&mut self.real, case, behind_real);
        let mut ours = Side::new(&mut self.ours, case, behind_ours);
        for (index, step) in case.steps.iter().enumerate() {
            let number = index + 1;
            let (real, ours) = tokio::join!(real.take(number, step), ours.take(number, step));
            let (real, ours) = (real.map_err(of_case)?, ours.map_err(of_case)?);
            let mut unexplained = Vec::new();
            for difference in differences(&number.to_string(), &real, &ours) {
                match table.explain(&case.name, &difference) {
                    Some(explained) => drop(verdict.known.insert(explained)),
                    None => unexplained.push(difference),
                }
            }
            if !unexplained.is_empty() {
                verdict.unexplained.push((step.written.clone(), unexplained));
            }
            verdict.transcript.push((step.written.clone(), real));
        }
        table.count(&verdict.known);
        Ok(verdict)
    }

    /// Creates the namespace of the case, and the service account without which no pod is admitted.
    async fn prepare(&mut self, case: &Case) -> Outcome {
        let namespace = made("/api/v1/namespaces", json!({"metadata": {"name": case.namespace}}));
        let account = made(
            "/api/v1/namespaces/<ns>/serviceaccounts",
            json!({"metadata": {"name": "default"}}),
        );
        for connection in [&mut self.real, &mut self.ours] {
            for step in [&namespace, &account] {
                let answer = connection.send(&fill(step, &case.namespace, &Answers::new())?).await?;
                if !answer.status.is_success() {
                    return Err(format!(
                        "the namespace {} could not be made: {}",
                        case.namespace,
                        body(&answer)
                    ));
                }
            }
        }
        Ok(())
    }
}

fn made(path: &str, object: Value) -> Step {
    Step {
        name: None,
        written: String::new(),
        awaited: false,
        until: None,
        method: http::Method::POST,
        path: path.to_owned(),
        headers: vec![(http::header::CONTENT_TYPE, "application/json".to_owned())],
        body: Body::Json(object),
    }
}

/// A case as one of the servers sees it.
struct Side<'a> {
    connection: &'a mut Connection,
    case: &'a Case,
    answers: Answers,
    mask: Mask<'a>,
}

impl<'a> Side<'a> {
    fn new(connection: &'a mut Connection, case: &'a Case, answers: Answers) -> Self {
        Self {
            connection,
            case,
            answers,
            mask: Mask::new(&case.text),
        }
    }

    /// Sends one request and returns the masked answer.
    async fn take(&mut self, number: usize, step: &Step) -> Outcome<Value> {
        let call = fill(step, &self.case.namespace, &self.answers)?;
        if step.awaited || step.until.is_some() {
            self.wait(step, &call).await?;
            return Ok(Value::Null);
        }
        let answer = self.connection.send(&call).await?;
        if let Some(name) = &step.name {
            self.answers.insert(name.clone(), body(&answer));
        }
        Ok(self.mask.mask(number, &picture(&answer)))
    }

    /// Sends a request again and again until the answer is the one awaited. A connection that breaks off is no answer:
    /// kube-apiserver breaks it off when a request times out while its answer is being written.
    async fn wait(&mut self, step: &Step, call: &Call) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            let answer = self.connection.send(call).await;
            let came = |answer: &Answer| match step.until {
                Some(code) => answer.status == code,
                None => answer.status.is_success(),
            };
            if answer.as_ref().is_ok_and(came) {
                return Ok(());
            }
            if begun.elapsed() > AWAIT_TIMEOUT {
                let found = answer.map_or_else(|error| error, |answer| body(&answer).to_string());
                let written = &step.written;
                return Err(format!(
                    "{written} was not as awaited within {AWAIT_TIMEOUT:?}: {found}"
                ));
            }
            tokio::time::sleep(AWAIT_PAUSE).await;
        }
    }
}
