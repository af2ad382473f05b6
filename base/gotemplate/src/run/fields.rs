//! Fields of maps and objects, and methods.

use std::sync::Arc;

use super::calls::called;
use super::{At, Binding, Failure, Flow, Machine, Outcome, Value};
use crate::builtin::plain_value;
use crate::text::quote::quoted;
use crate::value::function::{Body, Function, Scope};
use crate::value::template::{MissingKey, Target};
use crate::value::{Map, Object, Type};

impl Machine<'_> {
    /// Pops a receiver, pushes the field of its field and so on.
    pub(super) fn fields(&mut self, names: &[String], at: At) -> Outcome<()> {
        let mut value = self.pop();
        for name in names {
            value = self.field(value, name, at)?;
        }
        self.stack.push(value);
        Ok(())
    }

    /// text/template's `evalField` without arguments.
    fn field(&mut self, receiver: Value, name: &str, at: At) -> Outcome<Value> {
        match &receiver {
            Value::Map(map) => match map.method(name) {
                Some(method) => self.call_without(&method, at),
                None => self.entry(map, name, at),
            },
            Value::Absent => match self.missing_key() {
                MissingKey::Error => Err(Failure::Message(format!("nil data; no entry for key \"{name}\""), at)),
                _ => Ok(Value::Absent),
            },
            Value::Object(object) => self.object_field(object, name, at),
            _ => Err(self.no_field(&receiver, name, at)),
        }
    }

    fn missing_key(&self) -> MissingKey {
        self.frames
            .last()
            .map_or(MissingKey::Default, |frame| frame.set.missing_key)
    }

    fn entry(&mut self, map: &Map, name: &str, at: At) -> Outcome<Value> {
        self.is_wrapped = *map.element() == Type::Any;
        if let Some(value) = map.get(name.as_bytes()) {
            return Ok(value);
        }
        match self.missing_key() {
            MissingKey::Default => Ok(Value::Absent),
            MissingKey::Zero => Ok(map.element().zero()),
            MissingKey::Error => {
                let name = quoted(name.as_bytes());
                Err(Failure::Message(format!("map has no entry for key {name}"), at))
            }
        }
    }

    fn object_field(&mut self, object: &Arc<dyn Object>, name: &str, at: At) -> Outcome<Value> {
        if let Some(method) = object.method(name) {
            return self.call_without(&method, at);
        }
        if let Some(value) = object.field(name) {
            self.is_wrapped = false;
            return Ok(value);
        }
        match object.underlying() {
            Some(Value::Map(map)) => self.entry(&map, name, at),
            _ if object.fields().iter().any(|(known, _)| *known == name) => {
                let of = object.type_name();
                let what = format!("{name} is an unexported field of struct type {of}");
                Err(Failure::Message(what, at))
            }
            _ => Err(self.no_field(&Value::Object(Arc::clone(object)), name, at)),
        }
    }

    /// A method without arguments, in the middle of a chain of fields.
    fn call_without(&mut self, method: &Function, at: At) -> Outcome<Value> {
        method.check_count(0, false).map_err(|why| Failure::Message(why, at))?;
        if let Body::Uncallable(why) = &method.body {
            return Err(Failure::Message(why.clone(), at));
        }
        let node = self.node(at);
        let (Some(frame), Body::Plain(plain)) = (self.frames.last(), &method.body) else {
            return Ok(Value::Absent);
        };
        let mut scope = Scope {
            limits: self.limits,
            set: &frame.set,
            host: self.host,
            executed: &self.frames,
            node,
            shared: self.shared,
        };
        self.is_wrapped = false;
        let before = self.shared.steps();
        let value = plain(&mut scope, &[]).map_err(|fault| called(method, fault, at))?;
        self.spend_on(&value, before);
        Ok(value)
    }

    fn no_field(&self, receiver: &Value, name: &str, at: At) -> Failure {
        let type_name = if self.is_wrapped {
            Type::Any.to_string()
        } else {
            receiver.type_name().into_owned()
        };
        Failure::Message(
            match receiver {
                Value::Nil => format!("nil pointer evaluating interface {{}}.{name}"),
                _ => format!("can't evaluate field {name} in type {type_name}"),
            },
            at,
        )
    }

    /// Pops a receiver and finds its method, whose arguments come next.
    pub(super) fn bind(&mut self, binding: &Binding, at: At) -> Outcome {
        let receiver = self.pop();
        let name = &binding.name;
        let failed = |what: String| Err(Failure::Message(what, at));
        match &receiver {
            Value::Absent => {
                self.field(receiver, name, at)?;
                if binding.is_piped {
                    self.pop();
                }
                self.stack.push(Value::Absent);
                self.mark(at);
                return Ok(Flow::Jump(binding.skip.get().copied().unwrap_or(Target::MAX)));
            }
            Value::Map(_) | Value::Object(_) => {
                let method = match &receiver {
                    Value::Map(map) => map.method(name),
                    Value::Object(object) => object.method(name),
                    _ => None,
                };
                if let Some(method) = method {
                    let counted = method.check_count(binding.written, binding.is_piped);
                    counted.map_err(|why| Failure::Message(why, at))?;
                    self.bound.push(method);
                    return Ok(Flow::Next);
                }
                if matches!(&receiver, Value::Object(object) if object.field(name).is_some()) {
                    return failed(format!("{name} has arguments but cannot be invoked as function"));
                }
            }
            _ => {}
        }
        match plain_value(&receiver) {
            Value::Map(_) => failed(format!("{name} is not a method but has arguments")),
            _ => Err(self.no_field(&receiver, name, at)),
        }
    }
}
