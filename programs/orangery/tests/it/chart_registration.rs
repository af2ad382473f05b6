//! `orangery chart registration` as a user runs it: manifests that the garden takes, and refusals with a hint.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use base_helm::Chart;
use serde_json::{Value, json};
use tempfile::TempDir;

fn chart() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    for (name, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: foo\nversion: 1.0.0\n"),
        (
            "templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        ),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn registration(chart: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["chart", "registration"])
        .arg(chart)
        .args(more)
        .output()
        .unwrap()
}

fn printed(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.split("---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_folder_becomes_a_deployment_with_its_archive_and_a_registration() {
    let folder = chart();
    let arguments = ["--resource", "Extension/foo", "--set", "a.b=1", "--policy", "Always"];
    let output = registration(folder.path(), &arguments);
    let [deployment, registration_] = &printed(&output)[..] else {
        panic!("two documents are printed");
    };
    assert_eq!(deployment["apiVersion"], "core.gardener.cloud/v1");
    assert_eq!(deployment["metadata"], json!({"name": "foo"}));
    assert_eq!(deployment["helm"]["values"], json!({"a": {"b": 1}}));
    let chart = Chart::from_base64(deployment["helm"]["rawChart"].as_str().unwrap()).unwrap();
    assert_eq!(chart.templates.len(), 1);
    assert_eq!(
        registration_["spec"],
        json!({
            "resources": [{"kind": "Extension", "type": "foo", "primary": true}],
            "deployment": {"policy": "Always", "deploymentRefs": [{"name": "foo"}]},
        })
    );
    assert_eq!(output.stdout, registration(folder.path(), &arguments).stdout);
}

#[test]
fn what_the_garden_would_refuse_is_refused() {
    let folder = chart();
    for (arguments, why) in [
        (&["--resource", "Extension"][..], "\"Extension\" is not KIND/TYPE"),
        (&["--resource", "Extnsion/a"], "spec.resources[0].kind"),
        (&["--resource", "Extension/"], "spec.resources[0].type"),
        (
            &["--resource", "Extension/a", "--policy", "Never"],
            "spec.deployment.policy",
        ),
        (
            &["--resource", "Extension/a", "--resource", "Extension/A"],
            "spec.resources[1]",
        ),
        (&[], "--resource"),
    ] {
        let message = refused(&registration(folder.path(), arguments));
        assert!(message.contains(why), "{arguments:?}: {message}");
    }
    let message = refused(&registration(
        &folder.path().join("none"),
        &["--resource", "Extension/a"],
    ));
    assert!(message.contains("cannot read the chart"), "{message}");
}

#[test]
fn a_chart_that_no_object_can_hold_is_sent_to_a_registry() {
    let folder = chart();
    // Bytes that do not compress: each from the one before by a generator of full period.
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..2 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    fs::write(folder.path().join("noise"), noise).unwrap();
    let message = refused(&registration(folder.path(), &["--resource", "Extension/a"]));
    assert!(message.contains("helm push"), "{message}");
}
