//! Items that only tests have: each that stands under `#[cfg(test)]`, wherever in its file. What comes behind it is left.
//! Where an item's end is in doubt it ends early, so that nothing is hidden.

use super::paths::Token;

const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
/// Words that begin an item which ends at a `;` alone: braces may stand in the middle of it.
const ENDS_AT_SEMICOLON: [&str; 5] = ["use", "type", "static", "const", "let"];
/// Words that begin an item which ends at a brace or a `;`. All else is a field, a variant, an arm or a statement, which a comma
/// ends too.
const ENDS_AT_BRACE: [&str; 9] = [
    "fn", "mod", "struct", "enum", "trait", "impl", "unsafe", "async", "extern",
];

/// The tokens without those of such items.
pub(super) fn without(tokens: &[(usize, Token)]) -> Vec<(usize, Token)> {
    let mut left = Vec::new();
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        let is_test =
            ATTRIBUTE.len() <= rest.len() && ATTRIBUTE.iter().zip(rest).all(|(text, (_, token))| is(token, text));
        if is_test {
            let item = &rest[ATTRIBUTE.len()..];
            rest = &item[item_length(item)..];
        } else {
            left.push(first.clone());
            rest = behind;
        }
    }
    left
}

fn is(token: &Token, text: &str) -> bool {
    match token {
        Token::Word(word) => word == text,
        Token::Sign(sign) => text.chars().eq([*sign]),
        Token::Separator => text == "::",
    }
}

fn is_at(tokens: &[(usize, Token)], at: usize, texts: &[&str]) -> bool {
    let token = tokens.get(at).map(|(_, token)| token);
    token.is_some_and(|token| texts.iter().any(|text| is(token, text)))
}

/// The length of the item that begins here, with its attributes.
fn item_length(tokens: &[(usize, Token)]) -> usize {
    let mut begin = 0;
    while is_at(tokens, begin, &["#"]) {
        begin += 1 + group_length(&tokens[begin + 1..]);
    }
    let mut word = begin;
    if is_at(tokens, word, &["pub"]) {
        word += 1;
        if is_at(tokens, word, &["("]) {
            word += group_length(&tokens[word..]);
        }
    }
    let is_constant_function =
        is_at(tokens, word, &["const"]) && is_at(tokens, word + 1, &["fn", "unsafe", "async", "extern", "{"]);
    let to_semicolon = is_at(tokens, word, &ENDS_AT_SEMICOLON) && !is_constant_function;
    let to_brace = is_at(tokens, word, &ENDS_AT_BRACE) || is_constant_function;
    let mut depth = 0_usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(begin) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            // The end of what the item stands in.
            Token::Sign(')' | ']' | '}') if depth == 0 => return at,
            Token::Sign(end @ (')' | ']' | '}')) => {
                depth -= 1;
                if depth == 0 && *end == '}' && !to_semicolon {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            Token::Sign(',') if depth == 0 && !to_semicolon && !to_brace => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The length of what stands in brackets that begin here.
fn group_length(tokens: &[(usize, Token)]) -> usize {
    let mut depth = 0_usize;
    for (at, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::super::paths::tokens;
    use super::*;

    #[test]
    fn an_item_of_tests_is_left_out_and_its_successor_is_not() {
        for (item, behind) in [
            ("mod tests { fn f() {} }", "after"),
            ("pub(crate) mod tests;", "after"),
            ("use crate::{a, b::{c}};", "after"),
            (
                "#[expect(x, reason = \"y\")] pub(crate) fn f<A, B>(a: [u8; 4]) -> C { { g(); } }",
                "after",
            ),
            ("const A: B = B { c: 1 }.d();", "after"),
            ("const fn f() {}", "after"),
            ("static A: B = B { c: 1 };", "after"),
            ("impl A<B, C> for D {}", "after"),
            ("a: crate::B,", "after"),
            ("A => { b(); }", "after"),
            ("a: crate::B", "}"),
            ("{ let a = crate::b(); }", "after"),
            ("f(a, b);", "after"),
        ] {
            let text = format!("before #[cfg(test)] {item} {behind}");
            assert_eq!(without(&tokens(&text)), tokens(&format!("before {behind}")), "{item}");
        }
    }

    #[test]
    fn an_item_that_not_only_tests_have_is_left() {
        for attribute in ["#[cfg(not(test))]", "#[cfg(any(test, unix))]", "#[test]"] {
            let tokens = tokens(&format!("{attribute} fn f() {{}}"));
            assert_eq!(without(&tokens), tokens, "{attribute}");
        }
    }
}
