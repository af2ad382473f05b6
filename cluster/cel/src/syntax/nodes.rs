//! The nodes of an expression's tree: their numbers, places and depths, and how they are made.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue, MapEntryExpr,
    MapExpr, SelectExpr, StructExpr, StructFieldExpr,
};

/// Most nodes of one expression: macros that copy what they are given can double it at every step.
const NODES_MAX: usize = 50_000;

/// Bytes of copied text that weigh as much as a node. (Go shares them.)
const BYTES_PER_NODE: usize = 16;

/// All nodes that were made, by number.
#[derive(Default)]
pub(crate) struct Nodes {
    made: Vec<Made>,
    /// Bytes of texts and names that were copied.
    copied: usize,
}

#[derive(Clone, Copy)]
struct Made {
    place: Option<usize>,
    depth: usize,
}

impl Nodes {
    /// A number for what is no expression of its own.
    pub(crate) fn id(&mut self, place: Option<usize>) -> u64 {
        self.made.push(Made { place, depth: 0 });
        self.made.len() as u64
    }

    pub(crate) fn count(&self) -> usize {
        self.made.len() + 1
    }

    /// How many nodes there are, with copied texts as so many more.
    pub(crate) fn weight(&self) -> usize {
        self.made.len() + self.copied / BYTES_PER_NODE
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.weight() > NODES_MAX
    }

    fn made(&self, id: u64) -> Option<Made> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        self.made.get(index).copied()
    }

    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        self.made(id)?.place
    }

    pub(crate) fn depth(&self, node: &IdedExpr) -> usize {
        self.made(node.id).map_or(0, |made| made.depth)
    }

    pub(crate) fn make(&mut self, place: Option<usize>, expr: Expr) -> IdedExpr {
        let mut deepest = 0;
        each_part(&expr, &mut |part| deepest = deepest.max(self.depth(part)));
        self.made.push(Made {
            place,
            depth: deepest + 1,
        });
        IdedExpr {
            id: self.made.len() as u64,
            expr,
        }
    }

    pub(crate) fn name(&mut self, place: Option<usize>, name: &str) -> IdedExpr {
        self.make(place, Expr::Ident(name.to_owned()))
    }

    pub(crate) fn truth(&mut self, place: Option<usize>, truth: bool) -> IdedExpr {
        self.make(place, Expr::Literal(LiteralValue::Boolean(truth.into())))
    }

    pub(crate) fn number(&mut self, place: Option<usize>, number: i64) -> IdedExpr {
        self.make(place, Expr::Literal(LiteralValue::Int(number.into())))
    }

    pub(crate) fn list(&mut self, place: Option<usize>, elements: Vec<IdedExpr>) -> IdedExpr {
        self.make(place, Expr::List(ListExpr::new(elements)))
    }

    pub(crate) fn call(&mut self, place: Option<usize>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
        let call = CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        };
        self.make(place, Expr::Call(call))
    }

    pub(crate) fn member(
        &mut self,
        place: Option<usize>,
        target: IdedExpr,
        function: &str,
        args: Vec<IdedExpr>,
    ) -> IdedExpr {
        let call = CallExpr {
            func_name: function.to_owned(),
            target: Some(Box::new(target)),
            args,
        };
        self.make(place, Expr::Call(call))
    }

    /// The same tree under other numbers; an empty node when there are too many.
    pub(crate) fn copy(&mut self, of: &IdedExpr) -> IdedExpr {
        if self.are_too_many() {
            return IdedExpr::default();
        }
        self.copied += texts_bytes(&of.expr);
        let boxed = |nodes: &mut Self, part: &IdedExpr| Box::new(nodes.copy(part));
        let expr = match &of.expr {
            Expr::Call(call) => Expr::Call(CallExpr {
                func_name: call.func_name.clone(),
                target: call.target.as_deref().map(|target| boxed(self, target)),
                args: call.args.iter().map(|part| self.copy(part)).collect(),
            }),
            Expr::Comprehension(inner) => Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: self.copy(&inner.iter_range),
                iter_var: inner.iter_var.clone(),
                iter_var2: inner.iter_var2.clone(),
                accu_var: inner.accu_var.clone(),
                accu_init: self.copy(&inner.accu_init),
                loop_cond: self.copy(&inner.loop_cond),
                loop_step: self.copy(&inner.loop_step),
                result: self.copy(&inner.result),
            })),
            Expr::List(list) => Expr::List(ListExpr::new_with_optionals(
                list.elements.iter().map(|part| self.copy(part)).collect(),
                list.optional_indices.clone(),
            )),
            Expr::Map(map) => Expr::Map(MapExpr {
                entries: self.copy_entries(&map.entries),
            }),
            Expr::Struct(object) => Expr::Struct(StructExpr {
                type_name: object.type_name.clone(),
                entries: self.copy_entries(&object.entries),
            }),
            Expr::Select(select) => Expr::Select(SelectExpr {
                operand: boxed(self, &select.operand),
                field: select.field.clone(),
                test: select.test,
            }),
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => of.expr.clone(),
        };
        let place = self.place(of.id);
        self.make(place, expr)
    }

    fn copy_entries(&mut self, entries: &[IdedEntryExpr]) -> Vec<IdedEntryExpr> {
        let copied = entries.iter().map(|entry| {
            let expr = match &entry.expr {
                EntryExpr::StructField(field) => EntryExpr::StructField(StructFieldExpr {
                    value: self.copy(&field.value),
                    ..field.clone()
                }),
                EntryExpr::MapEntry(pair) => EntryExpr::MapEntry(MapEntryExpr {
                    key: self.copy(&pair.key),
                    value: self.copy(&pair.value),
                    optional: pair.optional,
                }),
            };
            let place = self.place(entry.id);
            IdedEntryExpr {
                id: self.id(place),
                expr,
            }
        });
        copied.collect()
    }
}

/// The bytes of texts and names that a node has itself.
fn texts_bytes(expr: &Expr) -> usize {
    match expr {
        Expr::Call(call) => call.func_name.len(),
        Expr::Comprehension(inner) => {
            inner.iter_var.len() + inner.accu_var.len() + inner.iter_var2.as_ref().map_or(0, String::len)
        }
        Expr::Struct(object) => {
            let fields = object.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => field.field.len(),
                EntryExpr::MapEntry(_) => 0,
            });
            object.type_name.len() + fields.sum::<usize>()
        }
        Expr::Select(select) => select.field.len(),
        Expr::Ident(name) => name.len(),
        Expr::Literal(LiteralValue::String(text)) => text.inner().len(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Unspecified => 0,
    }
}

/// Visits each expression that is right below.
pub(crate) fn each_part<'e>(expr: &'e Expr, visit: &mut impl FnMut(&'e IdedExpr)) {
    match expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|target| visit(target));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(inner) => {
            for part in [
                &inner.iter_range,
                &inner.accu_init,
                &inner.loop_cond,
                &inner.loop_step,
                &inner.result,
            ] {
                visit(part);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => map.entries.iter().for_each(|entry| each_of_entry(&entry.expr, visit)),
        Expr::Struct(object) => object
            .entries
            .iter()
            .for_each(|entry| each_of_entry(&entry.expr, visit)),
        Expr::Select(select) => visit(&select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn each_of_entry<'e>(entry: &'e EntryExpr, visit: &mut impl FnMut(&'e IdedExpr)) {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value),
        EntryExpr::MapEntry(pair) => {
            visit(&pair.key);
            visit(&pair.value);
        }
    }
}

/// Changes each expression that is right below.
pub(crate) fn each_part_mut(expr: &mut Expr, change: &mut impl FnMut(&mut IdedExpr)) {
    match expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| change(target));
            call.args.iter_mut().for_each(change);
        }
        Expr::Comprehension(inner) => {
            for part in [
                &mut inner.iter_range,
                &mut inner.accu_init,
                &mut inner.loop_cond,
                &mut inner.loop_step,
                &mut inner.result,
            ] {
                change(part);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(change),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                    change(&mut pair.key);
                    change(&mut pair.value);
                }
            }
        }
        Expr::Select(select) => change(&mut select.operand),
        // Messages have no values here.
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}
