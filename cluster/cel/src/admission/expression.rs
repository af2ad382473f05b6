//! Expressions over named values, as admission has them (kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel`): compiled once. It runs none.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use crate::checking::check::check;
use crate::checking::literal_rules::conversion_fault;
use crate::run::variables::{FIELDS, VARIABLE};
use crate::run::{authorizer, functions, meter};
use crate::syntax::nodes::each_part_mut;
use crate::syntax::parse::parse;
use crate::syntax::work::Work;
use crate::typing::declared::Object;
use crate::typing::scope::Scope as Typed;
use crate::typing::types::Type;

/// The name under which expressions of a policy see its variables.
const COMPOSED: &str = "variables";

/// A compiled expression.
#[derive(Clone)]
pub struct Expression {
    source: String,
    pub(crate) tree: IdedExpr,
    result: Type<'static>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// The variables that a policy composes, by the types of their expressions.
#[derive(Clone, Debug, Default)]
pub struct Composed(BTreeMap<String, Type<'static>>);

impl Composed {
    /// Adds a variable; without an expression its type is not known.
    pub fn add(&mut self, name: &str, expression: Option<&Expression>) {
        let of = expression.map_or(Type::Dyn, |expression| expression.result.simple());
        self.0.insert(name.to_owned(), of);
    }
}

/// What a name of admission stands for.
fn type_of_name(name: &str) -> Type<'static> {
    let object = match name {
        "request" => "kubernetes.AdmissionRequest",
        "namespaceObject" => "kubernetes.Namespace",
        authorizer::NAME => "kubernetes.authorization.Authorizer",
        _ => return Type::Dyn,
    };
    Type::parse(object).unwrap_or(Type::Dyn)
}

impl Expression {
    /// Compiles an expression that may use `names`, and those of `composed` below `variables`. `work` counts for all expressions
    /// of its object.
    ///
    /// # Errors
    /// What is wrong, as kube-apiserver words it.
    pub fn compile(source: &str, names: &[&str], composed: Option<&Composed>, work: &mut Work) -> Result<Self, String> {
        let mut scope = Typed::default();
        for name in names {
            scope.add(name, type_of_name(name));
            if *name == authorizer::NAME {
                let resource = format!("{name}.{}", authorizer::REQUEST_RESOURCE);
                let of = Type::parse("kubernetes.authorization.ResourceCheck");
                scope.add(&resource, of.unwrap_or(Type::Dyn));
            }
        }
        if let Some(Composed(types)) = composed {
            scope.add(COMPOSED, Type::Object(Object::variables(types.clone())));
        }
        let failed = |why| format!("compilation failed: {why}");
        let parsed = parse(source, work).map_err(failed)?;
        let checked = check(source, &parsed, &scope).map_err(failed)?;
        work.count_checked(checked.steps());
        let result = checked.result().clone();
        if let Some(why) = conversion_fault(&parsed.tree) {
            return Err(format!("program instantiation failed: {why}"));
        }
        Ok(Self::made(source, parsed.tree, composed.is_some(), result))
    }

    /// A stored expression, perhaps accepted by a version with fewer checks: its types and names are not checked again, and where
    /// they do not fit it fails when it runs. `is_composed`: it may use `variables`.
    ///
    /// # Errors
    /// It cannot be parsed; as kube-apiserver words it.
    pub fn stored(source: &str, is_composed: bool, work: &mut Work) -> Result<Self, String> {
        let parsed = parse(source, work).map_err(|why| format!("compilation failed: {why}"))?;
        Ok(Self::made(source, parsed.tree, is_composed, Type::Dyn))
    }

    fn made(source: &str, mut tree: IdedExpr, is_composed: bool, result: Type<'static>) -> Self {
        functions::lower(&mut tree);
        rewrite(&mut tree, is_composed);
        let _ = meter::meter(&mut tree);
        Self {
            source: source.to_owned(),
            tree,
            result,
        }
    }

    /// What was compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The type of its result, as cel-go calls it: `bool`, `string`, `list(int)`, `dyn`.
    pub fn result_type(&self) -> String {
        self.result.name()
    }
}

fn call(id: u64, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        }),
    }
}

fn literal(id: u64, text: &str) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Literal(LiteralValue::String(text.into())),
    }
}

/// Puts calls where the interpreter would not look up or answer as cel-go does: variables of the policy, fields of values
/// that have none.
fn rewrite(expression: &mut IdedExpr, is_composed: bool) {
    let id = expression.id;
    let Expr::Select(select) = &mut expression.expr else {
        // A bare name may be the first part of a function's name.
        return each_part_mut(&mut expression.expr, &mut |part| rewrite(part, is_composed));
    };
    match &select.operand.expr {
        Expr::Ident(name) if is_composed && name == COMPOSED => {
            *expression = if select.test {
                IdedExpr {
                    id,
                    expr: Expr::Literal(LiteralValue::Boolean(true.into())),
                }
            } else {
                call(id, VARIABLE, vec![literal(id, &select.field)])
            };
        }
        Expr::Ident(name) if name == authorizer::NAME && select.field == authorizer::REQUEST_RESOURCE => {
            *expression = IdedExpr {
                id,
                expr: Expr::Ident(authorizer::REQUEST_RESOURCE_NAME.to_owned()),
            };
        }
        _ => {
            rewrite(&mut select.operand, is_composed);
            let operand = std::mem::take(&mut *select.operand);
            *select.operand = call(id, FIELDS, vec![operand, literal(id, &select.field)]);
        }
    }
}
