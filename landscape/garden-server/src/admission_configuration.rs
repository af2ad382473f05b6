//! The file of `--admission-control-config-file`: read as kube-apiserver and its kin read it, and what of it has no effect here
//! named. It changes nothing.

use std::path::Path;

use api_meta::Fault;
use control_plane_garden_api::AdmissionPlugin;
use serde::Deserialize;
use serde_json::Value;

const FLAG: &str = "--admission-control-config-file";
/// Where the kind is (k8s.io/apiserver v0.35 pkg/apis/apiserver).
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

/// AdmissionConfiguration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    #[serde(default)]
    plugins: Vec<Plugin>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    configuration: Value,
}

/// Reads the text of the file; what has no effect, each in a sentence.
///
/// # Errors
/// It is no AdmissionConfiguration, or names a plug-in that does not exist.
pub(crate) fn read(path: &Path, text: &str) -> Result<Vec<String>, Fault> {
    let unusable = |why: String| {
        Fault::user(format!("{} of {FLAG} cannot be used: {why}", path.display())).hint(format!(
            "name a file with an AdmissionConfiguration of {} with {FLAG}",
            VERSIONS[0]
        ))
    };
    let Configuration {
        api_version,
        kind,
        plugins,
    } = base_yaml::read_strict(text).map_err(|error| unusable(error.to_string()))?;
    if kind != "AdmissionConfiguration" || !VERSIONS.contains(&api_version.as_str()) {
        return Err(unusable(format!("it is {kind:?} of {api_version:?}")));
    }
    let mut sentences = Vec::new();
    for Plugin {
        name,
        path,
        configuration,
    } in plugins
    {
        let plugin: AdmissionPlugin = name.parse().map_err(|error| unusable(format!("plugins: {error}")))?;
        if !path.is_empty() || !configuration.is_null() {
            sentences.push(format!(
                "the configuration of admission plug-in {plugin} in {FLAG} has no effect: no plug-in takes any yet"
            ));
        }
    }
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_without_effect_are_named() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        let read = |text: &str| read(Path::new("/a.yaml"), text).map_err(|fault| fault.to_string());
        let text = format!("{head}plugins: [{{name: ShootDNSRewriting, configuration: {{a: 1}}}}, {{name: ShootDNS}}]");
        let sentences = read(&text).unwrap();
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].contains("ShootDNSRewriting"), "{sentences:?}");
        assert!(
            read(&format!("{head}plugins: [{{name: Other}}]"))
                .unwrap_err()
                .contains("\"Other\"")
        );
        assert!(
            read(&format!("{head}plugin: []")).unwrap_err().contains("line 3"),
            "the place of an unknown field"
        );
        assert!(read("apiVersion: v1\nkind: ConfigMap\n").is_err());
    }
}
