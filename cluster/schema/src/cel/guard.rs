//! What is asked of a rule's text before and after it is parsed: how deeply it nests, which names it uses. It never runs
//! a rule.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// The parser of cel 0.13 reads an even run of `!` or unary `-` as a single one, after visiting the operand twice (so
/// that nested runs cost exponential time). Pairs of `!` are therefore dropped here, runs of minus signs refused.
pub(super) fn single_signs(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len());
    let (mut quote, mut minus_run, mut last) = (None, 0, '(');
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            out.push(c);
            if c == '\\' {
                out.extend(chars.next());
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '!' if chars.peek() != Some(&'=') => {
                let kept = out.trim_end();
                if kept.ends_with('!') {
                    out.truncate(kept.len() - 1);
                    continue;
                }
            }
            _ => {}
        }
        if !c.is_whitespace() {
            minus_run = if c == '-' { minus_run + 1 } else { 0 };
            let after_operand = last.is_alphanumeric() || matches!(last, '_' | ')' | ']' | '}' | '"' | '\'');
            if minus_run > 1 + usize::from(after_operand) {
                return Err("write at most one minus sign before a value".to_owned());
            }
            if c != '-' {
                last = c;
            }
        }
        out.push(c);
    }
    Ok(out)
}

/// An upper bound of how deep the parser will recurse: brackets that are open, plus chains of operators at each level.
pub(super) fn nesting(source: &str) -> usize {
    let (mut levels, mut deepest) = (vec![0_usize], 0);
    let mut quote: Option<char> = None;
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            match c {
                '\\' => {
                    chars.next();
                }
                _ if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => levels.push(0),
            ')' | ']' | '}' => {
                levels.pop();
                if levels.is_empty() {
                    levels.push(0);
                }
            }
            ',' => levels.iter_mut().last().into_iter().for_each(|level| *level = 0),
            '&' | '|' if chars.peek() == Some(&c) => {
                chars.next();
                levels.iter_mut().last().into_iter().for_each(|level| *level = 0);
            }
            '.' | '+' | '-' | '*' | '/' | '%' | '?' | '!' | '=' | '<' | '>' => {
                levels.iter_mut().last().into_iter().for_each(|level| *level += 1);
            }
            _ => {}
        }
        deepest = deepest.max(levels.len() + levels.iter().sum::<usize>());
    }
    deepest
}

/// Names that every rule of a schema may use.
const RULE_NAMES: [&str; 5] = ["self", "oldSelf", "apiVersion", "apiGroup", "kind"];

/// Types, which the parser takes for variables.
const TYPE_NAMES: [&str; 12] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional",
    "math",
];

/// What stands before the dot in the names of functions.
const SPACES: [&str; 9] = [
    "base64",
    "cidr",
    "format",
    "ip",
    "jsonpatch",
    "lists",
    "sets",
    "strings",
    "url",
];

/// What a walk over a rule's expression finds.
pub(super) struct Survey<'e> {
    names: &'e [&'e str],
    scope: Vec<&'e str>,
    /// The first name that is neither a variable nor a type.
    pub(super) unknown: Option<&'e str>,
}

impl Default for Survey<'_> {
    fn default() -> Self {
        Self::of_names(&RULE_NAMES)
    }
}

impl<'e> Survey<'e> {
    /// Of an expression that may use these names.
    pub(super) fn of_names(names: &'e [&'e str]) -> Self {
        Self {
            names,
            scope: Vec::new(),
            unknown: None,
        }
    }

    pub(super) fn visit(&mut self, expression: &'e IdedExpr) {
        match &expression.expr {
            Expr::Call(call) => {
                // `ip.isCanonical(x)`: a function's namespace is no variable.
                let is_space =
                    |target: &IdedExpr| matches!(&target.expr, Expr::Ident(name) if SPACES.contains(&name.as_str()));
                if let Some(target) = call
                    .target
                    .as_ref()
                    .filter(|target| !is_space(target) || self.knows(target))
                {
                    self.visit(target);
                }
                call.args.iter().for_each(|argument| self.visit(argument));
            }
            Expr::Comprehension(comprehension) => {
                self.visit(&comprehension.iter_range);
                let outer = self.scope.len();
                self.scope
                    .extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.scope.extend(comprehension.iter_var2.as_deref());
                for part in [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.visit(part);
                }
                self.scope.truncate(outer);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Struct(object) => object.entries.iter().for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::Ident(name) => {
                if !self.knows(expression) {
                    self.unknown.get_or_insert(name);
                }
            }
            Expr::Unspecified | Expr::Literal(_) => {}
        }
    }

    fn visit_entry(&mut self, entry: &'e EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key);
                self.visit(&entry.value);
            }
        }
    }

    fn knows(&self, expression: &IdedExpr) -> bool {
        match &expression.expr {
            Expr::Ident(name) => {
                let name = name.as_str();
                [self.names, &TYPE_NAMES, &self.scope]
                    .iter()
                    .any(|known| known.contains(&name))
                    || name.starts_with('@')
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_signs_do_not_reach_the_parser() {
        let table = [
            ("!!a", Some("a")),
            ("!!!a", Some("!a")),
            ("! ! a", Some(" a")),
            ("a != !!b", Some("a != b")),
            ("'!!' == \"!!\"", Some("'!!' == \"!!\"")),
            ("a - -b", Some("a - -b")),
            ("a--b", Some("a--b")),
            ("--b", None),
            ("a---b", None),
            ("f(--b)", None),
            ("-1 - 2", Some("-1 - 2")),
        ];
        for (source, expected) in table {
            assert_eq!(
                single_signs(source).ok().as_deref().map(str::trim),
                expected.map(str::trim),
                "{source}"
            );
        }
    }
}
