//! The configuration files that gardenlet deploys, as the program reads them.

use std::collections::BTreeMap;

use api_config::{Read, ResourceManagerConfiguration};
use components_hosted::{
    ComponentId, HostedCluster, HostedObject, Issued, Mounted, build, component, shoot_access_secret_name,
};
use components_seed::{CONFIGURATION_FILE, ResourceManagerSettings, Serving, resource_manager};
use control_plane_resource_manager::Options;

/// The configuration of a ConfigMap, of which every field must have an effect.
fn read(data: Option<BTreeMap<String, String>>) -> ResourceManagerConfiguration {
    let file = data.unwrap().remove(CONFIGURATION_FILE).unwrap();
    let Read {
        configuration,
        unknown,
        without_effect,
    } = api_config::read(base_yaml::read_strict(&file).unwrap()).unwrap();
    assert_eq!((unknown, without_effect), (Vec::new(), Vec::new()));
    configuration
}

#[test]
fn configuration_of_a_seed_is_read_without_warnings() {
    let settings = ResourceManagerSettings {
        image: "i".into(),
        replicas: 1,
        serving: Serving::default(),
        webhooks: None,
    };
    let configuration = read(resource_manager(&settings).config_map.data);
    let election = &configuration.process.leader_election;
    assert_eq!(
        (election.leader_elect, election.resource_namespace.as_deref()),
        (true, Some("garden"))
    );
    assert_eq!(configuration.webhooks.as_ref().unwrap().server.port, 10_250);
    let options = Options::from(configuration);
    assert_eq!(
        (options.namespace, options.class.as_deref(), options.garbage_collection),
        (None, Some("seed"), true)
    );
    assert_eq!(options.network_policies.unwrap().namespace_selectors.len(), 6);
}

#[test]
fn configuration_of_a_shoot_is_read_without_warnings() {
    let cluster = HostedCluster {
        namespace: "shoot--dev--moon".into(),
        ..HostedCluster::default()
    };
    let issued = Issued {
        kubeconfig: Some(Mounted {
            secret: shoot_access_secret_name("gardener-resource-manager"),
            checksum: "c".into(),
        }),
        ..Issued::default()
    };
    let objects = build(component(ComponentId::ResourceManager), &cluster, &issued).unwrap();
    let data = objects.into_iter().find_map(|object| match object {
        HostedObject::ConfigMap(map) => Some(map.data),
        _ => None,
    });
    let configuration = read(data.unwrap());
    assert!(
        configuration
            .target_kubeconfig
            .as_deref()
            .unwrap()
            .ends_with("/kubeconfig")
    );
    assert!(configuration.webhooks.is_none());
    let options = Options::from(configuration);
    assert_eq!(
        (
            options.namespace.as_deref(),
            options.class,
            options.token_requestor.as_deref()
        ),
        (Some("shoot--dev--moon"), None, Some("shoot"))
    );
    assert_eq!(options.machine_namespace.as_deref(), Some("shoot--dev--moon"));
}
