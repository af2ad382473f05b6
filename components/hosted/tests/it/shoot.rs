//! Every object inside a shoot as it reaches the API server, printed.

use components_hosted::shoot::{
    NodeAgentPool, SystemSettings, VpnSettings, access_bindings, cluster_identity_objects, gardener_access_objects,
    machine_controller_access_objects, namespace_objects, node_agent_objects, object_key, system_objects, vpn_objects,
};

use super::golden;

#[test]
fn objects_inside_the_shoot_match_their_goldens() {
    let settings = SystemSettings {
        shoot_name: "moon".into(),
        project_name: "dev".into(),
        kubernetes_version: "1.35.0".into(),
        provider: "some-cloud".into(),
        region: "somewhere".into(),
        domain: None,
        pod_networks: vec!["100.96.0.0/11".into()],
        service_networks: vec!["100.64.0.0/13".into()],
        node_networks: vec!["10.0.0.0/16".into()],
        maintenance_begin: "220000+0100".into(),
        maintenance_end: "230000+0100".into(),
    };
    let pool = NodeAgentPool {
        pool: "pool-a".into(),
        secret_name: "gardener-node-agent-pool-a-0123456789abcdef".into(),
        operating_system_config: "apiVersion: extensions.gardener.cloud/v1alpha1\n".into(),
        checksum: "abc".into(),
        kubernetes_version: "1.35.0".into(),
    };
    golden("shoot-access.json", &access_bindings());
    golden(
        "shoot-gardener-access.json",
        &gardener_access_objects(&["gardener", "gardener-internal"]),
    );
    golden("shoot-namespaces.json", &namespace_objects());
    golden("shoot-system.json", &system_objects(&settings));
    golden(
        "shoot-cluster-identity.json",
        &cluster_identity_objects("landscape-moon-1"),
    );
    golden(
        "shoot-machine-controllers.json",
        &machine_controller_access_objects("some:user"),
    );
    golden("shoot-node-agent.json", &node_agent_objects(&[pool]));
    golden("shoot-vpn.json", &vpn_objects(&vpn()));
}

fn vpn() -> VpnSettings {
    VpnSettings {
        image: "registry.example/proxy-agent:v1".into(),
        server_name: "vpn-seed-server.shoot--dev--moon.svc".into(),
        server_address: [192, 0, 2, 7].into(),
        server_port: 8132,
        authorities: "authorities".into(),
        certificate: "certificate".into(),
        key: "key".into(),
        node_networks: vec!["10.77.0.0/16".into()],
        pod_networks: vec!["100.96.0.0/11".into()],
        service_networks: vec!["100.64.0.0/13".into()],
    }
}

#[test]
fn a_renewed_certificate_rolls_the_vpn_agent() {
    let template = |settings: &VpnSettings| {
        let objects = vpn_objects(settings);
        let deployment = objects.into_iter().find(|object| object["kind"] == "Deployment");
        deployment.unwrap()["spec"]["template"].clone()
    };
    let renewed = VpnSettings {
        certificate: "renewed".into(),
        ..vpn()
    };
    assert_ne!(template(&vpn()), template(&renewed));
    assert_eq!(template(&vpn()), template(&vpn()));
}

#[test]
fn without_pools_the_role_names_no_secret_that_exists() {
    let objects = node_agent_objects(&[]);
    let role = objects.iter().find(|object| object["kind"] == "Role").unwrap();
    assert_eq!(role["rules"][0]["resourceNames"].as_array().unwrap().len(), 1);
}

#[test]
fn keys_of_objects_are_fit_for_a_secret_and_unique() {
    let objects = [
        access_bindings(),
        system_objects_of_nothing(),
        node_agent_objects(&[]),
        vpn_objects(&vpn()),
    ]
    .concat();
    let mut keys: Vec<String> = objects.iter().map(object_key).collect();
    assert!(keys.iter().all(|key| {
        key.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    }));
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

fn system_objects_of_nothing() -> Vec<serde_json::Value> {
    system_objects(&SystemSettings {
        shoot_name: String::new(),
        project_name: String::new(),
        kubernetes_version: String::new(),
        provider: String::new(),
        region: String::new(),
        domain: None,
        pod_networks: Vec::new(),
        service_networks: Vec::new(),
        node_networks: Vec::new(),
        maintenance_begin: String::new(),
        maintenance_end: String::new(),
    })
}
