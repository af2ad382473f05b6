//! A request as admission sees it. It never changes an object.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_access::{Attributes, Decision, ResourceTarget};
use cluster_cel::{Authorize, Check};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::access::authorization;
use crate::kinds::registry::Role;
use crate::kinds::{conversion, metadata};
use crate::state::context::Context;
use crate::wire::query::Query;
use crate::wire::status::Status;

/// What is done, in the words of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
    Connect,
}

impl AdmissionOperation {
    /// An update if the write replaces an object, otherwise a create.
    pub(crate) fn of(old: Option<&Value>) -> Self {
        match old {
            None => Self::Create,
            Some(_) => Self::Update,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Group, version and kind of what is sent.
pub(crate) type Typed<'a> = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>);

/// A request, without the objects that it is about.
pub(crate) struct AdmissionAttributes<'a> {
    pub(crate) context: &'a Context,
    pub(crate) operation: AdmissionOperation,
    /// Group, version and kind of a body that is not of the resource's own kind.
    body: Option<(&'a str, &'a str, &'a str)>,
    /// May be empty.
    pub(crate) name: String,
    pub(crate) dry_run: bool,
    pub(crate) options: Value,
    access_reviews: Arc<AccessReviews>,
}

/// Access decisions of another server that expressions need. An expression cannot wait: a decision that is not known yet is
/// noted, requested, and the expression run again.
#[derive(Default)]
struct AccessReviews(Mutex<Vec<(Check, Option<Outcome>)>>);

/// Whether it is allowed, and why.
type Outcome = (bool, String);

/// Access reviews that one request may send to another server; more are no policy, but an attack.
const ACCESS_REVIEWS_MAX: usize = 64;

impl AccessReviews {
    /// The outcome of a check. None: it is not known yet, and noted.
    fn find(&self, check: &Check) -> Option<Outcome> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, outcome)) = all.iter().find(|(known, _)| known == check) {
            return outcome.clone();
        }
        all.push((check.clone(), None));
        None
    }

    fn pending(&self) -> Vec<Check> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = all.iter().filter(|(_, outcome)| outcome.is_none());
        pending.map(|(check, _)| check.clone()).collect()
    }

    /// Returns how many checks are known.
    fn put(&self, check: &Check, outcome: Outcome) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, known) in all.iter_mut().filter(|(known, _)| known == check) {
            *known = Some(outcome.clone());
        }
        all.len()
    }
}

impl<'a> AdmissionAttributes<'a> {
    pub(crate) fn new(
        context: &'a Context,
        operation: AdmissionOperation,
        name: &str,
        dry_run: bool,
        options: Value,
    ) -> Self {
        Self {
            context,
            operation,
            body: None,
            name: name.to_owned(),
            dry_run,
            options,
            access_reviews: Arc::default(),
        }
    }

    /// Requests the access decisions that expressions need and have not got yet. True: some were requested, and the
    /// expressions have to be run again. Errors: the other server made no decision.
    pub(crate) async fn request_access_decisions(&self) -> Result<bool, Status> {
        let pending = self.access_reviews.pending();
        for check in &pending {
            let attributes = attributes_of(check, &self.context.user);
            let decision = authorization::decide(&self.context.server.access, &attributes, &Query::default()).await?;
            if self.access_reviews.put(check, outcome_of(decision)) > ACCESS_REVIEWS_MAX {
                return Err(Status::internal(format!(
                    "expressions of admission need more than {ACCESS_REVIEWS_MAX} access reviews"
                )));
            }
        }
        Ok(!pending.is_empty())
    }

    /// A create or an update, with its options.
    pub(crate) fn write(context: &'a Context, operation: AdmissionOperation, name: &str, dry_run: bool) -> Self {
        let kind = if operation == AdmissionOperation::Create {
            "CreateOptions"
        } else {
            "UpdateOptions"
        };
        let mut options = Map::new();
        options.insert("kind".to_owned(), json!(kind));
        options.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
        if dry_run {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        for field in ["fieldManager", "fieldValidation"] {
            if let Some(given) = context.query.get(field).filter(|given| !given.is_empty()) {
                options.insert(field.to_owned(), json!(given));
            }
        }
        Self::new(context, operation, name, dry_run, Value::Object(options))
    }

    /// The same, of a body that is not of the resource's kind.
    pub(crate) fn of_body(self, body: (&'a str, &'a str, &'a str)) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }

    pub(crate) fn has_own_body(&self) -> bool {
        self.body.is_some()
    }

    pub(crate) fn group(&self) -> &str {
        self.context.served.group()
    }

    pub(crate) fn resource(&self) -> &str {
        self.context.served.plural()
    }

    pub(crate) fn subresource(&self) -> &str {
        self.context.subresource().unwrap_or_default()
    }

    pub(crate) fn is_of_namespaces(&self) -> bool {
        self.context.served.role == Role::Namespace
    }

    /// The namespace; of a namespace its own name.
    pub(crate) fn namespace(&self) -> &str {
        if self.is_of_namespaces() {
            return self.context.target.name.as_deref().unwrap_or(&self.name);
        }
        self.context.namespace().unwrap_or_default()
    }

    /// The kind of what is sent, if the resource is requested in that version.
    pub(crate) fn kind(&self, version: &'a str) -> Typed<'_> {
        match self.body {
            Some((group, version, kind)) => (group.into(), version.into(), kind.into()),
            None => {
                let info = self.context.served.info();
                (info.group.as_ref().into(), version.into(), info.kind.as_ref().into())
            }
        }
    }

    /// When the caller stops waiting.
    pub(crate) fn deadline(&self) -> Instant {
        self.context.deadline
    }

    /// An object of the request in that version.
    pub(crate) async fn in_version<'v>(&self, value: &'v Value, version: &str) -> Result<Cow<'v, Value>, Status> {
        if self.has_own_body() || version == self.context.version() {
            return Ok(Cow::Borrowed(value));
        }
        conversion::convert_value(
            &self.context.server.network,
            &self.context.served,
            value.clone(),
            version,
        )
        .await
        .map(Cow::Owned)
    }

    /// The same, of an optional object.
    pub(crate) async fn some_in_version<'v>(
        &self,
        value: Option<&'v Value>,
        version: &str,
    ) -> Result<Option<Cow<'v, Value>>, Status> {
        match value {
            Some(value) => self.in_version(value, version).await.map(Some),
            None => Ok(None),
        }
    }

    /// A stored object in the version of the request.
    pub(crate) async fn in_version_of_request(&self, stored: &Value) -> Result<Value, Status> {
        conversion::convert_value(
            &self.context.server.network,
            &self.context.served,
            stored.clone(),
            self.context.version(),
        )
        .await
    }

    /// The name as refusals show it.
    pub(crate) fn shown_name(&self, object: Option<&Value>) -> String {
        let of_object = |field| object.map_or("", |object| metadata::text(object, field));
        let names = [self.name.as_str(), of_object("name"), of_object("generateName")];
        let name = names.into_iter().find(|name| !name.is_empty());
        name.unwrap_or("Unknown").to_owned()
    }

    /// `namespaces "a" is forbidden: WHY`
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.group(), self.resource(), &self.name, why)
    }

    /// The fields of an AdmissionReview's request, but for uid and objects.
    pub(crate) fn request(&self, version: &'a str) -> Map<String, Value> {
        let typed = |(group, version, kind): Typed<'_>| json!({"group": group, "version": version, "kind": kind});
        let resource = |version: &str| json!({"group": self.group(), "version": version, "resource": self.resource()});
        let user = &self.context.user;
        let mut info = Map::new();
        for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
            if !text.is_empty() {
                info.insert(field.to_owned(), json!(text));
            }
        }
        if !user.groups.is_empty() {
            info.insert("groups".to_owned(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            info.insert("extra".to_owned(), json!(user.extra));
        }
        let attributes = self.context.version();
        let mut request = Map::new();
        let mut put = |field: &str, value: Value| request.insert(field.to_owned(), value);
        put("kind", typed(self.kind(version)));
        put("resource", resource(version));
        put("requestKind", typed(self.kind(attributes)));
        put("requestResource", resource(attributes));
        put("operation", json!(self.operation.word()));
        put("userInfo", Value::Object(info));
        put("dryRun", json!(self.dry_run));
        put("options", self.options.clone());
        for (field, text) in [
            ("subResource", self.subresource()),
            ("requestSubResource", self.subresource()),
            ("name", &self.name),
            ("namespace", self.namespace()),
        ] {
            if !text.is_empty() {
                put(field, json!(text));
            }
        }
        request
    }
}

/// Access decisions by the server's own rules.
struct Rules {
    server: Arc<crate::state::server_state::ServerState>,
    user: Arc<cluster_access::User>,
}

impl Authorize for Rules {
    fn decide(&self, check: &Check) -> Outcome {
        outcome_of(self.server.access.authorize(&attributes_of(check, &self.user)))
    }
}

/// Decisions of another server; one that is not known yet is a no for the time being.
impl Authorize for AccessReviews {
    fn decide(&self, check: &Check) -> Outcome {
        self.find(check).unwrap_or_default()
    }
}

fn outcome_of(decision: Decision) -> Outcome {
    match decision {
        Decision::Deny(why) => (false, why),
        Decision::Allow(why) => (true, why),
    }
}

fn attributes_of(check: &Check, user: &Arc<cluster_access::User>) -> Attributes {
    let user = match &check.service_account {
        None => user.clone(),
        Some((namespace, name)) => Arc::new(cluster_access::User::service_account(namespace, name)),
    };
    match &check.path {
        Some(path) => Attributes::path(&user, &check.verb, path),
        None => Attributes::resource(
            &user,
            &check.verb,
            ResourceTarget {
                group: check.group.clone(),
                version: "*".to_owned(),
                resource: check.resource.clone(),
                subresource: check.subresource.clone(),
                namespace: check.namespace.clone(),
                name: check.name.clone(),
            },
        ),
    }
}

/// Gives expressions the names with which they check access.
pub(crate) fn set_authorizer(attributes: &AdmissionAttributes<'_>, names: &mut cluster_cel::Names) {
    let context = attributes.context;
    let rules: Arc<dyn Authorize> = match context.server.access.is_delegated() {
        true => attributes.access_reviews.clone(),
        false => Arc::new(Rules {
            server: context.server.clone(),
            user: context.user.clone(),
        }),
    };
    let resource = Check {
        group: attributes.group().to_owned(),
        resource: attributes.resource().to_owned(),
        subresource: attributes.subresource().to_owned(),
        namespace: attributes.namespace().to_owned(),
        name: attributes.name.clone(),
        ..Check::default()
    };
    names.set_authorizer(rules, resource);
}
