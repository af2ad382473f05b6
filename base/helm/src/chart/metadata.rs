//! The fields of Chart.yaml, and their validation: `pkg/chart/v2` of Helm 4.1.

use std::collections::{BTreeMap, BTreeSet};

use base_yaml::go;
use serde_json::{Map, Value};

/// Chart.yaml, or what requirements.yaml adds to it.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "Chart.yaml's documentation says what they are")]
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Option<Maintainer>>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    /// None if the field is missing, which templates see as null
    pub annotations: Option<BTreeMap<String, String>>,
    pub kube_version: String,
    pub dependencies: Vec<Option<Dependency>>,
    /// `application`, `library` or empty
    pub chart_type: String,
}

/// A maintainer of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "Chart.yaml's documentation says what they are")]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// A chart that another one depends on.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "Chart.yaml's documentation says what they are")]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    pub import_values: Vec<Value>,
    pub alias: String,
}

/// A field has another type than Helm expects: encoding/json's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {into} of type {wanted}")]
pub struct FieldError {
    found: &'static str,
    into: String,
    wanted: &'static str,
}

/// Chart.yaml can be read, but is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct ValidationError(String);

/// An object with its place, for errors.
struct Fields<'v> {
    object: &'v Map<String, Value>,
    place: String,
}

type Read<T = ()> = Result<T, FieldError>;

impl<'v> Fields<'v> {
    fn of(value: &'v Value, place: &str, wanted: &'static str) -> Read<Self> {
        match value {
            Value::Object(object) => Ok(Self {
                object,
                place: place.to_owned(),
            }),
            other => Err(FieldError {
                found: go::json_kind(other),
                into: if place.contains('.') {
                    format!("struct field {place}")
                } else {
                    "value".to_owned()
                },
                wanted,
            }),
        }
    }

    /// Go names the innermost type and the path from the outermost.
    fn named(self, place: &str) -> Self {
        Self {
            place: place.to_owned(),
            ..self
        }
    }

    /// A field by its name, or by one that differs in case, as encoding/json reads it. None if it is null.
    fn get(&self, name: &str) -> Option<&'v Value> {
        let found = self.object.get(name).or_else(|| {
            let mut others = self.object.iter();
            others
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    fn wrong<T>(&self, name: &str, value: &Value, wanted: &'static str) -> Read<T> {
        let into = format!("struct field {}.{name}", self.place);
        Err(FieldError {
            found: go::json_kind(value),
            into,
            wanted,
        })
    }

    fn text(&self, name: &str, to: &mut String) -> Read {
        if let Some(value) = self.get(name) {
            *to = self.as_text(name, value)?;
        }
        Ok(())
    }

    fn as_text(&self, name: &str, value: &Value) -> Read<String> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            other => go::as_text(other).map_or_else(|| self.wrong(name, other, "string"), Ok),
        }
    }

    fn boolean(&self, name: &str, to: &mut bool) -> Read {
        match self.get(name) {
            None => Ok(()),
            Some(Value::Bool(value)) => {
                *to = *value;
                Ok(())
            }
            Some(other) => self.wrong(name, other, "bool"),
        }
    }

    /// A list, each of its items read by `item`.
    fn list<T>(&self, name: &str, wanted: &'static str, to: &mut Vec<T>, item: impl Fn(&'v Value) -> Read<T>) -> Read {
        match self.get(name) {
            None => Ok(()),
            Some(Value::Array(items)) => {
                *to = items.iter().map(item).collect::<Read<_>>()?;
                Ok(())
            }
            Some(other) => self.wrong(name, other, wanted),
        }
    }

    fn texts(&self, name: &str, to: &mut Vec<String>) -> Read {
        self.list(name, "[]string", to, |value| self.as_text(name, value))
    }
}

impl Metadata {
    /// Applies the fields of `value`, read from Chart.yaml or requirements.yaml with whole numbers distinct from floats.
    pub(super) fn apply(&mut self, value: &Value) -> Read {
        if value.is_null() {
            return Ok(());
        }
        let fields = Fields::of(value, "Metadata", "v2.Metadata")?;
        fields.text("name", &mut self.name)?;
        fields.text("home", &mut self.home)?;
        fields.texts("sources", &mut self.sources)?;
        fields.text("version", &mut self.version)?;
        fields.text("description", &mut self.description)?;
        fields.texts("keywords", &mut self.keywords)?;
        fields.list("maintainers", "[]*v2.Maintainer", &mut self.maintainers, maintainer)?;
        fields.text("icon", &mut self.icon)?;
        fields.text("apiVersion", &mut self.api_version)?;
        fields.text("condition", &mut self.condition)?;
        fields.text("tags", &mut self.tags)?;
        fields.text("appVersion", &mut self.app_version)?;
        fields.boolean("deprecated", &mut self.deprecated)?;
        match fields.get("annotations") {
            None => {}
            Some(Value::Object(annotations)) => {
                let known = self.annotations.get_or_insert_default();
                for (key, value) in annotations {
                    let text = fields.as_text("annotations", value)?;
                    known.insert(key.clone(), text);
                }
            }
            Some(other) => return fields.wrong("annotations", other, "map[string]string"),
        }
        fields.text("kubeVersion", &mut self.kube_version)?;
        fields.list("dependencies", "[]*v2.Dependency", &mut self.dependencies, dependency)?;
        fields.text("type", &mut self.chart_type)
    }

    /// Removes characters that do not print, and validates the fields.
    pub(super) fn validate(&mut self) -> Result<(), ValidationError> {
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        for text in texts.into_iter().chain(&mut self.sources).chain(&mut self.keywords) {
            sanitize(text);
        }
        let quoted_name = go::quoted(&self.name);
        let refuse = |problem: String| Err(ValidationError(problem));
        if self.api_version.is_empty() {
            return refuse("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return refuse("chart.metadata.name is required".to_owned());
        }
        if self.name == "." || self.name == ".." {
            return refuse(format!("chart.metadata.name {quoted_name} is not allowed"));
        }
        if self.name.contains('/') && self.name != "/" {
            return refuse(format!("chart.metadata.name {quoted_name} is invalid"));
        }
        if self.version.is_empty() {
            return refuse("chart.metadata.version is required".to_owned());
        }
        if !base_version::is_version(&self.version) {
            let version = go::quoted(&self.version);
            return refuse(format!("chart.metadata.version {version} is invalid"));
        }
        if !["", "application", "library"].contains(&self.chart_type.as_str()) {
            return refuse("chart.metadata.type must be application or library".to_owned());
        }
        for maintainer in &mut self.maintainers {
            let Some(Maintainer { name, email, url }) = maintainer else {
                return refuse("maintainers must not contain empty or null nodes".to_owned());
            };
            [name, email, url].into_iter().for_each(sanitize);
        }
        self.validate_dependencies()
    }

    fn validate_dependencies(&mut self) -> Result<(), ValidationError> {
        let mut names = BTreeSet::new();
        for dependency in &mut self.dependencies {
            let Some(dependency) = dependency else {
                let problem = "dependencies must not contain empty or null nodes";
                return Err(ValidationError(problem.to_owned()));
            };
            let Dependency {
                name,
                version,
                repository,
                condition,
                tags,
                alias,
                ..
            } = dependency;
            [name, version, repository, condition]
                .into_iter()
                .chain(tags)
                .for_each(sanitize);
            let in_alias = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            if !alias.bytes().all(in_alias) {
                let name = go::quoted(&dependency.name);
                let problem = format!("dependency {name} has disallowed characters in the alias");
                return Err(ValidationError(problem));
            }
            let key = if alias.is_empty() { &dependency.name } else { &*alias };
            if !names.insert(key.clone()) {
                let key = go::quoted(key);
                return Err(ValidationError(format!(
                    "more than one dependency with name or alias {key}"
                )));
            }
        }
        Ok(())
    }
}

fn maintainer(value: &Value) -> Read<Option<Maintainer>> {
    if value.is_null() {
        return Ok(None);
    }
    let fields = Fields::of(value, "Metadata.maintainers", "v2.Maintainer")?.named("Maintainer.maintainers");
    let mut maintainer = Maintainer::default();
    fields.text("name", &mut maintainer.name)?;
    fields.text("email", &mut maintainer.email)?;
    fields.text("url", &mut maintainer.url)?;
    Ok(Some(maintainer))
}

fn dependency(value: &Value) -> Read<Option<Dependency>> {
    if value.is_null() {
        return Ok(None);
    }
    let fields = Fields::of(value, "Metadata.dependencies", "v2.Dependency")?.named("Dependency.dependencies");
    let mut dependency = Dependency::default();
    fields.text("name", &mut dependency.name)?;
    fields.text("version", &mut dependency.version)?;
    fields.text("repository", &mut dependency.repository)?;
    fields.text("condition", &mut dependency.condition)?;
    fields.texts("tags", &mut dependency.tags)?;
    fields.boolean("enabled", &mut dependency.enabled)?;
    fields.list(
        "import-values",
        "[]interface {}",
        &mut dependency.import_values,
        |value| {
            let mut value = value.clone();
            go::as_floats(&mut value);
            Ok(value)
        },
    )?;
    fields.text("alias", &mut dependency.alias)?;
    Ok(Some(dependency))
}

/// Replaces whitespace by spaces, and removes characters that do not print.
fn sanitize(text: &mut String) {
    let clean = text.chars().filter_map(|character| match character {
        _ if character.is_whitespace() => Some(' '),
        _ => go::is_print(character).then_some(character),
    });
    *text = clean.collect();
}
