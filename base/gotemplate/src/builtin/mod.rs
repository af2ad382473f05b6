//! The functions that text/template itself has, as in Go 1.26.

mod compare;
mod escape;
mod index;

pub(crate) use index::slice;

use std::collections::HashMap;

use crate::environment::error::{Fault, PrintError};
use crate::print::Printer;
use crate::value::function::{Body, Function, Functions, Scope};
use crate::value::{Type, Value};

/// How two values compare.
type Comparison = fn(&Value, &Value) -> Result<bool, Fault>;

impl Functions {
    /// Go's own functions and nothing else.
    pub fn new() -> Self {
        let mut all = Self(HashMap::new());
        for function in functions() {
            all.add(function);
        }
        all
    }
}

impl Default for Functions {
    fn default() -> Self {
        Self::new()
    }
}

/// All of them.
fn functions() -> Vec<Function> {
    use Type::{Any, Reflect, Str};
    let logic = |name, body| Function::with_body(name, vec![Reflect], Some(Reflect), body);
    let mut functions = vec![
        logic("and", Body::And),
        logic("or", Body::Or),
        logic("call", Body::Call),
        Function::new("not", [Reflect], |_, args| Ok(Value::Bool(!arg(args, 0).is_true()))),
        Function::new("len", [Reflect], |_, args| index::len(arg(args, 0))),
        Function::variadic("index", [Reflect], Reflect, |_, args| index::index(args)),
        logic("slice", Body::Slice),
        Function::variadic("print", [], Any, |scope, args| {
            made(scope, |printer| printer.print(args))
        }),
        Function::variadic("println", [], Any, |scope, args| {
            made(scope, |printer| printer.println(args))
        }),
        Function::variadic("printf", [Str], Any, |scope, args| match args.split_first() {
            Some((Value::Str(format), values)) => made(scope, |printer| printer.printf(format, values)),
            _ => Ok(Value::string("")),
        }),
        Function::variadic("html", [], Any, |scope, args| {
            escape::all(scope.limits.string_bytes_max, args, escape::html)
        }),
        Function::variadic("js", [], Any, |scope, args| {
            escape::all(scope.limits.string_bytes_max, args, escape::js)
        }),
        Function::variadic("urlquery", [], Any, |scope, args| {
            escape::all(scope.limits.string_bytes_max, args, escape::url_query)
        }),
        Function::variadic("eq", [Reflect], Reflect, |_, args| compare::eq(args).map(Value::Bool)),
    ];
    let pairs: [(&str, Comparison); 5] = [
        ("ne", compare::ne),
        ("lt", compare::lt),
        ("le", compare::le),
        ("gt", compare::gt),
        ("ge", compare::ge),
    ];
    for (name, compare) in pairs {
        functions.push(Function::new(name, [Reflect, Reflect], move |_, args| {
            compare(arg(args, 0), arg(args, 1)).map(Value::Bool)
        }));
    }
    functions
}

/// An argument. Those that the function's signature requires are there.
fn arg(args: &[Value], at: usize) -> &Value {
    args.get(at).unwrap_or(&Value::Absent)
}

/// The string that something printed makes.
fn made(scope: &Scope<'_>, print: impl FnOnce(Printer<'_>) -> Result<(), PrintError>) -> Result<Value, Fault> {
    let mut out = Vec::new();
    print(Printer::new(&mut out, scope.limits.string_bytes_max))?;
    Ok(Value::string(out))
}

/// `call`; the text of its function comes before its arguments. There are no functions among our values.
pub(crate) fn call(args: &[Value]) -> Result<Value, Fault> {
    let function = arg(args, 1);
    if function.is_nil() {
        return Err(Fault::from("call of nil"));
    }
    let type_name = function.type_name();
    let name = match (arg(args, 0), function) {
        (Value::Str(name), _) | (_, Value::Str(name)) => name.lossy().into_owned(),
        _ => format!("<{type_name} Value>"),
    };
    Err(Fault::Message(format!("non-function {name} of type {type_name}")))
}

/// An object's underlying value, other values themselves.
pub(crate) fn plain_value(value: &Value) -> Value {
    match value {
        Value::Object(object) => object.underlying().unwrap_or_else(|| value.clone()),
        Value::Nil => Value::Absent,
        value => value.clone(),
    }
}
