//! Syntax errors of Go's JSON decoder, for messages: the first byte that cannot stand where it stands, and what was read there
//! (Go 1.26 `encoding/json`, of which `sigs.k8s.io/json` is a copy).

/// Deepest nesting of objects and lists that Go decodes.
const DEPTH_MAX: usize = 10_000;
const END: &str = "unexpected end of JSON input";

/// Why these bytes are no JSON, in Go's words; none when they are valid.
pub fn json_problem(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.whole() {
        Ok(()) => None,
        Err(Problem::End) => Some(END.to_owned()),
        Err(Problem::Depth) => Some("exceeded max depth".to_owned()),
        Err(Problem::Byte(byte, place)) => Some(format!("invalid character {} {place}", quoted(byte))),
    }
}

enum Problem {
    End,
    Depth,
    Byte(u8, String),
}

/// A byte as Go shows it: one beyond ASCII stands for the letter of that number.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x00..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        // What Go does not print: control characters, the no-break space, the soft hyphen.
        0x80..=0xa0 | 0xad => format!("'\\u{:04x}'", u32::from(byte)),
        byte => format!("'{}'", char::from(byte)),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What is open around the place that is read.
#[derive(Clone, Copy)]
enum Open {
    Object,
    List,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    FirstItem,
    FirstKey,
    Key,
    Colon,
    /// A comma or a closing bracket after a value.
    More,
}

impl Reader<'_> {
    fn peek(&self) -> Result<u8, Problem> {
        self.bytes.get(self.at).copied().ok_or(Problem::End)
    }

    fn refuse<T>(&self, place: &str) -> Result<T, Problem> {
        Err(Problem::Byte(self.peek()?, place.to_owned()))
    }

    fn whole(&mut self) -> Result<(), Problem> {
        let mut open: Vec<Open> = Vec::new();
        let mut next = Next::Value;
        loop {
            while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
                self.at += 1;
            }
            let byte = match self.peek() {
                Err(_) if open.is_empty() && matches!(next, Next::More) => return Ok(()),
                byte => byte?,
            };
            next = match (next, byte) {
                (Next::Value | Next::FirstItem, b'{') => {
                    open.push(Open::Object);
                    self.after(Next::FirstKey)
                }
                (Next::Value | Next::FirstItem, b'[') => {
                    open.push(Open::List);
                    self.after(Next::FirstItem)
                }
                (Next::FirstItem, b']') | (Next::FirstKey, b'}') => {
                    open.pop();
                    self.after(Next::More)
                }
                (Next::Value | Next::FirstItem, byte) => {
                    self.scalar(byte)?;
                    Next::More
                }
                (Next::FirstKey | Next::Key, b'"') => {
                    self.string()?;
                    Next::Colon
                }
                (Next::FirstKey | Next::Key, _) => return self.refuse("looking for beginning of object key string"),
                (Next::Colon, b':') => self.after(Next::Value),
                (Next::Colon, _) => return self.refuse("after object key"),
                (Next::More, byte) => match (open.last(), byte) {
                    (Some(Open::Object), b',') => self.after(Next::Key),
                    (Some(Open::List), b',') => self.after(Next::Value),
                    (Some(Open::Object), b'}') | (Some(Open::List), b']') => {
                        open.pop();
                        self.after(Next::More)
                    }
                    (Some(Open::Object), _) => return self.refuse("after object key:value pair"),
                    (Some(Open::List), _) => return self.refuse("after array element"),
                    (None, _) => return self.refuse("after top-level value"),
                },
            };
            if open.len() > DEPTH_MAX {
                return Err(Problem::Depth);
            }
        }
    }

    /// Consumes the byte.
    fn after(&mut self, next: Next) -> Next {
        self.at += 1;
        next
    }

    fn scalar(&mut self, first: u8) -> Result<(), Problem> {
        match first {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.refuse("looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), Problem> {
        for expected in word.chars() {
            if char::from(self.peek()?) != expected {
                return self.refuse(&format!("in literal {word} (expecting '{expected}')"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Problem> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape()?;
                }
                0x00..=0x1f => return self.refuse("in string literal"),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Problem> {
        match self.peek()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return self.refuse("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
            }
            _ => return self.refuse("in string escape code"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Problem> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// At least one.
    fn digits(&mut self, place: &str) -> Result<(), Problem> {
        if !self.peek()?.is_ascii_digit() {
            return self.refuse(place);
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_of_json_are_those_of_go() {
        for (text, expected) in [
            ("", END),
            ("{\"a\": 1", END),
            ("[1, \"a", END),
            ("-", END),
            ("1.", END),
            ("no", "invalid character 'o' in literal null (expecting 'u')"),
            ("<html>", "invalid character '<' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            (
                "{nonsense",
                "invalid character 'n' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\": 1 2}", "invalid character '2' after object key:value pair"),
            (
                "{\"a\": 1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u12g4\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("01", "invalid character '1' after top-level value"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.e", "invalid character 'e' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("\u{e9}", "invalid character '\u{c3}' looking for beginning of value"),
        ] {
            assert_eq!(json_problem(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "1",
            " {\"a\": [], \"b\": [{}, -0.5e+1, true, \"\\u00e9\"]} ",
            "\"\u{e9}\"",
        ] {
            assert_eq!(json_problem(text.as_bytes()), None, "{text}");
        }
        assert_eq!(json_problem(&[b'['; 10_001]).as_deref(), Some("exceeded max depth"));
    }
}
