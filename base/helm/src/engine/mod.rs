//! Renders charts: their templates are compiled once and executed often, with the objects that Helm 4.1 passes to them and
//! with Helm's error messages. It sends no request to a cluster or a registry.

mod cache;
mod capabilities;
mod files;
mod glob;
mod message;
mod objects;
mod schema;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use base_clock::{Clock, Entropy};
use base_gotemplate::{
    Context, Error, Functions, Host, LimitError, Limits, Lookup, MissingKey, Set, Shared, without_no_value,
};
use jiff::tz::TimeZone;

use cache::Cache;
pub use capabilities::{API_VERSIONS, Capabilities, KubeVersion, KubeVersionError};
use objects::Objects;
pub use schema::SchemaError;
use schema::Schemas;

use crate::chart::is_compatible;
use crate::manifest::text_of_manifest;
use crate::render::{Release, Rendering};
use crate::values::{CoalesceError, Values, coalesce_values};
use crate::{Chart, DependencyError, ManifestError, Sorted, process_dependencies, sort_manifests};

/// The name that Go's errors give the set of templates.
const NAME: &str = "gotpl";
/// Notes for the user, which are no manifests.
const NOTES_FILE: &str = "NOTES.txt";

/// Renders charts, several at once if need be. Compiled templates are cached, whatever the values.
#[derive(Debug)]
pub struct Engine {
    functions: Arc<Functions>,
    limits: Limits,
    /// For `randAlphaNum`, `uuidv4` and the like
    entropy: Entropy,
    /// For `now` and the like
    clock: Clock,
    /// The zone in which `date` prints times
    zone: TimeZone,
    compiled: Cache<Compiled>,
    schemas: Schemas,
}

/// The templates of a chart.
#[derive(Debug)]
struct Compiled {
    /// Names and texts, the key in the cache
    sources: Vec<(String, Arc<[u8]>)>,
    set: Arc<Set>,
}

/// The release and the cluster that a chart is rendered for.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// `.Release`
    pub release: Release,
    /// `.Capabilities`
    pub capabilities: Capabilities,
}

/// Why a chart cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// Its dependencies cannot be processed.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(DependencyError),
    /// Its values cannot be combined.
    #[error(transparent)]
    Values(CoalesceError),
    /// They do not match a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It is for other versions of Kubernetes.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
    KubeVersion {
        /// The constraint of Chart.yaml
        wanted: String,
        /// The cluster's version
        found: String,
    },
    /// A template cannot be read, or fails: Helm's message, with file, line and column.
    #[error("{0}")]
    Template(String),
    /// Templates take more than is allowed.
    #[error("{file}: {limit}")]
    Limit {
        /// The template that was run
        file: String,
        /// The limit
        limit: LimitError,
    },
    /// A template makes no object.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// What a chart is rendered to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text of each template by its name, without notes
    pub texts: BTreeMap<String, String>,
    /// The chart's notes for the user; those of charts in it are left out
    pub notes: String,
    /// The objects and hooks in order
    pub sorted: Sorted,
    /// Paths and texts of the files below `crds/`: the chart's first, then those of charts in it
    pub crds: Vec<(String, String)>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Engine {
    /// An engine with limits on the steps and bytes of all templates of a chart together.
    pub fn new(limits: Limits) -> Self {
        Self {
            functions: functions(),
            limits,
            entropy: Entropy::os(),
            clock: Clock::real(),
            zone: TimeZone::UTC,
            compiled: Cache::default(),
            schemas: Schemas::default(),
        }
    }

    /// Sets where random values in charts come from: with a seeded `entropy` a chart renders alike each time.
    #[must_use]
    pub fn with_entropy(self, entropy: Entropy) -> Self {
        Self { entropy, ..self }
    }

    /// Sets the clock of charts.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets Go's `time.Local`, the zone in which `date` prints times. The default is UTC, so that a chart renders alike on
    /// every machine; Helm takes the machine's zone.
    #[must_use]
    pub fn with_zone(self, zone: TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// Renders `chart` with the user's values: `helm template`.
    ///
    /// # Errors
    /// What [`RenderError`] lists.
    pub fn render(&self, chart: &Chart, values: &Values, setting: &Setting) -> Result<Rendered, RenderError> {
        self.render_with(chart, values, setting, None)
    }

    /// The same with a cluster for `lookup`.
    pub(crate) fn render_with(
        &self,
        chart: &Chart,
        values: &Values,
        setting: &Setting,
        cluster: Option<Box<dyn Lookup>>,
    ) -> Result<Rendered, RenderError> {
        let mut chart = chart.clone();
        process_dependencies(&mut chart, values).map_err(RenderError::Dependencies)?;
        let values = coalesce_values(&chart, values).map_err(RenderError::Values)?;
        self.schemas.check(&chart, &values)?;
        let version = &setting.capabilities.kube_version;
        let wanted = &chart.metadata.kube_version;
        if !wanted.is_empty() && !is_compatible(wanted, version.numbers()) {
            return Err(RenderError::KubeVersion {
                wanted: wanted.clone(),
                found: version.version().to_owned(),
            });
        }
        let mut texts = self.execute(&Rendering::of(&chart, values), setting, cluster)?;
        let notes = texts.remove(&format!("{}/templates/{NOTES_FILE}", chart.metadata.name));
        texts.retain(|name, _| !name.ends_with(NOTES_FILE));
        Ok(Rendered {
            sorted: sort_manifests(&texts)?,
            notes: notes.unwrap_or_default(),
            texts,
            crds: crds(&chart, &chart.metadata.name),
        })
    }

    /// The text of each template, by its name.
    fn execute(
        &self,
        rendering: &Rendering<'_>,
        setting: &Setting,
        cluster: Option<Box<dyn Lookup>>,
    ) -> Result<BTreeMap<String, String>, RenderError> {
        let is_wanted = |compiled: &Compiled| compiled.is_of(rendering);
        let make = || Compiled::new(rendering, &self.functions);
        let compiled = self.compiled.find_or_make(is_wanted, make)?;
        let objects = Objects::new(rendering, setting);
        let mut limits = self.limits.clone();
        let mut host = Host {
            lookup: cluster,
            entropy: Some(self.entropy.clone()),
            clock: Some(self.clock.clone()),
            zone: Some(self.zone.clone()),
            ..Host::default()
        };
        let shared = Shared::default();
        let mut texts = BTreeMap::new();
        for template in rendering.templates.iter().filter(|template| !template.is_partial()) {
            let mut context = Context {
                limits: limits.clone(),
                host: &mut host,
            };
            let data = objects.of(template);
            let made = compiled.set.render_among(&template.name, data, &mut context, &shared);
            let text = made.map_err(|error| failed(&template.name, error))?;
            limits.output_bytes_max = limits.output_bytes_max.saturating_sub(text.len());
            let text = without_no_value(text);
            let text = if template.name.ends_with(NOTES_FILE) {
                String::from_utf8_lossy(&text).into_owned()
            } else {
                text_of_manifest(&template.name, text)?
            };
            texts.insert(template.name.clone(), text);
        }
        Ok(texts)
    }
}

impl Compiled {
    fn new(rendering: &Rendering<'_>, functions: &Arc<Functions>) -> Result<Self, RenderError> {
        let mut set = Set::new(NAME, Arc::clone(functions), MissingKey::Zero);
        for template in &rendering.templates {
            set.parse(&template.name, template.text)
                .map_err(|error| failed(&template.name, error))?;
        }
        let sources = rendering.templates.iter();
        Ok(Self {
            sources: sources
                .map(|template| (template.name.clone(), Arc::clone(template.text)))
                .collect(),
            set: Arc::new(set),
        })
    }

    fn is_of(&self, rendering: &Rendering<'_>) -> bool {
        let sources = rendering.templates.iter();
        let sources = sources.map(|template| (template.name.as_str(), template.text));
        sources.eq(self.sources.iter().map(|(name, text)| (name.as_str(), text)))
    }
}

/// The functions of templates, shared by all engines.
fn functions() -> Arc<Functions> {
    static ALL: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new().with_sprig().with_helm()));
    Arc::clone(&ALL)
}

/// Definitions with their paths: `CRDObjects` of Helm.
fn crds(chart: &Chart, path: &str) -> Vec<(String, String)> {
    let own = chart.own_crds();
    let own = own.map(|file| {
        (
            format!("{path}/{}", file.name),
            String::from_utf8_lossy(&file.data).into_owned(),
        )
    });
    let inner = chart
        .dependencies
        .iter()
        .flat_map(|inner| crds(inner, &format!("{path}/charts/{}", inner.metadata.name)));
    own.chain(inner).collect()
}

fn failed(file: &str, error: Error) -> RenderError {
    match error {
        Error::Parse(why) => RenderError::Template(message::of_parsing(file, &why)),
        Error::Exec(why) => RenderError::Template(message::of_executing(file, &why)),
        Error::Limit { limit, .. } => RenderError::Limit {
            file: file.to_owned(),
            limit,
        },
    }
}

impl Rendered {
    /// What `helm template` prints: objects in install order, then hooks; with `with_crds` definitions before them.
    pub fn manifest(&self, with_crds: bool) -> String {
        let mut manifest = String::new();
        let mut add = |path: &str, content: &str| {
            for part in ["---\n# Source: ", path, "\n", content, "\n"] {
                manifest.push_str(part);
            }
        };
        for (path, content) in self.crds.iter().filter(|_| with_crds) {
            add(path, content);
        }
        for object in &self.sorted.manifests {
            add(&object.path, &object.content);
        }
        let mut manifest = format!("{}\n", manifest.trim());
        for hook in &self.sorted.hooks {
            manifest += &format!("---\n# Source: {}\n{}\n", hook.manifest.path, hook.manifest.content);
        }
        manifest
    }
}

#[cfg(test)]
mod tests;
