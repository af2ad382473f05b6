//! Splits a Rust file into comments, literals, words and signs. Reads characters, not meaning: a keyword is a word, and so is the
//! name of a lifetime behind its sign.

/// A piece of a Rust file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lexeme<'t> {
    /// With its marks; a block comment with those nested in it
    Comment(&'t str),
    /// A string of any kind, or a character
    Literal,
    Word(&'t str),
    /// A sign alone, or `::`
    Sign(&'t str),
}

/// All lexemes with the lines in which they begin, without white space.
pub(crate) fn lexemes(text: &str) -> Vec<(usize, Lexeme<'_>)> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, text);
    while let Some(first) = rest.chars().next() {
        let (length, lexeme) = if let Some(length) = comment(rest) {
            (length, Some(Lexeme::Comment(&rest[..length])))
        } else if let Some(length) = literal(rest) {
            (length, Some(Lexeme::Literal))
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            (length, Some(Lexeme::Word(&rest[..length])))
        } else if rest.starts_with("::") {
            (2, Some(Lexeme::Sign(&rest[..2])))
        } else {
            let length = first.len_utf8();
            (
                length,
                (!first.is_whitespace()).then_some(Lexeme::Sign(&rest[..length])),
            )
        };
        found.extend(lexeme.map(|lexeme| (line, lexeme)));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of a comment, if one begins here.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| block_comment(rest))
}

/// The length of a block comment. Those inside it end before it does.
fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(next) = rest[at..].find(['/', '*']) {
        at += next;
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a string or a character, if one begins here.
fn literal(rest: &str) -> Option<usize> {
    if let Some(raw) = raw_string(rest) {
        return Some(raw);
    }
    let prefix = usize::from(rest.starts_with("b\"") || rest.starts_with("c\""));
    if rest[prefix..].starts_with('"') {
        return Some(prefix + quoted(&rest[prefix..]));
    }
    character(rest)
}

/// `r"..."`, `r#"..."#`, `br"..."`, `cr"..."`.
fn raw_string(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let marks = behind.len() - behind.trim_start_matches('#').len();
    let begin = rest.len() - behind.len() + marks + 1;
    behind.trim_start_matches('#').strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    Some(rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()))
}

/// The length of a string that begins with its quotation mark.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'a'` and `'\n'`, but no lifetime.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let letter = inner.chars().next()?;
    if letter == '\\' {
        let behind = 2 + inner[1..].chars().next()?.len_utf8();
        return rest[behind..].find('\'').map(|end| behind + end + 1);
    }
    let end = 1 + letter.len_utf8();
    rest[end..].starts_with('\'').then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::{Lexeme, lexemes};

    fn comments(text: &str) -> Vec<(usize, &str)> {
        lexemes(text)
            .into_iter()
            .filter_map(|(line, lexeme)| match lexeme {
                Lexeme::Comment(comment) => Some((line, comment)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn comments_are_found_with_their_lines() {
        let text = "//! a\nlet b = 1; // c\n/* d\n/* e */ f */ let g = \"\n\";\n/// h";
        assert_eq!(
            comments(text),
            [(1, "//! a"), (2, "// c"), (3, "/* d\n/* e */ f */"), (6, "/// h")]
        );
    }

    #[test]
    fn literals_hold_no_comment_and_no_word() {
        let text =
            r####"("//", "\"//", r"//", r#"" //"#, b"//", br"//", c"//", cr#"//"#, '"', '\'', '/', '\u{2f}', b'"')"####;
        assert!(comments(text).is_empty());
        let words: Vec<Lexeme<'_>> = lexemes(text)
            .into_iter()
            .map(|(_, lexeme)| lexeme)
            .filter(|lexeme| matches!(lexeme, Lexeme::Word(_)))
            .collect();
        assert_eq!(words, [Lexeme::Word("b")], "the prefix of a byte");
    }

    #[test]
    fn lifetimes_and_raw_names_are_words() {
        let words: Vec<Lexeme<'_>> = lexemes("&'life r#type").into_iter().map(|(_, lexeme)| lexeme).collect();
        let expected = [
            Lexeme::Sign("&"),
            Lexeme::Sign("'"),
            Lexeme::Word("life"),
            Lexeme::Word("r"),
            Lexeme::Sign("#"),
            Lexeme::Word("type"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn unclosed_comments_and_literals_end_with_the_file() {
        for text in ["/* a /* b */", "\"a", "r#\"a\"", "'", "'\\", "/*/"] {
            assert!(lexemes(text).len() < 3, "{text}");
        }
    }
}
