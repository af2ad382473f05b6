//! The functions that expressions may call, with the types that they take and give. `data/cel_functions.txt` names all that the
//! environment of Kubernetes v1.35 has (`staging/src/k8s.io/apiserver/pkg/cel/environment/base.go`), each with the identifier
//! of its overload, in the order in which they are tried.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::typing::types::Type;

/// One overload of a function.
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// It is called on its first argument.
    pub(crate) is_member: bool,
    pub(crate) arguments: Vec<Type<'static>>,
    pub(crate) result: Type<'static>,
}

type Functions = HashMap<&'static str, Vec<Overload>>;

/// All overloads of a function; none where there is no such function.
pub(crate) fn overloads(function: &str) -> Option<&'static [Overload]> {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        let mut functions = Functions::new();
        let lines = include_str!("../../data/cel_functions.txt").lines();
        for (name, overload) in lines.filter_map(read) {
            functions.entry(name).or_default().push(overload);
        }
        functions
    });
    functions.get(function).map(Vec::as_slice)
}

/// One line: `contains_string .contains(string, string) bool`.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (id, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once('(')?;
    let (arguments, result) = rest
        .rsplit_once(") ")
        .filter(|(_, result)| !result.contains('('))
        .or_else(|| {
            // The result has brackets too: it begins behind the one that closes the arguments.
            let mut open = 1;
            let at = rest.char_indices().find(|(_, c)| {
                open += i32::from(*c == '(') - i32::from(*c == ')');
                open == 0
            });
            at.map(|(at, _)| (&rest[..at], rest[at + 1..].trim_start()))
        })?;
    // As one type that has the arguments as its parts.
    let mut types = Vec::new();
    let mut left = arguments;
    while !left.is_empty() {
        let mut open = 0;
        let end = left.char_indices().find(|(_, c)| {
            open += i32::from(*c == '(') - i32::from(*c == ')');
            open == 0 && *c == ','
        });
        let end = end.map_or(left.len(), |(at, _)| at);
        types.push(Type::parse(&left[..end])?);
        left = left[end..].trim_start_matches([',', ' ']);
    }
    let overload = Overload {
        id,
        is_member: name.starts_with('.'),
        arguments: types,
        result: Type::parse(result)?,
    };
    Some((name.trim_start_matches('.'), overload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_table_is_read_as_it_is_written() {
        for line in include_str!("../../data/cel_functions.txt").lines() {
            let Some((name, overload)) = read(line) else {
                panic!("{line}")
            };
            let arguments: Vec<String> = overload.arguments.iter().map(Type::to_string).collect();
            let dot = if overload.is_member { "." } else { "" };
            let again = format!(
                "{} {dot}{name}({}) {}",
                overload.id,
                arguments.join(", "),
                overload.result
            );
            assert_eq!(again, line);
        }
    }
}
