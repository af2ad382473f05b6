//! The type checker: whether an expression fits the types of its names, and the type of its result (google/cel-go v0.26
//! `checker/checker.go`). It never runs anything. What it cannot follow it accepts.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr, StructExpr,
    operators,
};

use crate::checking::literal_rules;
use crate::syntax::faults::Faults;
use crate::syntax::parse::Parsed;
use crate::typing::declared::{NoField, Object};
use crate::typing::scope::{Checked, Scope};
use crate::typing::signatures::{Overload, overloads};
use crate::typing::types::{Known, Type, instantiate, most_general};

/// Types that expressions can name, beside those of their own scope.
const TYPE_NAMES: [(&str, &str); 16] = [
    ("bool", "type(bool)"),
    ("bytes", "type(bytes)"),
    ("double", "type(double)"),
    ("google.protobuf.Duration", "type(duration)"),
    ("google.protobuf.Timestamp", "type(timestamp)"),
    ("duration", "type(duration)"),
    ("timestamp", "type(timestamp)"),
    ("int", "type(int)"),
    ("list", "type(list(A))"),
    ("map", "type(map(A, B))"),
    ("null_type", "type(null)"),
    ("string", "type(string)"),
    ("type", "type(type)"),
    ("uint", "type(uint)"),
    ("net.IP", "type(net.IP)"),
    ("net.CIDR", "type(net.CIDR)"),
];

/// Messages that protocol buffers know, below their package; what they hold is not followed.
const MESSAGES: &str = "google.protobuf.";
const WELL_KNOWN: [&str; 16] = [
    "Any",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Duration",
    "Empty",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "StringValue",
    "Struct",
    "Timestamp",
    "UInt32Value",
    "UInt64Value",
    "Value",
];

/// Checks an expression.
///
/// # Errors
/// What is wrong with it, in the words of cel-go.
pub(crate) fn check<'s>(source: &str, parsed: &Parsed, scope: &Scope<'s>) -> Result<Checked<'s>, String> {
    let mut checker = Checker {
        parsed,
        scope: scope.clone(),
        known: Known::default(),
        types: vec![None; parsed.nodes.count()],
        overloads: HashMap::new(),
        qualified: HashMap::new(),
        names: Vec::new(),
        faults: Faults::default(),
    };
    checker.visit(&parsed.tree);
    if !checker.faults.is_empty() {
        return Err(checker.faults.report(source));
    }
    let types = std::mem::take(&mut checker.types);
    let known = &mut checker.known;
    let types: Vec<_> = types
        .into_iter()
        .map(|of| of.map(|of| known.resolve(&of, true)))
        .collect();
    let root = usize::try_from(parsed.tree.id).unwrap_or(usize::MAX);
    let checked = Checked {
        result: types.get(root).cloned().flatten().unwrap_or(Type::Dyn),
        types,
        overloads: checker.overloads,
        qualified: checker.qualified,
        names: checker.names,
        steps: checker.known.steps(),
    };
    let mut faults = Faults::default();
    literal_rules::check(parsed, &checked, &mut faults);
    if faults.is_empty() {
        Ok(checked)
    } else {
        Err(faults.report(source))
    }
}

struct Checker<'p, 's> {
    parsed: &'p Parsed,
    scope: Scope<'s>,
    known: Known<'s>,
    types: Vec<Option<Type<'s>>>,
    overloads: HashMap<u64, Vec<&'static str>>,
    qualified: HashMap<u64, String>,
    names: Vec<String>,
    faults: Faults,
}

impl<'s> Checker<'_, 's> {
    fn fault(&mut self, id: u64, words: String) {
        let place = self.parsed.nodes.place(id);
        self.faults.add(place, words);
    }

    fn mismatch(&mut self, id: u64, wanted: &Type<'s>, found: &Type<'s>) {
        self.fault(id, format!("expected type '{wanted}' but found '{found}'"));
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type<'s> {
        self.fault(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn type_of(&self, node: &IdedExpr) -> Type<'s> {
        let index = usize::try_from(node.id).unwrap_or(usize::MAX);
        self.types.get(index).cloned().flatten().unwrap_or(Type::Error)
    }

    fn visit(&mut self, node: &IdedExpr) {
        let found = match &node.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            },
            Expr::Ident(name) => self.ident(name).unwrap_or_else(|| self.undeclared(node.id, name)),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(object) => self.message(node, object),
            Expr::Comprehension(inner) => self.comprehension(inner),
            Expr::Unspecified => Type::Error,
        };
        let index = usize::try_from(node.id).unwrap_or(usize::MAX);
        if let Some(slot) = self.types.get_mut(index) {
            *slot = Some(found);
        }
    }

    fn ident(&mut self, name: &str) -> Option<Type<'s>> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(found) = self.scope.find(name) {
            if !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
            return Some(found);
        }
        if let Some((_, text)) = TYPE_NAMES.iter().find(|(known, _)| *known == name) {
            return Type::parse(text).map(|of| instantiate(&of, &mut |_| self.known.fresh()));
        }
        is_message(name).then_some(Type::Dyn)
    }

    fn select(&mut self, node: &IdedExpr, select: &SelectExpr) -> Type<'s> {
        if !select.test
            && let Some(name) = qualified_name(node)
            && let Some(found) = self.ident(&name)
        {
            self.qualified.insert(node.id, name);
            return found;
        }
        let result = self.field(node, &select.operand, &select.field, false);
        let result = if select.test { Type::Bool } else { result };
        self.known.resolve(&result, false)
    }

    fn field(&mut self, node: &IdedExpr, operand: &IdedExpr, field: &str, is_optional: bool) -> Type<'s> {
        self.visit(operand);
        let operand = self.type_of(operand);
        let operand = self.known.resolve(&operand, false);
        let inner = operand.unwrap_optional();
        let is_optional = is_optional || inner.is_some();
        let result = match inner.as_ref().unwrap_or(&operand) {
            Type::Map(parts) => parts.last(),
            Type::Object(object) => self.object_field(node, object, field),
            open @ Type::Variable(_) => {
                self.known.assignable(&Type::Dyn, open);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let words = format!("type '{other}' does not support field selection");
                self.fault(node.id, words);
                Type::Dyn
            }
        };
        if is_optional { Type::optional(result) } else { result }
    }

    fn object_field(&mut self, node: &IdedExpr, object: &Object<'s>, field: &str) -> Type<'s> {
        object.field(field).unwrap_or_else(|why| {
            let words = match why {
                NoField::Undefined => format!("undefined field '{field}'"),
                NoField::Unresolved => format!("unexpected failed resolution of '{}'", object.name()),
            };
            self.fault(node.id, words);
            Type::Error
        })
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Type<'s> {
        if call.func_name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let result = self.field(node, operand, field.inner(), true);
            self.overloads.insert(node.id, vec!["select_optional_field"]);
            return self.known.resolve(&result, false);
        }
        for argument in &call.args {
            self.visit(argument);
        }
        let name = call.func_name.as_str();
        let Some(target) = call.target.as_deref() else {
            let plain = name.strip_prefix('.').unwrap_or(name);
            return match overloads(plain) {
                Some(candidates) => self.resolve(node, plain, candidates, None, &call.args),
                None => self.undeclared(node.id, name),
            };
        };
        if let Some(prefix) = qualified_name(target) {
            let whole = format!("{}.{name}", prefix.strip_prefix('.').unwrap_or(&prefix));
            if let Some(candidates) = overloads(&whole) {
                let result = self.resolve(node, &whole, candidates, None, &call.args);
                self.qualified.insert(node.id, whole);
                return result;
            }
        }
        self.visit(target);
        match overloads(name) {
            Some(candidates) => self.resolve(node, name, candidates, Some(target), &call.args),
            None => self.undeclared(node.id, name),
        }
    }

    fn resolve(
        &mut self,
        node: &IdedExpr,
        name: &str,
        candidates: &'static [Overload],
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> Type<'s> {
        let given: Vec<Type<'s>> = target.into_iter().chain(args).map(|part| self.type_of(part)).collect();
        let mut result: Option<Type<'s>> = None;
        let mut fitting = Vec::new();
        for overload in candidates
            .iter()
            .filter(|overload| overload.is_member == target.is_some())
        {
            if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
                self.overloads.insert(node.id, vec![overload.id]);
                return self.all_truths(args, &given);
            }
            let mut letters: Vec<(char, Type<'s>)> = Vec::new();
            let known = &mut self.known;
            let mut fresh = |letter: char| {
                if let Some((_, found)) = letters.iter().find(|(known, _)| *known == letter) {
                    return found.clone();
                }
                let made = known.fresh();
                letters.push((letter, made.clone()));
                made
            };
            let wanted: Vec<Type<'s>> = overload
                .arguments
                .iter()
                .map(|of| instantiate(of, &mut fresh))
                .collect();
            let gives = instantiate(&overload.result, &mut fresh);
            if !self.known.all_fit(&given, &wanted) {
                continue;
            }
            fitting.push(overload.id);
            let gives = self.known.resolve(&gives, false);
            result = Some(match result {
                None => gives,
                Some(before) if before == Type::Dyn || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> = given
                .iter()
                .map(|of| self.known.resolve(of, true).to_string())
                .collect();
            let signature = match (target, shown.split_first()) {
                (Some(_), Some((first, rest))) => format!("{first}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let words = format!("found no matching overload for '{name}' applied to '{signature}'");
            self.fault(node.id, words);
            return Type::Error;
        };
        self.overloads.insert(node.id, fitting);
        result
    }

    fn all_truths(&mut self, args: &[IdedExpr], given: &[Type<'s>]) -> Type<'s> {
        let mut result = Type::Bool;
        for (argument, of) in args.iter().zip(given) {
            if !self.known.assignable(of, &Type::Bool) {
                self.mismatch(argument.id, &Type::Bool, of);
                result = Type::Error;
            }
        }
        result
    }

    /// The type of both, if they are of one.
    fn join(&mut self, before: Option<Type<'s>>, next: Type<'s>) -> Type<'s> {
        match before {
            None => next,
            Some(before) if self.known.assignable(&before, &next) => most_general(&before, &next),
            Some(_) => Type::Dyn,
        }
    }

    /// What is in the optional that stands for an element.
    fn unwrapped(&mut self, node: &IdedExpr) -> Type<'s> {
        let of = self.type_of(node);
        match of.unwrap_optional() {
            Some(inner) => inner,
            None => {
                if of != Type::Dyn {
                    self.mismatch(node.id, &Type::optional(of.clone()), &of);
                }
                of
            }
        }
    }

    fn list(&mut self, list: &ListExpr) -> Type<'s> {
        let mut items = None;
        for (index, element) in list.elements.iter().enumerate() {
            self.visit(element);
            let of = match list.optional_indices.contains(&index) {
                true => self.unwrapped(element),
                false => self.type_of(element),
            };
            items = Some(self.join(items, of));
        }
        Type::list(items.unwrap_or_else(|| self.known.fresh()))
    }

    fn map(&mut self, map: &MapExpr) -> Type<'s> {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(pair) = &entry.expr else {
                continue;
            };
            self.visit(&pair.key);
            let key = self.type_of(&pair.key);
            keys = Some(self.join(keys, key));
            self.visit(&pair.value);
            let value = match pair.optional {
                true => self.unwrapped(&pair.value),
                false => self.type_of(&pair.value),
            };
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.known.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.known.fresh()))
    }

    fn message(&mut self, node: &IdedExpr, object: &StructExpr) -> Type<'s> {
        let Some(named) = self.ident(&object.type_name) else {
            return self.undeclared(node.id, &object.type_name);
        };
        for entry in &object.entries {
            if let EntryExpr::StructField(field) = &entry.expr {
                self.visit(&field.value);
            }
        }
        if is_message(object.type_name.trim_start_matches('.')) {
            return Type::Dyn;
        }
        let what = if matches!(named, Type::Meta(_)) {
            "a message type"
        } else {
            "a type"
        };
        let shown = match &named {
            Type::Meta(parts) => parts.first().name(),
            other => other.name(),
        };
        self.fault(node.id, format!("'{shown}' is not {what}"));
        Type::Error
    }

    fn comprehension(&mut self, inner: &ComprehensionExpr) -> Type<'s> {
        self.visit(&inner.iter_range);
        self.visit(&inner.accu_init);
        let range = self.type_of(&inner.iter_range);
        let range = self.known.resolve(&range, false);
        let gathered = self.type_of(&inner.accu_init);
        let outer = self.scope.0.len();
        self.scope.add(&inner.accu_var, gathered.clone());
        let (first, second) = self.loop_types(&range, inner);
        let inside = self.scope.0.len();
        self.scope.add(&inner.iter_var, first);
        if let Some(name) = &inner.iter_var2 {
            self.scope.add(name, second);
        }
        self.visit(&inner.loop_cond);
        self.must_be(&inner.loop_cond, &Type::Bool);
        self.visit(&inner.loop_step);
        self.must_be(&inner.loop_step, &gathered);
        self.scope.0.truncate(inside);
        self.visit(&inner.result);
        self.scope.0.truncate(outer);
        let result = self.type_of(&inner.result);
        self.known.resolve(&result, false)
    }

    /// What the variables of a loop over such a range are.
    fn loop_types(&mut self, range: &Type<'s>, inner: &ComprehensionExpr) -> (Type<'s>, Type<'s>) {
        let has_two = inner.iter_var2.is_some();
        match range {
            Type::List(parts) if has_two => (Type::Int, parts.first()),
            Type::List(parts) => (parts.first(), Type::Dyn),
            Type::Map(parts) => (parts.first(), parts.last()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.known.assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let words = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fault(inner.iter_range.id, words);
                (Type::Error, Type::Error)
            }
        }
    }

    fn must_be(&mut self, node: &IdedExpr, wanted: &Type<'s>) {
        let found = self.type_of(node);
        if !self.known.assignable(wanted, &found) {
            self.mismatch(node.id, wanted, &found);
        }
    }
}

fn is_message(name: &str) -> bool {
    name.strip_prefix(MESSAGES)
        .is_some_and(|name| WELL_KNOWN.contains(&name))
}

/// A chain of names with dots between them.
fn qualified_name(node: &IdedExpr) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified_name(&select.operand)?, select.field)),
        _ => None,
    }
}
