//! A user who deletes a Secret that a binding names gets a warning that it stays until the binding is gone:
//! controller-manager holds it with a finalizer, and a deletion cannot be taken back. It refuses nothing.

use cluster_apiserver::Status;
use cluster_apiserver::kind::{Guard, Operation, Review};
use futures::future::BoxFuture;
use serde_json::Value;

use super::some_of;
use crate::convert::{CORE, SECURITY, is_leaving, text};

/// Guards the deletion of Secrets.
pub(crate) struct SecretInUse;

impl Guard for SecretInUse {
    fn resource(&self) -> (&str, &str) {
        ("", "secrets")
    }

    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            let deleted = review.old.filter(|_| review.call.operation == Operation::Delete);
            let Some(secret) = deleted.filter(|secret| !is_leaving(secret)) else {
                return Ok(Vec::new());
            };
            let objects = review.objects;
            let old = objects.list(CORE, "secretbindings", None).await?;
            let new = objects.list(SECURITY, "credentialsbindings", None).await?;
            let named = |binding: &&Value| names(binding, secret) && !is_leaving(binding);
            let bindings = old.iter().chain(&new).map(|binding| &**binding).filter(named);
            let bindings: Vec<String> = bindings.map(described).collect();
            let bindings: Vec<&str> = bindings.iter().map(String::as_str).collect();
            if bindings.is_empty() {
                return Ok(Vec::new());
            }
            Ok(vec![format!(
                "secret {} holds the credentials of {} and stays until nothing names it; delete those next",
                text(secret, "/metadata/name"),
                some_of(&bindings)
            )])
        })
    }
}

fn names(binding: &Value, secret: &Value) -> bool {
    let reference = if binding["secretRef"].is_object() {
        &binding["secretRef"]
    } else {
        &binding["credentialsRef"]
    };
    let namespace = match text(reference, "/namespace") {
        "" => text(binding, "/metadata/namespace"),
        namespace => namespace,
    };
    matches!(text(reference, "/kind"), "" | "Secret")
        && text(reference, "/name") == text(secret, "/metadata/name")
        && namespace == text(secret, "/metadata/namespace")
}

/// `CredentialsBinding garden-p/b`.
fn described(binding: &Value) -> String {
    let of = |pointer| text(binding, pointer);
    format!("{} {}/{}", of("/kind"), of("/metadata/namespace"), of("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::User;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, call};

    #[test]
    fn deleting_a_bound_secret_warns_that_it_stays() {
        let binding = json!({"kind": "CredentialsBinding", "metadata": {"name": "b", "namespace": "garden-p"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "c", "namespace": "garden-p"}});
        let other = json!({"kind": "SecretBinding", "metadata": {"name": "o", "namespace": "garden-q"},
            "secretRef": {"name": "c"}});
        let fixture = Fixture::default()
            .with("credentialsbindings", binding)
            .with("secretbindings", other);
        let user = User::new("alice", &[]);
        let reported = |namespace: &str, name: &str| {
            let secret = json!({"metadata": {"name": name, "namespace": namespace}});
            let review = Review {
                call: call(Operation::Delete, None, &user),
                object: None,
                old: Some(&secret),
                objects: &fixture,
            };
            futures::executor::block_on(SecretInUse.review(review)).expect("never refused")
        };
        let warning = |binding: &str| {
            vec![format!(
                "secret c holds the credentials of {binding} and stays until nothing names it; delete those next"
            )]
        };
        assert_eq!(reported("garden-p", "c"), warning("CredentialsBinding garden-p/b"));
        assert_eq!(reported("garden-q", "c"), warning("SecretBinding garden-q/o"));
        assert!(reported("garden-p", "d").is_empty());
    }
}
