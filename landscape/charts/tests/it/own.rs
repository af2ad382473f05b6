//! Renders a chart of the repository with a file of values from its folder `ci`, always at the same time and with the same
//! randomness.

use std::path::{Path, PathBuf};

use base_clock::{Clock, Entropy};
use base_helm::render::Release;
use base_helm::values::{load_values, merge_maps};
use base_helm::{Chart, Engine, Rendered, Setting};
use serde_json::Value;

/// The namespace of each chart's release, as docs/production.md has it.
pub(crate) fn namespace(chart: &str) -> &'static str {
    match chart {
        "garden" => "orangery-system",
        _ => "garden",
    }
}

/// When everything is rendered.
pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Names of the charts with the files of values that they are rendered with.
pub(crate) fn cases() -> Vec<(&'static str, String)> {
    let mut cases = Vec::new();
    for chart in ["garden", "gardenlet"] {
        let folder = repository(&format!("charts/{chart}/ci"));
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = names.filter_map(|name| Some(name.strip_suffix("-values.yaml")?.to_owned()));
        cases.extend(names.map(|name| (chart, name)));
    }
    cases.sort();
    assert!(cases.len() > 1, "there are files of values");
    cases
}

/// The chart rendered with that file of values and `more` over it, in that namespace.
///
/// # Errors
/// What the engine reports.
pub(crate) fn rendered_in(namespace: &str, chart: &str, values: &str, more: &Value) -> Result<Rendered, String> {
    let folder = repository(&format!("charts/{chart}"));
    let chart = Chart::from_folder(&folder).unwrap();
    let text = std::fs::read(folder.join(format!("ci/{values}-values.yaml"))).unwrap();
    let mut values = load_values(&text).unwrap();
    merge_maps(&mut values, more.as_object().cloned().unwrap_or_default());
    let release = Release {
        name: "test".to_owned(),
        namespace: namespace.to_owned(),
        revision: 1,
        is_upgrade: false,
    };
    let setting = Setting {
        release,
        ..Setting::default()
    };
    let engine = Engine::default()
        .with_clock(Clock::simulated(NOW.parse().unwrap()))
        .with_entropy(Entropy::seeded(1));
    engine
        .render(&chart, &values, &setting)
        .map_err(|error| error.to_string())
}

/// The same in the namespace of docs/production.md.
pub(crate) fn rendered(chart: &str, values: &str) -> Rendered {
    rendered_in(namespace(chart), chart, values, &Value::Null)
        .unwrap_or_else(|why| panic!("{chart} with {values}: {why}"))
}

/// All objects of a rendering.
pub(crate) fn objects_of(rendered: &Rendered) -> Vec<Value> {
    let manifests = rendered.sorted.manifests.iter();
    manifests
        .map(|manifest| base_yaml::read_strict(&manifest.content).unwrap())
        .collect()
}

/// All objects of the chart with that file of values.
pub(crate) fn objects(chart: &str, values: &str) -> Vec<Value> {
    objects_of(&rendered(chart, values))
}

/// The only object of this kind and name.
pub(crate) fn object<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("there is no {kind} {name}"));
    assert!(found.next().is_none(), "{kind} {name} is there twice");
    first
}
