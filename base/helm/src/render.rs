//! What an engine needs to render a chart: every template with its name, and what it sees. `pkg/engine` (`recAllTpls`,
//! `sortTemplates`) and `pkg/chart` (`MetadataAsMap`) of Helm 4.1. It runs no template itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::Chart;
use crate::chart::{Dependency, File, Metadata};
use crate::values::{Values, table_at};

/// What templates see of a release: `.Release`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// `.Release.Name`
    pub name: String,
    /// `.Release.Namespace`
    pub namespace: String,
    /// `.Release.Revision`, from 1 on
    pub revision: i64,
    /// `.Release.IsUpgrade`; otherwise it is an installation
    pub is_upgrade: bool,
}

impl Release {
    /// As templates see it.
    pub fn as_value(&self) -> Value {
        json!({
            "Name": self.name,
            "Namespace": self.namespace,
            "IsUpgrade": self.is_upgrade,
            "IsInstall": !self.is_upgrade,
            "Revision": self.revision,
            "Service": "Helm",
        })
    }
}

/// What all templates of a chart see, beside `.Release`, `.Capabilities` and `.Template`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope<'c> {
    /// `.Chart`
    pub chart: Map<String, Value>,
    /// The scope and the key in its values where `.Values` are; none for the chart itself
    pub inside: Option<(usize, String)>,
    /// `.Files`
    pub files: &'c Arc<Vec<File>>,
    /// `.Subcharts`: names, and places in [`Rendering::scopes`]
    pub subcharts: BTreeMap<String, usize>,
}

/// A template of a chart or of a chart in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template<'c> {
    /// `.Template.Name`: the chart's path with the template's in it
    pub name: String,
    /// `.Template.BasePath`
    pub base_path: String,
    /// Its text, which need not be UTF-8
    pub text: &'c Arc<[u8]>,
    /// The place of what it sees in [`Rendering::scopes`]
    pub scope: usize,
}

impl Template<'_> {
    /// Whether it is only there to be included by others: it renders nothing.
    pub fn is_partial(&self) -> bool {
        self.name.rsplit('/').next().is_some_and(|base| base.starts_with('_'))
    }
}

/// All templates of a chart, in the order in which they are read and executed: those that lie deeper first, so that the
/// definitions of a parent win.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering<'c> {
    /// The chart's values with those of the charts in it
    pub values: Values,
    /// What templates see; the chart itself is the first
    pub scopes: Vec<Scope<'c>>,
    /// The templates
    pub templates: Vec<Template<'c>>,
}

impl<'c> Rendering<'c> {
    /// Begins with a chart whose dependencies have been processed, and all its values.
    pub fn of(chart: &'c Chart, values: Values) -> Self {
        let mut rendering = Self {
            values,
            ..Self::default()
        };
        let path = chart.metadata.name.clone();
        rendering.add(chart, None, &path);
        let depth = |name: &str| name.matches('/').count();
        rendering
            .templates
            .sort_by(|a, b| (depth(&b.name), &b.name).cmp(&(depth(&a.name), &a.name)));
        // The later of two with one name is retained; the sort is stable and has left it behind the earlier.
        rendering.templates.reverse();
        rendering.templates.dedup_by(|later, last| later.name == last.name);
        rendering.templates.reverse();
        rendering
    }

    /// `.Values` of a scope.
    pub fn values_of(&self, scope: usize) -> Values {
        let Some((parent, name)) = &self.scopes[scope].inside else {
            return self.values.clone();
        };
        // Helm takes a name with points in it for a path, which usually finds nothing.
        let around = self.values_of(*parent);
        table_at(&around, name).cloned().unwrap_or_default()
    }

    fn add(&mut self, chart: &'c Chart, inside: Option<(usize, String)>, path: &str) -> usize {
        let place = self.scopes.len();
        self.scopes.push(Scope {
            chart: metadata_as_map(&chart.metadata, inside.is_none()),
            inside,
            files: &chart.files,
            subcharts: BTreeMap::new(),
        });
        for inner in &chart.dependencies {
            let name = &inner.metadata.name;
            let scope = self.add(inner, Some((place, name.clone())), &format!("{path}/charts/{name}"));
            self.scopes[place].subcharts.insert(name.clone(), scope);
        }
        let is_library = chart.metadata.chart_type.eq_ignore_ascii_case("library");
        for file in &*chart.templates {
            let template = Template {
                name: format!("{path}/{}", file.name),
                base_path: format!("{path}/templates"),
                text: &file.data,
                scope: place,
            };
            if !is_library || template.is_partial() {
                self.templates.push(template);
            }
        }
        place
    }
}

/// `.Chart`: Chart.yaml by the names that its fields have in Go.
fn metadata_as_map(of: &Metadata, is_root: bool) -> Map<String, Value> {
    let maintainers = of.maintainers.iter().flatten();
    let maintainers = maintainers.map(|one| json!({"Name": one.name, "Email": one.email, "URL": one.url}));
    let dependencies = of.dependencies.iter().flatten().map(dependency_as_value);
    let fields = [
        ("Name", json!(of.name)),
        ("Home", json!(of.home)),
        ("Sources", json!(of.sources)),
        ("Version", json!(of.version)),
        ("Description", json!(of.description)),
        ("Keywords", json!(of.keywords)),
        ("Maintainers", maintainers.collect()),
        ("Icon", json!(of.icon)),
        ("APIVersion", json!(of.api_version)),
        ("Condition", json!(of.condition)),
        ("Tags", json!(of.tags)),
        ("AppVersion", json!(of.app_version)),
        ("Deprecated", json!(of.deprecated)),
        ("Annotations", json!(of.annotations)),
        ("KubeVersion", json!(of.kube_version)),
        ("Dependencies", dependencies.collect()),
        ("Type", json!(of.chart_type)),
        ("IsRoot", json!(is_root)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn dependency_as_value(of: &Dependency) -> Value {
    json!({
        "Name": of.name,
        "Version": of.version,
        "Repository": of.repository,
        "Condition": of.condition,
        "Tags": of.tags,
        "Enabled": of.enabled,
        "ImportValues": of.import_values,
        "Alias": of.alias,
    })
}
