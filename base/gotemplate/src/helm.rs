//! Functions that Helm 4.1 adds beside Sprig's: `include`, `tpl`, `required`, `fail`, `lookup`, and those
//! that write and read YAML, JSON and TOML.

use std::sync::Arc;

use base_yaml::go;
use memchr::memmem;
use serde_json::Value as Json;

use crate::environment::error::{Error, Fault};
use crate::environment::host::Host;
use crate::print::NO_VALUE;
use crate::sprig::{Read, read_json};
use crate::text::Str as Text;
use crate::text::quote::quoted;
use crate::toml;
use crate::value::function::{Function, Functions, Render, Scope};
use crate::value::{IntKind, List, Map, Type, Value};

/// What Helm puts before the message of a chart's author, to find it in the error.
pub const AUTHOR_START: &str = "HELM_ERR_START";
/// As [`AUTHOR_START`], behind them.
pub const AUTHOR_END: &str = "HELM_ERR_END";
/// How often a template may be included inside itself, as in Helm.
const INCLUDES_MAX: usize = 1000;
const INCLUDE: &str = "include";
/// Steps that reading a byte of YAML takes: `[{},{},` makes a large value of a short text.
const YAML_BYTE_STEPS: usize = 4;

impl Functions {
    /// Adds Helm's functions that execute templates, make them fail, or write and read YAML.
    #[must_use]
    pub fn with_helm(mut self) -> Self {
        use Type::{Any, Str};
        self.add(Function::rendering(INCLUDE, [Str, Any], include));
        self.add(Function::rendering("tpl", [Str, Any], tpl));
        self.add(Function::new("required", [Str, Any], |_, args| match args {
            [Value::Str(warning), value] if value.is_nil() || is_empty_string(value) => Err(warned(warning)),
            [_, value] => Ok(value.clone()),
            _ => Ok(Value::Nil),
        }));
        let writers: [(&str, Write, bool); 3] = [
            ("toYaml", go::write, true),
            ("mustToYaml", go::write, false),
            ("toYamlPretty", go::write_pretty, true),
        ];
        for (name, write, ignores_errors) in writers {
            self.add(Function::new(name, [Any], move |scope, args| {
                to_yaml(scope, args, write, ignores_errors)
            }));
        }
        let readers: [(&str, Reading); 2] = [("fromYaml", from_yaml), ("fromYamlArray", from_yaml_array)];
        for (name, read) in readers {
            self.add(Function::new(name, [Str], move |scope, args| {
                scope.spend(text_of(args).len().saturating_mul(YAML_BYTE_STEPS))?;
                Ok(read(args))
            }));
        }
        for (name, wanted) in [
            ("fromJson", "map[string]interface {}"),
            ("fromJsonArray", "[]interface {}"),
        ] {
            self.add(Function::new(name, [Str], |scope, args| {
                Ok(from_json(read_json(text_of(args), scope)?, wanted))
            }));
        }
        self.add(Function::new("toToml", [Any], |scope, args| {
            let text = toml::write(args.first().unwrap_or(&Value::Nil), scope)?;
            Ok(Value::string(text))
        }));
        self.add(Function::new("fromToml", [Str], |scope, args| {
            Ok(match toml::read(text_of(args), scope)? {
                Ok(table) => table,
                Err(why) => Value::map([("Error", Value::from(why))]),
            })
        }));
        self.add(Function::new("lookup", [Str, Str, Str, Str], lookup));
        self.add(Function::new("fail", [Str], |_, args| match args {
            [Value::Str(warning)] => Err(warned(warning)),
            _ => Ok(Value::Nil),
        }));
        self
    }
}

/// Reads a text as a value.
type Reading = fn(&[Value]) -> Value;

/// Writes a value as YAML.
type Write = fn(&Value) -> Result<String, go::WriteError>;

fn to_yaml(scope: &mut Scope<'_>, args: &[Value], write: Write, ignores_errors: bool) -> Result<Value, Fault> {
    let value = args.first().unwrap_or(&Value::Nil);
    scope.check_yaml(value)?;
    let text = match write(value) {
        Ok(text) => text,
        Err(_) if ignores_errors => String::new(),
        Err(why) => return Err(Fault::Message(why.to_string())),
    };
    Ok(Value::from(text.strip_suffix('\n').unwrap_or(&text)))
}

fn of_json(json: Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::list(items.into_iter().map(of_json).collect()),
        Json::Object(entries) => Value::map(entries.into_iter().map(|(key, value)| (key, of_json(value)))),
    }
}

fn text_of(args: &[Value]) -> &[u8] {
    match args {
        [Value::Str(text), ..] => text,
        _ => b"",
    }
}

/// A map or a list; if there is an error, it is in it.
fn from_json(read: Result<Read, String>, wanted: &str) -> Value {
    let is_map = wanted.starts_with("map");
    let (found, why) = match read {
        Err(why) => (Value::Nil, Some(why)),
        Ok(Read { value, unfit }) => match (&value, is_map) {
            (Value::Map(_), true) | (Value::List(_), false) => (value, unfit),
            (Value::Nil, true) if unfit.is_none() => return Value::Map(Map::nil(Type::Any)),
            (Value::Nil, false) if unfit.is_none() => return Value::List(List::nil(Type::Any)),
            _ => {
                let kind = match &value {
                    Value::Map(_) => "object",
                    Value::List(_) => "array",
                    Value::Bool(_) => "bool",
                    Value::Str(_) => "string",
                    _ => "number",
                };
                let why = format!("json: cannot unmarshal {kind} into Go value of type {wanted}");
                (Value::Nil, Some(why))
            }
        },
    };
    match (found, why) {
        (found, None) => found,
        (Value::Map(map), Some(why)) => {
            map.set("Error".into(), Value::from(why));
            Value::Map(map)
        }
        (_, Some(why)) if is_map => Value::map([("Error", Value::from(why))]),
        (_, Some(why)) => Value::list(vec![Value::from(why)]),
    }
}

fn lookup(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, Fault> {
    let nothing = Value::map::<Text>([]);
    let host = scope.host.downcast_ref::<Host>();
    if host.is_none_or(|host| host.lookup.is_none()) {
        return Ok(nothing);
    }
    let place = scope.place()?;
    let texts: Vec<String> = args
        .iter()
        .map(|arg| text_of(std::slice::from_ref(arg)))
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    let host = scope.host.downcast_mut::<Host>();
    let cluster = host.and_then(|host| host.lookup.as_mut());
    let (Some(cluster), Some(place), [api_version, kind, namespace, name]) = (cluster, place, texts.as_slice()) else {
        return Ok(nothing);
    };
    let found = cluster
        .lookup(&place, api_version, kind, namespace, name)
        .map_err(Fault::Message)?;
    Ok(found.map_or(nothing, of_object))
}

/// As Kubernetes' clients read objects: a number without a point is an integer.
fn of_object(json: Json) -> Value {
    match json {
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(IntKind::Int64, whole),
            None => of_json(Json::Number(number)),
        },
        Json::Array(items) => Value::list(items.into_iter().map(of_object).collect()),
        Json::Object(entries) => Value::map(entries.into_iter().map(|(key, value)| (key, of_object(value)))),
        other => of_json(other),
    }
}

/// A map; if there is none, one with the error under `Error`.
fn from_yaml(args: &[Value]) -> Value {
    match args {
        [Value::Str(text)] => match go::read_map(text) {
            Ok(map) => of_json(Json::Object(map)),
            Err(why) => Value::map([("Error", Value::from(why.to_string()))]),
        },
        _ => Value::Nil,
    }
}

/// A list; if there is none, one whose only item is the error.
fn from_yaml_array(args: &[Value]) -> Value {
    match args {
        [Value::Str(text)] => match go::read_array(text) {
            Ok(items) => of_json(Json::Array(items)),
            Err(why) => Value::list(vec![Value::from(why.to_string())]),
        },
        _ => Value::Nil,
    }
}

fn is_empty_string(value: &Value) -> bool {
    matches!(value, Value::Str(text) if text.is_empty())
}

fn warned(warning: &Text) -> Fault {
    Fault::Message(format!("{AUTHOR_START}{}{AUTHOR_END}", warning.lossy()))
}

fn include(scope: &mut Scope<'_>, args: &[Value]) -> Result<Render, Fault> {
    let [Value::Str(name), data] = args else {
        return Err(Fault::from("no template is named"));
    };
    if scope.executing(INCLUDE, name)? > INCLUDES_MAX {
        return Err(Fault::Message(format!(
            "rendering template has a nested reference name: {}: unable to execute template",
            name.lossy()
        )));
    }
    let template = scope.set.template(name)?;
    Ok(Render::new(Arc::clone(scope.set), template, data.clone(), |text| {
        Value::string(text)
    }))
}

fn tpl(scope: &mut Scope<'_>, args: &[Value]) -> Result<Render, Fault> {
    let [Value::Str(text), data] = args else {
        return Err(Fault::from("no template is given"));
    };
    // What the text defines is visible to it and to what it executes, and to no other template.
    let mut set = (**scope.set).clone();
    let name = set.name().clone();
    let template = match set.parse(&name.lossy(), text) {
        Ok(template) => template,
        Err(Error::Limit { limit, .. }) => return Err(Fault::Limit(limit)),
        Err(why) => return Err(Fault::Message(format!("cannot parse template {}: {why}", quoted(text)))),
    };
    let cost = set.len() + text.len();
    let context = format!("error during tpl function execution for {}: ", quoted(text));
    let render = Render::new(Arc::new(set), template, data.clone(), |text| {
        Value::string(without_no_value(text))
    });
    Ok(render.in_context(context).costing(cost))
}

/// A rendered text without `<no value>`: Helm removes it, wherever it comes from.
pub fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    if memmem::find(&text, NO_VALUE).is_none() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for found in memmem::find_iter(&text, NO_VALUE) {
        out.extend_from_slice(text.get(from..found).unwrap_or_default());
        from = found + NO_VALUE.len();
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Context, Error, Functions, LimitError, Limits, MissingKey, Set, Value};

    fn render(text: &str) -> Result<String, Error> {
        let functions = Functions::new().with_sprig().with_helm();
        let mut set = Set::new("gotpl", Arc::new(functions), MissingKey::Zero);
        set.parse("t", text.as_bytes())?;
        let data = Value::map([("a", Value::int(1)), ("t", Value::from("<{{ .a }}>"))]);
        let mut context = Context {
            limits: Limits::default(),
            host: &mut (),
        };
        let output = Arc::new(set).render("t", data, &mut context)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    fn result(text: &str) -> String {
        render(text).map_or_else(|error| error.to_string(), |output| format!("output {output}"))
    }

    #[test]
    fn an_included_template_is_a_value() {
        let text = "{{define \"x\"}}a\nb{{.a}}{{end}}x:{{ include \"x\" . | nindent 2 }}";
        assert_eq!(render(text).as_deref(), Ok("x:\n  a\n  b1"));
        assert_eq!(
            result("{{include \"y\" .}}"),
            "template: t:1:2: executing \"t\" at <include \"y\" .>: error calling include: template: no template \"y\" associated with template \"gotpl\""
        );
    }

    #[test]
    fn recursive_includes_end_at_helms_limit() {
        let error = result("{{define \"x\"}}{{include \"x\" .}}{{end}}{{include \"x\" .}}");
        let end = "rendering template has a nested reference name: x: unable to execute template";
        assert!(error.ends_with(end), "{error}");
        assert_eq!(error.matches("error calling include").count(), 1002);
    }

    #[test]
    fn tpl_sees_the_templates_of_its_set_and_its_own() {
        assert_eq!(render("{{tpl .t .}}{{tpl \"{{.zz}}\" .}}").as_deref(), Ok("<1>"));
        let text = "{{define \"x\"}}X{{end}}{{tpl \"{{define `y`}}Y{{end}}{{include `x` .}}{{include `y` .}}\" .}}";
        assert_eq!(render(text).as_deref(), Ok("XY"));
        // What a text defines is not visible to others, and a blank text does not execute the text around it.
        assert!(result("{{tpl \"{{define `y`}}Y{{end}}\" .}}{{include \"y\" .}}").contains("no template \"y\""));
        assert_eq!(render("{{tpl \"a{{tpl ` ` .}}b\" .}}").as_deref(), Ok("a b"));
    }

    #[test]
    fn error_in_a_text_of_tpl_contains_that_text() {
        assert_eq!(
            result("{{tpl \"{{\" .}}"),
            "template: t:1:2: executing \"t\" at <tpl \"{{\" .>: error calling tpl: cannot parse template \"{{\": template: gotpl:1: unclosed action"
        );
        assert_eq!(
            result("{{tpl \"{{.a.b}}\" .}}"),
            "template: t:1:2: executing \"t\" at <tpl \"{{.a.b}}\" .>: error calling tpl: error during tpl function execution for \"{{.a.b}}\": template: gotpl:1:4: executing \"gotpl\" at <.a.b>: can't evaluate field b in type interface {}"
        );
    }

    #[test]
    fn texts_that_execute_themselves_meet_a_limit() {
        let text = "{{define \"x\"}}{{tpl \"{{tpl `{{template \\\"x\\\" .}}` .}}\" .}}{{end}}{{template \"x\" .}}";
        assert!(matches!(
            render(text),
            Err(Error::Limit {
                limit: LimitError::Depth(_),
                ..
            })
        ));
    }

    #[test]
    fn required_returns_its_value_or_fails_with_the_authors_message() {
        assert_eq!(render("{{required \"no\" .a}}").as_deref(), Ok("1"));
        for text in [
            "{{required \"no a\" .b}}",
            "{{required \"no a\" \"\"}}",
            "{{fail \"no a\"}}",
        ] {
            assert!(
                result(text).ends_with(": HELM_ERR_STARTno aHELM_ERR_END"),
                "{}",
                result(text)
            );
        }
        assert_eq!(
            render("{{required \"no\" 0}}{{required \"no\" false}}").as_deref(),
            Ok("0false")
        );
    }

    #[derive(Debug)]
    struct OneSecret;

    impl crate::Lookup for OneSecret {
        fn lookup(
            &mut self,
            place: &crate::Place<'_>,
            version: &str,
            kind: &str,
            namespace: &str,
            name: &str,
        ) -> Result<Option<serde_json::Value>, String> {
            match (version, kind, namespace, name) {
                ("v1", "Secret", "ns", "one") => Ok(Some(serde_json::json!({"data": {"count": 3, "share": 0.5}}))),
                ("v1", "Secret", ..) => Ok(None),
                ("v1", "Place", ..) => Ok(Some(serde_json::json!(format!(
                    "{place} in {}",
                    place.executed().lossy()
                )))),
                _ => Err(format!("no kind {kind}")),
            }
        }
    }

    fn looked_up(text: &str) -> String {
        let mut host = crate::Host {
            lookup: Some(Box::new(OneSecret)),
            ..crate::Host::default()
        };
        crate::environment::host::rendered(text, &mut host)
    }

    #[test]
    fn lookup_reads_the_cluster_of_the_caller() {
        let text = "{{with (lookup \"v1\" \"Secret\" \"ns\" \"one\").data}}{{printf \"%T %v %T %v\" .count .count .share .share}}{{end}}";
        assert_eq!(looked_up(text), "int64 3 float64 0.5");
        assert_eq!(looked_up("{{lookup \"v1\" \"Secret\" \"ns\" \"two\"}}"), "map[]");
        let error = looked_up("{{lookup \"v1\" \"Mystery\" \"\" \"\"}}");
        assert!(error.ends_with("error calling lookup: no kind Mystery"), "{error}");
    }

    #[test]
    fn lookup_gets_the_place_in_the_named_template_that_calls_it() {
        let place = "lookup \"v1\" \"Place\" \"\" \"\"";
        let defined = format!("{{{{define \"x\"}}}}\n  {{{{{place}}}}}{{{{end}}}}");
        for (text, called_at) in [
            (format!("{{{{{place}}}}}"), "t:1:2 in t"),
            (format!("{defined}{{{{include \"x\" .}}}}"), "t:2:4 in t"),
            (
                format!("{defined}{{{{tpl `{{{{include \"x\" .}}}}` .}}}}"),
                "t:2:4 in t",
            ),
            (format!("\n{{{{tpl `\n\n\n{{{{- {place}}}}}` .}}}}"), "t:2:2 in t"),
            (
                format!("\n{{{{tpl `{{{{define \"y\"}}}}{{{{{place}}}}}{{{{end}}}}{{{{template \"y\"}}}}` .}}}}"),
                "t:2:2 in t",
            ),
        ] {
            assert_eq!(looked_up(&text).trim_start(), called_at, "{text}");
        }
    }
}
