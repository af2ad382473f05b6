//! A user who names a Secret must be allowed to read it: what a binding or a Shoot names ends up where its members can
//! read it (gardener/gardener v1.150 plugin/pkg/global/resourcereferencemanager). The same holds for the Quotas of
//! bindings and the resources of Shoots. What was named before is not checked again, and only users who may read an
//! object learn whether it exists.

use std::collections::BTreeSet;

use cluster_apiserver::Status;
use cluster_apiserver::fields::{FieldError, FieldErrorKind};
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, SECURITY, forbid, is_leaving, list, text};

/// One field that names another object.
struct Reference {
    /// `spec.resources[0].resourceRef.name`.
    path: String,
    kind: &'static str,
    group: &'static str,
    resource: &'static str,
    namespace: String,
    name: String,
    /// Whether naming it needs the right to read it.
    is_guarded: bool,
}

impl Reference {
    fn guarded(self) -> Self {
        Self {
            is_guarded: true,
            ..self
        }
    }

    fn is_cluster_wide(&self) -> bool {
        matches!(self.kind, "ControllerDeployment" | "ExposureClass" | "Seed")
    }

    /// `garden-p/name`, or the name of what has no namespace.
    fn shown(&self) -> String {
        if self.is_cluster_wide() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    fn key(&self) -> [&str; 4] {
        [self.group, self.resource, &self.namespace, &self.name]
    }
}

/// Validates what an object of one kind names.
pub(crate) struct References {
    group: &'static str,
    resource: &'static str,
    of: fn(object: &Value) -> Vec<Reference>,
}

impl References {
    /// For CredentialsBindings.
    pub(crate) const CREDENTIALS_BINDING: Self = Self {
        group: SECURITY,
        resource: "credentialsbindings",
        of: of_binding,
    };
    /// For SecretBindings.
    pub(crate) const SECRET_BINDING: Self = Self {
        group: CORE,
        resource: "secretbindings",
        of: of_binding,
    };
    /// For BackupBuckets.
    pub(crate) const BACKUP_BUCKET: Self = Self {
        group: CORE,
        resource: "backupbuckets",
        of: of_bucket,
    };
    /// For BackupEntries.
    pub(crate) const BACKUP_ENTRY: Self = Self {
        group: CORE,
        resource: "backupentries",
        of: of_entry,
    };
    /// For ControllerRegistrations.
    pub(crate) const CONTROLLER_REGISTRATION: Self = Self {
        group: CORE,
        resource: "controllerregistrations",
        of: of_registration,
    };
    /// For Shoots.
    pub(crate) const SHOOT: Self = Self {
        group: CORE,
        resource: "shoots",
        of: of_shoot,
    };
}

impl Plugin for References {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ResourceReferenceManager)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            if is_leaving(object) {
                return Ok(Vec::new());
            }
            let named_before = review.old.map(self.of).unwrap_or_default();
            let before: BTreeSet<_> = named_before.iter().map(Reference::key).collect();
            let Review { call, objects, .. } = review;
            let mut missing = Vec::new();
            for named in (self.of)(object) {
                if before.contains(&named.key()) {
                    continue;
                }
                let Reference {
                    path,
                    kind,
                    group,
                    resource,
                    namespace,
                    name,
                    is_guarded,
                } = &named;
                let shown = named.shown();
                let place = (!named.is_cluster_wide()).then_some(namespace.as_str());
                if *is_guarded && !objects.allowed(call.user, "get", group, resource, place, name).await? {
                    let why = format!(
                        "{path}: user {:?} is not allowed to read {kind} {shown}; name one that you may read",
                        call.user.name
                    );
                    return Err(Status::forbidden(self.group, self.resource, call.name, &why));
                }
                if objects.get(group, resource, place, name).await?.is_none() {
                    let words = format!("there is no {kind} {shown}; create it first, or name another");
                    missing.push(FieldError::new(
                        path,
                        FieldErrorKind::NotFound,
                        Some(name.as_str().into()),
                        words,
                    ));
                }
            }
            forbid(self.group, self.resource, call.name, &missing)?;
            Ok(Vec::new())
        })
    }
}

/// None for another kind, and without a name: validation refuses both.
fn reference(path: String, kind: &str, namespace: &str, name: &str) -> Option<Reference> {
    let (kind, group, resource) = match kind {
        "Secret" => ("Secret", "", "secrets"),
        "ConfigMap" => ("ConfigMap", "", "configmaps"),
        "WorkloadIdentity" => ("WorkloadIdentity", SECURITY, "workloadidentities"),
        "Quota" => ("Quota", CORE, "quotas"),
        "ExposureClass" => ("ExposureClass", CORE, "exposureclasses"),
        "Seed" => ("Seed", CORE, "seeds"),
        "ControllerDeployment" => ("ControllerDeployment", CORE, "controllerdeployments"),
        _ => return None,
    };
    // Their content is secret.
    let is_guarded = matches!(kind, "Secret" | "WorkloadIdentity");
    (!name.is_empty()).then(|| Reference {
        path,
        kind,
        group,
        resource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_guarded,
    })
}

fn of_binding(binding: &Value) -> Vec<Reference> {
    let from = |path: String, kind: &str, to: &Value| {
        let namespace = match text(to, "/namespace") {
            "" => text(binding, "/metadata/namespace"),
            namespace => namespace,
        };
        reference(path, kind, namespace, text(to, "/name"))
    };
    let secret = from("secretRef".to_owned(), "Secret", &binding["secretRef"]);
    let credentials = &binding["credentialsRef"];
    let credentials = from("credentialsRef".to_owned(), text(credentials, "/kind"), credentials);
    let quotas = list(binding, "/quotas").iter().enumerate();
    let quotas = quotas.filter_map(|(at, quota)| from(format!("quotas[{at}]"), "Quota", quota));
    let quotas = quotas.map(Reference::guarded);
    secret.into_iter().chain(credentials).chain(quotas).collect()
}

fn of_bucket(bucket: &Value) -> Vec<Reference> {
    let to = &bucket["spec"]["credentialsRef"];
    let (kind, namespace, name) = (text(to, "/kind"), text(to, "/namespace"), text(to, "/name"));
    let path = "spec.credentialsRef".to_owned();
    reference(path, kind, namespace, name).into_iter().collect()
}

fn of_entry(entry: &Value) -> Vec<Reference> {
    let seed = text(entry, "/spec/seedName");
    reference("spec.seedName".to_owned(), "Seed", "", seed)
        .into_iter()
        .collect()
}

fn of_registration(registration: &Value) -> Vec<Reference> {
    let deployments = list(registration, "/spec/deployment/deploymentRefs").iter().enumerate();
    let named = deployments.filter_map(|(at, to)| {
        let path = format!("spec.deployment.deploymentRefs[{at}].name");
        reference(path, "ControllerDeployment", "", text(to, "/name"))
    });
    named.collect()
}

/// What the API server of a shoot is configured by.
const OF_API_SERVER: [(&str, &str); 3] = [
    (
        "auditConfig.auditPolicy.configMapRef.name",
        "/auditConfig/auditPolicy/configMapRef/name",
    ),
    (
        "structuredAuthentication.configMapName",
        "/structuredAuthentication/configMapName",
    ),
    (
        "structuredAuthorization.configMapName",
        "/structuredAuthorization/configMapName",
    ),
];

fn of_shoot(shoot: &Value) -> Vec<Reference> {
    let namespace = text(shoot, "/metadata/namespace");
    let mut found = Vec::new();
    let path = "spec.exposureClassName".to_owned();
    found.extend(reference(
        path,
        "ExposureClass",
        "",
        text(shoot, "/spec/exposureClassName"),
    ));
    let server = &shoot["spec"]["kubernetes"]["kubeAPIServer"];
    for (field, pointer) in OF_API_SERVER {
        let path = format!("spec.kubernetes.kubeAPIServer.{field}");
        found.extend(reference(path, "ConfigMap", namespace, text(server, pointer)));
    }
    let authorizers = list(server, "/structuredAuthorization/kubeconfigs").iter().enumerate();
    for (at, authorizer) in authorizers {
        let path = format!("spec.kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs[{at}].secretName");
        found.extend(reference(path, "Secret", namespace, text(authorizer, "/secretName")));
    }
    for (at, resource) in list(shoot, "/spec/resources").iter().enumerate() {
        let to = &resource["resourceRef"];
        let path = format!("spec.resources[{at}].resourceRef.name");
        let named = reference(path, text(to, "/kind"), namespace, text(to, "/name"));
        found.extend(named.map(Reference::guarded));
    }
    for (at, provider) in list(shoot, "/spec/dns/providers").iter().enumerate() {
        let path = |field: &str| format!("spec.dns.providers[{at}].{field}");
        found.extend(reference(
            path("secretName"),
            "Secret",
            namespace,
            text(provider, "/secretName"),
        ));
        let to = &provider["credentialsRef"];
        found.extend(reference(
            path("credentialsRef.name"),
            text(to, "/kind"),
            namespace,
            text(to, "/name"),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn binding(name: &str) -> Value {
        json!({"kind": "CredentialsBinding", "metadata": {"name": "b", "namespace": "garden-p"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": "garden-q"}})
    }

    fn there() -> Fixture {
        Fixture::default().with(
            "secrets",
            json!({"metadata": {"name": "there", "namespace": "garden-q"}}),
        )
    }

    #[test]
    fn a_refusal_reveals_nothing_about_an_unreadable_secret() {
        let mut stranger = there();
        stranger.denied.push("secrets");
        let reported = |name: &str| {
            let requested = binding(name);
            let refusal = review(
                &References::CREDENTIALS_BINDING,
                Operation::Create,
                Some(&requested),
                None,
                &stranger,
            );
            refusal.expect_err("not theirs").replace(name, "NAME")
        };
        assert!(
            reported("there").contains("credentialsRef: user \"alice\" is not allowed to read Secret garden-q/NAME")
        );
        assert_eq!(reported("there"), reported("nowhere"));
    }

    #[test]
    fn what_is_named_must_be_there_when_it_is_named_first() {
        let checked = |name: &str, old: Option<&Value>| {
            review(
                &References::CREDENTIALS_BINDING,
                Operation::Update,
                Some(&binding(name)),
                old,
                &there(),
            )
        };
        assert!(checked("there", None).is_ok());
        let refusal = checked("nowhere", None).expect_err("missing");
        assert!(
            refusal.contains("there is no Secret garden-q/nowhere; create it first"),
            "{refusal}"
        );
        assert!(checked("nowhere", Some(&binding("nowhere"))).is_ok(), "it went later");
    }

    #[test]
    fn quotas_and_resources_are_named_by_users_who_may_read_them() {
        let quota = json!({"metadata": {"name": "q", "namespace": "garden-q"}});
        let config = json!({"metadata": {"name": "config", "namespace": "garden-q"}});
        let mut limited = binding("there");
        limited["quotas"] = json!([{"name": "q", "namespace": "garden-q"}]);
        let resource = json!({"name": "a", "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}});
        let shoot =
            json!({"metadata": {"name": "s", "namespace": "garden-q"}, "spec": {"resources": [resource.clone()]}});
        let mut fixture = there().with("quotas", quota).with("configmaps", config);
        let create = |plugin: &References, object: &Value, fixture: &Fixture| {
            review(plugin, Operation::Create, Some(object), None, fixture)
        };
        assert!(create(&References::CREDENTIALS_BINDING, &limited, &fixture).is_ok());
        assert!(create(&References::SHOOT, &shoot, &fixture).is_ok());
        fixture.denied.extend(["quotas", "configmaps"]);
        let refusal = create(&References::CREDENTIALS_BINDING, &limited, &fixture).expect_err("denied");
        assert!(
            refusal.contains("quotas[0]: user \"alice\" is not allowed to read Quota garden-q/q;"),
            "{refusal}"
        );
        let refusal = create(&References::SHOOT, &shoot, &fixture).expect_err("denied");
        assert!(
            refusal.contains("spec.resources[0].resourceRef.name: user \"alice\" is not allowed to read ConfigMap"),
            "{refusal}"
        );
    }

    #[test]
    fn a_registration_names_a_deployment_that_exists() {
        let registration = |name: &str| json!({"metadata": {"name": "r"}, "spec": {"deployment": {"deploymentRefs": [{"name": name}]}}});
        let fixture = Fixture::default().with("controllerdeployments", json!({"metadata": {"name": "there"}}));
        let update = |name: &str, old: &str| {
            let (new, old) = (registration(name), registration(old));
            review(
                &References::CONTROLLER_REGISTRATION,
                Operation::Update,
                Some(&new),
                Some(&old),
                &fixture,
            )
        };
        assert!(update("there", "gone").is_ok());
        assert!(update("gone", "gone").is_ok());
        let refusal = update("gone", "there").expect_err("missing");
        assert!(
            refusal.contains(
                "spec.deployment.deploymentRefs[0].name: Not found: \"gone\": there is no ControllerDeployment gone;"
            ),
            "{refusal}"
        );
    }

    #[test]
    fn a_shoot_names_objects_of_its_own_namespace() {
        let shoot = json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-q"}, "spec": {
            "resources": [{"name": "a", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "there"}},
                {"name": "b", "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}],
            "dns": {"providers": [{"secretName": "there"}, {"secretName": "dns"},
                {"credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "cloud"}}]}}});
        let refusal = review(&References::SHOOT, Operation::Create, Some(&shoot), None, &there()).expect_err("missing");
        for part in [
            "spec.resources[1].resourceRef.name: Not found: \"config\"",
            "spec.dns.providers[1].secretName: Not found: \"dns\"",
            "spec.dns.providers[2].credentialsRef.name: Not found: \"cloud\"",
        ] {
            assert!(refusal.contains(part), "{refusal}\nlacks {part}");
        }
        assert!(!refusal.contains("spec.resources[0]"), "{refusal}");
    }
}
