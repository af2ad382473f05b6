//! Charts that are part of an extension's program, rendered to objects for [`crate::managed`]. Hooks are refused, because no
//! component runs them. It installs nothing and sends no request to a cluster.
//!
//! ```no_run
//! # use api_meta::Fault;
//! # use extensions_sdk::charts::{EmbeddedChart, Target};
//! # use extensions_sdk::managed::ManagedObjects;
//! # use serde_json::json;
//! # fn main() -> Result<(), Fault> {
//! // In an extension: `extensions_sdk::embedded_chart!("charts/csi", "Chart.yaml", "values.yaml", "templates/csi.yaml")?`.
//! let chart = EmbeddedChart::of_files([
//!     ("Chart.yaml", b"apiVersion: v2\nname: csi\nversion: 0.1.0\n".as_slice()),
//!     ("templates/map.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Values.name }}\n".as_slice()),
//! ])?;
//! let target = Target::new("csi", "kube-system").kubernetes("1.33.2");
//! let objects = chart.render(&target, &json!({"name": "csi"}))?;
//! let managed = ManagedObjects::in_shoot("extension-controlplane-csi", "provider-fake").objects(objects)?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_helm::chart::{File, files_of_folder};
use base_helm::engine::{Capabilities, KubeVersion};
use base_helm::lint::{self, Severity};
use base_helm::render::Release;
use base_helm::{Chart, Engine, Setting};
use serde::Serialize;
use serde_json::Value;

/// Complaints about a chart that are reported; more would hide the first.
const FINDINGS_MAX: usize = 3;
/// What is done about a chart that does not work.
const HINT: &str =
    "correct the chart of the extension, or the values that it is given; `orangery chart lint` shows more";

/// A chart of this program. Its templates are compiled once, however often it is rendered.
#[derive(Debug)]
pub struct EmbeddedChart {
    chart: Chart,
    engine: Engine,
    /// Names of the files that it was made of.
    files: Vec<String>,
}

/// What a chart is rendered for.
#[derive(Clone, Debug, Default)]
pub struct Target<'t> {
    release: &'t str,
    namespace: &'t str,
    kubernetes: Option<&'t str>,
    api_versions: &'t [String],
}

impl<'t> Target<'t> {
    /// `.Release.Name` and `.Release.Namespace`; the namespace is not put into objects.
    #[must_use]
    pub fn new(release: &'t str, namespace: &'t str) -> Self {
        Self {
            release,
            namespace,
            ..Self::default()
        }
    }

    /// `.Capabilities.KubeVersion`, with or without a `v`; by default what Helm assumes without a cluster.
    #[must_use]
    pub fn kubernetes(self, version: &'t str) -> Self {
        let kubernetes = Some(version);
        Self { kubernetes, ..self }
    }

    /// `.Capabilities.APIVersions`, beside those of Kubernetes itself.
    #[must_use]
    pub fn api_versions(self, api_versions: &'t [String]) -> Self {
        Self { api_versions, ..self }
    }
}

impl EmbeddedChart {
    /// From files by their paths in the chart's folder, such as `Chart.yaml`. See [`crate::embedded_chart!`].
    ///
    /// # Errors
    /// A bug of the extension: they are no chart.
    pub fn of_files<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Result<Self, Fault> {
        let files: Vec<File> = files
            .into_iter()
            .map(|(name, data)| File {
                name: name.to_owned(),
                data: data.into(),
            })
            .collect();
        let names = files.iter().map(|file| file.name.clone()).collect();
        Ok(Self {
            chart: Chart::from_files(files).map_err(no_chart)?,
            engine: Engine::default(),
            files: names,
        })
    }

    /// From a packed chart (`.tgz`).
    ///
    /// # Errors
    /// As [`EmbeddedChart::of_files`].
    pub fn of_archive(archive: &[u8]) -> Result<Self, Fault> {
        Ok(Self {
            chart: Chart::from_archive(archive).map_err(no_chart)?,
            engine: Engine::default(),
            files: Vec::new(),
        })
    }

    /// As it is, but that templates see the time of `clock` and draw from `entropy`: [`crate::Context`] has both.
    #[must_use]
    pub fn with(self, clock: Clock, entropy: Entropy) -> Self {
        Self {
            engine: self.engine.with_clock(clock).with_entropy(entropy),
            ..self
        }
    }

    /// Verifies that all files of the folder are in the program: a template that was forgotten renders nothing. For a test of
    /// the extension.
    ///
    /// # Errors
    /// A bug of the extension that names what is missing.
    pub fn check_complete(&self, folder: &Path) -> Result<(), Fault> {
        let there = files_of_folder(folder).map_err(Fault::bug)?;
        let missing = there.iter().map(|file| file.name.as_str());
        let missing: Vec<&str> = missing
            .filter(|name| self.files.iter().all(|known| known != name))
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let why = format!(
                    "the program lacks files of {}: {}",
                    folder.display(),
                    missing.join(", ")
                );
                Err(Fault::bug(why).hint("add them to embedded_chart!, or to .helmignore"))
            }
        }
    }

    /// Renders the chart to objects, those below `crds/` first. `values` come before those of `values.yaml`.
    ///
    /// # Errors
    /// A bug of the extension: values that are no object, a template that fails, what is no object, a hook. A user fault for a
    /// version that is none.
    pub fn render<T: Serialize + ?Sized>(&self, target: &Target<'_>, values: &T) -> Result<Vec<Value>, Fault> {
        let name = &self.chart.metadata.name;
        let wrong = |why: String| Fault::bug(format!("chart {name}: {why}")).hint(HINT);
        let values = match serde_json::to_value(values).map_err(Fault::bug)? {
            Value::Object(values) => values,
            other => return Err(wrong(format!("its values are no object, but {other}"))),
        };
        let setting = setting(target)?;
        let rendered = self.engine.render(&self.chart, &values, &setting);
        let rendered = rendered.map_err(|error| wrong(error.to_string()))?;
        let (made, findings) = lint::objects(&rendered);
        let is_hook = |finding: &lint::Finding| finding.message.starts_with("is a hook");
        let refused = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error || is_hook(finding));
        let refused: Vec<String> = refused
            .take(FINDINGS_MAX)
            .map(|finding| {
                let object = finding.object.as_deref().unwrap_or_default();
                format!("{}: {object} {}", finding.file, finding.message)
            })
            .collect();
        match refused.is_empty() {
            true => Ok(made.into_iter().map(|made| made.value).collect()),
            false => Err(wrong(refused.join("; "))),
        }
    }
}

fn setting(target: &Target<'_>) -> Result<Setting, Fault> {
    let mut capabilities = Capabilities::default();
    if let Some(version) = target.kubernetes {
        capabilities.kube_version = KubeVersion::read(version)
            .map_err(|error| Fault::user(error.to_string()).hint("write the version as in 1.33.2"))?;
    }
    capabilities.api_versions.extend(target.api_versions.iter().cloned());
    Ok(Setting {
        release: Release {
            name: target.release.to_owned(),
            namespace: target.namespace.to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities,
    })
}

fn no_chart(error: base_helm::ChartError) -> Fault {
    Fault::bug(format!("a chart of the program is none: {error}")).hint(HINT)
}

/// A chart from a folder of the crate, put into the program when it is compiled: the folder relative to the crate's root, and
/// all files in it that count. [`EmbeddedChart::check_complete`] finds what was forgotten.
///
/// Gives a `Result<EmbeddedChart, Fault>`.
#[macro_export]
macro_rules! embedded_chart {
    ($folder:literal, $($file:literal),+ $(,)?) => {
        $crate::charts::EmbeddedChart::of_files([$((
            $file,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $file)).as_slice(),
        )),+])
    };
}

#[cfg(test)]
mod tests {
    use api_meta::FaultClass;
    use serde_json::json;

    use super::*;

    const CHART: &str = "apiVersion: v2\nname: csi\nversion: 0.1.0\n";
    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Values.name }}\n  \
                       namespace: {{ .Release.Namespace }}\ndata:\n  version: {{ .Capabilities.KubeVersion.Version }}\n";

    fn chart(template: &str) -> EmbeddedChart {
        EmbeddedChart::of_files([
            ("Chart.yaml", CHART.as_bytes()),
            ("values.yaml", b"name: by-default\n".as_slice()),
            ("templates/map.yaml", template.as_bytes()),
        ])
        .unwrap()
    }

    #[test]
    fn a_chart_is_rendered_with_values_release_and_version() {
        let target = Target::new("csi", "kube-system").kubernetes("1.33.2");
        let render = |values: Value| chart(MAP).render(&target, &values).unwrap();
        let objects = render(json!({"name": "a"}));
        assert_eq!(objects.len(), 1);
        assert_eq!(objects[0]["metadata"], json!({"name": "a", "namespace": "kube-system"}));
        assert_eq!(objects[0]["data"]["version"], "v1.33.2");
        assert_eq!(render(json!({}))[0]["metadata"]["name"], "by-default");
    }

    #[test]
    fn what_is_no_object_and_a_hook_are_refused_with_the_file() {
        let refused = |template: &str, values: Value| {
            let fault = chart(template).render(&Target::new("a", "b"), &values).unwrap_err();
            assert_eq!(fault.class, FaultClass::Bug);
            fault.to_string()
        };
        let nameless = refused("apiVersion: v1\nkind: ConfigMap\n", json!({}));
        assert!(nameless.starts_with("chart csi: csi/templates/map.yaml:"), "{nameless}");
        let hook = MAP.replace("metadata:\n", "metadata:\n  annotations: {helm.sh/hook: pre-install}\n");
        assert!(refused(&hook, json!({})).contains("is a hook"));
        assert!(refused("{{ fail \"too small\" }}", json!({})).contains("too small"));
        assert!(refused(MAP, json!([])).contains("its values are no object"));
        let version = chart(MAP).render(&Target::new("a", "b").kubernetes("newest"), &json!({}));
        assert_eq!(version.unwrap_err().class, FaultClass::User);
    }

    #[test]
    fn a_file_of_the_folder_that_is_not_in_the_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Chart.yaml"), CHART).unwrap();
        std::fs::create_dir(folder.path().join("templates")).unwrap();
        std::fs::write(folder.path().join("templates/map.yaml"), MAP).unwrap();
        chart(MAP).check_complete(folder.path()).unwrap();
        std::fs::write(folder.path().join("templates/other.yaml"), MAP).unwrap();
        let fault = chart(MAP).check_complete(folder.path()).unwrap_err();
        assert!(fault.to_string().ends_with(": templates/other.yaml"), "{fault}");
    }

    #[test]
    fn files_that_are_no_chart_are_refused() {
        let fault = EmbeddedChart::of_files([("values.yaml", b"a: 1".as_slice())]).unwrap_err();
        assert!(fault.to_string().contains("Chart.yaml"), "{fault}");
        assert!(EmbeddedChart::of_archive(b"no archive").is_err());
    }
}
