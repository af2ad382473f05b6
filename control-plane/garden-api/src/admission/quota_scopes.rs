//! A binding names at most one Quota per scope: one of the project and one of the credentials (gardener/gardener v1.150
//! plugin/pkg/global/resourcereferencemanager and pkg/api/core/helper/quota.go). That the Quotas exist and the user may
//! read them is checked elsewhere.

use cluster_apiserver::Status;
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, SECURITY, is_leaving, list, text};

/// Validates the Quotas of one kind of bindings.
pub(crate) struct QuotaScopes {
    group: &'static str,
    resource: &'static str,
}

impl QuotaScopes {
    /// For SecretBindings.
    pub(crate) const SECRET_BINDING: Self = Self {
        group: CORE,
        resource: "secretbindings",
    };
    /// For CredentialsBindings.
    pub(crate) const CREDENTIALS_BINDING: Self = Self {
        group: SECURITY,
        resource: "credentialsbindings",
    };
}

impl Plugin for QuotaScopes {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ResourceReferenceManager)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(binding) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let quotas = list(binding, "/quotas");
            // A binding keeps its Quotas.
            if is_leaving(binding) || quotas == list(review.old, "/quotas") {
                return Ok(Vec::new());
            }
            let forbidden = |why: String| Status::forbidden(self.group, self.resource, review.call.name, &why);
            let mut first_of_scope: [Option<String>; 2] = [None, None];
            for (at, reference) in quotas.iter().enumerate() {
                let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
                let Some(quota) = review.objects.get(CORE, "quotas", Some(namespace), name).await? else {
                    continue;
                };
                let shown = format!("{namespace}/{name}");
                let Some(scope) = scope_of(&quota) else {
                    return Err(forbidden(format!(
                        "quotas[{at}]: Quota {shown} has an unknown scope; name one whose spec.scope is a Project, a Secret \
                         or a WorkloadIdentity"
                    )));
                };
                if let Some(first) = &first_of_scope[scope as usize] {
                    return Err(forbidden(format!(
                        "quotas[{at}]: only one Quota per scope can be assigned, and {first} has the scope of {shown}, {}; \
                         remove one of them",
                        scope.word()
                    )));
                }
                first_of_scope[scope as usize] = Some(shown);
            }
            Ok(Vec::new())
        })
    }
}

/// What the Shoots are that count together.
#[derive(Clone, Copy)]
enum Scope {
    /// Those of one project.
    Project,
    /// Those with the same credentials.
    Credentials,
}

impl Scope {
    fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Credentials => "credentials",
        }
    }
}

fn scope_of(quota: &Value) -> Option<Scope> {
    let scope = &quota["spec"]["scope"];
    match (text(scope, "/apiVersion"), text(scope, "/kind")) {
        ("core.gardener.cloud/v1beta1", "Project") => Some(Scope::Project),
        ("v1", "Secret") | ("security.gardener.cloud/v1alpha1", "WorkloadIdentity") => Some(Scope::Credentials),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_binding_names_one_quota_per_scope() {
        let quota = |name: &str, version: &str, kind: &str| {
            json!({"metadata": {"name": name, "namespace": "garden"},
                "spec": {"scope": {"apiVersion": version, "kind": kind}}})
        };
        let fixture = Fixture::default()
            .with("quotas", quota("p", "core.gardener.cloud/v1beta1", "Project"))
            .with("quotas", quota("other", "core.gardener.cloud/v1beta1", "Project"))
            .with("quotas", quota("s", "v1", "Secret"))
            .with(
                "quotas",
                quota("i", "security.gardener.cloud/v1alpha1", "WorkloadIdentity"),
            )
            .with("quotas", quota("odd", "v1", "Project"));
        let create = |names: &[&str]| {
            let quotas: Vec<Value> = names
                .iter()
                .map(|name| json!({"name": name, "namespace": "garden"}))
                .collect();
            let binding = json!({"metadata": {"name": "b", "namespace": "garden-p"}, "quotas": quotas});
            let plugin = &QuotaScopes::CREDENTIALS_BINDING;
            review(plugin, Operation::Create, Some(&binding), None, &fixture)
        };
        assert!(create(&["p", "s"]).is_ok());
        for (names, words) in [
            (
                ["p", "other"],
                "quotas[1]: only one Quota per scope can be assigned, and garden/p",
            ),
            (
                ["s", "i"],
                "garden/s has the scope of garden/i, credentials; remove one",
            ),
            (
                ["p", "odd"],
                "quotas[1]: Quota garden/odd has an unknown scope; name one",
            ),
        ] {
            let refusal = create(&names).expect_err(words);
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
