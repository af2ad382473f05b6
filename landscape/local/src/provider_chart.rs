//! The chart of the local provider, as it stands in `charts/provider-local`, packed as an extension's author would
//! push it. The same files make the same bytes, so that a restart rolls out nothing.

use std::io::Write;

use api_meta::Fault;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// The chart's folder in the archive: its name.
const FOLDER: &str = "provider-local";
/// Its values.
const VALUES: &str = include_str!("../../../charts/provider-local/values.yaml");
/// Its files by their paths.
const FILES: [(&str, &str); 4] = [
    ("Chart.yaml", include_str!("../../../charts/provider-local/Chart.yaml")),
    ("values.yaml", VALUES),
    (
        "templates/deployment.yaml",
        include_str!("../../../charts/provider-local/templates/deployment.yaml"),
    ),
    (
        "templates/rbac.yaml",
        include_str!("../../../charts/provider-local/templates/rbac.yaml"),
    ),
];
/// Mode of the files.
const MODE: u32 = 0o644;

/// The chart as a compressed archive.
///
/// # Errors
/// It cannot be packed, which is a bug.
pub(super) fn archive() -> Result<Vec<u8>, Fault> {
    pack().map_err(|error| Fault::bug(format!("the chart of the local provider cannot be packed: {error}")))
}

/// What the local provider does in a seed, as rules of RBAC: what its chart stands for when no value is given.
#[must_use]
pub fn provider_rules() -> Value {
    let values: Value = serde_saphyr::from_str(VALUES).unwrap_or_default();
    values["rules"].clone()
}

fn pack() -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (path, text) in FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(MODE);
        archive.append_data(&mut header, format!("{FOLDER}/{path}"), text.as_bytes())?;
    }
    let mut packed = archive.into_inner()?;
    packed.flush()?;
    packed.finish()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_rules_are_read_from_the_charts_values() {
        let rules = provider_rules();
        assert_eq!(rules[0]["apiGroups"][0], "extensions.gardener.cloud");
        assert!(rules.as_array().unwrap().len() > 3);
    }

    #[test]
    fn the_archive_has_every_file_of_the_chart_and_is_reproducible() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/provider-local");
        let packed = archive().unwrap();
        assert_eq!(packed, archive().unwrap());
        let chart = base_helm::Chart::from_archive(&packed).unwrap();
        let of_folder = base_helm::Chart::from_folder(&folder).unwrap();
        let templates = |chart: &base_helm::Chart| {
            let mut names: Vec<String> = chart.templates.iter().map(|file| file.name.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(templates(&chart), templates(&of_folder));
        assert_eq!(chart.values, of_folder.values);
    }
}
