//! From the tree of a template to its program. What Go detects when it executes (wrong numbers of arguments, constants
//! of wrong types, unknown variables) becomes an operation that fails, so that it fails when Go does and not before.
//!
//! Nothing here calls itself for an inner list or pipeline: that becomes a task, because templates nest to any depth.

mod command;
mod constant;
mod control;

use std::sync::Arc;

pub(crate) use constant::for_type as constant_for_type;

use crate::syntax::{NodeId, NodeKind, Tree};
use crate::value::function::Functions;
use crate::value::template::{At, Code, DOT, Op, Program, ROOT, Slot, Target, Unsure};

impl Program {
    /// Its operations, compiled on the first call.
    pub(crate) fn code(&self) -> &Code {
        let compiled = || compile(&self.tree, self.root, &self.functions);
        self.code.get_or_init(compiled)
    }
}

/// Compiles the template whose nodes begin at `root`.
fn compile(tree: &Tree, root: NodeId, functions: &Functions) -> Code {
    let mut compiler = Compiler {
        tree,
        functions,
        ops: Vec::new(),
        tasks: Vec::new(),
        variables: vec![Variable {
            name: "$",
            slot: ROOT,
            is_sure: true,
        }],
        slots: DOT + 1,
        dot: DOT,
        at: At::Node(root),
        unsure_depth: 0,
        loops: Vec::new(),
    };
    compiler.statements(root);
    while let Some(task) = compiler.tasks.pop() {
        (task.0)(&mut compiler);
    }
    compiler.emit(Op::End);
    let Compiler { ops, slots, .. } = compiler;
    Code { ops, slots }
}

struct Compiler<'t> {
    tree: &'t Tree,
    functions: &'t Functions,
    ops: Vec<Op>,
    /// What is still to be done, last first.
    tasks: Vec<Task<'t>>,
    variables: Vec<Variable<'t>>,
    slots: Slot,
    /// The slot that the dot is in.
    dot: Slot,
    /// The node that Go would have evaluated last, which errors show.
    at: At,
    /// How many `and` and `or` may skip what is compiled.
    unsure_depth: u32,
    loops: Vec<Loop>,
}

/// A variable in scope.
struct Variable<'t> {
    name: &'t str,
    slot: Slot,
    /// Whether its declaration is executed whenever what follows is.
    is_sure: bool,
}

/// A range that is compiled: where it goes on, and the jumps that leave it.
struct Loop {
    next: Target,
    breaks: Vec<usize>,
}

/// Something to do later.
struct Task<'t>(Box<dyn FnOnce(&mut Compiler<'t>) + 't>);

impl<'t> Task<'t> {
    fn new(what: impl FnOnce(&mut Compiler<'t>) + 't) -> Self {
        Self(Box::new(what))
    }
}

impl<'t> Compiler<'t> {
    /// Adds tasks, to be done next and in this order.
    fn then<T>(&mut self, tasks: T)
    where
        T: IntoIterator<Item = Task<'t>>,
        T::IntoIter: DoubleEndedIterator,
    {
        self.tasks.extend(tasks.into_iter().rev());
    }

    /// Executes steps by number. If one adds tasks, those come first, and the remaining steps become a task, too: most add
    /// none.
    fn steps(&mut self, steps: std::ops::Range<usize>, step: impl Fn(&mut Self, usize) + 't) {
        for at in steps.clone() {
            let before = self.tasks.len();
            step(self, at);
            if self.tasks.len() > before {
                let rest = at + 1..steps.end;
                if !rest.is_empty() {
                    self.tasks.insert(before, Task::new(move |c| c.steps(rest, step)));
                }
                return;
            }
        }
    }

    fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// Where the next operation will stand.
    fn here(&self) -> Target {
        // There are not more operations than bytes of text, of which there are less than 4 GiB.
        Target::try_from(self.ops.len()).unwrap_or(Target::MAX)
    }

    /// Puts an operation in place of [`Op::Nothing`].
    fn patch(&mut self, place: usize, op: Op) {
        if let Some(found) = self.ops.get_mut(place) {
            *found = op;
        }
    }

    fn look_at(&mut self, node: NodeId) {
        self.at = At::Node(node);
    }

    fn fail(&mut self, what: String) {
        let at = self.at;
        self.emit(Op::Fail(what.into(), at));
    }

    fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    /// The slots of a variable: one, or several of which the first that is set counts.
    fn slots_of(&self, name: &str) -> Vec<Slot> {
        let mut slots = Vec::new();
        for variable in self.variables.iter().rev().filter(|variable| variable.name == name) {
            slots.push(variable.slot);
            if variable.is_sure {
                break;
            }
        }
        slots
    }

    /// The slot of a variable whose declaration is always executed.
    fn sure_slot(&self, name: &str) -> Option<Slot> {
        let innermost = self.variables.iter().rev().find(|variable| variable.name == name)?;
        innermost.is_sure.then_some(innermost.slot)
    }

    /// Pushes a variable.
    fn load(&mut self, name: &str) {
        self.access(name, Op::Load, Op::LoadFirst);
    }

    /// Stores the top in a declared variable.
    fn assign(&mut self, name: &str) {
        self.access(name, Op::Store, Op::StoreFirst);
    }

    fn access(&mut self, name: &str, sure: fn(Slot) -> Op, unsure: fn(Arc<Unsure>, At) -> Op) {
        if let Some(slot) = self.sure_slot(name) {
            self.emit(sure(slot));
            return;
        }
        let slots = self.slots_of(name);
        if slots.is_empty() {
            return self.fail(format!("undefined variable: {name}"));
        }
        let name = name.to_owned();
        let at = self.at;
        self.emit(unsure(Arc::new(Unsure { name, slots }), at));
    }

    fn declare(&mut self, name: &'t str) -> Slot {
        let slot = self.new_slot();
        self.variables.push(Variable {
            name,
            slot,
            is_sure: self.unsure_depth == 0,
        });
        slot
    }

    /// The name of a variable that a pipeline declares or assigns.
    fn name_of(&self, declared: NodeId) -> &'t str {
        match &self.tree.node(declared).kind {
            NodeKind::Variable(name, _) => name,
            _ => "$",
        }
    }
}
