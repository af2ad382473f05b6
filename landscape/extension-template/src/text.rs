//! Filling in templates: `@WORD@` stands for a value. What is no known word stays. Pure.

/// The template with its values. A value is not filled in again.
pub(crate) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('@') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let word = from[1..].split_once('@').map(|(word, _)| word);
        match word.and_then(|word| values.iter().find(|(name, _)| *name == word)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &from[name.len() + 2..];
            }
            None => {
                text.push('@');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn known_words_are_filled_in_once_and_all_else_stays() {
        let values = [("A", "@B@".to_owned()), ("B", "b".to_owned())];
        assert_eq!(fill("x@A@y@B@", &values), "x@B@yb");
        assert_eq!(fill("a@b.c @C@ @ @A", &values), "a@b.c @C@ @ @A");
        assert_eq!(fill("@@B@", &values), "@b");
    }
}
