//! What templates see: `.Values`, `.Chart`, `.Release`, `.Capabilities`, `.Files`, `.Subcharts` and `.Template`, shared as
//! Helm shares them. Changes by `set` are visible to the templates that are executed afterwards.

use std::collections::HashMap;
use std::sync::Arc;

use base_gotemplate::{Fault, Function, IntKind, Map, Named, Type, Value};
use base_yaml::go;
use serde_json::Value as Json;

use super::Setting;
use super::files::files;
use crate::render::{Rendering, Scope, Template};

/// The type of `.Values` and of `.` itself.
static VALUES: Named = Named {
    name: "common.Values",
    method,
};

/// What the templates of each chart see, by the places of their scopes.
pub(super) struct Objects(Vec<Map>);

impl Objects {
    pub(super) fn new(rendering: &Rendering<'_>, setting: &Setting) -> Self {
        let release = map(setting.release.as_value());
        release.set("Revision".into(), Value::int(setting.release.revision));
        let shared = [
            ("Release", Value::Map(release)),
            ("Capabilities", Value::Object(Arc::new(setting.capabilities.clone()))),
        ];
        let root = map(Json::Object(rendering.values.clone()));
        let mut scopes: Vec<(Map, Map)> = Vec::new();
        // Shared by all aliases of a chart, because templates cannot change them.
        let mut shown_files = HashMap::new();
        for scope in &rendering.scopes {
            let values = match &scope.inside {
                None => root.clone(),
                // A name with points in it is a path, as in Helm.
                Some((parent, name)) => {
                    let found = table_at(&scopes[*parent].1, name);
                    found.unwrap_or_else(|_| Map::new::<&str>(Type::Any, []))
                }
            };
            let own_files = shown_files.entry(Arc::as_ptr(scope.files));
            let own_files = own_files.or_insert_with(|| files(scope.files));
            let subcharts = Map::new::<&str>(Type::Any, []);
            let seen = Map::new(Type::Any, shared.clone());
            for (name, value) in [
                ("Chart", chart(scope)),
                ("Files", own_files.clone()),
                ("Values", Value::Map(values.named(&VALUES))),
                ("Subcharts", Value::Map(subcharts)),
            ] {
                seen.set(name.into(), value);
            }
            scopes.push((seen, values));
        }
        for (place, scope) in rendering.scopes.iter().enumerate() {
            for (name, inner) in &scope.subcharts {
                if let Some(Value::Map(subcharts)) = scopes[place].0.get(b"Subcharts") {
                    subcharts.set(name.as_str().into(), Value::Map(scopes[*inner].0.clone()));
                }
            }
        }
        Self(scopes.into_iter().map(|(seen, _)| seen).collect())
    }

    /// What `.` is for a template.
    pub(super) fn of(&self, template: &Template<'_>) -> Value {
        let seen = &self.0[template.scope];
        let about = Map::new(
            Type::Any,
            [
                ("Name", Value::from(template.name.as_str())),
                ("BasePath", Value::from(template.base_path.as_str())),
            ],
        );
        seen.set("Template".into(), Value::Map(about.named(&VALUES)));
        Value::Map(seen.named(&VALUES))
    }
}

/// The table that lies below others under the names of a path, or the first name under which no table is.
fn table_at<'p>(values: &Map, path: &'p str) -> Result<Map, &'p str> {
    path.split('.')
        .try_fold(values.clone(), |table, key| match table.get(key.as_bytes()) {
            Some(Value::Map(inner)) => Ok(inner),
            _ => Err(key),
        })
}

fn chart(scope: &Scope<'_>) -> Value {
    let chart = map(Json::Object(scope.chart.clone()));
    let annotations = match scope.chart.get("Annotations") {
        Some(Json::Object(annotations)) => {
            let annotations = annotations.iter();
            let annotations = annotations.map(|(key, value)| (key.as_str(), Value::from(value.as_str().unwrap_or(""))));
            Map::new(Type::Str, annotations)
        }
        _ => Map::nil(Type::Str),
    };
    chart.set("Annotations".into(), Value::Map(annotations));
    Value::Map(chart)
}

fn map(of: Json) -> Map {
    match value(of) {
        Value::Map(map) => map,
        _ => Map::new::<&str>(Type::Any, []),
    }
}

/// Numbers of YAML are floats, those of `--set` integers.
fn value(of: Json) -> Value {
    match of {
        Json::Null => Value::Nil,
        Json::Bool(value) => value.into(),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(IntKind::Int64, number),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.into(),
        Json::Array(items) => Value::list(items.into_iter().map(value).collect()),
        Json::Object(entries) => Value::map(entries.into_iter().map(|(key, item)| (key, value(item)))),
    }
}

/// The methods of `common.Values` that return values; they hide keys of the same name, as in Helm.
fn method(of: &Map, name: &str) -> Option<Arc<Function>> {
    let of = of.clone();
    Some(Arc::new(match name {
        "AsMap" => {
            let plain = if of.is_empty() {
                Map::new::<&str>(Type::Any, [])
            } else {
                of.unnamed()
            };
            Function::new(name, [], move |_, _| Ok(Value::Map(plain.clone())))
        }
        "YAML" => Function::new(name, [], move |scope, _| {
            let values = Value::Map(of.clone());
            scope.check_yaml(&values)?;
            let yaml = go::write(&values);
            yaml.map(Value::from).map_err(|why| Fault::from(why.to_string()))
        }),
        "Table" => Function::new(name, [Type::Str], move |_, args| match args {
            [Value::Str(path)] => {
                let path = path.lossy();
                let found = table_at(&of, &path);
                let found = found.map_err(|key| Fault::from(format!("{} is not a table", go::quoted(key))));
                Ok(Value::Map(found?.named(&VALUES)))
            }
            _ => Err(Fault::from("no table is named")),
        }),
        _ => return None,
    }))
}
