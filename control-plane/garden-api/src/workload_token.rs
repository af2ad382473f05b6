//! The action `workloadidentities/token`: a token by which a cloud knows the identity (gardener/gardener v1.150
//! pkg/apiserver/registry/security/workloadidentity/storage). The server's own key signs it; nothing of it is stored.

use std::sync::Arc;
use std::time::Duration;

use api_core::security::{ContextObject, TokenRequest, TokenRequestStatus, WorkloadIdentity};
use cluster_apiserver::kind::{Action, ActionCall};
use cluster_apiserver::{ForeignTokenSpec, Status};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::admission::project_of;
use crate::convert::{CORE, SECURITY, decode_stored, field_errors, text, uncoded};

const KIND: &str = "TokenRequest";
/// Only gardenlets may name a context object: claims of other users could not be trusted.
const SEEDS: &str = "gardener.cloud:system:seeds";
/// What parts the technical ID from the UID in the name of a BackupEntry.
const UID_SEPARATOR: &str = "--";
/// Before the name of a BackupEntry that another seed's backup is copied from.
const SOURCE_PREFIX: &str = "source-";

/// The action.
pub(crate) struct TokenRequests;

impl Action for TokenRequests {
    fn run<'a>(&'a self, call: ActionCall<'a>) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(answer(call))
    }
}

async fn answer(call: ActionCall<'_>) -> Result<Value, Status> {
    let mut request: TokenRequest = serde_json::from_value(call.body.clone())
        .map_err(|error| Status::bad_request(format!("{KIND} cannot be read: {error}")))?;
    let namespace = call.namespace.unwrap_or_default();
    identify(&mut request, namespace, call.name, call.now)?;
    api_rules::default_token_request(&mut request);
    let errors = field_errors(api_rules::validate_token_request(&request));
    if !errors.is_empty() {
        return Err(Status::invalid(SECURITY, KIND, "", &errors));
    }
    let identity: WorkloadIdentity = decode_stored("WorkloadIdentity", call.object)?;
    let mut claims = Map::from_iter([("workloadIdentity".to_owned(), reference(call.object))]);
    if let Some(context) = request.spec.context_object.as_ref().filter(|_| call.user.is_in(SEEDS)) {
        claims.extend(context_claims(&call, context).await?);
    }
    let validity_s = u64::try_from(api_rules::granted_token_validity(&request)).unwrap_or_default();
    let spec = ForeignTokenSpec {
        subject: identity.status.unwrap_or_default().sub,
        audiences: identity.spec.audiences,
        validity: Duration::from_secs(validity_s),
        claims: Map::from_iter([("gardener.cloud".to_owned(), Value::Object(claims))]),
    };
    let issued = call.tokens.issue(&spec)?;
    request.status = Some(TokenRequestStatus {
        token: issued.token.expose().to_owned(),
        expiration_timestamp: Some(Time(issued.expires)),
    });
    serde_json::to_value(&request).map_err(Status::internal)
}

/// A request is that of its identity.
fn identify(request: &mut TokenRequest, namespace: &str, name: &str, now: Timestamp) -> Result<(), Status> {
    let metadata = &mut request.metadata;
    if metadata
        .namespace
        .as_ref()
        .is_some_and(|own| !own.is_empty() && own != namespace)
    {
        let why = format!(
            "metadata.namespace: {:?} is not the namespace of the request, {namespace:?}; leave it out",
            metadata.namespace.as_deref().unwrap_or_default()
        );
        return Err(Status::bad_request(why));
    }
    if let Some(own) = metadata.name.as_ref().filter(|own| !own.is_empty() && *own != name) {
        let path = api_rules::Path::new("metadata.name");
        let error = path.invalid(
            own,
            format!("must be the name of the WorkloadIdentity, {name:?}; leave it out"),
        );
        return Err(Status::invalid(SECURITY, KIND, own, &field_errors(vec![error])));
    }
    metadata.name = Some(name.to_owned());
    metadata.namespace = Some(namespace.to_owned());
    metadata.creation_timestamp = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    metadata.managed_fields = None;
    metadata.uid = None;
    Ok(())
}

/// The claims about an object.
fn reference(object: &Value) -> Value {
    let mut reference = json!({"name": text(object, "/metadata/name"), "uid": text(object, "/metadata/uid")});
    let namespace = text(object, "/metadata/namespace");
    if !namespace.is_empty() {
        reference["namespace"] = json!(namespace);
    }
    reference
}

type Claims = Vec<(String, Value)>;

fn claim(name: &str, object: &Value) -> (String, Value) {
    (name.to_owned(), reference(object))
}

/// The context object and what it belongs to.
async fn context_claims(call: &ActionCall<'_>, context: &ContextObject) -> Result<Claims, Status> {
    let group = context.api_version.split_once('/').map_or("", |(group, _)| group);
    let (resource, name) = match (group, context.kind.as_str()) {
        (CORE, "Shoot") => ("shoots", "shoot"),
        (CORE, "Seed") => ("seeds", "seed"),
        (CORE, "BackupBucket") => ("backupbuckets", "backupBucket"),
        (CORE, "BackupEntry") => ("backupentries", "backupEntry"),
        (group, kind) => {
            return Err(uncoded(format!(
                "spec.contextObject: {kind} of group {group:?} is not supported; name a Shoot, Seed, BackupBucket or BackupEntry of {CORE}"
            )));
        }
    };
    let is_namespaced = matches!(resource, "shoots" | "backupentries");
    let namespace = context.namespace.as_deref().filter(|_| is_namespaced);
    if is_namespaced && namespace.is_none() {
        return Err(uncoded(format!(
            "spec.contextObject.namespace: is empty, and a {} has a namespace; set it",
            context.kind
        )));
    }
    let object = get(call, resource, namespace, &context.name).await?;
    let uid = text(&object, "/metadata/uid");
    if uid != context.uid {
        return Err(uncoded(format!(
            "spec.contextObject.uid: {} {} has UID {uid:?}, not {:?}; read it again",
            context.kind, context.name, context.uid
        )));
    }
    let mut claims = vec![claim(name, &object)];
    let seed = text(&object, "/spec/seedName");
    if !seed.is_empty() {
        claims.push(claim("seed", &*get(call, "seeds", None, seed).await?));
    }
    match resource {
        "shoots" => claims.extend(project(call, namespace).await?),
        "backupentries" => {
            let bucket = get(call, "backupbuckets", None, text(&object, "/spec/bucketName")).await?;
            claims.push(claim("backupBucket", &bucket));
            if let Some(shoot) = shoot_of_entry(call, &object).await? {
                claims.push(claim("shoot", &shoot));
                claims.extend(project(call, namespace).await?);
            }
        }
        _ => {}
    }
    Ok(claims)
}

async fn get(call: &ActionCall<'_>, resource: &str, namespace: Option<&str>, name: &str) -> Result<Arc<Value>, Status> {
    let found = call.objects.get(CORE, resource, namespace, name).await?;
    found.ok_or_else(|| {
        uncoded(format!(
            "spec.contextObject: {resource}.{CORE} {name:?} was not found; name one that exists"
        ))
    })
}

async fn project(call: &ActionCall<'_>, namespace: Option<&str>) -> Result<Claims, Status> {
    let project = project_of(call.objects, namespace.unwrap_or_default()).await?;
    let project = project.ok_or_else(|| {
        uncoded(format!(
            "spec.contextObject.namespace: {:?} belongs to no Project; name an object of a Project's namespace",
            namespace.unwrap_or_default()
        ))
    })?;
    Ok(vec![claim("project", &project)])
}

/// The Shoot that a backup was made of, if it is still the same one: names are used again.
async fn shoot_of_entry(call: &ActionCall<'_>, entry: &Value) -> Result<Option<Arc<Value>>, Status> {
    let owners = entry["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    let Some(owner) = owners.find(|owner| owner["kind"] == "Shoot") else {
        return Ok(None);
    };
    let namespace = Some(text(entry, "/metadata/namespace"));
    let found = call
        .objects
        .get(CORE, "shoots", namespace, text(owner, "/name"))
        .await?;
    let made_it = |shoot: &Arc<Value>| {
        let (id, uid) = (text(shoot, "/status/technicalID"), text(shoot, "/metadata/uid"));
        let name = text(entry, "/metadata/name");
        name.strip_prefix(SOURCE_PREFIX).unwrap_or(name) == format!("{id}{UID_SEPARATOR}{uid}")
    };
    Ok(found.filter(made_it))
}
