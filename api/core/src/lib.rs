//! The garden's kinds: `core.gardener.cloud` (v1beta1, v1), `security`, `operations`, `seedmanagement`, `authentication`.
//! It only describes what can be requested: no defaults, no validation, no I/O.

pub mod authentication;
pub mod operations;
pub mod security;
pub mod seedmanagement;
pub mod v1;
pub mod v1beta1;

#[cfg(test)]
mod tests {
    use api_meta::schema::round_trip;
    use serde_json::json;

    use super::{authentication, operations, security, seedmanagement, v1, v1beta1};

    macro_rules! all_round_trip {
        ($($kind:ty),+ $(,)?) => { [$(round_trip::<$kind>()),+] };
    }

    #[test]
    fn every_kind_comes_back_with_every_field() {
        let results = all_round_trip![
            v1beta1::BackupBucket,
            v1beta1::BackupEntry,
            v1beta1::CloudProfile,
            v1beta1::ControllerDeployment,
            v1beta1::ControllerInstallation,
            v1beta1::ControllerRegistration,
            v1beta1::ExposureClass,
            v1beta1::InternalSecret,
            v1beta1::NamespacedCloudProfile,
            v1beta1::Project,
            v1beta1::Quota,
            v1beta1::SecretBinding,
            v1beta1::Seed,
            v1beta1::Shoot,
            v1beta1::ShootState,
            v1::ControllerDeployment,
            security::CredentialsBinding,
            security::TokenRequest,
            security::WorkloadIdentity,
            operations::Bastion,
            seedmanagement::Gardenlet,
            seedmanagement::ManagedSeed,
            seedmanagement::ManagedSeedSet,
            authentication::AdminKubeconfigRequest,
            authentication::ViewerKubeconfigRequest,
        ];
        let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn names_with_runs_of_capitals_are_spelt_as_go_spells_them() {
        let shoot = json!({"spec": {
            "kubernetes": {
                "kubeAPIServer": {"eventTTL": "1h0m0s"},
                "kubeControllerManager": {"nodeCIDRMaskSize": 24, "nodeCIDRMaskSizeIPv6": 64},
                "kubeScheduler": {"kubeMaxPDVols": "30"},
                "kubelet": {"cpuCFSQuota": true, "registryPullQPS": 5, "imageGCHighThresholdPercent": 80,
                            "evictionHard": {"imageFSInodesFree": "5%", "nodeFSAvailable": "10%"}},
            },
            "systemComponents": {"coreDNS": {}, "nodeLocalDNS": {"enabled": true, "forceTCPToUpstreamDNS": true}},
        }, "status": {"technicalID": "shoot--p--s", "networking": {"egressCIDRs": ["10.0.0.1/32"]}}});
        let read: v1beta1::Shoot = serde_json::from_value(shoot.clone()).unwrap();
        let spec = &read.spec;
        assert_eq!(
            spec.kubernetes
                .kube_controller_manager
                .as_ref()
                .unwrap()
                .node_cidr_mask_size_ipv6,
            Some(64)
        );
        assert_eq!(
            read.status.as_ref().unwrap().networking.as_ref().unwrap().egress_cidrs,
            ["10.0.0.1/32"]
        );
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["spec"]["kubernetes"], shoot["spec"]["kubernetes"]);
        assert_eq!(written["spec"]["systemComponents"], shoot["spec"]["systemComponents"]);
    }

    #[test]
    fn what_go_writes_for_empty_values_is_read() {
        let text = r#"{"spec":{"provider":{"type":"local","workers":null},"extensions":null,"resources":null},
            "status":{"conditions":null,"lastErrors":null,"uid":"","lastMaintenance":{"triggeredTime":null}}}"#;
        let shoot: v1beta1::Shoot = serde_json::from_str(text).unwrap();
        assert_eq!(shoot.spec.provider.type_, "local");
        let written = serde_json::to_value(&shoot).unwrap();
        assert_eq!(written["spec"]["region"], "", "required fields are always written");
        assert_eq!(written["status"]["hibernated"], false);
        assert!(written["spec"].get("extensions").is_none());
    }

    #[test]
    fn secret_data_is_base64() {
        let text = r#"{"apiVersion":"core.gardener.cloud/v1beta1","kind":"InternalSecret","metadata":{},"data":{"ca.key":"AAEC/w=="}}"#;
        let secret: v1beta1::InternalSecret = serde_json::from_str(text).unwrap();
        assert_eq!(secret.data["ca.key"].0, [0, 1, 2, 255]);
        assert_eq!(serde_json::to_string(&secret).unwrap(), text);
    }
}
