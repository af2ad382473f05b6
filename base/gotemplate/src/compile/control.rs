//! Statements: text, actions, branches, loops, templates.

use super::{Compiler, Loop, Task};
use crate::syntax::{Branch, NodeId, NodeKind};
use crate::value::Value;
use crate::value::template::{Op, Slot};

impl<'t> Compiler<'t> {
    /// The statements of a list.
    pub(super) fn statements(&mut self, list: NodeId) {
        let nodes = self.tree.list(list);
        self.steps(0..nodes.len(), |c, at| c.statement(nodes[at]));
    }

    fn statement(&mut self, id: NodeId) {
        self.look_at(id);
        match &self.tree.node(id).kind {
            NodeKind::Text(from, to) => {
                let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
                self.emit(Op::Text(place(*from), place(*to)));
            }
            NodeKind::Action(pipe) => {
                let is_printed = self.tree.pipe(*pipe).is_some_and(|pipe| pipe.decl.is_empty());
                self.steps(0..2, move |c, at| match at {
                    0 => c.pipeline(*pipe),
                    _ => {
                        c.emit(if is_printed { Op::Print } else { Op::Pop });
                    }
                });
            }
            NodeKind::If(branch) => self.branch(branch, false),
            NodeKind::With(branch) => self.branch(branch, true),
            NodeKind::Range(branch) => self.range(branch),
            NodeKind::Template { name, pipe } => {
                self.emit(Op::CheckTemplate(name.clone(), self.at));
                let pipe = *pipe;
                self.then([
                    Task::new(move |c| match pipe {
                        Some(pipe) => c.pipeline(pipe),
                        None => {
                            c.emit(Op::Constant(Value::Absent));
                        }
                    }),
                    Task::new(move |c| {
                        c.emit(Op::Template(name.clone()));
                    }),
                ]);
            }
            NodeKind::Break => {
                let jump = self.emit(Op::Nothing);
                if let Some(innermost) = self.loops.last_mut() {
                    innermost.breaks.push(jump);
                }
            }
            NodeKind::Continue => {
                if let Some(next) = self.loops.last().map(|innermost| innermost.next) {
                    self.emit(Op::Jump(next));
                }
            }
            _ => {}
        }
    }

    /// `if` and `with`.
    fn branch(&mut self, branch: &'t Branch, is_with: bool) {
        let variables = self.variables.len();
        let dot = self.dot;
        self.then([
            Task::new(move |c| c.pipeline(branch.pipe)),
            Task::new(move |c| {
                let with = is_with.then(|| c.new_slot());
                if let Some(slot) = with {
                    c.emit(Op::Store(slot));
                }
                let test = c.emit(Op::Nothing);
                // What the first list declares is not visible in the second.
                let declared = c.variables.len();
                c.dot = with.unwrap_or(dot);
                c.then([
                    Task::new(move |c| c.statements(branch.list)),
                    Task::new(move |c| {
                        c.dot = dot;
                        c.variables.truncate(declared);
                        c.otherwise(branch, test);
                    }),
                    Task::new(move |c| c.variables.truncate(variables)),
                ]);
            }),
        ]);
    }

    /// The list after `else`; the jump of the test is patched.
    fn otherwise(&mut self, branch: &'t Branch, test: usize) {
        let Some(list) = branch.else_list else {
            let here = self.here();
            return self.patch(test, Op::JumpUnless(here));
        };
        let over = self.emit(Op::Nothing);
        let here = self.here();
        self.patch(test, Op::JumpUnless(here));
        self.then([
            Task::new(move |c| c.statements(list)),
            Task::new(move |c| {
                let here = c.here();
                c.patch(over, Op::Jump(here));
            }),
        ]);
    }

    fn range(&mut self, branch: &'t Branch) {
        let variables = self.variables.len();
        self.then([
            Task::new(move |c| c.pipeline(branch.pipe)),
            Task::new(move |c| c.range_body(branch)),
            Task::new(move |c| c.variables.truncate(variables)),
        ]);
    }

    fn range_body(&mut self, branch: &'t Branch) {
        let Some(pipe) = self.tree.pipe(branch.pipe) else {
            return;
        };
        let at = self.at;
        let has_two = pipe.decl.len() > 1;
        let start = self.emit(Op::Nothing);
        let next = self.here();
        let next_place = self.emit(Op::Nothing);
        let dot = self.dot;
        let element = self.new_slot();
        self.range_variables(&pipe.decl, pipe.is_assign, element);
        let declared = self.variables.len();
        self.dot = element;
        self.loops.push(Loop {
            next,
            breaks: Vec::new(),
        });
        self.then([
            Task::new(move |c| c.statements(branch.list)),
            Task::new(move |c| {
                c.dot = dot;
                c.variables.truncate(declared);
                c.emit(Op::Jump(next));
                let breaks = c.loops.pop().map(|innermost| innermost.breaks).unwrap_or_default();
                if !breaks.is_empty() {
                    let here = c.here();
                    for jump in breaks {
                        c.patch(jump, Op::Jump(here));
                    }
                    c.emit(Op::RangeEnd);
                }
                let over = c.emit(Op::Nothing);
                c.patch(next_place, Op::RangeNext(element, over as u32));
                let otherwise = c.here();
                c.patch(start, Op::RangeStart { has_two, otherwise, at });
                c.range_otherwise(branch, over);
            }),
        ]);
    }

    /// The list after `else`. Go catches a `break` in it at this range, although nothing is ranged over any more; a
    /// `continue` is the range's around it.
    fn range_otherwise(&mut self, branch: &'t Branch, over: usize) {
        let next = self.loops.last().map_or(0, |outer| outer.next);
        self.loops.push(Loop {
            next,
            breaks: vec![over],
        });
        let list = branch.else_list;
        self.then([
            Task::new(move |c| {
                if let Some(list) = list {
                    c.statements(list);
                }
            }),
            Task::new(|c| {
                let here = c.here();
                for jump in c.loops.pop().map(|left| left.breaks).unwrap_or_default() {
                    c.patch(jump, Op::Jump(here));
                }
            }),
        ]);
    }

    /// What an iteration begins with: index and element to the variables.
    fn range_variables(&mut self, decl: &'t [NodeId], is_assign: bool, element: Slot) {
        let (index_of, element_of) = match decl {
            [] => (None, None),
            [only] => (None, Some(*only)),
            [first, second, ..] => (Some(*first), Some(*second)),
        };
        if let Some(variable) = index_of {
            self.emit(Op::RangeIndex);
            match self.declared(decl, variable).filter(|_| !is_assign) {
                Some(slot) => {
                    self.emit(Op::Store(slot));
                }
                None => self.assign(self.name_of(variable)),
            }
            self.emit(Op::Pop);
        }
        if let Some(variable) = element_of {
            let known = if is_assign {
                self.sure_slot(self.name_of(variable))
            } else {
                self.declared(decl, variable)
            };
            match known {
                Some(slot) => {
                    self.emit(Op::Copy(element, slot));
                }
                None => {
                    self.emit(Op::Load(element));
                    self.assign(self.name_of(variable));
                    self.emit(Op::Pop);
                }
            }
        }
    }

    /// The slot of a variable that the pipeline of a range has just declared: the last of them was declared last.
    fn declared(&self, decl: &[NodeId], variable: NodeId) -> Option<Slot> {
        let behind = decl.iter().rev().position(|declared| *declared == variable)?;
        self.variables.iter().rev().nth(behind).map(|variable| variable.slot)
    }
}
