//! Every object of a control plane as it reaches the API server, printed.

use components_hosted::shoot::{
    NodeAgentPool, SystemSettings, access_bindings, cluster_identity_objects, gardener_access_objects,
    machine_controller_access_objects, namespace_objects, node_agent_objects, object_key, system_objects,
};
use components_hosted::{
    ApiServerSettings, ControllerManagerSettings, EtcdSettings, Mounted, ResourceManagerSettings, SchedulerSettings,
    api_server, api_server_service, controller_manager, etcd, resource_manager, scheduler,
};
use serde::Serialize;

const NAMESPACE: &str = "shoot--dev--moon";

fn mounted(name: &str) -> Mounted {
    Mounted {
        secret: name.to_owned(),
        checksum: "0a1b2c3d".to_owned(),
    }
}

fn api_server_settings() -> ApiServerSettings {
    ApiServerSettings {
        namespace: NAMESPACE.into(),
        image: "registry.example/kube-apiserver:v1.35.0".into(),
        replicas: 1,
        etcd_servers: format!("https://etcd-main-client.{NAMESPACE}.svc:2379"),
        etcd_authority: mounted("ca-etcd-bundle-1"),
        etcd_client: mounted("etcd-client-1"),
        client_authority: mounted("ca-client-bundle-1"),
        authority: mounted("ca-bundle-1"),
        server: mounted("kube-apiserver-1"),
        service_account_key: mounted("service-account-key-1"),
        service_account_keys: mounted("service-account-key-bundle-1"),
        front_proxy_authority: mounted("ca-front-proxy-bundle-1"),
        aggregator_client: mounted("kube-aggregator-1"),
        service_account_issuer: "https://api.moon.dev.internal.example".into(),
        service_networks: vec!["100.64.0.0/13".into()],
        external_hostname: "api.moon.dev.internal.example".into(),
    }
}

fn controller_manager_settings() -> ControllerManagerSettings {
    ControllerManagerSettings {
        namespace: NAMESPACE.into(),
        image: "registry.example/kube-controller-manager:v1.35.0".into(),
        replicas: 1,
        kubeconfig: mounted("shoot-access-kube-controller-manager"),
        authority: mounted("ca-bundle-1"),
        client_authority: mounted("ca-client-1"),
        kubelet_authority: mounted("ca-kubelet-1"),
        service_account_key: mounted("service-account-key-1"),
        pod_networks: vec!["100.96.0.0/11".into()],
        service_networks: vec!["100.64.0.0/13".into()],
        node_mask_size: Some(24),
    }
}

#[test]
fn hosted_components_match_their_goldens() {
    let etcd = etcd(&EtcdSettings {
        namespace: NAMESPACE.into(),
        image: "registry.example/etcd:v0.1.0".into(),
        storage: "10Gi".into(),
        authority: mounted("ca-etcd-bundle-1"),
        server: mounted("etcd-server-1"),
    });
    golden("etcd-statefulset.json", &etcd.stateful_set);
    golden("etcd-client-service.json", &etcd.client_service);
    golden("etcd-peer-service.json", &etcd.peer_service);
    golden("kube-apiserver-service.json", &api_server_service(NAMESPACE));
    golden("kube-apiserver.json", &api_server(&api_server_settings()));
    golden(
        "kube-controller-manager.json",
        &controller_manager(&controller_manager_settings()),
    );
    let image = "registry.example/kube-scheduler:v1.35.0".to_owned();
    let kubeconfig = mounted("shoot-access-kube-scheduler");
    golden(
        "kube-scheduler.json",
        &scheduler(&SchedulerSettings {
            namespace: NAMESPACE.into(),
            image,
            replicas: 1,
            kubeconfig,
        }),
    );
    let manager = resource_manager(&ResourceManagerSettings {
        namespace: NAMESPACE.into(),
        image: "registry.example/gardener-resource-manager:v0.1.0".into(),
        replicas: 1,
        kubeconfig: mounted("shoot-access-gardener-resource-manager"),
    });
    golden("gardener-resource-manager.json", &manager.deployment);
    golden("gardener-resource-manager-role.json", &manager.role);
    golden("gardener-resource-manager-role-binding.json", &manager.role_binding);
}

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
}

#[test]
fn a_changed_certificate_rolls_the_pods_and_a_changed_size_does_not() {
    let before = api_server(&api_server_settings());
    let rotated = ApiServerSettings {
        server: Mounted {
            checksum: "ffffffff".into(),
            ..mounted("kube-apiserver-1")
        },
        ..api_server_settings()
    };
    let scaled = ApiServerSettings {
        replicas: 0,
        ..api_server_settings()
    };
    let template = |deployment: &k8s_openapi::api::apps::v1::Deployment| deployment.spec.clone().unwrap().template;
    assert_ne!(template(&before), template(&api_server(&rotated)));
    assert_eq!(template(&before), template(&api_server(&scaled)));
}

#[test]
fn without_nodes_no_pod_network_is_given_out() {
    let settings = ControllerManagerSettings {
        pod_networks: Vec::new(),
        ..controller_manager_settings()
    };
    let deployment = controller_manager(&settings);
    let command = deployment.spec.unwrap().template.spec.unwrap().containers[0]
        .command
        .clone()
        .unwrap();
    assert!(
        !command
            .iter()
            .any(|arg| arg.contains("cidr=") || arg.contains("node-cidrs")),
        "{command:?}"
    );
}

#[test]
fn without_pools_the_role_names_no_secret_that_exists() {
    let objects = node_agent_objects(&[]);
    let role = objects.iter().find(|object| object["kind"] == "Role").unwrap();
    assert_eq!(role["rules"][0]["resourceNames"].as_array().unwrap().len(), 1);
}

#[test]
fn keys_of_objects_are_fit_for_a_secret_and_unique() {
    let objects = [access_bindings(), system_objects_of_nothing(), node_agent_objects(&[])].concat();
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

fn golden(name: &str, object: &impl Serialize) {
    let actual = format!("{}\n", serde_json::to_string_pretty(object).expect("objects are JSON"));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, &actual).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, actual, "{name} differs; UPDATE_GOLDENS=1 rewrites it");
}
