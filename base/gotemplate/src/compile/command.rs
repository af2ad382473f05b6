//! Pipelines, commands and arguments: what leaves one value on the stack.

use std::sync::{Arc, OnceLock};

use super::constant::{for_type, ideal};
use super::{Compiler, Task};
use crate::syntax::{NodeId, NodeKind, Pipe};
use crate::value::function::{Body, Function};
use crate::value::template::{At, Binding, Op};
use crate::value::{Type, Value};

/// The arguments of a call, and whether one more comes from the pipe and lies on the stack already.
#[derive(Clone, Copy)]
struct Args<'t> {
    written: &'t [NodeId],
    is_piped: bool,
}

impl Args<'_> {
    const NONE: Self = Self {
        written: &[],
        is_piped: false,
    };

    fn is_none(self) -> bool {
        self.written.is_empty() && !self.is_piped
    }

    fn count(self) -> u32 {
        u32::try_from(self.written.len()).unwrap_or(u32::MAX - 1) + u32::from(self.is_piped)
    }
}

/// Where the types of arguments come from.
#[derive(Clone)]
enum Params {
    Of(Arc<Function>),
    /// The method that is found when it is executed
    Bound,
}

impl<'t> Compiler<'t> {
    pub(super) fn pipeline(&mut self, id: NodeId) {
        self.look_at(id);
        let Some(pipe) = self.tree.pipe(id) else {
            return;
        };
        // Each command, and what is done with its value.
        self.steps(0..2 * pipe.commands.len(), |c, at| match pipe.commands.get(at / 2) {
            Some(command) if at % 2 == 0 => c.command(*command, at > 0),
            _ => {
                c.emit(Op::Unwrap);
                if at / 2 + 1 == pipe.commands.len() {
                    c.declarations(pipe);
                }
            }
        });
    }

    /// Declares or assigns the variables of a pipeline.
    fn declarations(&mut self, pipe: &'t Pipe) {
        for declared in &pipe.decl {
            let name = self.name_of(*declared);
            if pipe.is_assign {
                self.assign(name);
            } else {
                let slot = self.declare(name);
                self.emit(Op::Store(slot));
            }
        }
    }

    fn command(&mut self, id: NodeId, is_piped: bool) {
        let NodeKind::Command(command) = &self.tree.node(id).kind else {
            return;
        };
        let Some((first, written)) = command.args.split_first() else {
            return;
        };
        let first = *first;
        let args = Args { written, is_piped };
        match &self.tree.node(first).kind {
            NodeKind::Field(fields) => {
                self.look_at(first);
                self.emit(Op::Load(self.dot));
                self.fields(first, fields, args);
            }
            NodeKind::Chain(of, fields) => self.chain(first, *of, fields, args),
            NodeKind::Identifier(name) => self.function(first, name, id, args),
            NodeKind::Pipe(_) => {
                self.not_a_function(first, args);
                self.then([Task::new(move |c| c.pipeline(first))]);
            }
            NodeKind::Variable(name, fields) => self.variable(first, name, fields, args),
            NodeKind::Constant(constant) => {
                self.look_at(first);
                self.not_a_function(first, args);
                match ideal(constant) {
                    Ok(value) => {
                        self.emit(Op::Constant(value));
                    }
                    Err(why) => self.fail(why),
                }
            }
            NodeKind::Dot => {
                self.look_at(first);
                self.not_a_function(first, args);
                self.emit(Op::Load(self.dot));
            }
            _ => {
                self.look_at(first);
                self.not_a_function(first, args);
                self.fail("nil is not a command".to_owned());
            }
        }
    }

    fn not_a_function(&mut self, first: NodeId, args: Args<'_>) {
        if !args.is_none() {
            let what = self.tree.write(first);
            self.fail(format!("can't give argument to non-function {what}"));
        }
    }

    fn chain(&mut self, id: NodeId, of: NodeId, fields: &'t Arc<[String]>, args: Args<'t>) {
        self.look_at(id);
        if matches!(self.tree.node(of).kind, NodeKind::Nil) {
            let what = self.tree.write(id);
            return self.fail(format!("indirection through explicit nil in {what}"));
        }
        self.then([
            Task::new(move |c| c.operand(of)),
            Task::new(move |c| c.fields(id, fields, args)),
        ]);
    }

    fn variable(&mut self, id: NodeId, name: &str, fields: &'t Arc<[String]>, args: Args<'t>) {
        self.look_at(id);
        self.load(name);
        if fields.is_empty() {
            self.not_a_function(id, args);
        } else {
            self.fields(id, fields, args);
        }
    }

    /// The fields of what lies on the stack. The last gets the arguments.
    fn fields(&mut self, id: NodeId, fields: &'t Arc<[String]>, args: Args<'t>) {
        let Some((last, before)) = fields.split_last() else {
            return;
        };
        if args.is_none() {
            self.field_chain(Arc::clone(fields));
        } else {
            if !before.is_empty() {
                self.field_chain(before.into());
            }
            self.bound_call(id, last, args);
        }
    }

    fn field_chain(&mut self, fields: Arc<[String]>) {
        let at = self.at;
        self.emit(Op::Fields(fields, at));
    }

    fn bound_call(&mut self, id: NodeId, name: &str, args: Args<'t>) {
        let binding = Arc::new(Binding {
            name: name.to_owned(),
            written: args.written.len(),
            is_piped: args.is_piped,
            skip: OnceLock::new(),
        });
        self.emit(Op::Bind(Arc::clone(&binding), self.at));
        self.arguments(args, Params::Bound, move |c| {
            c.emit(Op::CallBound(args.count(), At::Node(id)));
            // Without a receiver no argument is evaluated.
            let at = c.at;
            c.emit(Op::Mark(at));
            c.at = At::Last;
            let here = c.here();
            // Set once, here.
            let _ = binding.skip.set(here);
        });
    }

    fn function(&mut self, id: NodeId, name: &str, caller: NodeId, args: Args<'t>) {
        self.look_at(id);
        let Some(function) = self.functions.get(name).cloned() else {
            return self.fail(format!("\"{name}\" is not a defined function"));
        };
        if let Err(why) = function.check_count(args.written.len(), args.is_piped) {
            return self.fail(why);
        }
        match function.body {
            Body::And => return self.logic(false, args),
            Body::Or => return self.logic(true, args),
            Body::Call => self.callee_name(args),
            Body::Plain(_) | Body::Rendering(_) | Body::Slice | Body::Uncallable(_) => {}
        }
        let is_call = matches!(function.body, Body::Call);
        self.arguments(args, Params::Of(Arc::clone(&function)), move |c| {
            let count = args.count() + u32::from(is_call);
            c.emit(Op::Call(Arc::clone(&function), count, At::Node(caller)));
        });
    }

    /// The text of the function that `call` is to call: its first argument. If that comes from the pipe there is no text, and
    /// the error has the function's value.
    fn callee_name(&mut self, args: Args<'_>) {
        let name = match args.written.first() {
            Some(first) => Value::string(self.tree.write(*first)),
            None => Value::Absent,
        };
        self.emit(Op::Constant(name));
        if args.is_piped {
            // What is piped lies above the name.
            self.emit(Op::Rotate(1));
        }
    }

    /// The arguments in their order, with what is piped at the end, then the call.
    fn arguments(&mut self, args: Args<'t>, params: Params, call: impl Fn(&mut Self) + 't) {
        let last = args.written.len();
        self.steps(0..last + 1, move |c, at| {
            if let Some(arg) = args.written.get(at) {
                return c.argument(*arg, at, &params);
            }
            if args.is_piped {
                if last > 0 {
                    c.emit(Op::Rotate(args.count() - 1));
                }
                c.validate(&params, last);
            }
            call(c);
        });
    }

    /// Checks the top against the type of the parameter at that place.
    fn validate(&mut self, params: &Params, place: usize) {
        let at = self.at;
        match params {
            Params::Of(function) => match function.param(place) {
                // It accepts any value, also one that is absent.
                Type::Reflect => {}
                _ => {
                    let place = u32::try_from(place).unwrap_or(u32::MAX);
                    self.emit(Op::Validate(Arc::clone(function), place, at));
                }
            },
            Params::Bound => {
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                self.emit(Op::ValidateBound(place, at));
            }
        }
    }

    fn argument(&mut self, id: NodeId, place: usize, params: &Params) {
        self.look_at(id);
        match self.tree.node(id).kind {
            NodeKind::Constant(_) | NodeKind::Nil => match params {
                Params::Of(function) => match for_type(self.tree, id, function.param(place)) {
                    Ok(value) => {
                        self.emit(Op::Constant(value));
                    }
                    Err(why) => self.fail(why),
                },
                Params::Bound => {
                    let place = u32::try_from(place).unwrap_or(u32::MAX);
                    self.emit(Op::ConstantBound(id, place));
                }
            },
            _ => {
                let params = params.clone();
                self.steps(0..2, move |c, at| match at {
                    0 => c.operand(id),
                    _ => {
                        c.show_wrapped(id, place, &params);
                        c.validate(&params, place);
                    }
                });
            }
        }
    }

    /// `slice`, alone of Go's functions, refuses an index in an `interface {}`.
    fn show_wrapped(&mut self, id: NodeId, place: usize, params: &Params) {
        let is_index = matches!(params, Params::Of(function) if place > 0 && matches!(function.body, Body::Slice));
        let may_be = matches!(
            self.tree.node(id).kind,
            NodeKind::Dot | NodeKind::Field(_) | NodeKind::Variable(..) | NodeKind::Chain(..)
        );
        if is_index && may_be {
            self.emit(Op::ShowWrapped);
        }
    }

    /// The value of an argument that is no literal.
    fn operand(&mut self, id: NodeId) {
        self.look_at(id);
        match &self.tree.node(id).kind {
            NodeKind::Dot => {
                self.emit(Op::Load(self.dot));
            }
            NodeKind::Field(fields) => {
                self.emit(Op::Load(self.dot));
                self.fields(id, fields, Args::NONE);
            }
            NodeKind::Variable(name, fields) => self.variable(id, name, fields, Args::NONE),
            NodeKind::Pipe(_) => self.then([Task::new(move |c| c.pipeline(id))]),
            NodeKind::Identifier(name) => self.function(id, name, id, Args::NONE),
            NodeKind::Chain(of, fields) => self.chain(id, *of, fields, Args::NONE),
            _ => {}
        }
    }

    /// `and` and `or`: the first argument that decides is the value, else the last.
    fn logic(&mut self, is_or: bool, args: Args<'t>) {
        let clear = self.emit(Op::Nothing);
        let first_slot = self.slots;
        let exits = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for (place, arg) in args.written.iter().enumerate() {
            let is_last = place + 1 == args.written.len() && !args.is_piped;
            let exits = std::rc::Rc::clone(&exits);
            tasks.push(Task::new(move |c| c.logic_argument(*arg)));
            tasks.push(Task::new(move |c| {
                if !is_last {
                    let at = c.at;
                    exits.borrow_mut().push((c.emit(Op::Nothing), at));
                }
                if place == 0 {
                    c.unsure_depth += 1;
                }
            }));
        }
        tasks.push(Task::new(move |c| {
            if !args.written.is_empty() {
                c.unsure_depth -= 1;
            }
            let exits = exits.take();
            if exits.is_empty() {
                return;
            }
            let at = c.at;
            c.emit(Op::Mark(at));
            let over = c.emit(Op::Nothing);
            let here = c.here();
            for (place, at) in exits {
                c.patch(place, Op::ShortCircuit(is_or, here, at));
            }
            if args.is_piped {
                c.emit(Op::DropUnder);
            }
            let here = c.here();
            c.patch(over, Op::Jump(here));
            c.patch(clear, Op::Clear(first_slot, c.slots));
            c.at = At::Last;
        }));
        self.then(tasks);
    }

    fn logic_argument(&mut self, id: NodeId) {
        self.look_at(id);
        match self.tree.node(id).kind {
            NodeKind::Constant(_) | NodeKind::Nil => match for_type(self.tree, id, &Type::Reflect) {
                Ok(value) => {
                    self.emit(Op::Constant(value));
                }
                Err(why) => self.fail(why),
            },
            _ => self.operand(id),
        }
    }
}
