//! Names that an expression may use, and what the checker found about one.

use std::collections::HashMap;

use kube_cel::cel::common::ast::IdedExpr;

use crate::typing::types::Type;

/// Names that an expression may use, with their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope<'s>(pub(crate) Vec<(String, Type<'s>)>);

impl<'s> Scope<'s> {
    pub(crate) fn add(&mut self, name: &str, of: Type<'s>) {
        self.0.push((name.to_owned(), of));
    }

    pub(crate) fn find(&self, name: &str) -> Option<Type<'s>> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, of)| of.clone())
    }
}

/// What the checker found about a valid expression.
pub(crate) struct Checked<'s> {
    pub(crate) types: Vec<Option<Type<'s>>>,
    pub(crate) overloads: HashMap<u64, Vec<&'static str>>,
    /// Functions and variables that were named with dots.
    pub(crate) qualified: HashMap<u64, String>,
    pub(crate) names: Vec<String>,
    pub(crate) result: Type<'s>,
    pub(crate) steps: u32,
}

impl<'s> Checked<'s> {
    /// The type of the whole expression.
    pub(crate) fn result(&self) -> &Type<'s> {
        &self.result
    }

    /// How much work it was.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    pub(crate) fn type_of(&self, node: &IdedExpr) -> Type<'s> {
        let index = usize::try_from(node.id).unwrap_or(usize::MAX);
        self.types.get(index).cloned().flatten().unwrap_or(Type::Dyn)
    }

    /// The overloads that fit a call, by their identifiers.
    pub(crate) fn overloads(&self, node: &IdedExpr) -> &[&'static str] {
        self.overloads.get(&node.id).map(Vec::as_slice).unwrap_or_default()
    }

    /// The function of a call whose target is a part of its name, or the variable that a field selection names.
    pub(crate) fn qualified(&self, node: &IdedExpr) -> Option<&str> {
        self.qualified.get(&node.id).map(String::as_str)
    }

    /// Whether a name of the scope is used.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.names.iter().any(|used| used == name)
    }
}
