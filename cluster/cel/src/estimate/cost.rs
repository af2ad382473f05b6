//! The most that an expression can cost, estimated from the bounds of its schema (google/cel-go v0.26 `checker/cost.go`). It
//! walks as upstream does, oddities included: a rule is accepted or refused by the exact number.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
};

use crate::estimate::cost_calls::{self, Argument};
use crate::estimate::range::Range;
use crate::estimate::sizes::Sizes;
use crate::syntax::macros::RESULT;
use crate::syntax::parse::Parsed;
use crate::typing::scope::Checked;
use crate::typing::types::Type;

/// Reading a name or a field.
const SELECT_COST: Range = Range::fixed(1);
const LIST_COST: Range = Range::fixed(10);
const MAP_COST: Range = Range::fixed(30);
const MESSAGE_COST: Range = Range::fixed(40);
/// What one character costs of a text that is walked through.
pub(crate) const TEXT_FACTOR: f64 = 0.1;
/// What one character of a pattern costs.
pub(crate) const PATTERN_FACTOR: f64 = 0.25;

/// The way from a name to a part of its value.
pub(crate) type Path = Vec<Arc<str>>;

/// How large keys and values of a list or a map are.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn or(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self {
            is_list: one.is_list,
            key: one.key.or(other.key),
            value: one.value.or(other.value),
        })
    }
}

/// A variable of a loop, or one that a value is bound to.
struct Local {
    name: String,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// The most that an expression about such a value can cost.
pub(crate) fn estimate<'s>(parsed: &Parsed, checked: &Checked<'s>, known: &Sizes<'s>) -> u64 {
    let mut coster = Coster {
        checked,
        known,
        paths: HashMap::new(),
        locals: Vec::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(&parsed.tree).max
}

struct Coster<'c, 's> {
    checked: &'c Checked<'s>,
    known: &'c Sizes<'s>,
    paths: HashMap<u64, Path>,
    locals: Vec<Local>,
    sizes: HashMap<u64, Range>,
    entries: HashMap<u64, Entries>,
}

impl<'s> Coster<'_, 's> {
    fn cost(&mut self, node: &IdedExpr) -> Range {
        match &node.expr {
            Expr::Literal(_) | Expr::Unspecified => Range::NOTHING,
            Expr::Ident(name) => self.ident(node, name),
            Expr::Select(select) => {
                if let Some(name) = self.checked.qualified(node) {
                    return self.ident(node, name);
                }
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.as_str().into());
                self.paths.insert(node.id, path);
                match self.checked.type_of(&select.operand) {
                    Type::Map(_) | Type::Object(_) => operand.plus(SELECT_COST),
                    _ => operand,
                }
            }
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => self.list(node, list),
            Expr::Map(map) => self.map(node, map),
            Expr::Struct(object) => {
                let fields = object.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::StructField(field) => Some(&field.value),
                    EntryExpr::MapEntry(_) => None,
                });
                fields.fold(MESSAGE_COST, |sum, value| sum.plus(self.cost(value)))
            }
            Expr::Comprehension(inner) if is_bind(inner) => self.bind(node, inner),
            Expr::Comprehension(inner) => self.comprehension(node, inner),
        }
    }

    fn list(&mut self, node: &IdedExpr, list: &ListExpr) -> Range {
        let start = if list.elements.is_empty() {
            Range::NOTHING
        } else {
            Range::EMPTY
        };
        let (mut sum, mut value) = (LIST_COST, start);
        for element in &list.elements {
            sum = sum.plus(self.cost(element));
            value = value.or(self.size_or_unknown(element));
        }
        let entries = Entries {
            is_list: true,
            key: Range::fixed(1),
            value,
        };
        self.entries.insert(node.id, entries);
        sum
    }

    fn map(&mut self, node: &IdedExpr, map: &MapExpr) -> Range {
        let start = if map.entries.is_empty() {
            Range::NOTHING
        } else {
            Range::EMPTY
        };
        let (mut sum, mut key, mut value) = (MAP_COST, start, start);
        for entry in &map.entries {
            if let EntryExpr::MapEntry(pair) = &entry.expr {
                sum = sum.plus(self.cost(&pair.key)).plus(self.cost(&pair.value));
                key = key.or(self.size_or_unknown(&pair.key));
                value = value.or(self.size_or_unknown(&pair.value));
            }
        }
        let entries = Entries {
            is_list: false,
            key,
            value,
        };
        self.entries.insert(node.id, entries);
        sum
    }

    fn ident(&mut self, node: &IdedExpr, name: &str) -> Range {
        let path = match self.local(name) {
            Some(local) => local.path.clone(),
            None => vec![name.into()],
        };
        self.paths.insert(node.id, path);
        SELECT_COST
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, node: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &node.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&node.id).cloned().unwrap_or_default()
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Range {
        if let ("dyn", None, [argument]) = (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            let cost = self.cost(argument);
            self.copy_sizes(node, argument);
            return cost.plus(Range::fixed(1));
        }
        let (mut costs, mut args) = (Vec::new(), Vec::new());
        for argument in &call.args {
            costs.push(self.cost(argument));
            args.push(self.argument(argument));
        }
        let overloads = self.checked.overloads(node);
        if overloads.is_empty() {
            return Range::NOTHING;
        }
        let qualified = self.checked.qualified(node);
        let (mut sum, mut target) = (Range::NOTHING, None);
        if let Some(of) = call.target.as_deref().filter(|_| qualified.is_none()) {
            sum = self.cost(of);
            target = Some(self.argument(of));
        }
        let function = qualified.unwrap_or(&call.func_name);
        let all_args = costs.iter().fold(Range::NOTHING, |sum, cost| sum.plus(*cost));
        let (mut cost, mut size) = (Range::EMPTY, None::<Range>);
        for overload in overloads {
            let one = cost_calls::Call {
                function,
                overload,
                target: target.as_ref(),
                args: &args,
                known: self.known,
            };
            let (of_overload, result) = match self.of_logic(node, overload, &args, &costs) {
                Some(known) => known,
                None => {
                    let (cost, size) = one.cost();
                    (cost.plus(all_args), size)
                }
            };
            cost = cost.or(of_overload);
            size = match (size, result) {
                (Some(one), Some(other)) => Some(one.or(other)),
                (one, other) => one.or(other),
            };
            if let ("index_list" | "index_map", Some(whole)) = (*overload, call.args.first()) {
                let part = if *overload == "index_list" { "@items" } else { "@values" };
                size = self.entries_of(whole).map(|entries| entries.value);
                let mut path = self.path(whole);
                path.push(part.into());
                self.paths.insert(node.id, path);
            }
            if size.is_none() {
                size = self.size(node);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(node.id, size);
        }
        sum.plus(cost)
    }

    /// Calls whose arguments do not all run, or whose parts have a size of their own.
    fn of_logic(
        &mut self,
        node: &IdedExpr,
        overload: &str,
        args: &[Argument<'_, 's>],
        costs: &[Range],
    ) -> Option<(Range, Option<Range>)> {
        match (overload, args, costs) {
            ("logical_or" | "logical_and", _, [left, right]) => {
                let cost = Range {
                    min: left.min,
                    max: left.plus(*right).max,
                };
                Some((cost, None))
            }
            ("conditional", [_, then, otherwise], [condition, one, other]) => {
                let size = then.size_or_unknown().or(otherwise.size_or_unknown());
                let entries = Entries::or(
                    then.node.and_then(|node| self.entries_of(node)),
                    otherwise.node.and_then(|node| self.entries_of(node)),
                );
                self.set_entries(node, entries);
                Some((condition.plus(one.or(*other)), Some(size)))
            }
            ("add_string" | "add_bytes" | "add_list", [left, right], _) => {
                let entries = Entries::or(
                    left.node.and_then(|node| self.entries_of(node)),
                    right.node.and_then(|node| self.entries_of(node)),
                );
                self.set_entries(node, entries);
                None
            }
            _ => None,
        }
    }

    fn set_entries(&mut self, node: &IdedExpr, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(node.id, entries);
        }
    }

    fn argument<'n>(&mut self, node: &'n IdedExpr) -> Argument<'n, 's> {
        let path = self.path(node);
        let of_result = path
            .first()
            .is_some_and(|first| matches!(&**first, "__result__" | RESULT));
        Argument {
            path: if of_result { Path::new() } else { path },
            of: self.checked.type_of(node),
            node: Some(node),
            size: self.size(node),
        }
    }

    fn copy_sizes(&mut self, to: &IdedExpr, from: &IdedExpr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        let entries = self.entries_of(from);
        self.set_entries(to, entries);
    }

    fn bind(&mut self, node: &IdedExpr, inner: &ComprehensionExpr) -> Range {
        let mut sum = self.cost(&inner.iter_range).plus(self.cost(&inner.accu_init));
        self.push_value(&inner.accu_var, &inner.accu_init);
        sum = sum.plus(self.cost(&inner.result));
        self.locals.pop();
        self.copy_sizes(node, &inner.result);
        sum
    }

    fn push_value(&mut self, name: &str, value: &IdedExpr) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(value),
            entries: self.entries_of(value),
            size: self.size(value),
        };
        self.locals.push(local);
    }

    /// A variable for the keys, the values, or what a loop with one variable runs over.
    fn push_part(&mut self, name: &str, range: &IdedExpr, wants_value: Option<bool>) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let part = match (wants_value, is_list) {
            (None | Some(true), true) => "@items",
            (Some(true), false) => "@values",
            (Some(false), true) => "@indices",
            (None | Some(false), false) => "@keys",
        };
        let size = entries.map(|entries| match wants_value.unwrap_or(is_list) {
            true => entries.value,
            false => entries.key,
        });
        let mut path = self.path(range);
        path.push(part.into());
        self.locals.push(Local {
            name: name.to_owned(),
            path,
            size,
            entries: None,
        });
    }

    fn comprehension(&mut self, node: &IdedExpr, inner: &ComprehensionExpr) -> Range {
        let mut sum = self.cost(&inner.iter_range).plus(self.cost(&inner.accu_init));
        self.push_value(&inner.accu_var, &inner.accu_init);
        let outside = self.locals.len();
        match &inner.iter_var2 {
            Some(second) => {
                self.push_part(&inner.iter_var, &inner.iter_range, Some(false));
                self.push_part(second, &inner.iter_range, Some(true));
            }
            None => self.push_part(&inner.iter_var, &inner.iter_range, None),
        }
        let step = self.cost(&inner.loop_cond).plus(self.cost(&inner.loop_step));
        self.locals.truncate(outside);
        sum = sum.plus(self.cost(&inner.result));
        self.locals.pop();
        let count = self.size_or_unknown(&inner.iter_range);
        sum = sum.plus(count.by(step));
        match &inner.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&inner.accu_init) {
                    self.sizes.insert(node.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(node.id, count);
                let entries = self.entries_of(&inner.loop_step);
                self.set_entries(node, entries);
            }
            _ => {}
        }
        sum
    }

    fn size_or_unknown(&mut self, node: &IdedExpr) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, node: &IdedExpr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&node.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(node) {
            return Some(size);
        }
        if let Some(size) = self.known.at(&self.path(node)) {
            self.sizes.insert(node.id, size);
            return Some(size);
        }
        if self.checked.type_of(node).is_scalar() {
            return Some(Range::fixed(1));
        }
        match &node.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, node: &IdedExpr) -> Option<Entries> {
        match (self.entries.get(&node.id), &node.expr) {
            (Some(entries), _) => Some(*entries),
            (None, Expr::Ident(name)) => self.local(name)?.entries,
            _ => None,
        }
    }
}

/// A loop that never runs and gives a value a name.
fn is_bind(inner: &ComprehensionExpr) -> bool {
    matches!(&inner.iter_range.expr, Expr::List(list) if list.elements.is_empty())
        && matches!(&inner.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(truth)) if !*truth.inner())
}

/// The size of a literal, a list or a map that is written in the expression.
fn written_size(node: &IdedExpr) -> Option<Range> {
    let size = match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => return None,
    };
    Some(Range::fixed(size as u64))
}
