//! Parses expressions, with the place of every part (google/cel-go v0.26 `parser/parser.go` and `CEL.g4`). The result is
//! the tree that the library runs. It knows no types and no functions.

mod values;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use crate::syntax::faults::Faults;
use crate::syntax::nodes::Nodes;
use crate::syntax::tokens::{self, Kind, Token};
use crate::syntax::work::Work;

/// Longest expression, in characters (`expressionSizeCodePointLimit`).
const CHARACTERS_MAX: usize = 100_000;

/// Deepest nesting: parser, checker and interpreter recurse, on stacks of 2 MB. (cel-go: 250.)
const DEPTH_MAX: usize = 120;

/// What may begin a value, in the order in which errors name it.
const OPERAND: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
/// Binary operators with the strength by which they bind; those of logic stand apart.
const BINARY: [(&str, u8); 12] = [
    ("<", 0),
    ("<=", 0),
    (">=", 0),
    (">", 0),
    ("==", 0),
    ("!=", 0),
    ("in", 0),
    ("+", 1),
    ("-", 1),
    ("*", 2),
    ("/", 2),
    ("%", 2),
];

/// An expression that was read.
pub(crate) struct Parsed {
    pub(crate) tree: IdedExpr,
    pub(crate) nodes: Nodes,
}

/// Parses an expression. Nothing is parsed once the limit on work is reached. Errors: in the words of cel-go.
pub(crate) fn parse(source: &str, work: &mut Work) -> Result<Parsed, String> {
    if let Some(why) = work.refusal() {
        return Err(why);
    }
    let mut faults = Faults::default();
    let chars: Vec<char> = source.chars().take(CHARACTERS_MAX + 1).collect();
    if chars.len() > CHARACTERS_MAX {
        let size = source.chars().count();
        faults.add(
            None,
            format!("expression code point size exceeds limit: size: {size}, limit {CHARACTERS_MAX}"),
        );
        return Err(faults.report(""));
    }
    let tokens = tokens::read(&chars, &mut faults);
    let mut parser = Parser {
        chars: &chars,
        tokens: &tokens,
        at: 0,
        depth: 0,
        nodes: Nodes::default(),
        faults,
    };
    let tree = parser.whole();
    work.count_parsed(parser.nodes.weight());
    match tree {
        Ok(tree) if parser.faults.is_empty() => Ok(Parsed {
            tree,
            nodes: parser.nodes,
        }),
        _ => Err(parser.faults.report(source)),
    }
}

/// An error was reported, and nothing more can be parsed.
struct Stop;

type Read<T = IdedExpr> = Result<T, Stop>;

struct Parser<'c> {
    chars: &'c [char],
    tokens: &'c [Token],
    at: usize,
    depth: usize,
    nodes: Nodes,
    faults: Faults,
}

impl Parser<'_> {
    fn token(&self) -> Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + count).min(last)]
    }

    fn text(&self, token: Token) -> String {
        self.chars[token.start..token.end].iter().collect()
    }

    fn shown(&self, token: Token) -> String {
        match token.kind {
            Kind::End => "<EOF>".to_owned(),
            _ => self.text(token),
        }
    }

    fn take(&mut self) -> Token {
        let token = self.token();
        self.at += 1;
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token().kind, Kind::Sign(found) if found == sign)
    }

    fn take_if(&mut self, sign: &str) -> Option<Token> {
        self.is(sign).then(|| self.take())
    }

    fn syntax(&mut self, at: usize, words: &str) -> Stop {
        self.faults.add(Some(at), format!("Syntax error: {words}"));
        Stop
    }

    /// A token that is none of those expected; `is_extra`: without it all would be well.
    fn unexpected(&mut self, is_extra: bool, expected: &str) -> Stop {
        let token = self.token();
        let what = if is_extra { "extraneous" } else { "mismatched" };
        let words = format!("{what} input '{}' expecting {expected}", self.shown(token));
        self.syntax(token.start, &words)
    }

    /// The sign that must stand here. One token too many, or this one missing, is reported, and parsing goes on.
    fn expect(&mut self, sign: &'static str, may_go_on: bool) -> Read<Token> {
        if let Some(token) = self.take_if(sign) {
            return Ok(token);
        }
        let expected = match may_go_on {
            true => format!("{{'{sign}', ','}}"),
            false => format!("'{sign}'"),
        };
        if self.ahead(1).kind == Kind::Sign(sign) {
            let _ = self.unexpected(true, &expected);
            self.take();
            return Ok(self.take());
        }
        let here = self.token();
        let fits_behind = match sign {
            ":" => self.begins_value(0),
            _ => here.kind == Kind::End,
        };
        if !fits_behind || may_go_on {
            return Err(self.unexpected(false, &expected));
        }
        let _ = self.syntax(here.start, &format!("missing '{sign}' at '{}'", self.shown(here)));
        Ok(here)
    }

    /// An invalid part; parsing goes on.
    fn refused(&mut self, at: usize, words: impl Into<String>) -> Read {
        self.faults.add(Some(at), words);
        self.node(at, Expr::Unspecified)
    }

    fn node(&mut self, at: usize, expr: Expr) -> Read {
        let node = self.nodes.make(Some(at), expr);
        self.bounded(node)
    }

    fn bounded(&mut self, node: IdedExpr) -> Read {
        if self.nodes.depth(&node) > DEPTH_MAX || self.nodes.are_too_many() {
            return Err(self.too_deep());
        }
        Ok(node)
    }

    fn too_deep(&mut self) -> Stop {
        let words = format!("expression recursion limit exceeded: {DEPTH_MAX}");
        self.faults.add(None, words);
        Stop
    }

    fn call(&mut self, at: usize, function: &str, args: Vec<IdedExpr>) -> Read {
        let call = CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        };
        self.node(at, Expr::Call(call))
    }

    fn whole(&mut self) -> Read {
        let tree = self.expression()?;
        if self.token().kind == Kind::End {
            return Ok(tree);
        }
        let is_extra = self.ahead(1).kind == Kind::End;
        Err(self.unexpected(is_extra, "<EOF>"))
    }

    fn expression(&mut self) -> Read {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.too_deep());
        }
        let condition = self.logical("||")?;
        let whole = match self.take_if("?") {
            None => condition,
            Some(sign) => {
                let then = self.logical("||")?;
                self.expect(":", false)?;
                let otherwise = self.expression()?;
                self.call(sign.start, operators::CONDITIONAL, vec![condition, then, otherwise])?
            }
        };
        self.depth -= 1;
        Ok(whole)
    }

    /// Terms of a chain of `||` or `&&`, which become a tree of least depth.
    fn logical(&mut self, sign: &'static str) -> Read {
        let (function, below) = match sign {
            "||" => (operators::LOGICAL_OR, Some("&&")),
            _ => (operators::LOGICAL_AND, None),
        };
        let term = |parser: &mut Self| match below {
            Some(below) => parser.logical(below),
            None => parser.binary(0),
        };
        let (mut terms, mut places) = (vec![term(self)?], Vec::new());
        while let Some(token) = self.take_if(sign) {
            places.push(token.start);
            terms.push(term(self)?);
        }
        self.balanced(function, &mut terms.into_iter(), &places)
    }

    fn balanced(&mut self, function: &str, terms: &mut impl Iterator<Item = IdedExpr>, places: &[usize]) -> Read {
        if places.is_empty() {
            return terms.next().ok_or(Stop);
        }
        let middle = places.len() / 2;
        let left = self.balanced(function, terms, &places[..middle])?;
        let right = self.balanced(function, terms, &places[middle + 1..])?;
        self.call(places[middle], function, vec![left, right])
    }

    fn binary(&mut self, weakest: u8) -> Read {
        let mut left = self.unary()?;
        loop {
            let Kind::Sign(sign) = self.token().kind else {
                return Ok(left);
            };
            let found = BINARY
                .iter()
                .find(|(known, strength)| *known == sign && *strength >= weakest);
            let Some((_, strength)) = found else { return Ok(left) };
            let at = self.take().start;
            let right = self.binary(strength + 1)?;
            let function = match sign {
                "in" => operators::IN,
                sign => operators::find_operator(sign).ok_or(Stop)?,
            };
            left = self.call(at, function, vec![left, right])?;
        }
    }

    fn unary(&mut self) -> Read {
        let (sign, function) = match self.token().kind {
            Kind::Sign("!") => ("!", operators::LOGICAL_NOT),
            // A minus sign before a number is part of it.
            Kind::Sign("-") if !matches!(self.ahead(1).kind, Kind::Int | Kind::Float) => ("-", operators::NEGATE),
            _ => return self.member(),
        };
        let first = self.take();
        let mut count = 1;
        while self.take_if(sign).is_some() {
            count += 1;
        }
        if !self.begins_value(0) {
            return Err(self.no_operand(sign));
        }
        let inner = self.member()?;
        match count % 2 {
            0 => Ok(inner),
            _ => self.call(first.start, function, vec![inner]),
        }
    }

    fn no_index(&mut self) -> Stop {
        let is_extra = self.token().kind != Kind::End && self.begins_value(1);
        let expected = OPERAND.replace("'!', ", "'!', '?', ");
        self.unexpected(is_extra, &format!("{{{expected}}}"))
    }

    fn no_operand(&mut self, sign: &str) -> Stop {
        let expected = format!("{{{OPERAND}}}");
        if sign == "!" {
            return self.unexpected(true, &expected);
        }
        let here = self.token();
        let text = self.text(here);
        let _ = self.syntax(here.start, &format!("no viable alternative at input '-{text}'"));
        self.unexpected(false, &expected)
    }

    fn member(&mut self) -> Read {
        let mut value = self.primary()?;
        loop {
            if let Some(sign) = self.take_if(".") {
                value = self.select(value, sign)?;
            } else if let Some(sign) = self.take_if("[") {
                let function = match self.take_if("?") {
                    Some(_) => operators::OPT_INDEX,
                    None if !self.begins_value(0) => return Err(self.no_index()),
                    None => operators::INDEX,
                };
                let index = self.expression()?;
                self.expect("]", false)?;
                value = self.call(sign.start, function, vec![value, index])?;
            } else {
                return Ok(value);
            }
        }
    }

    fn select(&mut self, operand: IdedExpr, sign: Token) -> Read {
        let is_optional = self.take_if("?").is_some();
        let name = self.token();
        let field = match name.kind {
            Kind::Identifier => self.text(name),
            Kind::Escaped => return self.refused(name.start, "unsupported syntax: '`'").and(Err(Stop)),
            Kind::Sign("true" | "false" | "null") if !is_optional => {
                return Err(self.unexpected(false, "IDENTIFIER"));
            }
            _ if is_optional => return Err(self.unexpected(false, "{IDENTIFIER, ESC_IDENTIFIER}")),
            Kind::End => return Err(self.syntax(name.start, "no viable alternative at input '.'")),
            _ => {
                let words = format!("no viable alternative at input '.{}'", self.text(name));
                return Err(self.syntax(name.start, &words));
            }
        };
        self.take();
        if is_optional {
            let field = self.node(name.start, Expr::Literal(LiteralValue::String(field.as_str().into())))?;
            return self.call(sign.start, operators::OPT_SELECT, vec![operand, field]);
        }
        if let Some(open) = self.take_if("(") {
            let args = self.arguments()?;
            return self.call_or_macro(open.start, field, Some(operand), args);
        }
        let select = SelectExpr {
            operand: Box::new(operand),
            field,
            test: false,
        };
        self.node(sign.start, Expr::Select(select))
    }

    fn begins_value(&self, ahead: usize) -> bool {
        match self.ahead(ahead).kind {
            Kind::Sign(sign) => matches!(sign, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"),
            Kind::Escaped | Kind::End => false,
            _ => true,
        }
    }
}
