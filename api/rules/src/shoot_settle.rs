//! Fields of a Shoot that express one thing in two ways, brought into the form that Gardener stores (gardener/gardener
//! v1.150 pkg/apiserver/registry/core/shoot/strategy.go). Done twice it changes nothing.

use api_core::v1beta1::{Shoot, ShootSpec};
use api_meta::CrossVersionObjectReference;

use crate::versions;

/// First minor version of Kubernetes from which `dns.providers[].secretName` is refused.
pub(crate) const NO_SECRET_NAME_FROM: u64 = 35;
/// First minor version of Kubernetes from which `clusterAutoscaler.maxEmptyBulkDelete` is refused.
pub(crate) const NO_EMPTY_BULK_DELETE_FROM: u64 = 33;
/// First minor version of Kubernetes from which `kubeAPIServer.enableAnonymousAuthentication` is refused.
pub(crate) const NO_ANONYMOUS_FROM: u64 = 35;

/// Completes and drops fields that follow from others. What validation refuses stays for it to see. Returns whether it has changed
/// anything: it takes long to serialize a large Shoot.
pub fn settle_shoot(shoot: &mut Shoot) -> bool {
    let spec = &mut shoot.spec;
    let (dns, kubernetes, addons) = (spec.dns.clone(), spec.kubernetes.clone(), spec.addons.clone());
    let from = |minor| versions::is_from(spec.kubernetes.version.as_deref().unwrap_or_default(), minor);
    let (no_secret_name, no_bulk_delete) = (from(NO_SECRET_NAME_FROM), from(NO_EMPTY_BULK_DELETE_FROM));
    let no_anonymous = from(NO_ANONYMOUS_FROM);
    if !no_secret_name {
        settle_dns_credentials(spec);
    }
    if let Some(autoscaler) = spec.kubernetes.cluster_autoscaler.as_mut().filter(|_| !no_bulk_delete) {
        // Its value is the default of maxScaleDownParallelism.
        autoscaler.max_empty_bulk_delete = None;
    }
    if let Some(server) = &mut spec.kubernetes.kube_api_server
        && server.enable_anonymous_authentication == Some(false)
        && !no_anonymous
    {
        server.enable_anonymous_authentication = None;
    }
    let idle = spec.addons.as_ref().is_some_and(|addons| {
        let dashboard = addons.kubernetes_dashboard.as_ref();
        !spec.provider.workers.is_empty()
            && dashboard.is_some_and(|dashboard| !dashboard.enabled)
            && addons.nginx_ingress.is_none()
    });
    if idle {
        spec.addons = None;
    }
    (&spec.dns, &spec.kubernetes, &spec.addons) != (&dns, &kubernetes, &addons)
}

/// `secretName` and a reference to a Secret mean the same.
fn settle_dns_credentials(spec: &mut ShootSpec) {
    for provider in spec.dns.iter_mut().flat_map(|dns| &mut dns.providers) {
        match (&provider.secret_name, &provider.credentials_ref) {
            (Some(name), None) => {
                provider.credentials_ref = Some(CrossVersionObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: "Secret".to_owned(),
                    name: name.clone(),
                });
            }
            (None, Some(reference)) if reference.kind == "Secret" && reference.api_version.as_deref() == Some("v1") => {
                provider.secret_name = Some(reference.name.clone());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settled(spec: Value) -> Value {
        let mut shoot: Shoot = serde_json::from_value(json!({ "spec": spec })).unwrap();
        let given = shoot.clone();
        let changed = settle_shoot(&mut shoot);
        assert_eq!(changed, shoot != given);
        let once = shoot.clone();
        assert!(!settle_shoot(&mut shoot));
        assert_eq!(shoot, once);
        serde_json::to_value(&shoot.spec).unwrap()
    }

    #[test]
    fn references_to_dns_credentials_are_written_both_ways_below_kubernetes_1_35() {
        let provider = |version: &str, provider: Value| {
            settled(json!({"kubernetes": {"version": version}, "dns": {"providers": [provider]}}))["dns"]["providers"]
                [0]
            .clone()
        };
        let both = json!({"secretName": "a", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "a"}});
        assert_eq!(provider("1.34.3", json!({"secretName": "a"})), both);
        assert_eq!(
            provider("1.34.3", json!({"credentialsRef": both["credentialsRef"]})),
            both
        );
        assert_eq!(
            provider("1.35.0", json!({"secretName": "a"})),
            json!({"secretName": "a"})
        );
    }

    #[test]
    fn fields_that_change_nothing_go_unless_their_version_refuses_them() {
        let kubernetes = |version: &str| {
            settled(
                json!({"kubernetes": {"version": version, "clusterAutoscaler": {"maxEmptyBulkDelete": 3},
                "kubeAPIServer": {"enableAnonymousAuthentication": false}}}),
            )["kubernetes"]
                .clone()
        };
        assert_eq!(
            kubernetes("1.32.1"),
            json!({"version": "1.32.1", "clusterAutoscaler": {}, "kubeAPIServer": {}})
        );
        assert_eq!(kubernetes("1.35.1")["clusterAutoscaler"]["maxEmptyBulkDelete"], 3);
        assert_eq!(
            kubernetes("1.35.1")["kubeAPIServer"]["enableAnonymousAuthentication"],
            false
        );
    }
}
