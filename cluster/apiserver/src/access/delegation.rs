//! Another API server that is called to learn who a token belongs to and what a user may do, for a server that stands behind
//! it and has neither accounts nor rules of its own. Answers are cached for a few seconds, except for users that bypass the
//! cache; failures are not cached.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/plugin/pkg/{authenticator/token,authorizer}/webhook,
//! pkg/server/options/{authentication,authorization}.go)

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster_access::{Attributes, Decision, Target, User, group};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

use crate::kinds::registry::DELETE_COLLECTION;
use crate::wire::query::Query;
use crate::wire::status::Status;

/// How long an answer is cached, yes or no.
const CACHED_FOR: Duration = Duration::from_secs(10);
/// Answers that are cached of each sort; the oldest go first.
const CACHED_MAX: usize = 4096;
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What every client may read on a server that has no rules.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// The other API server.
pub(crate) struct Delegation {
    clients: Delegates,
    users: Cache<Option<Arc<User>>>,
    decisions: Cache<Decision>,
}

impl Delegation {
    pub(crate) fn new(clients: Delegates) -> Self {
        Self {
            clients,
            users: Cache::default(),
            decisions: Cache::default(),
        }
    }

    /// Who a token belongs to. Errors: 401, also if there is no answer.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Arc<User>, Status> {
        // The token itself is not cached.
        let key = Sha256::digest(token).into();
        if let Some(found) = self.users.get(&key) {
            return found.ok_or_else(Status::unauthorized);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews = Api::<TokenReview>::all(self.clients.authentication.clone());
        let reviewed = answered(reviews.create(&PostParams::default(), &review)).await;
        let status = reviewed.map_err(|why| {
            // The client gets the same answer as for a wrong token.
            tracing::warn!(why, "a token was not reviewed by the server in front");
            Status::unauthorized()
        })?;
        let status = status.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).map(|user| {
            Arc::new(User {
                name: user.username.unwrap_or_default(),
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            })
        });
        let user = user.filter(|user| !user.name.is_empty());
        self.users.put(key, user.clone());
        user.ok_or_else(Status::unauthorized)
    }

    /// Whether a user may do it. Errors: there is no answer.
    pub(crate) async fn decide(&self, attributes: &Attributes, query: &Query) -> Result<Decision, Status> {
        if attributes.user.is_in(group::MASTERS) {
            return Ok(Decision::Allow(String::new()));
        }
        if matches!(&attributes.target, Target::Path(path) if OPEN_PATHS.contains(&path.as_str())) {
            return Ok(Decision::Allow(String::new()));
        }
        let spec = spec_of(attributes, query);
        let written = serde_json::to_vec(&spec).map_err(Status::internal)?;
        let key = Sha256::digest(written).into();
        let fresh = (self.clients.bypasses_cache)(&attributes.user);
        if let Some(found) = self.decisions.get(&key).filter(|_| !fresh) {
            return Ok(found);
        }
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.clients.authorization.clone());
        let answer = answered(reviews.create(&PostParams::default(), &review)).await;
        let answer = answer.map_err(|why| {
            Status::internal(format!(
                "the API server in front did not say whether this is allowed: {why}"
            ))
        })?;
        let status = answer.status.unwrap_or_default();
        let reason = status.reason.unwrap_or_default();
        let decision = match status.allowed {
            true => Decision::Allow(reason),
            false => Decision::Deny(reason),
        };
        if !fresh {
            self.decisions.put(key, decision.clone());
        }
        Ok(decision)
    }
}

async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match timeout(TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}

fn spec_of(attributes: &Attributes, query: &Query) -> SubjectAccessReviewSpec {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let user = &attributes.user;
    // The server in front evaluates selectors too: a user may be allowed to list a part who may not list everything.
    let of_many = matches!(attributes.verb.as_str(), "list" | "watch" | DELETE_COLLECTION);
    let selector = |name: &str| query.get(name).filter(|_| of_many).and_then(some);
    let mut spec = SubjectAccessReviewSpec {
        user: some(&user.name),
        uid: some(&user.uid),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match &attributes.target {
        Target::Path(path) => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                path: some(path),
                verb: some(&attributes.verb),
            });
        }
        Target::Resource(target) => {
            spec.resource_attributes = Some(ResourceAttributes {
                namespace: some(&target.namespace),
                verb: some(&attributes.verb),
                group: some(&target.group),
                version: some(&target.version),
                resource: some(&target.resource),
                subresource: some(&target.subresource),
                name: some(&target.name),
                field_selector: selector("fieldSelector").map(|raw| FieldSelectorAttributes {
                    raw_selector: Some(raw),
                    requirements: None,
                }),
                label_selector: selector("labelSelector").map(|raw| LabelSelectorAttributes {
                    raw_selector: Some(raw),
                    requirements: None,
                }),
            });
        }
    }
    spec
}

type Digest = [u8; 32];

/// Answers by request, each with its time.
type Answers<T> = HashMap<Digest, (Instant, T)>;

/// The newest answers, and in which order they came.
struct Cache<T>(Mutex<(Answers<T>, VecDeque<Digest>)>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new((HashMap::new(), VecDeque::new())))
    }
}

impl<T: Clone> Cache<T> {
    fn get(&self, key: &Digest) -> Option<T> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, answer) = cache.0.get(key)?;
        (since.elapsed() < CACHED_FOR).then(|| answer.clone())
    }

    fn put(&self, key: Digest, answer: T) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (answers, order) = &mut *cache;
        if answers.insert(key, (Instant::now(), answer)).is_none() {
            order.push_back(key);
        }
        if order.len() > CACHED_MAX
            && let Some(oldest) = order.pop_front()
        {
            answers.remove(&oldest);
        }
    }
}

/// The delegates: called beside a server's own authorities and instead of its own rules.
#[derive(Clone)]
pub(crate) struct Delegates {
    /// Who reviews tokens. (`--authentication-kubeconfig`)
    pub(crate) authentication: kube::Client,
    /// Who reviews access. (`--authorization-kubeconfig`)
    pub(crate) authorization: kube::Client,
    /// Whose access is reviewed each time.
    pub(crate) bypasses_cache: fn(&User) -> bool,
}
