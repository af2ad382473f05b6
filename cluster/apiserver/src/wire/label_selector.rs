//! Label selectors as clients write them: from text to requirements, or to kube-apiserver's error. It matches
//! nothing. (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/labels/selector.go)

use std::collections::BTreeSet;

use cluster_fields::{FieldError, names};

use crate::wire::selector::LabelRequirement;

/// What stands between a key and its values.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";
const SPECIAL: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// `in` and `notin` among them: what they mean depends on where they stand.
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

/// Invalid values reported of one requirement: each value of a byte makes a sentence.
const VALUES_REPORTED_MAX: usize = 64;

/// Errors: the words of kube-apiserver.
pub(crate) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {
                let requirement = parser.requirement();
                requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            }
            other => {
                return Err(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    other.text()
                ));
            }
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") if matches!(parser.peek(), Token::Word(_) | Token::Symbol("!")) => {}
            Token::Symbol(",") => {
                return Err(format!(
                    "found '{}', expected: identifier after ','",
                    parser.peek().text()
                ));
            }
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            tokens.push(Token::End);
            return tokens;
        };
        let length = if SPECIAL.contains(&first) {
            ["==", "!="]
                .iter()
                .find(|pair| rest.starts_with(**pair))
                .map_or(1, |pair| pair.len())
        } else {
            let ends = |c: char| SPECIAL.contains(&c) || matches!(c, ' ' | '\t' | '\r' | '\n');
            rest.find(ends).unwrap_or(rest.len())
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(if SPECIAL.contains(&first) {
            Token::Symbol(token)
        } else {
            Token::Word(token)
        });
        rest = behind;
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn word(&mut self) -> Result<&'a str, String> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let missing = self.peek() == Token::Symbol("!");
        if missing {
            self.next();
        }
        let word = self.word()?;
        check_key(word)?;
        let key = word.to_owned();
        if missing {
            return Ok(LabelRequirement::Missing(key));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(LabelRequirement::Exists(key));
        }
        let operator = self.next();
        let values = match operator.text() {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => BTreeSet::from([self.exact_value()?]),
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        check_values(operator.text(), word, &values)?;
        let bound = values.first().and_then(|value| value.parse().ok()).unwrap_or_default();
        Ok(match operator.text() {
            "!=" | "notin" => LabelRequirement::NotIn(key, values),
            ">" => LabelRequirement::Greater(key, bound),
            "<" => LabelRequirement::Less(key, bound),
            _ => LabelRequirement::In(key, values),
        })
    }

    /// The value of a comparison; a missing one is empty.
    fn exact_value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            _ => self.word(),
        }
    }

    /// Values in brackets. A missing value is empty.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Word(_) | Token::Symbol("," | ")") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        let mut values = BTreeSet::new();
        let mut after_comma = true;
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.insert(word);
                    after_comma = false;
                    if !matches!(self.peek(), Token::Symbol("," | ")")) {
                        return Err(format!("found '{}', expected: ',' or ')'", self.peek().text()));
                    }
                }
                Token::Symbol(",") => {
                    if after_comma {
                        values.insert("");
                    }
                    after_comma = true;
                }
                Token::Symbol(")") => {
                    if after_comma {
                        values.insert("");
                    }
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    match names::qualified_name(key) {
        None => Ok(()),
        Some(why) => Err(FieldError::invalid("<nil>", key, why).to_string()),
    }
}

fn check_values(operator: &str, key: &str, values: &[String]) -> Result<(), String> {
    let mut errors = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if matches!(operator, ">" | "<") && errors.len() < VALUES_REPORTED_MAX && value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{index}]"), value.as_str(), why));
        }
    }
    let faults = values.iter().enumerate().filter_map(|(index, value)| {
        let why = names::label_value(value)?;
        Some(FieldError::invalid(
            format!("values[{index}][{key}]"),
            value.as_str(),
            why,
        ))
    });
    errors.extend(faults.take(VALUES_REPORTED_MAX));
    match errors.is_empty() {
        true => Ok(()),
        false => Err(cluster_fields::aggregate(&errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_selectors_get_the_errors_of_kubernetes() {
        for (text, words) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            (
                "a on (b)",
                "unable to parse requirement: found 'on', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in ((b))",
                "unable to parse requirement: found '(', expected: ',', ')' or identifier",
            ),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), words, "{text}");
        }
    }

    #[test]
    fn keywords_may_be_keys_and_values() {
        let both = |key: &str, values: &[&str]| {
            LabelRequirement::In(key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        };
        assert_eq!(parse("in in (in, notin)").unwrap(), [both("in", &["in", "notin"])]);
        assert_eq!(parse(" a in (,b,) ").unwrap(), [both("a", &["", "b"])]);
        assert_eq!(
            parse("a=,b").unwrap(),
            [both("a", &[""]), LabelRequirement::Exists("b".to_owned())]
        );
        assert_eq!(parse("a in ()").unwrap(), [both("a", &[""])]);
    }
}
