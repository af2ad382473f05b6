//! Our answers to the same cases.

use base_yaml::go::{self, DuplicateKeys, Text, WriteError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base_helm::chart::{File, Metadata, files_of_archive};
use base_helm::engine::{API_VERSIONS, KubeVersion};
use base_helm::render::{Release, Rendering};
use base_helm::{
    Chart, Engine, Hook, Manifest, RenderError, Setting, Sorted, process_dependencies, sort_manifests, values,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::case::{Answer, Case};

/// Our answer to a case.
///
/// # Errors
/// The case is invalid.
pub fn answer(case: &Case) -> Outcome<Answer> {
    let text = bytes_of(case)?;
    Ok(match case.action.as_str() {
        "read" => answer_of(go::read(&text, DuplicateKeys::Allowed).map(|value| go::to_json(&value))),
        "readStrict" => answer_of(go::read(&text, DuplicateKeys::Refused).map(|value| go::to_json(&value))),
        "readMap" => answer_of(go::read_map(&text).map(|map| go::to_json(&Value::Object(map)))),
        "readArray" => answer_of(go::read_array(&text).map(|array| go::to_json(&Value::Array(array)))),
        "write" => written(go::write(&Typed(&case.value))),
        "pretty" => written(go::write_pretty(&Typed(&case.value))),
        "merged" => answer_of(options(&case.value)?.map(|values| tagged(&Value::Object(values)))),
        "loadValues" => answer_of(values::load_values(&text).map(|values| tagged(&Value::Object(values)))),
        "load" => answer_of(Chart::from_files(files(&case.value)?).map(|chart| go::to_json(&shown(&chart)))),
        "coalesced" => answer_of(coalesced(&case.value)?),
        "scopes" => answer_of(scopes(&case.value)?),
        "template" => answer_of(template(&case.value)?),
        "schema" => answer_of(schema(&case.value)?),
        "versions" => answer_of(Ok::<_, String>(go::to_json(&json!(API_VERSIONS.as_slice())))),
        "archive" => answer_of(files_of_archive(&text).map(|files| {
            let sizes = files.into_iter().map(|file| (file.name, file.data.len().into()));
            go::to_json(&Value::Object(sizes.collect()))
        })),
        "manifests" => answer_of(sort_manifests(&texts(&case.value)?).map(|sorted| go::to_json(&manifests(&sorted)))),
        other => return Err(format!("there is no action {other:?}")),
    })
}

pub(crate) fn bytes_of(case: &Case) -> Outcome<Vec<u8>> {
    match (&case.text, &case.bytes) {
        (Some(text), _) => Ok(text.clone().into_bytes()),
        (None, Some(bytes)) => STANDARD.decode(bytes).map_err(|error| format!("{bytes}: {error}")),
        (None, None) => Ok(Vec::new()),
    }
}

fn answer_of<E: ToString>(made: Result<String, E>) -> Answer {
    match made {
        Ok(text) => Answer::Output(text),
        Err(error) => Answer::Error(error.to_string()),
    }
}

fn written(made: Result<String, WriteError>) -> Answer {
    answer_of(made.map(|text| text.strip_suffix('\n').unwrap_or(&text).to_owned()))
}

/// A value with tags for what JSON cannot express: see `oracle/yaml.go`.
struct Typed<'v>(&'v Value);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Typed)),
            Value::Object(items) => object(items, serializer),
            value => value.serialize(serializer),
        }
    }
}

fn object<S: Serializer>(items: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(Value::String(text)) = items.get("$float") {
        let number = text.parse().map_err(serde::ser::Error::custom)?;
        return serializer.serialize_f64(number);
    }
    if let Some(Value::String(text)) = items.get("$bytes") {
        let bytes = STANDARD.decode(text).map_err(serde::ser::Error::custom)?;
        return Text(&bytes).serialize(serializer);
    }
    let mut map = serializer.serialize_map(Some(items.len()))?;
    for (key, value) in items {
        map.serialize_entry(key, &Typed(value))?;
    }
    map.end()
}

/// The action `merged`: files by name, and options with them.
fn options(value: &Value) -> Outcome<Result<values::Values, values::ValuesError>> {
    let list = |name: &str| -> Vec<String> {
        let items = value[name].as_array().into_iter().flatten();
        items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    let options = values::Options {
        files: list("Values"),
        json: list("JSON"),
        set: list("Set"),
        string: list("String"),
        file: list("File"),
        literal: list("Literal"),
    };
    let files = texts(&value["Files"])?;
    Ok(options.merge(&|name| match files.get(name) {
        Some(text) => Ok(text.clone().into_bytes()),
        None => Err(format!("open {name}: no such file or directory")),
    }))
}

fn texts(value: &Value) -> Outcome<BTreeMap<String, String>> {
    let texts = value.as_object().into_iter().flatten();
    texts
        .map(|(name, text)| Ok((name.clone(), text.as_str().ok_or("a file is a text")?.to_owned())))
        .collect()
}

/// JSON in which a float is `{"$float": ...}`.
fn tagged(value: &Value) -> String {
    go::to_json(&tag(value))
}

fn tag(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!({"$float": number}),
        Value::Array(items) => items.iter().map(tag).collect(),
        Value::Object(items) => items.iter().map(|(key, item)| (key.clone(), tag(item))).collect(),
        other => other.clone(),
    }
}

/// Lists of texts, because objects of JSON would be sorted by name, and Helm's are in the order of a struct.
fn manifests(sorted: &Sorted) -> Value {
    let shown = |manifest: &Manifest, hook: Option<&Hook>| {
        let events = hook.map(|hook| hook.events.iter().map(|event| event.name()).collect::<Vec<_>>());
        json!([
            manifest.path,
            manifest.kind,
            manifest.content,
            hook.map_or(json!(""), |hook| json!(hook.weight.to_string())),
            events.unwrap_or_default().join(","),
        ])
    };
    let hooks = sorted.hooks.iter().map(|hook| shown(&hook.manifest, Some(hook)));
    hooks
        .chain(sorted.manifests.iter().map(|manifest| shown(manifest, None)))
        .collect()
}

/// The values that the templates of a chart see, once its dependencies have been processed.
fn coalesced(request: &Value) -> Outcome<Result<String, String>> {
    let files = files(&request["Files"])?;
    let user = match untagged(&request["Values"]) {
        Value::Object(user) => user,
        _ => Map::new(),
    };
    let coalesce = || -> Result<String, String> {
        let mut chart = Chart::from_files(files).map_err(|error| error.to_string())?;
        process_dependencies(&mut chart, &user).map_err(|error| error.to_string())?;
        let values = values::coalesce_values(&chart, &user).map_err(|error| error.to_string())?;
        Ok(tagged(&Value::Object(values)))
    };
    Ok(coalesce())
}

/// What each template of a chart sees.
fn scopes(request: &Value) -> Outcome<Result<String, String>> {
    let files = files(&request["Files"])?;
    let user = untagged(&request["Values"]).as_object().cloned().unwrap_or_default();
    let release = release(false);
    let seen = || -> Result<String, String> {
        let mut chart = Chart::from_files(files).map_err(|error| error.to_string())?;
        process_dependencies(&mut chart, &user).map_err(|error| error.to_string())?;
        let values = values::coalesce_values(&chart, &user).map_err(|error| error.to_string())?;
        let rendering = Rendering::of(&chart, values);
        let shown = rendering
            .templates
            .iter()
            .filter(|template| !template.is_partial())
            .map(|template| {
                let scope = &rendering.scopes[template.scope];
                let seen = json!({
                    "Values": rendering.values_of(template.scope),
                    "Chart": scope.chart,
                    "Template": {"Name": template.name, "BasePath": template.base_path},
                    "Release": release.as_value(),
                    "Subcharts": scope.subcharts.keys().collect::<Vec<_>>(),
                });
                (template.name.clone(), seen)
            });
        Ok(go::to_json(&Value::Object(shown.collect())))
    };
    Ok(seen())
}

/// What `helm template r chart -n n` prints, then the notes.
fn template(request: &Value) -> Outcome<Result<String, String>> {
    let path = request["Path"].as_str();
    let files = path.map_or_else(|| files(&request["Files"]), |_| Ok(Vec::new()))?;
    let user = untagged(&request["Values"]).as_object().cloned().unwrap_or_default();
    let rendered = || -> Result<String, String> {
        let chart = path.map_or_else(|| Chart::from_files(files), |path| Chart::from_folder(Path::new(path)));
        let chart = chart.map_err(|error| error.to_string())?;
        let mut setting = Setting {
            release: release(request["IsUpgrade"] == json!(true)),
            ..Setting::default()
        };
        if let Some(version) = request["KubeVersion"].as_str().filter(|version| !version.is_empty()) {
            setting.capabilities.kube_version = KubeVersion::read(version).map_err(|error| error.to_string())?;
        }
        let more = request["APIVersions"].as_array().into_iter().flatten();
        let more = more.filter_map(|version| Some(version.as_str()?.to_owned()));
        setting.capabilities.api_versions.extend(more);
        let rendered = Engine::default().render(&chart, &user, &setting);
        let rendered = rendered.map_err(|error| error.to_string())?;
        let mut printed = rendered.manifest(request["IncludeCRDs"] == json!(true));
        if !rendered.notes.is_empty() {
            printed += &format!("NOTES:\n{}", rendered.notes);
        }
        Ok(printed)
    };
    Ok(rendered())
}

/// Whether the schemas of a chart, and of the charts in it, accept its values.
fn schema(request: &Value) -> Outcome<Result<String, String>> {
    let files = files(&request["Files"])?;
    let user = untagged(&request["Values"]).as_object().cloned().unwrap_or_default();
    let checked = || -> Result<String, String> {
        let mut chart = Chart::from_files(files).map_err(|error| error.to_string())?;
        // Only the schemas are compared, not what it renders.
        chart.templates = Arc::default();
        match Engine::default().render(&chart, &user, &Setting::default()) {
            Ok(_) => Ok("accepted".to_owned()),
            Err(RenderError::Schema(_)) => Ok("refused".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    };
    Ok(checked())
}

pub(crate) fn release(is_upgrade: bool) -> Release {
    Release {
        name: "r".to_owned(),
        namespace: "n".to_owned(),
        revision: 1,
        is_upgrade,
    }
}

/// The value that `{"$float": ...}` stands for.
fn untagged(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(untagged).collect(),
        Value::Object(items) => match items.get("$float").and_then(Value::as_str) {
            Some(float) => float.parse::<f64>().map_or(Value::Null, Value::from),
            None => items.iter().map(|(key, item)| (key.clone(), untagged(item))).collect(),
        },
        other => other.clone(),
    }
}

/// The files of a chart, sorted by name as the oracle sorts them.
fn files(value: &Value) -> Outcome<Vec<File>> {
    let files = texts(value)?.into_iter();
    Ok(files
        .map(|(name, text)| File {
            name,
            data: text.into_bytes().into(),
        })
        .collect())
}

/// A chart as the oracle shows it.
fn shown(chart: &Chart) -> Value {
    let named = |files: &[File]| -> Value {
        let text = |file: &File| String::from_utf8_lossy(&file.data).into_owned();
        files
            .iter()
            .map(|file| (file.name.clone(), text(file).into()))
            .collect::<Map<_, _>>()
            .into()
    };
    let mut dependencies: Vec<&Chart> = chart.dependencies.iter().collect();
    dependencies.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    json!({
        "crds": chart.crds().iter().map(|file| &file.name).collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(shown).collect::<Vec<_>>(),
        "files": named(&chart.files),
        "metadata": metadata(&chart.metadata),
        "templates": named(&chart.templates),
        "values": tag(&Value::Object((*chart.values).clone())),
    })
}

/// As encoding/json writes it: without empty fields.
fn metadata(of: &Metadata) -> Value {
    let maintainers = of.maintainers.iter().flatten().map(|maintainer| {
        filled(
            json!({"name": maintainer.name, "email": maintainer.email, "url": maintainer.url}),
            &[],
        )
    });
    let dependencies = of.dependencies.iter().flatten().map(|dependency| {
        let all = json!({
            "name": dependency.name, "version": dependency.version, "repository": dependency.repository,
            "condition": dependency.condition, "tags": dependency.tags, "enabled": dependency.enabled,
            "import-values": dependency.import_values, "alias": dependency.alias,
        });
        filled(all, &["name", "repository"])
    });
    let all = json!({
        "name": of.name, "home": of.home, "sources": of.sources, "version": of.version,
        "description": of.description, "keywords": of.keywords,
        "maintainers": maintainers.collect::<Vec<_>>(), "icon": of.icon, "apiVersion": of.api_version,
        "condition": of.condition, "tags": of.tags, "appVersion": of.app_version, "deprecated": of.deprecated,
        "annotations": of.annotations, "kubeVersion": of.kube_version,
        "dependencies": dependencies.collect::<Vec<_>>(), "type": of.chart_type,
    });
    filled(all, &[])
}

fn filled(value: Value, always: &[&str]) -> Value {
    let Value::Object(items) = value else {
        return value;
    };
    let is_filled = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        Value::Null => false,
        other => *other != Value::Bool(false),
    };
    let filled = items
        .into_iter()
        .filter(|(key, value)| always.contains(&key.as_str()) || is_filled(value));
    Value::Object(filled.collect())
}
