//! A chart: its files by their purpose, and the charts in it. `pkg/chart/v2/loader` of Helm 4.1.

mod archive;
mod folder;
mod ignore;
mod installable;
mod metadata;
mod pack;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base_yaml::go::{self, DuplicateKeys, GoYamlError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use archive::{ArchiveError, CHART_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, files_of_archive};
use archive::{Budget, files_within};
pub(crate) use base_version::is_compatible;
pub use folder::{FolderError, files_of_folder};
pub use ignore::IgnoreError;
pub use installable::NotInstallable;
pub use metadata::{Dependency, FieldError, Maintainer, Metadata, ValidationError};
pub use pack::archive_of_files;

use crate::values::{Values, ValuesError, bytes_of, bytes_of_value, load_values};

/// How deep charts may nest. Helm has no limit.
const CHART_DEPTH_MAX: usize = 16;
/// The longest chart in base64: an object of Kubernetes can hold far less.
const BASE64_CHARACTERS_MAX: usize = 32 << 20;
const API_VERSION_V1: &str = "v1";

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path relative to the chart's folder, with slashes
    pub name: String,
    /// What it holds, without a byte order mark
    pub data: Arc<[u8]>,
}

/// A chart with the charts in its `charts/`, those that are disabled included. Clones share all that is large: one chart may
/// have many aliases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Chart.yaml
    pub metadata: Metadata,
    /// Chart.lock, whose fields are not interpreted
    pub lock: Option<Arc<serde_json::Value>>,
    /// values.yaml
    pub values: Arc<Values>,
    /// values.schema.json as it is
    pub schema: Option<Arc<[u8]>>,
    /// All below `templates/`
    pub templates: Arc<Vec<File>>,
    /// All other files, which templates see as `.Files`
    pub files: Arc<Vec<File>>,
    /// The charts in it, by the names of their folders or archives
    pub dependencies: Vec<Chart>,
    /// About how much `metadata` takes
    metadata_bytes: usize,
}

/// Why a chart cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// It is no archive of a chart.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It is no folder of a chart.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It is no base64, or too much of it.
    #[error("the chart is not base64 of at most {BASE64_CHARACTERS_MAX} characters: {0}")]
    Base64(String),
    /// There is no Chart.yaml.
    #[error("Chart.yaml file is missing")]
    NoChartYaml,
    /// A file is no YAML.
    #[error("cannot load {file}: {why}")]
    Yaml {
        /// Which
        file: &'static str,
        /// What is wrong in it
        why: GoYamlError,
    },
    /// A file has a field of a wrong type.
    #[error("cannot load {file}: {why}")]
    Field {
        /// Which
        file: &'static str,
        /// What is wrong in it
        why: FieldError,
    },
    /// values.yaml is invalid.
    #[error("cannot load values.yaml: {0}")]
    Values(#[from] ValuesError),
    /// Chart.yaml is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// A chart in `charts/` cannot be read.
    #[error("error unpacking subchart {file} in {chart}: {why}")]
    Subchart {
        /// Its folder or archive
        file: String,
        /// The chart it lies in
        chart: String,
        /// What is wrong with it
        why: Box<ChartError>,
    },
    /// What is named like an archive in `charts/` is a folder.
    #[error("error unpacking subchart tar in {chart}: expected {wanted}, got {found}")]
    SubchartFolder {
        /// The chart it lies in
        chart: String,
        /// Its name
        wanted: String,
        /// A file in it
        found: String,
    },
    /// Charts nest too deep.
    #[error("charts lie more than {CHART_DEPTH_MAX} deep in each other")]
    TooDeep,
}

impl Chart {
    /// From a gzipped tar.
    ///
    /// # Errors
    /// What Helm refuses, and what is larger than the limits allow.
    pub fn from_archive(archive: &[u8]) -> Result<Self, ChartError> {
        let mut budget = Budget::default();
        let files = files_within(archive, &mut budget)?;
        Self::from_files_at(files, 0, &mut budget)
    }

    /// From a gzipped tar in base64, as in the `helm.rawChart` of a ControllerDeployment.
    ///
    /// # Errors
    /// As [`Self::from_archive`], and what is no base64.
    pub fn from_base64(text: &str) -> Result<Self, ChartError> {
        if text.len() > BASE64_CHARACTERS_MAX {
            return Err(ChartError::Base64(format!("{} characters", text.len())));
        }
        let archive = STANDARD
            .decode(text.trim())
            .map_err(|error| ChartError::Base64(error.to_string()))?;
        Self::from_archive(&archive)
    }

    /// From a folder, without what its `.helmignore` names.
    ///
    /// # Errors
    /// What Helm refuses, and what is larger than the limits allow.
    pub fn from_folder(folder: &Path) -> Result<Self, ChartError> {
        Self::from_files(files_of_folder(folder)?)
    }

    /// From its files.
    ///
    /// # Errors
    /// What Helm refuses.
    pub fn from_files(files: Vec<File>) -> Result<Self, ChartError> {
        Self::from_files_at(files, 0, &mut Budget::default())
    }

    fn from_files_at(files: Vec<File>, depth: usize, budget: &mut Budget) -> Result<Self, ChartError> {
        if depth > CHART_DEPTH_MAX {
            return Err(ChartError::TooDeep);
        }
        let mut chart = Self::default();
        let described = files.iter().rfind(|file| file.name == "Chart.yaml");
        if let Some(file) = described {
            chart.describe("Chart.yaml", &file.data)?;
            if chart.metadata.api_version.is_empty() {
                API_VERSION_V1.clone_into(&mut chart.metadata.api_version);
            }
        }
        let mut described = described.is_some();
        let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
        for file in files {
            described |= matches!(file.name.as_str(), "requirements.yaml" | "requirements.lock");
            if let Some(inner) = file
                .name
                .strip_prefix("charts/")
                .filter(|name| !name.ends_with(".prov"))
            {
                let (folder, _) = inner.split_once('/').unwrap_or((inner, ""));
                let inner = File {
                    name: inner.to_owned(),
                    data: file.data,
                };
                subcharts.entry(folder.to_owned()).or_default().push(inner);
            } else {
                chart.add(file)?;
            }
        }
        if !described {
            return Err(ChartError::NoChartYaml);
        }
        chart.metadata.validate()?;
        for (name, files) in subcharts {
            if !name.starts_with(['_', '.']) {
                chart.add_subchart(name, files, depth, budget)?;
            }
        }
        Ok(chart)
    }

    fn describe(&mut self, file: &'static str, data: &[u8]) -> Result<(), ChartError> {
        let value = go::read_exact(data, DuplicateKeys::Allowed).map_err(|why| ChartError::Yaml { file, why })?;
        self.metadata_bytes = self.metadata_bytes.saturating_add(bytes_of_value(&value));
        self.metadata
            .apply(&value)
            .map_err(|why| ChartError::Field { file, why })
    }

    fn add(&mut self, file: File) -> Result<(), ChartError> {
        let is_v1 = self.metadata.api_version == API_VERSION_V1;
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => self.lock("Chart.lock", &file.data)?,
            "values.yaml" => self.values = Arc::new(load_values(&file.data)?),
            "values.schema.json" => self.schema = Some(file.data),
            "requirements.yaml" => {
                self.describe("requirements.yaml", &file.data)?;
                if self.metadata.api_version == API_VERSION_V1 {
                    Arc::make_mut(&mut self.files).push(file);
                }
            }
            "requirements.lock" => {
                self.lock("requirements.lock", &file.data)?;
                if is_v1 {
                    Arc::make_mut(&mut self.files).push(file);
                }
            }
            name if name.starts_with("templates/") => Arc::make_mut(&mut self.templates).push(file),
            _ => Arc::make_mut(&mut self.files).push(file),
        }
        Ok(())
    }

    fn lock(&mut self, file: &'static str, data: &[u8]) -> Result<(), ChartError> {
        let lock = go::read_map(data).map_err(|why| ChartError::Yaml { file, why })?;
        self.lock = Some(Arc::new(lock.into()));
        Ok(())
    }

    fn add_subchart(
        &mut self,
        name: String,
        files: Vec<File>,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<(), ChartError> {
        let is_archive = name.rsplit_once('.').is_some_and(|(_, extension)| extension == "tgz");
        let loaded = if is_archive {
            let Some(file) = files.into_iter().next() else {
                return Ok(());
            };
            if file.name != name {
                let chart = self.metadata.name.clone();
                return Err(ChartError::SubchartFolder {
                    chart,
                    wanted: name,
                    found: file.name,
                });
            }
            files_within(&file.data, budget)
                .map_err(ChartError::from)
                .and_then(|files| Self::from_files_at(files, depth + 1, budget))
        } else {
            let inner = files.into_iter().filter_map(|file| {
                let (_, name) = file.name.split_once('/')?;
                Some(File {
                    name: name.to_owned(),
                    data: file.data,
                })
            });
            Self::from_files_at(inner.collect(), depth + 1, budget)
        };
        let chart = loaded.map_err(|why| ChartError::Subchart {
            file: name,
            chart: self.metadata.name.clone(),
            why: Box::new(why),
        })?;
        self.dependencies.push(chart);
        Ok(())
    }

    /// How many charts there are: it and those in it.
    pub(crate) fn count(&self) -> usize {
        1 + self.dependencies.iter().map(Self::count).sum::<usize>()
    }

    /// About how many bytes a copy takes when it is rendered, without what clones share.
    pub(crate) fn copied_bytes(&self) -> usize {
        let files = self.templates.iter().chain(self.own_crds());
        let files = files.map(|file| file.name.len() + file.data.len());
        let inner = self.dependencies.iter().map(Self::copied_bytes);
        let own = [self.metadata_bytes, bytes_of(&self.values)];
        own.into_iter().chain(files).chain(inner).fold(0, usize::saturating_add)
    }

    /// The files below `crds/` that hold objects, those of the charts in it last.
    pub fn crds(&self) -> Vec<&File> {
        let inner = self.dependencies.iter().flat_map(Self::crds);
        self.own_crds().chain(inner).collect()
    }

    /// The files below `crds/` that hold objects.
    pub fn own_crds(&self) -> impl Iterator<Item = &File> {
        let is_manifest = |file: &&File| {
            let extension = file.name.rsplit_once('.').map_or("", |(_, extension)| extension);
            let known = ["yaml", "yml", "json"];
            file.name.starts_with("crds/") && known.iter().any(|known| extension.eq_ignore_ascii_case(known))
        };
        self.files.iter().filter(is_manifest)
    }
}

#[cfg(test)]
mod tests;
