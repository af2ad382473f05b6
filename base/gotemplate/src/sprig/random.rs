//! Random texts and numbers, all from the randomness of the caller's [`Host`]: equal randomness makes equal texts.

use base_clock::Entropy;

use super::args::{Answer, int, text};
use super::encoding::encode;
use crate::environment::error::Fault;
use crate::environment::host::Host;
use crate::text::runes;
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

const DIGITS: &[u8] = b"0123456789";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(super) fn functions() -> Vec<Function> {
    const INT: Type = Type::INT;
    let of = |name: &str, alphabet: Vec<u8>| {
        Function::new(name, [INT], move |scope, args| {
            // An invalid length makes no text, as in Sprig.
            let length = usize::try_from(int(args, 0)).unwrap_or(0);
            scope.check_length(length)?;
            // Each letter is one draw.
            scope.spend(length)?;
            let entropy = entropy(scope)?;
            let drawn = (0..length).map(|_| draw(&entropy, &alphabet));
            Ok(Value::string(drawn.collect::<Vec<u8>>()))
        })
    };
    vec![
        of("randAlphaNum", [LETTERS, DIGITS].concat()),
        of("randAlpha", LETTERS.to_vec()),
        of("randNumeric", DIGITS.to_vec()),
        of("randAscii", (b' '..=b'~').collect()),
        Function::new("randBytes", [INT], |scope, args| {
            let length = usize::try_from(int(args, 0)).map_err(|_| "runtime error: makeslice: len out of range")?;
            scope.check_length(length.saturating_mul(2))?;
            let mut bytes = vec![0; length];
            entropy(scope)?.fill(&mut bytes);
            Ok(Value::string(encode(&bytes)))
        }),
        Function::new("randInt", [INT, INT], |scope, args| {
            let (least, end) = (int(args, 0), int(args, 1));
            let width = u64::try_from(end.wrapping_sub(least)).ok().filter(|width| *width > 0);
            let width = width.ok_or("invalid argument to Intn")?;
            let drawn = entropy(scope)?.below(width);
            Ok(Value::int(least.wrapping_add_unsigned(drawn)))
        }),
        Function::new("uuidv4", [], |scope, _| Ok(Value::from(entropy(scope)?.uid()))),
        Function::new("shuffle", [Type::Str], shuffle),
    ]
}

pub(super) fn entropy(scope: &mut Scope<'_>) -> Result<Entropy, Fault> {
    let host = scope.host.downcast_ref::<Host>();
    let entropy = host.and_then(|host| host.entropy.clone());
    entropy.ok_or_else(|| Fault::from("there is no randomness here: the caller gives none"))
}

/// A number below the length. Of so few letters none is likelier than another by more than 2^-50.
fn below(entropy: &Entropy, length: usize) -> usize {
    let bound = u64::try_from(length).unwrap_or(u64::MAX).max(1);
    usize::try_from(entropy.below(bound)).unwrap_or(0)
}

fn draw(entropy: &Entropy, alphabet: &[u8]) -> u8 {
    alphabet.get(below(entropy, alphabet.len())).copied().unwrap_or(0)
}

/// The runes in a random order.
fn shuffle(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let text = text(args, 0);
    if text.is_empty() {
        return Ok(Value::string(""));
    }
    scope.check_length(text.len().saturating_mul(3))?;
    scope.spend(text.len())?;
    let entropy = entropy(scope)?;
    let mut letters: Vec<char> = runes(text).map(|(_, rune, _)| rune).collect();
    for place in (1..letters.len()).rev() {
        letters.swap(place, below(&entropy, place + 1));
    }
    Ok(Value::from(letters.into_iter().collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base_clock::Entropy;

    use crate::{Context, Error, Functions, Host, Limits, MissingKey, Set, Value};

    fn render(host: &mut dyn std::any::Any) -> Result<Vec<u8>, Error> {
        let mut set = Set::new("t", Arc::new(Functions::new().with_sprig()), MissingKey::Default);
        set.parse("t", b"{{randAlphaNum 20}} {{uuidv4}} {{shuffle \"abcdef\"}}")?;
        let mut context = Context {
            limits: Limits::default(),
            host,
        };
        Arc::new(set).render("t", Value::Nil, &mut context)
    }

    #[test]
    fn equal_randomness_makes_equal_texts_and_without_any_there_are_none() {
        let seeded = |number| Host {
            entropy: Some(Entropy::seeded(number)),
            ..Host::default()
        };
        let first = render(&mut seeded(1));
        assert!(first.is_ok());
        assert_eq!(first, render(&mut seeded(1)));
        assert_ne!(first, render(&mut seeded(2)));
        for error in [render(&mut ()), render(&mut Host::default())] {
            let why = error.expect_err("there is no randomness").to_string();
            assert!(
                why.ends_with("there is no randomness here: the caller gives none"),
                "{why}"
            );
        }
    }
}
