//! Macros: calls that stand for loops and other expressions (google/cel-go v0.26 `parser/macro.go`, `ext/comprehensions.go`,
//! `ext/lists.go`, `cel/library.go`), those that Kubernetes v1.35 has (`apiserver/pkg/cel/environment/base.go`).

use kube_cel::cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, MapExpr, SelectExpr, operators};

use crate::syntax::nodes::Nodes;

/// What loops gather in; no expression can spell it.
pub(crate) const RESULT: &str = "@result";
/// The variable of a loop that never runs, which is there to give a value a name.
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";
/// Adds to a map.
pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
/// Sorts a list as another one would be sorted.
pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// What became of a call.
pub(crate) enum Expansion {
    /// It is no macro.
    No(Option<IdedExpr>, Vec<IdedExpr>),
    Done(IdedExpr),
    /// It is one, but an argument is wrong: where, and why.
    Refused(Option<usize>, String),
}

/// What is wrong with an argument, and where.
type Refusal = (Option<usize>, String);

struct Maker<'n> {
    nodes: &'n mut Nodes,
    place: Option<usize>,
}

/// The parts of a loop beside its range.
struct Loop {
    variables: (String, Option<String>),
    start: IdedExpr,
    goes_on: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

/// Writes out a call that is a macro.
pub(crate) fn expand(
    nodes: &mut Nodes,
    at: usize,
    name: &str,
    target: Option<IdedExpr>,
    args: Vec<IdedExpr>,
) -> Expansion {
    let mut maker = Maker { nodes, place: Some(at) };
    let done = match (name, target, args.len()) {
        ("has", None, 1) => maker.has(args),
        ("all" | "exists" | "exists_one", Some(target), 2)
        | ("all" | "exists" | "exists_one" | "existsOne", Some(target), 3) => maker.quantifier(name, target, args),
        ("map", Some(target), 2 | 3) => maker.gather(target, args, 1, false),
        ("filter", Some(target), 2) => maker.gather(target, args, 1, true),
        ("transformList", Some(target), 3 | 4) => maker.gather(target, args, 2, false),
        ("transformMap" | "transformMapEntry", Some(target), 3 | 4) => maker.gather_map(name, target, args),
        ("optMap" | "optFlatMap", Some(target), 2) => maker.of_optional(name, target, args),
        ("sortBy", Some(target), 2) => maker.sort_by(target, args),
        (_, target, _) => return Expansion::No(target, args),
    };
    match done {
        Ok(tree) => Expansion::Done(tree),
        Err((place, words)) => Expansion::Refused(place, words),
    }
}

impl Maker<'_> {
    fn refuse<T>(&self, part: &IdedExpr, words: impl Into<String>) -> Result<T, Refusal> {
        Err((self.nodes.place(part.id), words.into()))
    }

    fn result(&mut self) -> IdedExpr {
        self.nodes.name(self.place, RESULT)
    }

    fn call(&mut self, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.nodes.call(self.place, function, args)
    }

    fn truth(&mut self, truth: bool) -> IdedExpr {
        self.nodes.truth(self.place, truth)
    }

    fn has(&mut self, args: Vec<IdedExpr>) -> Result<IdedExpr, Refusal> {
        let Some(argument) = args.into_iter().next() else {
            return Err((self.place, String::new()));
        };
        match argument.expr {
            Expr::Select(select) => {
                let test = SelectExpr { test: true, ..select };
                Ok(self.nodes.make(self.place, Expr::Select(test)))
            }
            _ => self.refuse(&argument, "invalid argument to has() macro"),
        }
    }

    fn comprehension(&mut self, range: IdedExpr, parts: Loop) -> IdedExpr {
        let inner = ComprehensionExpr {
            iter_range: range,
            iter_var: parts.variables.0,
            iter_var2: parts.variables.1,
            accu_var: RESULT.to_owned(),
            accu_init: parts.start,
            loop_cond: parts.goes_on,
            loop_step: parts.step,
            result: parts.result,
        };
        self.nodes.make(self.place, Expr::Comprehension(Box::new(inner)))
    }

    /// The names of the loop's variables, taken from the front of the arguments.
    fn variables(
        &self,
        args: &mut Vec<IdedExpr>,
        count: usize,
        no_name: &'static str,
    ) -> Result<(String, Option<String>), Refusal> {
        let named: Vec<IdedExpr> = args.drain(..count).collect();
        let mut names = Vec::new();
        for part in &named {
            match &part.expr {
                Expr::Ident(name) => names.push(name.clone()),
                _ => return self.refuse(part, no_name),
            }
        }
        if count == 2 && names[0] == names[1] {
            return self.refuse(&named[1], format!("duplicate variable name: {}", names[0]));
        }
        for (part, name) in named.iter().zip(&names) {
            if name == RESULT || name == "__result__" {
                return self.refuse(part, "iteration variable overwrites accumulator variable");
            }
        }
        let mut names = names.into_iter();
        Ok((names.next().unwrap_or_default(), names.next()))
    }

    fn quantifier(&mut self, name: &str, range: IdedExpr, mut args: Vec<IdedExpr>) -> Result<IdedExpr, Refusal> {
        let count = args.len() - 1;
        let variables = self.variables(&mut args, count, "argument must be a simple name")?;
        let result = self.result();
        let parts = match name {
            "all" => Loop {
                variables,
                start: self.truth(true),
                goes_on: self.call(operators::NOT_STRICTLY_FALSE, vec![result]),
                step: {
                    args.insert(0, self.result());
                    self.call(operators::LOGICAL_AND, args)
                },
                result: self.result(),
            },
            "exists" => Loop {
                variables,
                start: self.truth(false),
                goes_on: {
                    let not = self.call(operators::LOGICAL_NOT, vec![result]);
                    self.call(operators::NOT_STRICTLY_FALSE, vec![not])
                },
                step: {
                    args.insert(0, self.result());
                    self.call(operators::LOGICAL_OR, args)
                },
                result: self.result(),
            },
            _ => {
                let one = self.nodes.number(self.place, 1);
                let more = self.call(operators::ADD, vec![result, one]);
                args.extend([more, self.result()]);
                let one = self.nodes.number(self.place, 1);
                let result = self.result();
                Loop {
                    variables,
                    start: self.nodes.number(self.place, 0),
                    goes_on: self.truth(true),
                    step: self.call(operators::CONDITIONAL, args),
                    result: self.call(operators::EQUALS, vec![result, one]),
                }
            }
        };
        Ok(self.comprehension(range, parts))
    }

    /// A list of what becomes of each element, or of those that pass.
    fn gather(
        &mut self,
        range: IdedExpr,
        mut args: Vec<IdedExpr>,
        variables: usize,
        is_filter: bool,
    ) -> Result<IdedExpr, Refusal> {
        let no_name = match variables {
            1 => "argument is not an identifier",
            _ => "argument must be a simple name",
        };
        let itself = args.first().cloned();
        let variables = self.variables(&mut args, variables, no_name)?;
        if is_filter {
            args.extend(itself);
        }
        let step = match args.pop() {
            Some(element) => {
                let list = self.nodes.list(self.place, vec![element]);
                let result = self.result();
                self.call(operators::ADD, vec![result, list])
            }
            None => self.result(),
        };
        let start = self.nodes.list(self.place, Vec::new());
        Ok(self.gathering(range, variables, args.pop(), start, step))
    }

    fn gathering(
        &mut self,
        range: IdedExpr,
        variables: (String, Option<String>),
        filter: Option<IdedExpr>,
        start: IdedExpr,
        step: IdedExpr,
    ) -> IdedExpr {
        let step = match filter {
            Some(filter) => {
                let result = self.result();
                self.call(operators::CONDITIONAL, vec![filter, step, result])
            }
            None => step,
        };
        let parts = Loop {
            variables,
            start,
            goes_on: self.truth(true),
            step,
            result: self.result(),
        };
        self.comprehension(range, parts)
    }

    fn gather_map(&mut self, name: &str, range: IdedExpr, mut args: Vec<IdedExpr>) -> Result<IdedExpr, Refusal> {
        let variables = self.variables(&mut args, 2, "argument must be a simple name")?;
        let mut added = vec![self.result()];
        if name == "transformMap" {
            added.push(self.nodes.name(self.place, &variables.0));
        }
        added.extend(args.pop());
        let step = self.call(MAP_INSERT, added);
        let start = self.nodes.make(self.place, Expr::Map(MapExpr::default()));
        Ok(self.gathering(range, variables, args.pop(), start, step))
    }

    /// A loop that never runs: the value gets a name in the result.
    fn bind(&mut self, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
        let inner = ComprehensionExpr {
            iter_range: self.nodes.list(self.place, Vec::new()),
            iter_var: UNUSED.to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.truth(false),
            loop_step: self.nodes.name(self.place, name),
            result,
        };
        self.nodes.make(self.place, Expr::Comprehension(Box::new(inner)))
    }

    fn of_optional(&mut self, name: &str, target: IdedExpr, args: Vec<IdedExpr>) -> Result<IdedExpr, Refusal> {
        let mut args = args.into_iter();
        let (Some(variable), Some(inner)) = (args.next(), args.next()) else {
            return Err((self.place, String::new()));
        };
        let Expr::Ident(variable) = &variable.expr else {
            return self.refuse(&variable, format!("{name}() variable name must be a simple identifier"));
        };
        let copied = self.nodes.copy(&target);
        let has_value = self.nodes.member(self.place, target, "hasValue", Vec::new());
        let value = self.nodes.member(self.place, copied, "value", Vec::new());
        let bound = self.bind(variable, value, inner);
        let optional = self.nodes.name(self.place, "optional");
        let then = match name {
            "optMap" => self.nodes.member(self.place, optional, "of", vec![bound]),
            _ => bound,
        };
        let optional = self.nodes.name(self.place, "optional");
        let none = self.nodes.member(self.place, optional, "none", Vec::new());
        Ok(self.call(operators::CONDITIONAL, vec![has_value, then, none]))
    }

    fn sort_by(&mut self, target: IdedExpr, args: Vec<IdedExpr>) -> Result<IdedExpr, Refusal> {
        if matches!(
            target.expr,
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified
        ) {
            let words = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.refuse(&target, words);
        }
        let input = self.nodes.name(self.place, SORTED);
        let keys = self.gather(input, args, 1, false)?;
        let input = self.nodes.name(self.place, SORTED);
        let sorted = self.nodes.member(self.place, input, SORT_BY_KEYS, vec![keys]);
        Ok(self.bind(SORTED, target, sorted))
    }
}
