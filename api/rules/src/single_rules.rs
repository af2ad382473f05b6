//! Cases that one rule alone refuses, beside those in the files of the rules: an object that nothing is wrong with,
//! one change, and the fields that are named.

use api_core::security::CredentialsBinding;
use api_core::v1::ControllerDeployment;
use api_core::v1beta1::{
    BackupEntry, CloudProfile, ControllerDeployment as OldControllerDeployment, ControllerRegistration, Project,
    SecretBinding, Seed, Shoot,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::seed::tests::seed;
use crate::shoot::tests::shoot;

/// The object with `value` at the JSON pointer; what is missing on the way is made.
fn changed(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let mut place = &mut object;
    for key in pointer.split('/').skip(1) {
        place = match key.parse::<usize>() {
            Ok(index) => {
                let list = place.as_array_mut().expect("a list");
                list.resize(list.len().max(index + 1), Value::Null);
                &mut list[index]
            }
            Err(_) => &mut place[key],
        };
    }
    *place = value;
    object
}

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn paths(errors: Vec<FieldError>) -> Vec<String> {
    errors.into_iter().map(|error| error.path).collect()
}

/// One change by pointer and value, and the field that is named; more than one is separated by spaces.
type Case = (&'static str, Value, &'static str);

fn refused_when_changed<T: DeserializeOwned>(base: &Value, validate: fn(&T) -> Vec<FieldError>, cases: Vec<Case>) {
    assert_eq!(validate(&read(base.clone())), [], "{base}");
    for (pointer, value, field) in cases {
        let object = changed(base, pointer, value.clone());
        assert_eq!(paths(validate(&read(object))).join(" "), field, "{pointer} {value}");
    }
}

fn refused_as_update<T: DeserializeOwned>(old: &Value, validate: fn(&T, &T) -> Vec<FieldError>, cases: Vec<Case>) {
    let before: T = read(old.clone());
    assert_eq!(validate(&read(old.clone()), &before), [], "{old}");
    for (pointer, value, field) in cases {
        let new = changed(old, pointer, value.clone());
        assert_eq!(paths(validate(&read(new), &before)), [field], "{pointer} {value}");
    }
}

fn shoot_of(changes: &[(&str, Value)]) -> Value {
    let shoot = serde_json::to_value(shoot()).unwrap();
    let change = |shoot: Value, (pointer, value): &(&str, Value)| changed(&shoot, pointer, value.clone());
    changes.iter().fold(shoot, change)
}

#[test]
fn fields_of_shoots() {
    refused_when_changed::<Shoot>(
        &shoot_of(&[]),
        validate_shoot,
        vec![
            ("/spec/kubernetes/version", Value::Null, "spec.kubernetes.version"),
            (
                "/spec/dns",
                json!({"domain": "a.example.com", "providers": [{"type": "a", "primary": true}, {"type": "b", "primary": true}]}),
                "spec.dns.providers",
            ),
            (
                "/spec/resources",
                json!([{"name": "r", "resourceRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}]),
                "spec.resources[0].resourceRef",
            ),
            (
                "/spec/resources",
                json!([{"name": "r", "resourceRef": {"apiVersion": "v2", "kind": "Secret", "name": "s"}}]),
                "spec.resources[0].resourceRef",
            ),
            (
                "/spec/hibernation/schedules",
                json!([{"location": "Europe/Berlin"}]),
                "spec.hibernation.schedules[0].start/end",
            ),
            (
                "/spec/hibernation/schedules",
                json!([{"start": "0 20 * *"}]),
                "spec.hibernation.schedules[0].start",
            ),
            (
                "/spec/maintenance/timeWindow",
                json!({"begin": "22:00", "end": "230000+0000"}),
                "spec.maintenance.timeWindow.begin",
            ),
            (
                "/spec/addons",
                json!({"kubernetesDashboard": {"enabled": true}}),
                "spec.addons",
            ),
            (
                "/spec/provider/workers/0/minimum",
                json!(-1),
                "spec.provider.workers[0].minimum",
            ),
            (
                "/spec/provider/workers/0/taints",
                json!([{"effect": "NoSchedule", "value": "v"}]),
                "spec.provider.workers[0].taints[0].key",
            ),
        ],
    );
}

#[test]
fn fields_of_pools_and_of_shoots_without_any() {
    let two_pools = shoot_of(&[(
        "/spec/provider/workers/1",
        changed(
            &shoot_of(&[])["spec"]["provider"]["workers"][0],
            "/name",
            json!("pool-b"),
        ),
    )]);
    let below_zero = changed(&two_pools, "/spec/provider/workers/1/minimum", json!(0));
    refused_when_changed::<Shoot>(
        &below_zero,
        validate_shoot,
        vec![(
            "/spec/provider/workers/1/maximum",
            json!(-1),
            "spec.provider.workers[1].maximum",
        )],
    );
    // A pool without a version has the Shoot's.
    let verified = json!({"imagePullCredentialsVerificationPolicy": "NeverVerify"});
    let pool = "/spec/provider/workers/0/kubernetes/kubelet";
    refused_when_changed::<Shoot>(
        &shoot_of(&[(pool, verified)]),
        validate_shoot,
        vec![(
            "/spec/provider/workers/0/kubernetes/version",
            json!("1.34.0"),
            "spec.provider.workers[0].kubernetes.kubelet.imagePullCredentialsVerificationPolicy",
        )],
    );
    let workerless = shoot_of(&[
        ("/spec/provider/workers", json!([])),
        ("/spec/networking", json!({"services": "10.3.0.0/16"})),
        ("/spec/credentialsBindingName", Value::Null),
    ]);
    refused_when_changed::<Shoot>(
        &workerless,
        validate_shoot,
        vec![(
            "/spec/maintenance/autoRotation/credentials/sshKeypair",
            json!({"rotationPeriod": "720h"}),
            "spec.maintenance.autoRotation.credentials.sshKeypair",
        )],
    );
}

#[test]
fn fields_of_shoots_of_older_versions() {
    let older = shoot_of(&[("/spec/kubernetes/version", json!("1.33.1"))]);
    refused_when_changed::<Shoot>(
        &older,
        validate_shoot,
        vec![
            ("/spec/secretBindingName", json!("s"), "spec.secretBindingName"),
            ("/spec/cloudProfileName", json!("other"), "spec.cloudProfile.name"),
            (
                "/spec/kubernetes/kubeAPIServer",
                json!({"structuredAuthentication": {"configMapName": "c"},
                    "featureGates": {"StructuredAuthenticationConfiguration": false}}),
                "spec.kubernetes.kubeAPIServer.structuredAuthentication",
            ),
            (
                "/spec/kubernetes/kubeAPIServer",
                json!({"structuredAuthorization": {"configMapName": "c", "kubeconfigs": [{"authorizerName": "a", "secretName": "s"}]},
                    "featureGates": {"StructuredAuthorizationConfiguration": false}}),
                // The feature gate is locked since 1.32, which is a second error.
                "spec.kubernetes.kubeAPIServer.structuredAuthorization spec.kubernetes.kubeAPIServer.featureGates.StructuredAuthorizationConfiguration",
            ),
        ],
    );
}

#[test]
fn changes_of_settled_shoots() {
    let in_place = changed(
        &shoot_of(&[])["spec"]["provider"]["workers"][0],
        "/updateStrategy",
        json!("AutoInPlaceUpdate"),
    );
    let settled = shoot_of(&[
        (
            "/spec/dns",
            json!({"domain": "a.example.com", "providers": [{"type": "a", "primary": true}]}),
        ),
        ("/spec/seedName", json!("north")),
        ("/spec/provider/workers/1", changed(&in_place, "/name", json!("still"))),
        (
            "/spec/kubernetes/kubeControllerManager",
            json!({"nodeCIDRMaskSize": 24, "nodeCIDRMaskSizeIPv6": 64}),
        ),
        (
            "/spec/controlPlane/highAvailability/failureTolerance/type",
            json!("node"),
        ),
    ]);
    refused_as_update::<Shoot>(
        &settled,
        validate_shoot_update,
        vec![
            ("/spec/dns", Value::Null, "spec.dns"),
            ("/spec/dns/providers", json!([{"type": "a"}]), "spec.dns.providers"),
            ("/spec/dns/providers/0/type", Value::Null, "spec.dns.providers"),
            ("/spec/dns/providers/0/type", json!("b"), "spec.dns.providers"),
            (
                "/spec/kubernetes/kubeControllerManager/nodeCIDRMaskSize",
                json!(23),
                "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSize",
            ),
            (
                "/spec/kubernetes/kubeControllerManager/nodeCIDRMaskSizeIPv6",
                json!(80),
                "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6",
            ),
            (
                "/spec/provider/workers/0/updateStrategy",
                json!("AutoInPlaceUpdate"),
                "spec.provider.workers[0].updateStrategy",
            ),
            (
                "/spec/provider/workers/1/updateStrategy",
                json!("AutoRollingUpdate"),
                "spec.provider.workers[1].updateStrategy",
            ),
            (
                "/spec/provider/workers/2",
                changed(&in_place, "/name", json!("new")),
                "spec.provider.workers[2].updateStrategy",
            ),
            (
                "/spec/controlPlane/highAvailability/failureTolerance/type",
                json!("zone"),
                "spec.controlPlane.highAvailability.failureTolerance.type",
            ),
        ],
    );
}

#[test]
fn changes_of_bindings_seeds_and_statuses_of_shoots() {
    let with_secret = shoot_of(&[
        ("/spec/kubernetes/version", json!("1.33.1")),
        ("/spec/credentialsBindingName", Value::Null),
        ("/spec/secretBindingName", json!("s")),
    ]);
    refused_as_update::<Shoot>(
        &with_secret,
        validate_shoot_update,
        vec![("/spec/secretBindingName", json!("t"), "spec.secretBindingName")],
    );
    let with_credentials = shoot_of(&[("/spec/kubernetes/version", json!("1.33.1"))]);
    let older: Shoot = read(with_credentials.clone());
    let back = changed(&with_credentials, "/spec/credentialsBindingName", Value::Null);
    let back = read(changed(&back, "/spec/secretBindingName", json!("s")));
    assert_eq!(
        paths(validate_shoot_update(&back, &older)),
        ["spec.credentialsBindingName", "spec.secretBindingName"]
    );
    let deleted = shoot_of(&[("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]);
    refused_as_update::<Shoot>(
        &deleted,
        validate_shoot_binding,
        vec![("/spec/seedName", json!("north"), "spec.seedName")],
    );
    let known = shoot_of(&[(
        "/status",
        json!({"uid": "u", "technicalID": "shoot--a--b", "clusterIdentity": "i", "gardener": {"id": "", "name": "", "version": ""},
            "hibernated": false, "conditions": [], "constraints": [], "observedGeneration": 0}),
    )]);
    refused_as_update::<Shoot>(
        &known,
        validate_shoot_status_update,
        vec![
            ("/status/uid", json!("v"), "status.uid"),
            ("/status/clusterIdentity", json!("j"), "status.clusterIdentity"),
        ],
    );
}

#[test]
fn fields_of_seeds() {
    let base = serde_json::to_value(seed()).unwrap();
    refused_when_changed::<Seed>(
        &base,
        validate_seed,
        vec![("/spec/backup/region", Value::Null, "spec.backup.region")],
    );
    let settled = changed(&base, "/spec/networks/ipFamilies", json!(["IPv4"]));
    let settled = changed(
        &settled,
        "/spec/ingress",
        json!({"domain": "a.example.com", "controller": {"kind": "nginx"}}),
    );
    let settled = changed(&settled, "/status/clusterIdentity", json!("i"));
    refused_as_update::<Seed>(
        &settled,
        validate_seed_update,
        vec![
            (
                "/spec/networks/services",
                json!("10.4.0.0/16"),
                "spec.networks.services",
            ),
            ("/spec/networks/ipFamilies", Value::Null, "spec.networks.ipFamilies"),
            ("/spec/ingress/domain", json!("b.example.com"), "spec.ingress.domain"),
            ("/spec/backup/provider", json!("other"), "spec.backup.provider"),
            ("/spec/backup/region", json!("r2"), "spec.backup.region"),
            ("/status/clusterIdentity", json!("j"), "status.clusterIdentity"),
        ],
    );
}

#[test]
fn bindings_and_backups_keep_what_they_name() {
    let entry = json!({"metadata": {"name": "shoot--a--b--uid"}, "spec": {"bucketName": "b", "seedName": "north"}});
    refused_as_update::<BackupEntry>(
        &entry,
        validate_backup_entry_update,
        vec![("/spec/bucketName", json!("c"), "spec.bucketName")],
    );
    let binding = json!({"metadata": {"name": "b", "namespace": "garden-dev"}, "provider": {"type": "local"},
        "secretRef": {"name": "s"}, "quotas": []});
    refused_as_update::<SecretBinding>(
        &binding,
        validate_secret_binding_update,
        vec![("/provider/type", json!("other"), "provider")],
    );
    let binding = json!({"metadata": {"name": "b", "namespace": "garden-dev"}, "provider": {"type": "local"},
        "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "garden-dev"}, "quotas": []});
    refused_as_update::<CredentialsBinding>(
        &binding,
        validate_credentials_binding_update,
        vec![("/quotas", json!([{"name": "q"}]), "quotas")],
    );
}

#[test]
fn projects_and_profiles() {
    let project = json!({"metadata": {"name": "dev"}, "spec": {
        "owner": {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"},
        "namespace": "garden-dev", "tolerations": {"whitelist": [{"key": "a"}]}}});
    refused_when_changed::<Project>(
        &project,
        validate_project,
        vec![(
            "/spec/tolerations/whitelist",
            json!([{"key": "a"}, {"key": "a"}]),
            "spec.tolerations.whitelist[1]",
        )],
    );
    let profile = json!({"metadata": {"name": "local"}, "spec": {
        "type": "local", "regions": [{"name": "local"}], "kubernetes": {"versions": [{"version": "1.35.0"}]},
        "machineTypes": [{"name": "local", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
        "machineImages": [{"name": "local", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}]}});
    refused_when_changed::<CloudProfile>(
        &profile,
        validate_cloud_profile,
        vec![(
            "/spec/machineImages/0/versions/0/version",
            json!("newest"),
            "spec.machineImages[0].versions[0].version",
        )],
    );
}

#[test]
fn deployments_and_registrations() {
    let repository = json!({"repository": "r", "tag": "t"});
    let deployment = json!({"metadata": {"name": "d"}, "helm": {"ociRepository": repository},
        "resources": [{"name": "x", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}]});
    refused_when_changed::<ControllerDeployment>(
        &deployment,
        validate_controller_deployment,
        vec![
            (
                "/metadata/annotations",
                json!({"migration.controllerdeployment.gardener.cloud/type": "builtin"}),
                "helm",
            ),
            ("/helm/rawChart", json!("AAEC"), "helm"),
            (
                "/helm/ociRepository/repository",
                Value::Null,
                "helm.ociRepository.repository",
            ),
            (
                "/resources/0/resourceRef/kind",
                json!("Pod"),
                "resources[0].resourceRef",
            ),
        ],
    );
    let old = json!({"metadata": {"name": "d"}, "type": "builtin", "providerConfig": {"image": "i"}});
    refused_when_changed::<OldControllerDeployment>(
        &old,
        validate_controller_deployment_v1beta1,
        vec![("/type", json!(""), "type")],
    );
    let selector = json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]});
    let registration = json!({"metadata": {"name": "r"}, "spec": {
        "deployment": {"deploymentRefs": [{"name": "d"}], "seedSelector": selector},
        "resources": [{"kind": "Network", "type": "flat", "primary": false}]}});
    refused_when_changed::<ControllerRegistration>(
        &registration,
        validate_controller_registration,
        vec![(
            "/spec/deployment/seedSelector/matchExpressions/0/values",
            json!(["v"]),
            "spec.deployment.seedSelector.matchExpressions[0].values",
        )],
    );
}

#[test]
fn an_extension_for_seeds_is_not_for_shoots() {
    let registrations: Vec<ControllerRegistration> = read(json!([{"metadata": {"name": "r"}, "spec": {"resources": [
        {"kind": "Extension", "type": "e", "clusterCompatibility": ["seed"]},
        {"kind": "ControlPlane", "type": "local"}]}}]));
    let shoot: Shoot = read(json!({"spec": {"provider": {"type": "local"}, "extensions": [{"type": "e"}]}}));
    let found = paths(unregistered_types(&shoot, &registrations));
    assert_eq!(found, ["spec.extensions[0].type"]);
}
