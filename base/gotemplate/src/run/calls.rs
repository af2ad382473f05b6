//! Calls: functions, methods, templates, and templates that functions have executed.

use std::sync::Arc;

use super::{At, Failure, Flow, Machine, Outcome, Program, Rendered, Value};
use crate::compile::constant_for_type;
use crate::environment::error::{Fault, LimitError};
use crate::environment::limits::{BYTES_PER_STEP, TEMPLATE_DEPTH_MAX};
use crate::syntax::NodeId;
use crate::text::Str;
use crate::text::quote::quoted;
use crate::value::Type;
use crate::value::function::{Body, Function, Render, Scope};

/// How an error of a function begins.
const CALLING: &str = "error calling ";

impl Machine<'_> {
    /// Calls a function with what lies on the stack.
    pub(super) fn call(&mut self, function: &Arc<Function>, count: u32, at: At) -> Outcome {
        let from = self.stack.len().saturating_sub(count as usize);
        let node = self.node(at);
        let Some(frame) = self.frames.last() else {
            return Ok(Flow::Next);
        };
        let mut scope = Scope {
            limits: self.limits,
            set: &frame.set,
            host: self.host,
            executed: &self.frames,
            node,
            shared: self.shared,
        };
        let before = self.shared.steps();
        let args = self.stack.get(from..).unwrap_or_default();
        let read: usize = args.iter().map(text_bytes).sum();
        if let Err(fault) = scope.spend_bytes(read) {
            return Err(called(function, fault, at));
        }
        let value = match &function.body {
            Body::Plain(plain) => plain(&mut scope, args),
            Body::Call => crate::builtin::call(args),
            Body::Slice => crate::builtin::slice(args),
            Body::Rendering(rendering) => match rendering(&mut scope, args) {
                Ok(render) => {
                    self.stack.truncate(from);
                    return self.render(render, Arc::clone(function), at);
                }
                Err(fault) => Err(fault),
            },
            Body::Uncallable(why) => return Err(Failure::Message(why.clone(), at)),
            // These were compiled to jumps.
            Body::And | Body::Or => Ok(Value::Absent),
        };
        self.stack.truncate(from);
        let value = value.map_err(|fault| called(function, fault, at))?;
        self.spend_on(&value, before);
        self.stack.push(value);
        Ok(Flow::Next)
    }

    /// Counts a function's value as steps, less those that the function has spent itself since `before`.
    pub(super) fn spend_on(&self, value: &Value, before: u64) {
        let size = u64::try_from(size(value)).unwrap_or(u64::MAX);
        let all = self.shared.steps().max(before.saturating_add(size));
        self.shared.set_steps(all);
    }

    /// Enters a template that is executed for the value of a function.
    pub(super) fn render(&mut self, render: Render, function: Arc<Function>, at: At) -> Outcome {
        self.spend(render.cost);
        if self.render_depth >= self.limits.render_depth_max {
            return Err(LimitError::Depth(self.limits.render_depth_max).into());
        }
        self.render_depth += 1;
        self.bytes_done += self.outputs.last().map_or(0, Vec::len);
        self.outputs.push(Vec::new());
        let rendered = Rendered {
            then: render.then,
            context: render.context,
            function,
            at,
        };
        self.enter(render.set, render.template.0, render.data, 0, Some(rendered));
        Ok(Flow::Enter)
    }

    /// Leaves a template that has ended.
    pub(super) fn end(&mut self) -> Outcome {
        let Some(frame) = self.frames.pop() else {
            return Ok(Flow::Leave);
        };
        self.slots.truncate(frame.base);
        let Some(rendered) = frame.render else {
            return Ok(Flow::Leave);
        };
        self.render_depth -= 1;
        let output = self.outputs.pop().unwrap_or_default();
        // The output around it was counted as done when this template was entered, and is current again.
        self.bytes_done -= self.outputs.last().map_or(0, Vec::len);
        self.spend(output.len() / BYTES_PER_STEP);
        self.stack.push((rendered.then)(output));
        Ok(Flow::Leave)
    }

    pub(super) fn check_template(&self, name: &Str, at: At) -> Outcome<()> {
        let Some(frame) = self.frames.last() else {
            return Ok(());
        };
        if frame.set.get(name).is_none() {
            let what = format!("template {} not defined", quoted(name));
            return Err(Failure::Message(what, at));
        }
        if frame.depth == TEMPLATE_DEPTH_MAX {
            let what = format!("exceeded maximum template depth ({TEMPLATE_DEPTH_MAX})");
            return Err(Failure::Message(what, at));
        }
        Ok(())
    }

    pub(super) fn template(&mut self, name: &Str) -> Flow {
        let data = self.pop();
        let Some(frame) = self.frames.last() else {
            return Flow::Next;
        };
        let set = Arc::clone(&frame.set);
        let depth = frame.depth + 1;
        let Some(program) = set.get(name).cloned() else {
            return Flow::Next;
        };
        self.enter(set, program, data, depth, None);
        Flow::Enter
    }

    /// The method whose arguments lie on the stack.
    pub(super) fn call_bound(&mut self, count: u32, at: At) -> Outcome {
        match self.bound.pop() {
            Some(function) => self.call(&function, count, at),
            None => Ok(Flow::Next),
        }
    }

    pub(super) fn bound_param(&self, place: u32) -> Type {
        self.bound
            .last()
            .map_or(Type::Any, |function| function.param(place as usize).clone())
    }

    pub(super) fn constant_bound(&mut self, program: &Program, node: NodeId, place: u32) -> Outcome<()> {
        let wanted = self.bound_param(place);
        let value = constant_for_type(&program.tree, node, &wanted);
        let value = value.map_err(|why| Failure::Message(why, At::Node(node)))?;
        self.stack.push(value);
        Ok(())
    }
}

/// How many bytes of text a function may read of an argument.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Str(text) | Value::Bytes(text) => text.len(),
        _ => 0,
    }
}

/// How many steps a function's value counts as.
fn size(value: &Value) -> usize {
    match value {
        Value::Str(text) | Value::Bytes(text) => text.len() / BYTES_PER_STEP,
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

/// The error of a function that failed.
pub(super) fn called(function: &Function, fault: Fault, at: At) -> Failure {
    match fault {
        Fault::Message(why) => Failure::Message(format!("{CALLING}{}: {why}", function.name()), at),
        Fault::Limit(limit) => Failure::Limit(limit),
    }
}

/// The length of the error that a function returned, if the text is [`called`]'s.
pub(super) fn cause(what: &str) -> Option<usize> {
    let (_, why) = what.strip_prefix(CALLING)?.split_once(": ")?;
    Some(why.len())
}
