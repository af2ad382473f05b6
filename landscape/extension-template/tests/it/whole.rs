//! Each generated extension as a whole: nothing is left to fill in, manifests are YAML, the chart renders and is fine with an
//! empty Kubernetes, and the crates that it names have the versions of the SDK.

use std::path::Path;

use landscape_charts::{Setting, lint};
use landscape_extension_template::{files, write};
use serde_json::Value;

use crate::generated::{extensions, settings};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn nothing_is_left_to_fill_in() {
    for (folder, kinds, webhook) in extensions() {
        for file in files(&settings(&kinds, webhook)) {
            let left =
                file.text.split('@').skip(1).step_by(2).find(|word| {
                    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                });
            assert_eq!(left, None, "{folder}/{}", file.path);
            assert!(
                file.text.ends_with('\n') && !file.text.ends_with("\n\n"),
                "{folder}/{}",
                file.path
            );
        }
    }
}

#[test]
fn manifests_name_their_objects() {
    for (folder, kinds, webhook) in extensions() {
        let files = files(&settings(&kinds, webhook));
        let manifests = files
            .iter()
            .filter(|file| file.path.starts_with("examples/") || file.path == "registration.yaml");
        for file in manifests {
            for document in file.text.split("\n---\n") {
                let object: Value = base_yaml::read_strict(document).unwrap();
                let place = format!("{folder}/{}", file.path);
                assert!(
                    object["kind"].is_string() && object["metadata"]["name"].is_string(),
                    "{place}"
                );
            }
        }
    }
}

#[tokio::test]
async fn charts_can_be_installed() {
    // The others' charts differ from these in names of kinds alone.
    let charts = ["infrastructure", "operatingsystemconfig", "webhook-backup", "all"];
    for (name, kinds, webhook) in extensions()
        .into_iter()
        .filter(|(name, ..)| charts.contains(&name.as_str()))
    {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(&settings(&kinds, webhook)), Path::new(ROOT)).unwrap();
        let chart = folder.path().join("chart");
        let found = lint(Some("moon"), chart.to_str().unwrap(), &Setting::default())
            .await
            .unwrap();
        assert!(found.verdict(true).is_ok(), "{name}: {}", found.text());
    }
}

#[test]
fn crates_have_the_versions_of_the_sdk() {
    let ours = std::fs::read_to_string(format!("{ROOT}/Cargo.toml")).unwrap();
    let version = |manifest: &str, name: &str| -> Option<String> {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = ")))?;
        line.split('"')
            .find(|part| part.starts_with(|letter: char| letter.is_ascii_digit()))
            .map(str::to_owned)
    };
    let (_, kinds, webhook) = extensions().pop().unwrap();
    let files = files(&settings(&kinds, webhook));
    let manifest = &files.iter().find(|file| file.path == "Cargo.toml").unwrap().text;
    for name in ["async-trait", "k8s-openapi", "kube", "serde", "serde_json", "tokio"] {
        assert_eq!(version(manifest, name), version(&ours, name), "{name}");
    }
    for name in ["rust-version", "edition"] {
        assert_eq!(version(manifest, name), version(&ours, name), "{name}");
    }
    let paths = manifest
        .lines()
        .filter_map(|line| line.split_once("path = \"/orangery/")?.1.split('"').next());
    let missing: Vec<&str> = paths
        .filter(|path| !Path::new(ROOT).join(path).join("Cargo.toml").exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
