//! The charts that are installed: `chart/` of this crate, packed under a name of its own for each, so that no two share
//! a digest, and the ControllerDeployment and ControllerRegistration around it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// What stands in the files for the chart's name.
const PLACEHOLDER: &str = "extension-under-measurement";
/// The chart's files by their paths.
const FILES: [(&str, &str); 9] = [
    ("Chart.yaml", include_str!("../../chart/Chart.yaml")),
    ("values.yaml", include_str!("../../chart/values.yaml")),
    (
        "templates/_helpers.tpl",
        include_str!("../../chart/templates/_helpers.tpl"),
    ),
    (
        "templates/configmap.yaml",
        include_str!("../../chart/templates/configmap.yaml"),
    ),
    (
        "templates/deployment.yaml",
        include_str!("../../chart/templates/deployment.yaml"),
    ),
    ("templates/rbac.yaml", include_str!("../../chart/templates/rbac.yaml")),
    (
        "templates/service.yaml",
        include_str!("../../chart/templates/service.yaml"),
    ),
    (
        "templates/serviceaccount.yaml",
        include_str!("../../chart/templates/serviceaccount.yaml"),
    ),
    ("templates/vpa.yaml", include_str!("../../chart/templates/vpa.yaml")),
];
/// Mode of the files.
const MODE: u32 = 0o644;

/// The chart as a compressed archive.
///
/// # Errors
/// It cannot be packed.
pub(super) fn archive(name: &str) -> Result<Vec<u8>, String> {
    pack(name).map_err(|error| format!("cannot pack chart {name}: {error}"))
}

fn pack(name: &str) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (path, text) in FILES {
        let text = text.replace(PLACEHOLDER, name);
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(MODE);
        archive.append_data(&mut header, format!("{name}/{path}"), text.as_bytes())?;
    }
    let mut packed = archive.into_inner()?;
    packed.flush()?;
    packed.finish()
}

/// The ControllerDeployment with the chart.
pub(super) fn deployment(name: &str, archive: Vec<u8>) -> Value {
    json!({
        "apiVersion": "core.gardener.cloud/v1",
        "kind": "ControllerDeployment",
        "metadata": {"name": name},
        "helm": {
            "rawChart": ByteString(archive),
            "values": {"image": {"tag": "v1.2.3"}, "replicaCount": 1, "vpa": {"enabled": true}},
        },
    })
}

/// The ControllerRegistration that has it installed in every seed.
pub(super) fn registration(name: &str) -> Value {
    json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "ControllerRegistration",
        "metadata": {"name": name},
        "spec": {
            "deployment": {"deploymentRefs": [{"name": name}], "policy": "Always"},
            "resources": [{"kind": "Extension", "type": name, "primary": true}],
        },
    })
}
