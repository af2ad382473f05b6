//! Answers reviews, which are created by POST and never stored: TokenReview, SubjectAccessReview, SelfSubjectReview and their
//! kin. The answer is the `status` of the same object.

use std::sync::Arc;

use cluster_access::{Attributes, AuthenticationError, Decision, ResourceTarget, TokenFault, User};
use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use http::StatusCode;
use http::request::Parts;
use kube::client::Body;
use serde_json::{Value, json};

use crate::kinds::metadata;
use crate::kinds::review_kinds::{AUTHORIZATION, Review};
use crate::state::context;
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::decode::{decode, encoding, read_body};
use crate::wire::path::Target;
use crate::wire::query::Query;
use crate::wire::status::Status;

impl Review {
    /// Answers the review.
    pub(crate) async fn answer(
        self,
        server: &Arc<ServerState>,
        user: &Arc<User>,
        target: &Target,
        verb: &str,
        parts: &Parts,
        body: Body,
    ) -> Result<Answer, Status> {
        if verb != "create" || target.name.is_some() {
            return Err(Status::method_not_allowed());
        }
        if target.namespace.is_some() != self.namespaced() {
            return Err(Status::no_such_resource());
        }
        let mut review = decode(&read_body(body).await?, encoding(&parts.headers)?)?.value;
        metadata::of_mut(&mut review)?;
        let now = server.clock.now();
        self.note_manager(&mut review, parts, now);
        let spec = review.get("spec").cloned().unwrap_or(Value::Null);
        let status = match self {
            Self::SelfSubject => json!({"userInfo": user_info(user)}),
            Self::Token => token(server, &spec).await?,
            Self::SelfAccess => access(server, user, &spec).await?,
            Self::Access | Self::LocalAccess => {
                let path = spec.get("nonResourceAttributes").filter(|path| path.is_object());
                if let Some(path) = path.filter(|_| self == Self::LocalAccess) {
                    let text = |field: &str| path.get(field).and_then(Value::as_str).unwrap_or_default();
                    let shown = json!({"Path": text("path"), "Verb": text("verb")});
                    let why = "disallowed on this kind of request";
                    let error = cluster_fields::FieldError::invalid("spec.nonResourceAttributes", shown, why);
                    return Err(Status::invalid(AUTHORIZATION, "", "", &[error]));
                }
                let inside = spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str);
                if self == Self::LocalAccess && inside != target.namespace.as_deref() {
                    let error = cluster_fields::FieldError::invalid(
                        "spec.resourceAttributes.namespace",
                        inside.unwrap_or_default(),
                        "must match metadata.namespace",
                    );
                    return Err(Status::invalid(AUTHORIZATION, "", "", &[error]));
                }
                access(server, &Arc::new(subject(&spec)?), &spec).await?
            }
            Self::SelfRules => rules(server, user, &spec)?,
        };
        if self == Self::SelfSubject {
            // Only the caller is requested: the object of the request is ignored.
            review = json!({"metadata": {}});
        }
        review["apiVersion"] = json!(format!("{}/v1", self.group()));
        review["kind"] = json!(self.kind());
        review["status"] = status;
        let metadata = metadata::of_mut(&mut review)?;
        match self {
            Self::SelfSubject => {
                metadata.insert("creationTimestamp".to_owned(), json!(metadata::timestamp(now)));
            }
            Self::LocalAccess => {
                metadata.insert("namespace".to_owned(), json!(target.namespace));
            }
            // The request is not repeated.
            Self::SelfRules => review["spec"] = json!({}),
            _ => {}
        }
        Ok(Answer::value(StatusCode::CREATED, &review))
    }
}

impl Review {
    /// Records the manager as if the review were stored, for all kinds but two.
    fn note_manager(self, review: &mut Value, parts: &Parts, now: jiff::Timestamp) {
        let query = Query::parse(parts.uri.query());
        if matches!(self, Self::SelfSubject | Self::SelfRules) {
            return;
        }
        let options = UpdateOptions {
            manager: &context::manager(&query, &parts.headers),
            subresource: "",
            time: now,
            api_version: &format!("{}/v1", self.group()),
        };
        let schema = cluster_builtin::schema(self.group(), "v1", self.kind()).unwrap_or_else(Schema::any);
        track_update(None, review, options, &schema);
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

async fn token(server: &ServerState, spec: &Value) -> Result<Value, Status> {
    let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<String> = texts(spec.get("audiences"));
    Ok(
        match server.access.authenticator.authenticate_token(token, &audiences).await {
            Ok(found) => json!({"authenticated": true, "user": user_info(&found.user), "audiences": found.audiences}),
            Err(error) => json!({"user": {}, "error": refused_token(&error, &audiences)}),
        },
    )
}

/// Why a token is invalid. Of one with other audiences kube-apiserver reports these, after the errors of its other
/// authenticators.
fn refused_token(error: &AuthenticationError, audiences: &[String]) -> String {
    match error {
        AuthenticationError::Token(TokenFault::Audience(found)) => {
            let printed = |names: &[String]| {
                let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                quoted.join(" ")
            };
            let (found, wanted) = (printed(found), printed(audiences));
            format!("[invalid bearer token, token audiences [{found}] is invalid for the target audiences [{wanted}]]")
        }
        other => other.to_string(),
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn subject(spec: &Value) -> Result<User, Status> {
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let user = User {
        name: text("user"),
        uid: text("uid"),
        groups: texts(spec.get("groups")),
        extra: spec
            .get("extra")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(Some(values))))
            .collect(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let error =
            cluster_fields::FieldError::invalid("spec.user", "", "at least one of user or group must be specified");
        return Err(Status::invalid(AUTHORIZATION, "", "", &[error]));
    }
    Ok(user)
}

async fn access(server: &ServerState, user: &Arc<User>, spec: &Value) -> Result<Value, Status> {
    let text = |from: &Value, field: &str| from.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = spec.get("resourceAttributes").filter(|value| value.is_object());
    let path = spec.get("nonResourceAttributes").filter(|value| value.is_object());
    let attributes = match (resource, path) {
        (Some(resource), None) => {
            let target = ResourceTarget {
                group: text(resource, "group"),
                version: text(resource, "version"),
                resource: text(resource, "resource"),
                subresource: text(resource, "subresource"),
                namespace: text(resource, "namespace"),
                name: text(resource, "name"),
            };
            Attributes::resource(user, &text(resource, "verb"), target)
        }
        (None, Some(path)) => Attributes::path(user, &text(path, "verb"), &text(path, "path")),
        (Some(_), Some(path)) => {
            let shown = json!({"Path": text(path, "path"), "Verb": text(path, "verb")});
            let why = "cannot be specified in combination with resourceAttributes";
            let error = cluster_fields::FieldError::invalid("spec.nonResourceAttributes", shown, why);
            return Err(Status::invalid(AUTHORIZATION, "", "", &[error]));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let error = cluster_fields::FieldError::invalid("spec.resourceAttributes", Value::Null, why);
            return Err(Status::invalid(AUTHORIZATION, "", "", &[error]));
        }
    };
    let query = resource.map(selecting).unwrap_or_default();
    let decision = crate::access::authorization::decide(&server.access, &attributes, &query).await?;
    Ok(match decision {
        Decision::Allow(reason) if reason.is_empty() => json!({"allowed": true}),
        Decision::Allow(reason) => json!({"allowed": true, "reason": reason}),
        Decision::Deny(reason) if reason.is_empty() => json!({"allowed": false}),
        Decision::Deny(reason) => json!({"allowed": false, "reason": reason}),
    })
}

/// The selectors of the attributes as the query of a request, from their text or from their requirements.
fn selecting(resource: &Value) -> Query {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let written = |field: &str, write: fn(&str, &str, &[String]) -> String| {
        let Some(selector) = resource.get(field) else {
            return String::new();
        };
        let requirements = selector.get("requirements").and_then(Value::as_array);
        let written = requirements.into_iter().flatten().map(|one| {
            let values = texts(one.get("values"));
            write(&text(one, "key"), &text(one, "operator"), &values)
        });
        let written: Vec<String> = written.filter(|one| !one.is_empty()).collect();
        match written.is_empty() {
            true => text(selector, "rawSelector"),
            false => written.join(","),
        }
    };
    let field = |key: &str, operator: &str, values: &[String]| match (operator, values) {
        ("In", [value]) => format!("{key}={}", escaped(value)),
        ("NotIn", [value]) => format!("{key}!={}", escaped(value)),
        _ => String::new(),
    };
    let label = |key: &str, operator: &str, values: &[String]| match operator {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => String::new(),
    };
    Query::selecting(written("fieldSelector", field), written("labelSelector", label))
}

/// A value as field selectors write it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

fn rules(server: &ServerState, user: &User, spec: &Value) -> Result<Value, Status> {
    let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, errors) = server.access.rbac.read(|index| index.bound_rules_for(user, namespace));
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if rule.non_resource_urls.as_ref().is_some_and(|urls| !urls.is_empty()) {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
        if rule.resources.as_ref().is_some_and(|resources| !resources.is_empty()) {
            let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
            if rule.resource_names.as_ref().is_some_and(|names| !names.is_empty()) {
                shown["resourceNames"] = json!(rule.resource_names);
            }
            resources.push(shown);
        }
    }
    let mut errors = errors;
    if crate::access::gatekeepers::concern(&server.access.gatekeepers, user) {
        // As kube-apiserver reports authorizers without rules.
        errors.push("some of what this user may do is decided by no rules".to_owned());
    }
    let mut status = json!({"incomplete": !errors.is_empty(), "resourceRules": resources, "nonResourceRules": paths});
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    Ok(status)
}
