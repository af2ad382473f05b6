//! `orangery new extension` and `orangery up --extension`, by the real binary. The extension that runs here is a script, which is
//! built in no time; that what `new` writes can be built, its crate's tests show.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command};

use tests_kit::free_port;

use crate::process::{Running, refusal};

const CHART: &str = "apiVersion: v2\nname: moon\nversion: 1.0.0\n";
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: moon
  namespace: {{ .Release.Namespace }}
spec:
  selector:
    matchLabels: {app: moon}
  template:
    metadata:
      labels: {app: moon}
    spec:
      containers:
      - name: moon
        image: registry.example.org/moon:v1
        env: [{name: GREETING, value: {{ .Values.greeting }}}]
";
const REGISTRATION: &str = "
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: moon}
helm: {ociRepository: {ref: 'registry.example.org/charts/moon:1'}, values: {greeting: hello}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: moon}
spec:
  deployment:
    policy: Always
    deploymentRefs: [{name: moon}]
  resources: [{kind: Extension, type: moon}]
";

fn script(text: &str) -> String {
    format!("#!/bin/sh\ntrap 'exit 0' TERM\necho \"$GREETING {text}\"\nwhile :; do sleep 0.1; done\n")
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// What a process prints.
struct Printed(Lines<BufReader<ChildStdout>>);

impl Printed {
    /// Reads until there was a line with each of these texts, in any order: a log and reports about it come by two ways.
    fn until(&mut self, texts: &[&str]) {
        let mut left = texts.to_vec();
        while !left.is_empty() {
            let line = self
                .0
                .next()
                .unwrap_or_else(|| unreachable!("it ended before it printed {left:?}"))
                .unwrap();
            left.retain(|text| !line.contains(text));
        }
    }
}

#[test]
fn an_extension_is_built_installed_reloaded_at_each_change_and_logged() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let moon = folder.path();
    write(moon, "script", &script("one"));
    write(
        moon,
        "orangery-extension.yaml",
        "{build: [sh, -c, 'sh -n script && cp script program.new && chmod +x program.new && mv program.new program'], \
         program: program, watch: [script]}",
    );
    write(moon, "chart/Chart.yaml", CHART);
    write(moon, "chart/templates/deployment.yaml", DEPLOYMENT);
    write(moon, "registration.yaml", REGISTRATION);
    let port = free_port().unwrap();
    let mut up = Running::up(data.path(), port, &["--memory", "--extension", moon.to_str().unwrap()]);
    let mut printed = Printed(BufReader::new(up.0.stdout.take().unwrap()).lines());
    printed.until(&["moon: built in ", "moon: running", "moon | hello one"]);

    write(moon, "script", &script("two"));
    printed.until(&["moon: rebuilt in ", " s, reloaded in ", "moon | hello two"]);

    write(moon, "script", "if");
    printed.until(&["moon: not built: sh ended with exit status: 2; waiting for the next change"]);
    write(moon, "script", &script("three"));
    printed.until(&["moon | hello three"]);

    write(moon, "registration.yaml", &REGISTRATION.replace("hello", "goodbye"));
    printed.until(&["moon | goodbye three"]);
    up.stop();
}

#[test]
fn a_folder_that_is_no_extension_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (words, expected) in [
        (
            "up --memory --port 0 --data-dir d --extension none",
            "error: --extension none: No such file",
        ),
        (
            "up --memory --port 0 --data-dir d --extension empty",
            "error: --extension empty: the folder has neither a Cargo.toml nor a file orangery-extension.yaml",
        ),
    ] {
        let error = refusal(folder.path(), words);
        assert!(
            error.contains(expected) && error.contains("orangery new extension NAME"),
            "{error}"
        );
    }
}

#[test]
fn extensions_with_one_image_and_an_image_file_mapping_it_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["moon", "sun"] {
        let path = folder.path().join(name);
        write(&path, "orangery-extension.yaml", "{program: program}");
        write(&path, "chart/Chart.yaml", CHART);
        write(&path, "chart/templates/deployment.yaml", DEPLOYMENT);
        write(&path, "registration.yaml", &REGISTRATION.replace("moon", name));
    }
    let error = refusal(
        folder.path(),
        "up --memory --port 0 --data-dir d --extension moon --extension sun",
    );
    let folders = [
        "moon and",
        "sun have the same image registry.example.org/moon in spec.containers[].image",
    ];
    assert!(
        folders.iter().all(|text| error.contains(text)) && error.contains("chart/values.yaml of one of them"),
        "{error}"
    );
    write(
        folder.path(),
        "images.yaml",
        "images: [{image: registry.example.org/moon, command: [sh]}]",
    );
    let words = "up --memory --port 0 --data-dir d --extension moon --images images.yaml";
    let error = refusal(folder.path(), words);
    assert!(
        error.contains("images[0] maps registry.example.org/moon again, which --extension moon maps already"),
        "{error}"
    );
}

#[test]
fn a_new_extension_is_written_once_and_wrong_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let words = "new extension moon --kind Infrastructure --kind Extension --webhook";
    let made = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(words.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    assert!(
        made.status.success() && text.contains("orangery up --extension moon"),
        "{text}"
    );
    for file in [
        "Cargo.toml",
        "Cargo.lock",
        "src/webhook.rs",
        "chart/templates/rbac.yaml",
        "examples/50-shoot.yaml",
    ] {
        assert!(folder.path().join("moon").join(file).is_file(), "{file}");
    }
    let again = refusal(folder.path(), words);
    assert!(again.contains("moon/README.md exists already"), "{again}");
    for (words, expected) in [
        ("new extension Moon --kind Worker", "choose a name like provider-moon"),
        (
            "new extension x --kind Worker --sdk /",
            "name the folder that `git clone` has made",
        ),
        ("new extension x --kind Worker --type local", "choose another type"),
    ] {
        let error = refusal(folder.path(), words);
        assert!(error.contains(expected), "{error}");
    }
}
