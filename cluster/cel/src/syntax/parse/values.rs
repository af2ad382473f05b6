//! The values that operators stand between: names, calls, literals, lists, maps, messages.

use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
    StructFieldExpr,
};

use super::{OPERAND, Parser, Read};
use crate::syntax::literal;
use crate::syntax::macros::{self, Expansion};
use crate::syntax::reserved::is_reserved;
use crate::syntax::tokens::{Kind, Token};

/// What may begin a value where a list of arguments may end.
const OPERAND_OR_END: &str = "'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

impl Parser<'_> {
    /// What stands between the bracket that was read and its counterpart.
    pub(super) fn arguments(&mut self) -> Read<Vec<IdedExpr>> {
        let mut args = Vec::new();
        if self.take_if(")").is_some() {
            return Ok(args);
        }
        if !self.begins_value(0) {
            let is_extra =
                self.token().kind != Kind::End && (self.begins_value(1) || self.ahead(1).kind == Kind::Sign(")"));
            return Err(self.unexpected(is_extra, &format!("{{{OPERAND_OR_END}}}")));
        }
        loop {
            args.push(self.expression()?);
            if self.take_if(",").is_none() {
                self.expect(")", false)?;
                return Ok(args);
            }
        }
    }

    pub(super) fn call_or_macro(
        &mut self,
        at: usize,
        name: String,
        target: Option<IdedExpr>,
        args: Vec<IdedExpr>,
    ) -> Read {
        match macros::expand(&mut self.nodes, at, &name, target, args) {
            Expansion::Done(tree) => self.bounded(tree),
            Expansion::Refused(place, words) => self.refused(place.unwrap_or(at), words),
            Expansion::No(target, args) => {
                let call = CallExpr {
                    func_name: name,
                    target: target.map(Box::new),
                    args,
                };
                self.node(at, Expr::Call(call))
            }
        }
    }

    pub(super) fn primary(&mut self) -> Read {
        if !self.begins_value(0) {
            let is_extra = self.token().kind != Kind::End && self.begins_value(1);
            let stop = self.unexpected(is_extra, &format!("{{{OPERAND}}}"));
            if !is_extra {
                return Err(stop);
            }
            self.take();
            return self.unary();
        }
        let token = self.token();
        let literal = |value| Expr::Literal(value);
        match token.kind {
            Kind::Sign("(") => {
                self.take();
                let inner = self.expression()?;
                self.expect(")", false)?;
                Ok(inner)
            }
            Kind::Sign("[") => self.list(),
            Kind::Sign("{") => self.map(),
            Kind::Sign("true" | "false") => {
                let truth = self.is("true");
                self.take();
                self.node(token.start, literal(LiteralValue::Boolean(truth.into())))
            }
            Kind::Sign("null") => {
                self.take();
                self.node(token.start, literal(LiteralValue::Null))
            }
            Kind::Sign(".") | Kind::Identifier => self.name(),
            Kind::Text | Kind::Bytes => {
                self.take();
                match literal::text(&self.text(token), token.kind == Kind::Bytes) {
                    Ok(value) => self.node(token.start, literal(value)),
                    Err(words) => self.refused(token.start, words),
                }
            }
            _ => {
                let sign = self.take_if("-");
                let number = self.take();
                let start = sign.map_or(number.start, |sign| sign.start);
                match literal::number(&self.text(number), number.kind, sign.is_some()) {
                    Ok(value) => self.node(start, literal(value)),
                    Err(words) => self.refused(start, words),
                }
            }
        }
    }

    /// A name, a call, or a message with fields.
    fn name(&mut self) -> Read {
        let dot = self.take_if(".");
        let token = self.token();
        if token.kind != Kind::Identifier {
            let from = dot.map_or(token.start, |dot| dot.start);
            let text: String = self.chars[from..token.end]
                .iter()
                .filter(|c| !c.is_whitespace())
                .collect();
            return Err(self.syntax(token.start, &format!("no viable alternative at input '{text}'")));
        }
        if let Some(names) = self.message_names() {
            return self.message(dot, names);
        }
        let start = dot.map_or(token.start, |dot| dot.start);
        let name = self.text(token);
        self.take();
        let open = self.take_if("(");
        if is_reserved(&name) {
            if open.is_some() {
                self.arguments()?;
            }
            return self.refused(start, format!("reserved identifier: {name}"));
        }
        let name = if dot.is_some() { format!(".{name}") } else { name };
        match open {
            Some(open) => {
                let args = self.arguments()?;
                self.call_or_macro(open.start, name, None, args)
            }
            None => self.node(token.start, Expr::Ident(name)),
        }
    }

    /// How many tokens name a message whose fields follow.
    fn message_names(&self) -> Option<usize> {
        let mut count = 1;
        while self.ahead(count).kind == Kind::Sign(".") && self.ahead(count + 1).kind == Kind::Identifier {
            count += 2;
        }
        (self.ahead(count).kind == Kind::Sign("{")).then_some(count)
    }

    fn message(&mut self, dot: Option<Token>, names: usize) -> Read {
        let mut type_name = if dot.is_some() { ".".to_owned() } else { String::new() };
        for _ in 0..names {
            let token = self.take();
            type_name += &self.text(token);
        }
        let open = self.take();
        let begins = |parser: &Self| !parser.is("}") && !parser.is(",");
        let entries = self.separated("}", begins, |parser| {
            let optional = parser.take_if("?").is_some();
            let name = parser.token();
            if name.kind != Kind::Identifier {
                return Err(parser.unexpected(false, "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"));
            }
            let field = parser.text(name);
            parser.take();
            let colon = parser.expect(":", false)?;
            let value = parser.expression()?;
            let entry = EntryExpr::StructField(StructFieldExpr { field, value, optional });
            Ok(parser.entry(colon, entry))
        })?;
        self.node(open.start, Expr::Struct(StructExpr { type_name, entries }))
    }

    /// Parts with commas between them, perhaps one behind the last, and what closes them.
    fn separated<T>(
        &mut self,
        close: &'static str,
        begins: impl Fn(&Self) -> bool,
        mut read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let (mut parts, mut may_go_on) = (Vec::new(), true);
        while begins(self) {
            parts.push(read(self)?);
            may_go_on = self.take_if(",").is_none();
            if may_go_on {
                break;
            }
        }
        if parts.is_empty() {
            may_go_on = self.take_if(",").is_none();
        }
        self.expect(close, may_go_on)?;
        Ok(parts)
    }

    fn entry(&mut self, colon: Token, expr: EntryExpr) -> IdedEntryExpr {
        IdedEntryExpr {
            id: self.nodes.id(Some(colon.start)),
            expr,
        }
    }

    fn begins_part(&self) -> bool {
        self.begins_value(0) || self.is("?")
    }

    fn list(&mut self) -> Read {
        let open = self.take();
        let (mut optional, mut count) = (Vec::new(), 0);
        let elements = self.separated("]", Self::begins_part, |parser| {
            if parser.take_if("?").is_some() {
                optional.push(count);
            }
            count += 1;
            parser.expression()
        })?;
        let list = ListExpr::new_with_optionals(elements, optional);
        self.node(open.start, Expr::List(list))
    }

    fn map(&mut self) -> Read {
        let open = self.take();
        let entries = self.separated("}", Self::begins_part, |parser| {
            let optional = parser.take_if("?").is_some();
            let key = parser.expression()?;
            let colon = parser.expect(":", false)?;
            let value = parser.expression()?;
            let entry = EntryExpr::MapEntry(MapEntryExpr { key, value, optional });
            Ok(parser.entry(colon, entry))
        })?;
        self.node(open.start, Expr::Map(MapExpr { entries }))
    }
}
