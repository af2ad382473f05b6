//! Paths of a Rust file that lead to other modules of its crate, with the lines they stand in. Reads tokens, not meaning:
//! what stands in comments and literals is no path.

use super::test_items;
use crate::lexer::{Lexeme, lexemes};

/// A token, as far as paths need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `::`
    Separator,
    Sign(char),
}

/// Lines and paths that begin with `crate`, `super`, `self` or the name of a child module. A path in braces is given for each
/// of its ends. Items under `#[cfg(test)]` are left out.
pub(super) fn of(text: &str, is_child: impl Fn(&str) -> bool) -> Vec<(usize, Vec<String>)> {
    let tokens = test_items::without(&tokens(text));
    let mut found = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        let back = |by| {
            at.checked_sub(by)
                .and_then(|before| tokens.get(before))
                .map(|(_, token)| token)
        };
        let goes_on = tokens.get(at + 1).is_some_and(|(_, next)| *next == Token::Separator);
        let begins = !matches!(back(1), Some(Token::Separator | Token::Sign('$')));
        // `x.child::<u8>()` is a method; `..child::MAX` ends a range.
        let is_method = back(1) == Some(&Token::Sign('.')) && back(2) != Some(&Token::Sign('.'));
        let leads = matches!(word.as_str(), "crate" | "super" | "self") || (is_child(word) && !is_method);
        if begins && goes_on && leads {
            let mut rest = tokens.iter().skip(at).map(|(_, token)| token).peekable();
            ends(&mut rest, &mut Vec::new(), &mut |path| found.push((*line, path)));
        }
    }
    found
}

/// Reads `a::b`, `a::{b, c::d}` or `a::*` and gives each path that ends there.
fn ends<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t Token>>,
    path: &mut Vec<String>,
    give: &mut dyn FnMut(Vec<String>),
) {
    let begun = path.len();
    loop {
        match tokens.peek() {
            Some(Token::Word(word)) => {
                // `a::{self}` is `a`.
                if word != "self" || path.is_empty() {
                    path.push(word.clone());
                }
                tokens.next();
            }
            Some(Token::Sign('{')) => {
                tokens.next();
                group(tokens, path, give);
                break;
            }
            _ => {
                give(path.clone());
                break;
            }
        }
        match tokens.peek() {
            Some(Token::Separator) => drop(tokens.next()),
            _ => {
                give(path.clone());
                break;
            }
        }
    }
    path.truncate(begun);
}

fn group<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t Token>>,
    path: &mut Vec<String>,
    give: &mut dyn FnMut(Vec<String>),
) {
    while let Some(token) = tokens.peek() {
        match token {
            Token::Sign('}') => {
                tokens.next();
                return;
            }
            // Boxed: a generic iterator in a recursion would have no end of types.
            Token::Word(_) => {
                let mut inner: Vec<&Token> = Vec::new();
                let mut depth = 0_usize;
                while let Some(token) = tokens.next_if(|token| depth > 0 || !ends_item(token)) {
                    match token {
                        Token::Sign('{') => depth += 1,
                        Token::Sign('}') => depth -= 1,
                        _ => {}
                    }
                    inner.push(token);
                }
                let boxed: Box<dyn Iterator<Item = &Token>> = Box::new(inner.into_iter());
                ends(&mut boxed.peekable(), path, give);
            }
            _ => drop(tokens.next()),
        }
    }
}

fn ends_item(token: &Token) -> bool {
    matches!(token, Token::Sign(',' | '}'))
}

/// All tokens with their lines, without comments and literals.
pub(super) fn tokens(text: &str) -> Vec<(usize, Token)> {
    lexemes(text)
        .into_iter()
        .filter_map(|(line, lexeme)| match lexeme {
            Lexeme::Comment(_) | Lexeme::Literal => None,
            Lexeme::Word(word) => Some((line, Token::Word(word.to_owned()))),
            Lexeme::Sign("::") => Some((line, Token::Separator)),
            Lexeme::Sign(sign) => Some((line, Token::Sign(sign.chars().next()?))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Vec<String> {
        of(text, |name| name == "child")
            .into_iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect()
    }

    #[test]
    fn braces_give_a_path_for_each_of_their_ends() {
        assert_eq!(
            joined("use crate::{\n    a::{self, b},\n    c::d as e,\n};\nuse crate::f::*;\n"),
            ["1 crate::a", "1 crate::a::b", "1 crate::c::d", "5 crate::f"]
        );
    }

    #[test]
    fn paths_are_found_in_code_and_not_in_comments_or_texts() {
        let text = "// crate::no\n/* super::no */\nlet a = \"crate::no \\\" crate::no\";\nlet b = r#\"crate::no\"#;\n\
                    fn f<'a>(c: char) { match c { '\"' => child::g(), '\\'' => super::h::<u8>(), _ => x.child::<u8>() } }\n";
        assert_eq!(joined(text), ["5 child::g", "5 super::h"]);
    }

    #[test]
    fn visibility_is_no_path() {
        assert_eq!(
            joined("pub(crate) fn f() {}\npub(super) mod a;\n$crate::b();\n"),
            [""; 0]
        );
    }

    #[test]
    fn a_path_that_ends_a_range_is_found_and_a_method_is_not() {
        assert_eq!(
            joined("0..crate::x::MAX;\n0..=super::y;\n0..child::z;\n0.child::<u8>();\n"),
            ["1 crate::x::MAX", "2 super::y", "3 child::z"]
        );
    }

    #[test]
    fn what_stands_behind_tests_is_found() {
        let text = "#[cfg(test)]\nuse crate::no;\nuse crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::no;\n}\nuse crate::b;\n";
        assert_eq!(joined(text), ["3 crate::a", "8 crate::b"]);
    }
}
