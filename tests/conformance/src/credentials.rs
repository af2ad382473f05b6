//! Credentials that are revoked, forged or foreign, presented to both servers: certificates on connections of their own, tokens
//! in headers. Answers are compared in full. Each server has its own authorities, so that each case is made for each of them.

mod certificates;
mod tokens;

use std::time::{Duration, Instant};

use base_clock::{Clock, Entropy};
use base_secrets::Issued;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::compare::{body, differences, picture};
use crate::known::Table;
use crate::mask::Mask;
use crate::ours::Ours;
use crate::pki::Pki;
use crate::real::Real;
use crate::wire::{Answer, Connection};
use crate::{Call, Difference, Endpoint, Outcome};

/// The name of these cases in reports and in the table of known differences.
pub const FILE: &str = "credentials";
/// The path whose answer names the caller.
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Real Kubernetes learns of deleted objects by its own watches.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two checks whether it has, which nothing announces.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The results of all cases.
#[derive(Debug, Default)]
pub struct Tally {
    /// Both answered alike.
    pub agree: usize,
    /// They did not, and the table says why.
    pub known: usize,
    /// They did not: title, and where.
    pub differ: Vec<(&'static str, Vec<Difference>)>,
    /// The names of all, as the table has them.
    pub names: Vec<String>,
}

/// What one client presents.
#[derive(Default)]
pub(crate) struct Credential {
    certificate: Option<Issued>,
    headers: Vec<(HeaderName, String)>,
    /// What it refers to is deleted: a server may take a while to notice.
    is_revoked: bool,
}

impl Credential {
    fn authorization(text: impl Into<String>) -> Self {
        Self::default().with(AUTHORIZATION, text)
    }

    fn token(token: &str) -> Self {
        Self::authorization(format!("Bearer {token}"))
    }

    fn certificate(issued: Issued) -> Self {
        Self {
            certificate: Some(issued),
            ..Self::default()
        }
    }

    fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn revoked(self) -> Self {
        Self {
            is_revoked: true,
            ..self
        }
    }
}

/// A case as it is made for one server.
type Case = (&'static str, Credential);

/// One of the servers, with the authorities of its credentials.
pub(crate) struct Target<'a> {
    endpoint: &'a Endpoint,
    pki: &'a Pki,
    admin: Connection,
    clock: Clock,
    entropy: Entropy,
}

/// Presents all credentials to both.
///
/// # Errors
/// A server cannot be reached, or refuses an object that the credentials need.
pub async fn run(real: &Real, ours: &Ours, table: &Table) -> Outcome<Tally> {
    let mut real = Target::new(&real.endpoint, &real.pki).await?;
    let mut ours = Target::new(&ours.endpoint, &ours.pki).await?;
    let (of_real, of_ours) = tokio::try_join!(real.cases(), ours.cases())?;
    let mut tally = Tally::default();
    for ((title, to_real), (_, to_ours)) in of_real.iter().zip(&of_ours) {
        let name = format!("{FILE} / {title}");
        let (of_real, by_ours) = tokio::try_join!(real.answer_to(to_real), ours.answer_to(to_ours))?;
        let all = differences("1", &of_real, &by_ours);
        let count = all.len();
        let unknown: Vec<_> = all
            .into_iter()
            .filter(|found| table.explain(&name, found).is_none())
            .collect();
        match (count, unknown.is_empty()) {
            (0, _) => tally.agree += 1,
            (_, true) => tally.known += 1,
            (_, false) => tally.differ.push((title, unknown)),
        }
        tally.names.push(name);
    }
    Ok(tally)
}

/// The credentials that ours refuses: certificates, and the others.
///
/// # Errors
/// It cannot be reached, or refuses an object that the credentials need.
pub(crate) async fn refused(ours: &Ours) -> Outcome<(Vec<Credential>, Vec<Credential>)> {
    let mut target = Target::new(&ours.endpoint, &ours.pki).await?;
    let (mut certificates, mut others) = (Vec::new(), Vec::new());
    for (_, credential) in target.cases().await? {
        let is_refused = target.answer_to(&credential).await?["status"].as_u64() >= Some(400);
        match (is_refused, &credential.certificate) {
            (true, Some(_)) => certificates.push(credential),
            (true, None) => others.push(credential),
            (false, _) => {}
        }
    }
    Ok((certificates, others))
}

impl<'a> Target<'a> {
    pub(crate) async fn new(endpoint: &'a Endpoint, pki: &'a Pki) -> Outcome<Self> {
        Ok(Self {
            endpoint,
            pki,
            admin: endpoint.connect().await?,
            clock: Clock::real(),
            entropy: Entropy::os(),
        })
    }

    async fn cases(&mut self) -> Outcome<Vec<Case>> {
        let mut cases = certificates::cases(self)?;
        cases.extend(tokens::cases(self).await?);
        Ok(cases)
    }

    /// The answer to a client with this credential.
    pub(crate) async fn answer_to(&self, credential: &Credential) -> Outcome<Value> {
        let mut call = object(Method::POST, WHO_AM_I, &json!({}));
        for (name, value) in &credential.headers {
            let value = HeaderValue::from_str(value).map_err(|error| format!("{name}: {error}"))?;
            call.headers.append(name.clone(), value);
        }
        let endpoint = self.endpoint.with_certificate(credential.certificate.as_ref())?;
        let mut connection = endpoint.connect().await?;
        let begun = Instant::now();
        loop {
            let answer = connection.send(&call).await?;
            let is_late = begun.elapsed() > REVOCATION_TIMEOUT;
            if !credential.is_revoked || answer.status == StatusCode::UNAUTHORIZED || is_late {
                return Ok(Mask::new("").mask(1, &picture(&answer)));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Sends a request as the administrator, and returns the body of the answer.
    async fn as_admin(&mut self, method: Method, path: &str, content: &Value) -> Outcome<Value> {
        let answer: Answer = self.admin.send(&object(method.clone(), path, content)).await?;
        match answer.status.is_success() {
            true => Ok(body(&answer)),
            false => Err(format!(
                "{} refuses {method} {path}: {}",
                self.endpoint.name,
                body(&answer)
            )),
        }
    }
}

fn object(method: Method, path: &str, content: &Value) -> Call {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Call {
        method,
        path: path.to_owned(),
        headers,
        body: content.to_string().into(),
    }
}
