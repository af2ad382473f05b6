//! Executes programs: a stack of values, and a frame for each template that is being executed.

mod calls;
mod fields;
mod ranges;

use std::any::Any;
use std::mem;
use std::sync::Arc;

use crate::environment::error::{Error, ExecError, Fault, LimitError};
use crate::environment::host::Place;
use crate::environment::limits::{BYTES_PER_STEP, Limits};
use crate::print::{NO_VALUE, Printer};
use crate::syntax::NodeId;
use crate::text::quote::quoted;
use crate::value::function::{After, Executed, Function, Shared};
use crate::value::template::{At, Binding, DOT, Op, Program, ROOT, Set, Slot, Target, Unsure};
use crate::value::{Type, Value};
use calls::{called, cause};
use ranges::Iteration;

/// An execution.
pub(crate) struct Machine<'a> {
    limits: &'a Limits,
    shared: &'a Shared,
    host: &'a mut dyn Any,
    stack: Vec<Value>,
    slots: Vec<Variable>,
    frames: Vec<Frame>,
    iterations: Vec<Iteration>,
    /// Methods whose arguments are evaluated, innermost last.
    bound: Vec<Arc<Function>>,
    /// What has been written, that of templates for a function's value last.
    outputs: Vec<Vec<u8>>,
    /// Bytes that are in none of the outputs any more.
    bytes_done: usize,
    /// Whether the value that was loaded last was in an `interface {}`: errors name that type then.
    is_wrapped: bool,
    render_depth: usize,
}

#[derive(Clone, Default)]
struct Variable {
    value: Option<Value>,
    is_wrapped: bool,
}

/// A template that is executed.
struct Frame {
    program: Arc<Program>,
    set: Arc<Set>,
    /// The operation that comes next.
    next: usize,
    /// Where its slots begin.
    base: usize,
    /// How many templates are executed around it, up to one that a function has executed.
    depth: usize,
    /// The node that was evaluated last, for [`At::Last`].
    last: Option<NodeId>,
    render: Option<Rendered>,
}

/// What becomes of a template that a function has executed.
struct Rendered {
    then: After,
    context: String,
    function: Arc<Function>,
    at: At,
}

impl Executed for Vec<Frame> {
    fn count(&self, function: &str, template: &[u8]) -> usize {
        let is_of_function = |frame: &&Frame| {
            frame
                .render
                .as_ref()
                .is_some_and(|render| render.function.name() == function)
        };
        let renders = self.iter().filter(is_of_function);
        renders.filter(|frame| *frame.program.name == *template).count()
    }

    fn depth(&self) -> usize {
        self.len()
    }

    fn place(&self, node: Option<NodeId>) -> Option<Place<'_>> {
        let executed = &self.first()?.program.name;
        let mut called_at = node;
        let mut inner = None;
        for frame in self.iter().rev() {
            if let Some(node) = called_at {
                let tree = &*frame.program.tree;
                let place = Place { executed, tree, node };
                // What `tpl` executes has the name of the set.
                if *tree.parse_name.as_bytes() != **frame.set.name() {
                    return Some(place);
                }
                inner.get_or_insert(place);
            }
            called_at = frame.render.as_ref().and_then(|render| match render.at {
                At::Node(node) => Some(node),
                At::Last => None,
            });
        }
        inner
    }
}

/// Why an operation failed.
enum Failure {
    /// Go's error, without its place
    Message(String, At),
    Limit(LimitError),
}

impl From<LimitError> for Failure {
    fn from(limit: LimitError) -> Self {
        Self::Limit(limit)
    }
}

/// Where to go on.
enum Flow {
    Next,
    Jump(Target),
    /// In a new frame; this one goes on behind the operation later
    Enter,
    /// In the frame below, this one has ended
    Leave,
}

type Outcome<T = Flow> = Result<T, Failure>;

impl<'a> Machine<'a> {
    pub(crate) fn new(limits: &'a Limits, host: &'a mut dyn Any, shared: &'a Shared) -> Self {
        Self {
            limits,
            shared,
            host,
            stack: Vec::new(),
            slots: Vec::new(),
            frames: Vec::new(),
            iterations: Vec::new(),
            bound: Vec::new(),
            outputs: vec![Vec::new()],
            bytes_done: 0,
            is_wrapped: false,
            render_depth: 0,
        }
    }

    /// Executes a template to its end.
    pub(crate) fn run(mut self, set: &Arc<Set>, program: Arc<Program>, data: Value) -> Result<Vec<u8>, Error> {
        self.enter(Arc::clone(set), program, data, 0, None);
        while let Some(frame) = self.frames.last() {
            let program = Arc::clone(&frame.program);
            let (next, base) = (frame.next, frame.base);
            if let Err(failure) = self.frame(&program, next, base) {
                return Err(self.error(failure));
            }
        }
        Ok(self.outputs.pop().unwrap_or_default())
    }

    fn enter(&mut self, set: Arc<Set>, program: Arc<Program>, data: Value, depth: usize, render: Option<Rendered>) {
        let base = self.slots.len();
        self.slots
            .resize(base + program.code().slots as usize, Variable::default());
        for slot in [ROOT, DOT] {
            self.slots[base + slot as usize].value = Some(data.clone());
        }
        self.frames.push(Frame {
            program,
            set,
            next: 0,
            base,
            depth,
            last: None,
            render,
        });
    }

    /// Executes the top frame until another is the top.
    fn frame(&mut self, program: &Program, mut next: usize, base: usize) -> Outcome<()> {
        let ops = &program.code().ops;
        while let Some(op) = ops.get(next) {
            self.spend(1);
            if self.shared.steps() > self.limits.steps_max {
                return Err(LimitError::Steps(self.limits.steps_max).into());
            }
            next += 1;
            match self.step(op, program, base)? {
                Flow::Next => {}
                Flow::Jump(target) => next = target as usize,
                Flow::Enter => {
                    let caller = self.frames.len().checked_sub(2);
                    if let Some(caller) = caller.and_then(|at| self.frames.get_mut(at)) {
                        caller.next = next;
                    }
                    return Ok(());
                }
                Flow::Leave => return Ok(()),
            }
        }
        self.frames.pop();
        Ok(())
    }

    fn step(&mut self, op: &Op, program: &Program, base: usize) -> Outcome {
        match op {
            Op::Text(from, to) => self.write(program.tree.text_of(*from as usize, *to as usize))?,
            Op::Print => self.print()?,
            Op::Load(slot) => self.load(base + *slot as usize),
            Op::LoadFirst(unsure, at) => {
                let slot = self.first_set(unsure, base, *at)?;
                self.load(slot);
            }
            Op::Constant(value) => self.stack.push(value.clone()),
            Op::Unwrap => {
                self.is_wrapped = false;
                if let Some(top @ Value::Nil) = self.stack.last_mut() {
                    *top = Value::Absent;
                }
            }
            Op::ShowWrapped => {
                if let Some(top) = self.stack.last_mut().filter(|_| self.is_wrapped) {
                    *top = Value::Nil;
                }
            }
            Op::Store(slot) => self.store(base + *slot as usize),
            Op::StoreFirst(unsure, at) => {
                let slot = self.first_set(unsure, base, *at)?;
                self.store(slot);
            }
            Op::Copy(from, to) => self.slots[base + *to as usize] = self.slots[base + *from as usize].clone(),
            Op::Clear(from, to) => self.clear(base, *from, *to),
            Op::Pop => drop(self.stack.pop()),
            Op::DropUnder => {
                let below = self.stack.len().saturating_sub(2);
                self.stack.swap_remove(below);
            }
            Op::Rotate(count) => {
                let from = self.stack.len().saturating_sub(*count as usize + 1);
                self.stack[from..].rotate_left(1);
            }
            Op::JumpUnless(_) if self.pop().is_true() => {}
            Op::JumpUnless(target) => return Ok(Flow::Jump(*target)),
            Op::Jump(target) => return Ok(Flow::Jump(*target)),
            Op::ShortCircuit(decides, target, at) => return Ok(self.short_circuit(*decides, *target, *at)),
            Op::Mark(at) => self.mark(*at),
            Op::Fields(names, at) => self.fields(names, *at)?,
            Op::Bind(binding, at) => return self.bind(binding, *at),
            Op::ValidateBound(place, at) => {
                let wanted = self.bound_param(*place);
                self.validate(&wanted, *at)?;
            }
            Op::ConstantBound(node, place) => self.constant_bound(program, *node, *place)?,
            Op::CallBound(count, at) => return self.call_bound(*count, *at),
            Op::Validate(function, place, at) => self.validate(function.param(*place as usize), *at)?,
            Op::Call(function, count, at) => return self.call(function, *count, *at),
            Op::CheckTemplate(name, at) => self.check_template(name, *at)?,
            Op::Template(name) => return Ok(self.template(name)),
            Op::RangeStart { has_two, otherwise, at } => return self.range_start(*has_two, *otherwise, *at),
            Op::RangeNext(slot, end) => return Ok(self.range_next(base + *slot as usize, *end)),
            Op::RangeIndex => self.range_index(),
            Op::RangeEnd => drop(self.iterations.pop()),
            Op::Fail(what, at) => return Err(Failure::Message(what.as_ref().to_owned(), *at)),
            Op::Nothing => {}
            Op::End => return self.end(),
        }
        Ok(Flow::Next)
    }

    fn pop(&mut self) -> Value {
        self.stack.pop().unwrap_or(Value::Absent)
    }

    fn load(&mut self, slot: usize) {
        let variable = &self.slots[slot];
        self.is_wrapped = variable.is_wrapped;
        self.stack.push(variable.value.clone().unwrap_or(Value::Absent));
    }

    fn store(&mut self, slot: usize) {
        self.slots[slot] = Variable {
            value: Some(self.stack.last().cloned().unwrap_or(Value::Absent)),
            is_wrapped: false,
        };
    }

    fn clear(&mut self, base: usize, from: Slot, to: Slot) {
        for variable in &mut self.slots[base + from as usize..base + to as usize] {
            *variable = Variable::default();
        }
    }

    fn first_set(&self, unsure: &Unsure, base: usize, at: At) -> Outcome<usize> {
        let mut slots = unsure.slots.iter().map(|slot| base + *slot as usize);
        slots
            .find(|slot| self.slots[*slot].value.is_some())
            .ok_or_else(|| Failure::Message(format!("undefined variable: {}", unsure.name), at))
    }

    fn mark(&mut self, at: At) {
        if let (At::Node(node), Some(frame)) = (at, self.frames.last_mut()) {
            frame.last = Some(node);
        }
    }

    fn short_circuit(&mut self, decides: bool, target: Target, at: At) -> Flow {
        if self.stack.last().is_some_and(Value::is_true) == decides {
            self.mark(at);
            return Flow::Jump(target);
        }
        self.pop();
        Flow::Next
    }

    /// Writes to the innermost output.
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.spend(bytes.len() / BYTES_PER_STEP);
        if let Some(output) = self.outputs.last_mut() {
            output.extend_from_slice(bytes);
        }
        self.check_output()
    }

    /// Counts what has been made as steps by its size, so that steps bound time and memory.
    fn spend(&self, size: usize) {
        self.shared.add_steps(u64::try_from(size).unwrap_or(u64::MAX));
    }

    fn check_output(&self) -> Outcome<()> {
        let bytes = self.bytes_done + self.outputs.last().map_or(0, Vec::len);
        if bytes > self.limits.output_bytes_max {
            return Err(LimitError::Output(self.limits.output_bytes_max).into());
        }
        Ok(())
    }

    fn print(&mut self) -> Outcome<()> {
        let value = self.pop();
        let Some(output) = self.outputs.last_mut() else {
            return Ok(());
        };
        let before = output.len();
        match &value {
            Value::Str(text) => output.extend_from_slice(text),
            Value::Absent => output.extend_from_slice(NO_VALUE),
            value => {
                let bytes_max = self.limits.output_bytes_max;
                let printed = Printer::new(output, bytes_max).print(std::slice::from_ref(value));
                printed.map_err(LimitError::from)?;
            }
        }
        let written = output.len() - before;
        self.spend(written / BYTES_PER_STEP);
        self.check_output()
    }

    /// Checks the top against a type: text/template's `validateType`.
    fn validate(&mut self, wanted: &Type, at: At) -> Outcome<()> {
        let Some(top) = self.stack.last_mut() else {
            return Ok(());
        };
        match top {
            Value::Absent if wanted.can_be_nil() => *top = wanted.zero(),
            Value::Absent => return Err(Failure::Message(format!("invalid value; expected {wanted}"), at)),
            top if wanted.takes(top) => {
                if let Some(passed) = passed(wanted, top) {
                    *top = passed;
                }
            }
            top => {
                let given = top.type_name();
                let what = format!("wrong type for value; expected {wanted}; got {given}");
                return Err(Failure::Message(what, at));
            }
        }
        Ok(())
    }

    /// The error of a failure: Go's text with its place, and with the functions that called the template.
    fn error(mut self, failure: Failure) -> Error {
        let mut causes = Vec::new();
        let mut text = match failure {
            Failure::Limit(limit) => {
                return Error::Limit {
                    place: self.place(),
                    limit,
                };
            }
            Failure::Message(what, at) => {
                causes.extend(cause(&what));
                self.located(&what, at)
            }
        };
        while let Some(frame) = self.frames.pop() {
            if let Some(rendered) = frame.render {
                causes.push(text.len());
                if !rendered.context.is_empty() {
                    causes.push(text.len() + rendered.context.len());
                }
                let fault = Fault::Message(rendered.context + &text);
                if let Failure::Message(what, at) = called(&rendered.function, fault, rendered.at) {
                    text = self.located(&what, at);
                }
            }
        }
        causes.reverse();
        Error::Exec(ExecError::new(text, causes))
    }

    fn node(&self, at: At) -> Option<NodeId> {
        match at {
            At::Node(node) => Some(node),
            At::Last => self.frames.last()?.last,
        }
    }

    /// An error of the top frame, with its place.
    fn located(&self, what: &str, at: At) -> String {
        let (Some(frame), Some(node)) = (self.frames.last(), self.node(at)) else {
            return what.to_owned();
        };
        let Program { name, tree, .. } = &*frame.program;
        let (location, context) = (tree.location(node), tree.write(node));
        format!(
            "template: {location}: executing {} at <{context}>: {what}",
            quoted(name)
        )
    }

    /// The name of the innermost template, as the place of a limit.
    fn place(&mut self) -> String {
        let name = self.frames.pop().map(|frame| frame.program.name.clone());
        mem::take(&mut self.outputs);
        name.unwrap_or_default().lossy().into_owned()
    }
}

/// What an argument becomes when it is passed, if that is another value: a map loses its own type where the parameter is a
/// plain map.
fn passed(wanted: &Type, given: &Value) -> Option<Value> {
    match (wanted, given) {
        (Type::Any, Value::Object(object)) => object.passed().map(Value::Object),
        (Type::Map(_), Value::Map(map)) => Some(Value::Map(map.unnamed())),
        _ => None,
    }
}
