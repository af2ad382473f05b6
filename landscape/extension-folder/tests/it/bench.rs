//! The folder of an extension that a shell builds: `program` is a copy of `source`.

use std::fs;
use std::path::{Path, PathBuf};

use landscape_extension_folder::Folder;
use tempfile::TempDir;

/// Builds by copying; a source with `broken` in it does not build.
pub(crate) const COPY: &str =
    "echo compiling; ! grep broken source >&2 && cp source program.new && mv program.new program";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
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
        image: {{ .Values.image }}:{{ .Chart.AppVersion }}
";

const REGISTRATION: &str = "
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: moon}
helm: {ociRepository: {ref: 'registry.example.org/charts/moon:1'}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: moon}
spec:
  deployment:
    deploymentRefs: [{name: moon}]
  resources: [{kind: Extension, type: moon}]
";

/// An extension's folder.
pub(crate) struct Bench(TempDir);

impl Bench {
    pub(crate) fn new(build: &str) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write("source", "one");
        let settings = serde_json::json!({"build": ["sh", "-c", build], "program": "program", "watch": ["source"]});
        bench.write("orangery-extension.yaml", &settings.to_string());
        bench.write("registration.yaml", REGISTRATION);
        bench.write(
            "chart/Chart.yaml",
            "apiVersion: v2\nname: moon\nversion: 1.0.0\nappVersion: v1\n",
        );
        bench.write("chart/values.yaml", "image: registry.example.org/moon\n");
        bench.write("chart/templates/deployment.yaml", DEPLOYMENT);
        bench
    }

    /// One that is a crate.
    pub(crate) fn of_crate() -> Self {
        let bench = Self::new(COPY);
        fs::remove_file(bench.path().join("orangery-extension.yaml")).unwrap();
        let manifest = "[package]\nname = \"moon\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        bench.write("Cargo.toml", manifest);
        bench.write("src/main.rs", "fn main() {}");
        bench
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Replaces a file by another of its name, as editors do.
    pub(crate) fn replace(&self, path: &str, text: &str) {
        let new = self.write(".new", text);
        fs::rename(new, self.path().join(path)).unwrap();
    }

    /// Changes the file orangery-extension.yaml.
    pub(crate) fn settings(&self, change: impl FnOnce(&mut serde_json::Value)) {
        let text = fs::read_to_string(self.path().join("orangery-extension.yaml")).unwrap();
        let mut settings = serde_json::from_str(&text).unwrap();
        change(&mut settings);
        self.replace("orangery-extension.yaml", &settings.to_string());
    }

    pub(crate) async fn folder(&self) -> Folder {
        Folder::read(self.path()).await.unwrap()
    }
}
