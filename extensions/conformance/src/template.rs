//! What gardenlet writes into objects of each kind: names and specs with the least that their definitions demand. An
//! author's fragments are merged over them. It makes no request.

use api_extensions::{ExtensionClass, ExtensionKind};
use api_meta::names::CLOUD_PROVIDER_SECRET;
use base_clock::Entropy;
use serde_json::{Map, Value, json};

use crate::subject::{Subject, merge};

/// Region of objects whose author names none.
const REGION: &str = "conformance";
/// An SSH key that opens nothing.
const SSH_PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA conformance";

/// Names of one run.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Name of the Shoot that the Cluster holds.
    pub(crate) shoot: String,
    /// Its namespace, and the name of the Cluster.
    pub(crate) namespace: String,
    /// Its uid.
    pub(crate) uid: String,
}

impl Names {
    pub(crate) fn draw(entropy: &Entropy) -> Self {
        let shoot = entropy.suffix(6);
        Self {
            namespace: api_meta::names::technical_id("conformance", &shoot),
            shoot,
            uid: entropy.uid(),
        }
    }

    /// The name of an object of this kind and type, as gardenlet chooses it.
    pub(crate) fn object(&self, kind: ExtensionKind, type_: &str) -> String {
        let (shoot, type_) = (&self.shoot, type_.to_lowercase());
        match kind {
            ExtensionKind::Extension => type_,
            ExtensionKind::ContainerRuntime => format!("{type_}-pool"),
            ExtensionKind::DNSRecord => format!("{shoot}-internal"),
            ExtensionKind::OperatingSystemConfig => "gardener-node-agent-pool-0123456789abcdef-original".to_owned(),
            ExtensionKind::BackupBucket => self.uid.clone(),
            ExtensionKind::BackupEntry => api_meta::names::backup_entry(&self.namespace, &self.uid),
            _ => shoot.clone(),
        }
    }

    /// The Secret with credentials of objects of this kind.
    pub(crate) fn secret(&self, kind: ExtensionKind) -> String {
        match kind {
            ExtensionKind::DNSRecord => format!("dnsrecord-{}-internal", self.shoot),
            ExtensionKind::BackupBucket => format!("bucket-{}", self.uid),
            ExtensionKind::BackupEntry => format!("entry-{}", self.object(kind, "")),
            _ => CLOUD_PROVIDER_SECRET.to_owned(),
        }
    }
}

/// The region of the subject's objects.
pub(crate) fn region(subject: &Subject) -> String {
    let given = subject.fragments.spec.get("region").and_then(Value::as_str);
    given.unwrap_or(REGION).to_owned()
}

/// The spec of the subject's objects.
pub(crate) fn spec(subject: &Subject, names: &Names) -> Map<String, Value> {
    let mut spec = least(subject.kind, names, &region(subject));
    spec.insert("type".to_owned(), json!(subject.type_));
    if subject.class != ExtensionClass::Shoot {
        spec.insert("class".to_owned(), json!(subject.class));
    }
    merge(&mut spec, &subject.fragments.spec);
    spec
}

/// The least that a spec of this kind holds, beside its type.
pub(crate) fn least(kind: ExtensionKind, names: &Names, region: &str) -> Map<String, Value> {
    let secret = json!({"name": names.secret(kind), "namespace": names.namespace});
    let ssh = bytes(SSH_PUBLIC_KEY);
    let spec = match kind {
        ExtensionKind::Infrastructure => json!({"region": region, "secretRef": secret, "sshPublicKey": ssh}),
        ExtensionKind::ControlPlane => json!({"region": region, "secretRef": secret}),
        ExtensionKind::Worker => json!({
            "region": region, "secretRef": secret, "sshPublicKey": ssh, "pools": [pool(region)],
        }),
        ExtensionKind::Network => json!({
            "podCIDR": "100.96.0.0/11", "serviceCIDR": "100.64.0.0/13", "ipFamilies": ["IPv4"],
        }),
        ExtensionKind::DNSRecord => json!({
            "secretRef": secret, "name": format!("api.{}.conformance.example.com", names.shoot),
            "recordType": "A", "values": ["192.0.2.1"],
        }),
        ExtensionKind::BackupBucket => json!({"region": region, "secretRef": secret}),
        ExtensionKind::BackupEntry => json!({"region": region, "secretRef": secret, "bucketName": "conformance"}),
        ExtensionKind::ContainerRuntime => json!({
            "binaryPath": "/var/bin/containerruntimes",
            "workerPool": {"name": "pool", "selector": {"matchLabels": {"worker.gardener.cloud/pool": "pool"}}},
        }),
        ExtensionKind::Bastion => json!({
            "userData": bytes("#!/bin/sh\n"), "ingress": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        }),
        ExtensionKind::OperatingSystemConfig => json!({
            "purpose": "reconcile", "criConfig": {"name": "containerd"},
            "units": [{"name": "conformance.service", "command": "start", "enable": true, "content": "[Unit]\n"}],
            "files": [{"path": "/var/lib/conformance", "permissions": 420,
                "content": {"inline": {"encoding": "", "data": "conformance\n"}}}],
        }),
        ExtensionKind::SelfHostedShootExposure => json!({
            "port": 443, "endpoints": [{"nodeName": "node", "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}],
        }),
        ExtensionKind::Extension => json!({}),
    };
    match spec {
        Value::Object(spec) => spec,
        _ => Map::new(),
    }
}

fn pool(region: &str) -> Value {
    json!({
        "name": "pool", "machineType": "conformance", "minimum": 1, "maximum": 1, "maxSurge": 1, "maxUnavailable": 0,
        "machineImage": {"name": "conformance", "version": "1.0.0"},
        "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
        "nodeAgentSecretName": "gardener-node-agent-pool-0123456789abcdef",
        "architecture": "amd64", "kubernetesVersion": KUBERNETES_VERSION, "zones": [format!("{region}-a")],
    })
}

/// The version of the Shoot's Kubernetes.
const KUBERNETES_VERSION: &str = "1.35.0";

/// Bytes as JSON has them.
fn bytes(text: &str) -> Value {
    json!(k8s_openapi::ByteString(text.as_bytes().to_vec()))
}

/// How the Shoot in the Cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShootState {
    /// gardenlet works on it.
    Processing,
    /// gardenlet gave up on it.
    Failed,
    /// Its deletion is forced.
    ForceDeleted,
}

/// The three parts of the Cluster: CloudProfile, Seed, Shoot.
pub(crate) fn cluster(subject: &Subject, names: &Names, state: ShootState, now: jiff::Timestamp) -> [Value; 3] {
    let (region, fragments) = (region(subject), &subject.fragments.cluster);
    let provider = provider(subject);
    let mut profile = object(json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "conformance"},
        "spec": {
            "type": provider, "kubernetes": {"versions": [{"version": KUBERNETES_VERSION}]},
            "machineImages": [], "machineTypes": [], "regions": [{"name": region}],
        },
    }));
    merge(&mut profile, &fragments.cloud_profile);
    let mut seed = object(json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "metadata": {"name": "conformance"},
        "spec": {
            "provider": {"type": provider, "region": region}, "dns": {},
            "networks": {"pods": "10.96.0.0/11", "services": "10.112.0.0/13"},
        },
        "status": {"clusterIdentity": "conformance"},
    }));
    merge(&mut seed, &fragments.seed);
    let mut shoot = shoot(names, &provider, &region);
    merge(&mut shoot, &fragments.shoot);
    merge(
        &mut shoot,
        &object(json!({"status": {"lastOperation": {
            "type": if state == ShootState::ForceDeleted { "Delete" } else { "Reconcile" },
            "state": if state == ShootState::Failed { "Failed" } else { "Processing" },
            "description": "", "progress": 1, "lastUpdateTime": format!("{now:.0}"),
        }}})),
    );
    if state == ShootState::ForceDeleted {
        let confirmed = json!({"metadata": {
            "annotations": {"confirmation.gardener.cloud/force-deletion": "true"},
        }});
        merge(&mut shoot, &object(confirmed));
    }
    [profile, seed, shoot].map(Value::Object)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn shoot(names: &Names, provider: &str, region: &str) -> Map<String, Value> {
    object(json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "metadata": {"name": names.shoot, "namespace": "garden-conformance", "uid": names.uid, "generation": 1},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "conformance"}, "region": region,
            "provider": {"type": provider, "workers": []}, "kubernetes": {"version": KUBERNETES_VERSION},
            "networking": {"type": "conformance", "pods": "100.96.0.0/11", "services": "100.64.0.0/13",
                "nodes": "10.250.0.0/16"},
            "seedName": "conformance",
        },
        "status": {"technicalID": names.namespace, "uid": names.uid, "observedGeneration": 1, "gardener": {
            "id": "conformance", "name": "conformance", "version": "v1.150.0",
        }},
    }))
}

/// The provider of the Shoot: the subject's type where its kind is a provider's.
pub(crate) fn provider(subject: &Subject) -> String {
    match subject.kind {
        ExtensionKind::Infrastructure
        | ExtensionKind::ControlPlane
        | ExtensionKind::Worker
        | ExtensionKind::Bastion
        | ExtensionKind::BackupBucket
        | ExtensionKind::BackupEntry => subject.type_.clone(),
        _ => "conformance".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use api_core::v1beta1::{CloudProfile, Seed, Shoot};
    use api_extensions::{ExtensionObject, ForKind};

    use super::*;

    struct Decoded<'a>(Value, &'a str);

    impl ForKind for Decoded<'_> {
        type Output = ();

        fn call<K: ExtensionObject>(self) {
            let object: K = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": self.0})).unwrap();
            assert_eq!(object.type_(), self.1);
        }
    }

    #[test]
    fn the_spec_of_every_kind_fits_its_type() {
        let names = Names::draw(&Entropy::seeded(1));
        for kind in ExtensionKind::ALL {
            let spec = spec(&Subject::new(*kind, "moon"), &names);
            kind.with(Decoded(Value::Object(spec), "moon"));
        }
    }

    #[test]
    fn the_cluster_has_a_shoot_that_decodes_and_is_failed_when_required() {
        let names = Names::draw(&Entropy::seeded(1));
        let subject = Subject::new(ExtensionKind::Infrastructure, "moon");
        let [profile, seed, shoot] = cluster(&subject, &names, ShootState::Failed, jiff::Timestamp::UNIX_EPOCH);
        serde_json::from_value::<CloudProfile>(profile).unwrap();
        serde_json::from_value::<Seed>(seed).unwrap();
        let shoot: Shoot = serde_json::from_value(shoot).unwrap();
        assert_eq!(shoot.status.unwrap().last_operation.unwrap().state.as_str(), "Failed");
        assert_eq!(shoot.spec.provider.type_, "moon");
    }
}
