//! What the processes read in the rendered ConfigMaps.

use api_config::{
    AdmissionControllerConfiguration, Configuration, ControllerManagerConfiguration, GardenletConfiguration,
    SchedulerConfiguration,
};
use serde_json::Value;

use crate::own;

/// Fields of a configuration that its process would warn of, as `NAME: FIELD`.
fn warnings<T: Configuration>(name: &str, document: Value) -> Vec<String> {
    match api_config::read::<T>(document) {
        Ok(read) => {
            let fields = read.unknown.iter().chain(&read.without_effect);
            fields.map(|field| format!("{name}: {field}")).collect()
        }
        Err(problems) => panic!("{name}: {problems:?}"),
    }
}

/// All warnings about the configurations of a chart.
fn of_chart(chart: &str, values: &str) -> Vec<String> {
    let mut all = Vec::new();
    for map in own::objects(chart, values)
        .iter()
        .filter(|object| object["kind"] == "ConfigMap")
    {
        let Some(text) = map["data"]["config.yaml"].as_str() else {
            continue;
        };
        let document: Value = base_yaml::read_strict(text).unwrap();
        let name = map["metadata"]["name"].as_str().unwrap();
        all.extend(match document["kind"].as_str().unwrap() {
            "ControllerManagerConfiguration" => warnings::<ControllerManagerConfiguration>(name, document),
            "SchedulerConfiguration" => warnings::<SchedulerConfiguration>(name, document),
            "GardenletConfiguration" => warnings::<GardenletConfiguration>(name, document),
            "AdmissionControllerConfiguration" => warnings::<AdmissionControllerConfiguration>(name, document),
            kind => panic!("{name} is a {kind}"),
        });
    }
    all
}

#[test]
fn default_configurations_are_read_without_a_warning() {
    for (chart, values) in [
        ("garden", "given"),
        ("garden", "generated"),
        ("gardenlet", "kubeconfig"),
    ] {
        assert_eq!(of_chart(chart, values), Vec::<String>::new(), "{chart} with {values}");
    }
}

#[test]
fn fields_of_gardeners_values_without_effect_are_warned_of_and_none_is_refused() {
    let expected = [
        "gardenClientConnection.qps",
        "gardenClientConnection.burst",
        "shootClientConnection",
        "controllers.seedCare.conditionThresholds",
        "orangery.images.overwrites[0].sourceRepository",
        "resources",
    ];
    let mut warned = of_chart("gardenlet", "gardener");
    // Fields by which gardenlet gets its certificate.
    warned.retain(|field| !field.contains("ubeconfig"));
    assert_eq!(warned, expected.map(|field| format!("gardenlet-config: {field}")));
}

#[test]
fn configurations_are_where_the_containers_look_for_them() {
    for (chart, values) in own::cases() {
        let objects = own::objects(chart, &values);
        for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            for argument in container["args"].as_array().unwrap() {
                let Some(path) = argument
                    .as_str()
                    .and_then(|text| text.split_once('='))
                    .map(|(_, path)| path)
                else {
                    continue;
                };
                if path.starts_with('/') && !path.starts_with("/registry") && path != "/garden" {
                    assert_mounted(&objects, pod, path);
                }
            }
        }
    }
}

/// Whether a file is in a volume of the pod; what the chart makes has the file as a key.
fn assert_mounted(objects: &[Value], pod: &Value, path: &str) {
    let (folder, file) = path.rsplit_once('/').unwrap();
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == folder);
    let mount = mount.unwrap_or_else(|| panic!("nothing is mounted for {path}"));
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    let (kind, name) = match (&volume["configMap"]["name"], &volume["secret"]["secretName"]) {
        (Value::String(name), _) => ("ConfigMap", name),
        (_, Value::String(name)) => ("Secret", name),
        _ => return,
    };
    let made = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == **name);
    // Others are given, or made by cert-manager.
    if let Some(made) = made {
        assert!(made["data"][file].is_string(), "{kind} {name} has no {file}");
    }
}
