//! Templates drawn from a seed: by the grammar, with every function on every kind of value, and with pieces cut out or put
//! in where they do not belong. What differs is made as small as it gets.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::case::Case;

/// How deep expressions and blocks nest.
const DEPTH_MAX: u32 = 3;

/// What all of them are executed on.
const DATA: &str = r#"{"a":1,"f":1.5,"s":"text","t":true,"n":null,"l":[1,"two",3.5,null,[1],{"x":1}],"m":{"b":2,"a":1,"c":{"d":"deep"}},
"e":[],"em":{},"z":0,"es":"","u8":{"$uint8":200},"i64":{"$int64":-5},"by":{"$bytes":"hi"},"ss":{"$strings":["x","y"]},
"is":{"$ints":[3,1,2]},"tm":{"$texts":{"k":"v"}},"nan":{"$float":"nan"},"uni":"h\u00e9llo \u20ac","big":1e21}"#;

const FIELDS: [&str; 24] = [
    ".a",
    ".f",
    ".s",
    ".t",
    ".n",
    ".l",
    ".m",
    ".m.c",
    ".m.c.d",
    ".m.a",
    ".e",
    ".em",
    ".z",
    ".es",
    ".u8",
    ".i64",
    ".by",
    ".ss",
    ".is",
    ".tm.k",
    ".nan",
    ".uni",
    ".missing",
    ".m.missing",
];
const LITERALS: [&str; 18] = [
    "1",
    "0",
    "-1",
    "2.5",
    "1e3",
    "0x1F",
    "'x'",
    "\"a\"",
    "\"\"",
    "`raw`",
    "true",
    "false",
    "7",
    "\"%v\"",
    "\"%5.2f|%d\"",
    "1i",
    "3",
    "\"\\xff\"",
];
const FUNCTIONS: [&str; 20] = [
    "and",
    "or",
    "not",
    "len",
    "index",
    "slice",
    "print",
    "println",
    "printf",
    "html",
    "js",
    "urlquery",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "call",
    "printf \"%v %d\"",
];
/// Calls that end well as a rule, with `@` for any operand.
const CALLS: [&str; 24] = [
    "len $.l",
    "len $.s",
    "index $.l 0",
    "index $.m \"a\"",
    "index $.m \"zz\"",
    "index $.l 5 \"x\"",
    "eq $.s @",
    "eq $.a 1",
    "ne $.s \"text\"",
    "lt $.z 1",
    "gt 1.5 $.f",
    "and @ @",
    "or @ @",
    "and @ (eq $.a 1) @",
    "or $.z $.es @",
    "not @",
    "print @",
    "print @ @",
    "printf \"%v\" @",
    "printf \"%v %T\" @ @",
    "printf \"%q\" @",
    "html @",
    "slice $.s 1",
    "js @",
];
const VARIABLES: [&str; 6] = ["$", "$x", "$y", "$x", "$y", "$z"];
const TEXTS: [&str; 8] = ["a", " ", "\n", "\n  ", "text: ", "{", "}", "é"];
/// What is put where it does not belong.
const SCRAPS: [&str; 24] = [
    "{{", "}}", "|", "(", ")", ":=", "=", ",", ".", "$", "\"", "`", "'", "end", "else", "- ", " -", "/*", "*/",
    "break", "continue", "nil", "1_", "{{end}}",
];

/// Sprig's functions with the kinds of their parameters: string, int, any, bool, map, list, and `*` for any number more of
/// the last. Left out is what Go answers differently each time.
const SPRIG: [&str; 118] = [
    "default a*",
    "empty a",
    "coalesce a*",
    "all a*",
    "any a*",
    "ternary aab",
    "typeOf a",
    "typeIs sa",
    "typeIsLike sa",
    "kindOf a",
    "kindIs sa",
    "deepEqual aa",
    "toString a",
    "list a*",
    "tuple a*",
    "concat l*",
    "join sl",
    "toStrings l",
    "sortAlpha l",
    "append la",
    "push la",
    "mustAppend la",
    "mustPush la",
    "prepend la",
    "mustPrepend la",
    "has al",
    "mustHas al",
    "chunk il",
    "mustChunk il",
    "first l",
    "mustFirst l",
    "last l",
    "mustLast l",
    "rest l",
    "mustRest l",
    "initial l",
    "mustInitial l",
    "reverse l",
    "mustReverse l",
    "compact l",
    "mustCompact l",
    "uniq l",
    "mustUniq l",
    "without la*",
    "mustWithout la*",
    "slice li*",
    "mustSlice li*",
    "dict sa*",
    "dict sasa",
    "get ms",
    "set msx",
    "unset ms",
    "hasKey ms",
    "pluck sm*",
    "pick ms*",
    "omit ms*",
    "dig sam",
    "dig ssam",
    "dig a*",
    "merge mm*",
    "mustMerge mm",
    "mergeOverwrite mm*",
    "mustMergeOverwrite mm",
    "deepCopy a",
    "int a",
    "int64 a",
    "float64 a",
    "atoi s",
    "toDecimal a",
    "add1 a",
    "add a*",
    "mul a*",
    "sub aa",
    "div aa",
    "mod aa",
    "until i",
    "untilStep iii",
    "seq i*",
    "ceil a",
    "floor a",
    "round ai",
    "max a*",
    "min a*",
    "maxf a*",
    "minf a*",
    "biggest a*",
    "base s",
    "dir s",
    "clean s",
    "ext s",
    "isAbs s",
    "osBase s",
    "b64enc s",
    "b64dec s",
    "sha1sum s",
    "sha256sum s",
    "sha512sum s",
    "adler32sum s",
    "contains ss",
    "hasPrefix ss",
    "hasSuffix ss",
    "trimPrefix ss",
    "trimSuffix ss",
    "trimAll ss",
    "trim s",
    "trunc is",
    "substr iis",
    "abbrev is",
    "abbrevboth iis",
    "repeat is",
    "replace sss",
    "indent is",
    "nindent is",
    "quote a*",
    "squote a*",
    "cat a*",
    "plural ssi",
    "splitList ss",
];
/// More of them.
const SPRIG_WORDS: [&str; 45] = [
    "duration a",
    "durationRound s",
    "camelcase w",
    "snakecase w",
    "kebabcase w",
    "camelcase s",
    "snakecase s",
    "b32enc s",
    "b32dec s",
    "addf a*",
    "subf aa*",
    "mulf aa*",
    "divf aa*",
    "add1f a",
    "regexMatch rs",
    "mustRegexMatch rs",
    "regexFind rs",
    "mustRegexFind rs",
    "regexFindAll rsi",
    "mustRegexFindAll rsi",
    "regexSplit rsi",
    "regexReplaceAll rsd",
    "mustRegexReplaceAll rsd",
    "mustRegexReplaceAll rsd",
    "regexReplaceAllLiteral rsd",
    "regexQuoteMeta r",
    "urlParse u",
    "urlJoin m",
    "semver v",
    "semverCompare cv",
    "semverCompare cv",
    "fromJson j",
    "mustFromJson j",
    "split ss",
    "splitn sis",
    "upper s",
    "lower s",
    "title s",
    "untitle s",
    "swapcase s",
    "initials s",
    "nospace s",
    "wrap is",
    "wrapWith iss",
    "hello",
];
const STRINGS: [&str; 28] = [
    ".s",
    "\"\"",
    "\"a\"",
    "\"Hello World foo bar\"",
    ".uni",
    "\"a,b,,c\"",
    "\",\"",
    "\" x \\t y \"",
    "\"\\xffé\"",
    "\"12\"",
    "\"0x1F\"",
    "\"3.00\"",
    "\"-7\"",
    "\"1.5\"",
    "\"/a/../b//c.txt\"",
    "\"../x/\"",
    "\"aGk=\"",
    "\"aGk\"",
    "\"a=b\"",
    "\"aGVsbG8=\\n\"",
    "\"x\"",
    "\"c\"",
    "\"ÀÉß ǆ ı\"",
    "\"string\"",
    "\"slice\"",
    "\"one two\\nthree\"",
    "\"99999999999999999999\"",
    "\"_1\"",
];
const VERSIONS: [&str; 14] = [
    "\"1.2.3\"",
    "\"v1.2\"",
    "\"1\"",
    "\"1.2.3-rc.1\"",
    "\"1.2.4-alpha.2+b\"",
    "\"0.0.3\"",
    "\"0.2\"",
    "\"1.x\"",
    "\"*\"",
    "\"2.0.X\"",
    "\"1.3.0-0\"",
    "\"01.2.3\"",
    "\"1.2.3-01\"",
    "\"x\"",
];
const URL_PARTS: [&str; 26] = [
    "http://", "https:", "//", "/", "a", "b.c", ":", ":80", "@", "?", "#", "x=y", "&", "%20", "%2F", "%zz", "%25", "é",
    "[::1]", " ", "+", "*", ";", "'", "u:p@", "mailto:",
];
const REGEX_PARTS: [&str; 60] = [
    "a",
    "b",
    "o",
    "l",
    "1",
    "é",
    " ",
    ".",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0,3}",
    "{1,}",
    "(",
    ")",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?s)",
    "(?m)",
    "(?U)",
    "(?i:",
    "(?-i)",
    "(?P<n>",
    "|",
    "^",
    "$",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\pL",
    "\\PL",
    "\\p{Greek}",
    "[a-f]",
    "[^a-f]",
    "[[:alpha:]]",
    "[^[:space:]é]",
    "[\\d.-]",
    "[",
    "]",
    "\\.",
    "\\x41",
    "\\x{e9}",
    "\\Q.",
    "\\E",
    "\\",
    "-",
    "x*",
];
const OPERATORS: [&str; 13] = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", " "];
const JSON: [&str; 10] = [
    "`{\"a\":[1,-2.5e3,null,true],\"b\":{\"c\":\"d\"}}`",
    "`[\"\\u00e9\\ud83d\\ude00\\n\", 1]`",
    "`{\"a\": 1,}`",
    "`[1 2]`",
    "` \"x `",
    "(toJson .l)",
    "(toPrettyJson .m)",
    "`truf`",
    "`-`",
    ".s",
];
const INTS: [&str; 14] = [
    "0", "1", "2", "3", "-1", "-3", "5", "10", ".a", ".neg", "7", "100", "(len .l)", "4",
];
const LISTS: [&str; 12] = [
    ".l",
    ".e",
    ".ss",
    ".is",
    ".by",
    "(list 3 1 2)",
    "(list \"b\" \"a\" nil)",
    "(list)",
    "(until 4)",
    "(list (dict \"a\" 1) nil)",
    ".dup",
    "(list 1 1.0 \"1\")",
];
const MAPS: [&str; 7] = [
    ".m",
    ".em",
    "(dict \"a\" 1)",
    "(dict \"c\" (dict \"d\" \"\" \"e\" 2))",
    "(dict \"c\" 5)",
    "(dict \"a\" nil \"b\" (list 1))",
    "(dict)",
];

struct Drawer {
    random: SmallRng,
    out: String,
    range_depth: u32,
    /// A template that executes itself may make Go work for ever.
    is_in_define: bool,
}

/// The template of that number of a seed.
pub fn draw(seed: u64, number: u64) -> Case {
    let mut drawer = Drawer {
        random: SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        out: String::new(),
        range_depth: 0,
        is_in_define: false,
    };
    drawer.prologue();
    drawer.list(0);
    let mut template = drawer.out.clone();
    if drawer.random.random_ratio(1, 8) {
        drawer.spoil(&mut template);
    }
    let missing_key = ["default", "zero", "default", "zero", "error"]
        .choose(&mut drawer.random)
        .copied();
    Case {
        name: format!("drawn {number} of seed {seed}"),
        missing_key: missing_key.unwrap_or("default").to_owned(),
        data: DATA.to_owned(),
        template,
        ..Case::default()
    }
}

/// A call of one of Sprig's functions, with arguments that mostly fit.
pub fn draw_call(seed: u64, number: u64) -> Case {
    let mut drawer = Drawer {
        random: SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03)),
        out: "{{".to_owned(),
        range_depth: 0,
        is_in_define: false,
    };
    drawer.sprig_call();
    drawer.out.push_str("}}|{{.m}}");
    Case {
        name: format!("call {number} of seed {seed}"),
        missing_key: "zero".to_owned(),
        sprig: true,
        data: DATA.replacen('{', r#"{"neg":-3,"dup":[1,1,"a","a",null,null,[1],[1]],"#, 1),
        template: drawer.out,
        ..Case::default()
    }
}

/// Values that a chart writes as YAML.
pub fn draw_yaml(seed: u64, number: u64) -> Case {
    let mut random = SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0xA24B_AED4_963E_E407));
    let data = yaml_value(&mut random, 0);
    Case {
        name: format!("values {number} of seed {seed}"),
        missing_key: "zero".to_owned(),
        helm: true,
        data: serde_json::json!({ "v": data }).to_string(),
        template: "{{ toYaml .Values.v }}|{{ toYaml .Values }}|{{ toYaml .Values | fromYaml }}".to_owned(),
        ..Case::default()
    }
}

/// What YAML's texts are made of in the worst case.
const YAML_PIECES: [&str; 56] = [
    "a", "b", "y", "no", "on", "0", "1", "2", "7", "8", "9", " ", "  ", ":", ": ", "-", "- ", "#", " #", "'", "\"",
    "\\", "\n", "\n\n", "\t", ",", "[", "]", "{", "}", "?", "!", "&", "*", "|", ">", "%", "@", "`", "~", "=", "<", ".",
    "+", "_", "e", "x", "é", "€", "😀", "\u{a0}", "\r", "T", "Z", "null", "-01-02",
];

fn yaml_text(random: &mut SmallRng) -> String {
    let count = random.random_range(0..6);
    (0..count).filter_map(|_| YAML_PIECES.choose(random).copied()).collect()
}

pub(crate) fn yaml_value(random: &mut SmallRng, depth: u32) -> serde_json::Value {
    use serde_json::{Value, json};
    let kinds = if depth < DEPTH_MAX + 1 { 10 } else { 6 };
    match random.random_range(0..kinds) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => json!(random.random_range(-2000..2000)),
        3 => json!(f64::from(random.random_range(-2000..2000)) / 16.0),
        4 | 5 => json!(yaml_text(random)),
        6 | 7 => (0..random.random_range(0..4))
            .map(|_| yaml_value(random, depth + 1))
            .collect(),
        8 => {
            // One key of any kind: of several Go's order may be another each time.
            let key = yaml_text(random).trim_start_matches('$').to_owned();
            json!({ key: yaml_value(random, depth + 1) })
        }
        _ => {
            let keys = ["a", "b", "c2", "c10", "D", "e_f", "e-f", "e.f"];
            let count = random.random_range(0..4);
            let keys = (0..count)
                .filter_map(|_| keys.choose(random).copied())
                .collect::<Vec<_>>();
            keys.into_iter()
                .map(|key| (key.to_owned(), yaml_value(random, depth + 1)))
                .collect()
        }
    }
}

impl Drawer {
    fn sprig_call(&mut self) {
        let place = self.random.random_range(0..SPRIG.len() + SPRIG_WORDS.len());
        let call = SPRIG.iter().chain(&SPRIG_WORDS).nth(place).copied().unwrap_or_default();
        let (name, kinds) = call.split_once(' ').unwrap_or((call, ""));
        self.out.push_str(name);
        let mut last = 'a';
        for kind in kinds.chars() {
            let count = if kind == '*' { self.random.random_range(0..3) } else { 1 };
            last = if kind == '*' { last } else { kind };
            for _ in 0..count {
                self.out.push(' ');
                self.argument(last);
            }
        }
        if self.one_in(2) {
            self.out.push_str(" | printf \"%#v\"");
        }
    }

    fn argument(&mut self, kind: char) {
        let any = ['s', 'i', 'l', 'm', 'o', 'o'];
        let kind = match kind {
            'a' => any.choose(&mut self.random).copied().unwrap_or('o'),
            _ if self.one_in(20) => 'o',
            kind => kind,
        };
        match kind {
            's' => self.put(&STRINGS),
            'i' => self.put(&INTS),
            'j' => self.put(&JSON),
            'v' => self.put(&VERSIONS),
            'c' => self.constraint(),
            'u' => self.url(),
            'r' => self.regex(),
            'w' => self.words(),
            'd' => self.put(&["`<$0>`", "`${1}`", "`$1x`", "`$n$$`", "\"\"", "\"x\""]),
            'l' => self.put(&LISTS),
            'm' => self.put(&MAPS),
            // What holds no dictionary of the data: Go does not bear one that holds itself.
            'x' if self.one_in(2) => self.put(&STRINGS),
            'x' => self.put(&LISTS),
            'b' => self.put(&["true", "false", ".t"]),
            _ if self.one_in(2) => self.put(&FIELDS),
            _ => self.put(&LITERALS),
        }
    }

    fn words(&mut self) {
        self.out.push('"');
        for _ in 0..self.random.random_range(0..8) {
            self.put(&[
                "a", "b", "A", "B", "1", "2", "_", "-", " ", ".", "$", "é", "É", "名", "\\xff", "²", "ǅ", "HTTP", "foo",
            ]);
        }
        self.out.push('"');
    }

    fn regex(&mut self) {
        self.out.push('`');
        for _ in 0..self.random.random_range(1..8) {
            self.put(&REGEX_PARTS);
        }
        self.out.push('`');
    }

    fn url(&mut self) {
        self.out.push('"');
        for _ in 0..self.random.random_range(1..7) {
            self.put(&URL_PARTS);
        }
        self.out.push('"');
    }

    fn constraint(&mut self) {
        self.out.push('"');
        for _ in 0..self.random.random_range(1..4) {
            self.put(&OPERATORS);
            let version = VERSIONS.choose(&mut self.random).copied().unwrap_or_default();
            self.out.push_str(version.trim_matches('"'));
            self.put(&[" ", ", ", " || ", "", " - "]);
        }
        self.put(&["\"", "1\"", "*\""]);
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_ratio(1, count)
    }

    /// A field of the root, mostly, since the dot may be anything.
    fn field(&mut self) {
        if !self.one_in(10) {
            self.out.push('$');
        }
        self.put(&FIELDS);
    }

    fn put(&mut self, from: &[&str]) {
        let text = from.choose(&mut self.random).copied().unwrap_or_default();
        self.out.push_str(text);
    }

    fn prologue(&mut self) {
        for variable in ["$x", "$y"] {
            if !self.one_in(40) {
                self.out.push_str("{{");
                self.out.push_str(variable);
                self.out.push_str(" := ");
                self.operand(0);
                self.out.push_str("}}");
            }
        }
        if !self.one_in(8) {
            self.out.push_str("{{define \"t\"}}");
            self.is_in_define = true;
            self.list(1);
            self.is_in_define = false;
            self.out.push_str("{{end}}");
        }
    }

    fn list(&mut self, depth: u32) {
        for _ in 0..self.random.random_range(1..4) {
            self.statement(depth);
        }
    }

    fn open(&mut self) {
        self.out
            .push_str(if self.random.random_ratio(1, 6) { "{{- " } else { "{{" });
    }

    fn close(&mut self) {
        self.out
            .push_str(if self.random.random_ratio(1, 6) { " -}}" } else { "}}" });
    }

    fn statement(&mut self, depth: u32) {
        let kinds = if depth < DEPTH_MAX { 12 } else { 6 };
        match self.random.random_range(0..kinds) {
            0 | 1 => self.put(&TEXTS),
            2..=4 => self.action(|drawer| drawer.pipeline(0)),
            5 => self.small(),
            6 | 7 => self.branch("if", depth),
            8 => self.branch("with", depth),
            9 | 10 => self.range(depth),
            _ => self.action(|drawer| {
                let name = if drawer.is_in_define { "u" } else { "t" };
                drawer.out.push_str(&format!("template \"{name}\" "));
                if !drawer.one_in(4) {
                    drawer.pipeline(0);
                }
            }),
        }
    }

    fn action(&mut self, inside: impl FnOnce(&mut Self)) {
        self.open();
        inside(self);
        self.close();
    }

    /// Assignments, comments, ways out of ranges.
    fn small(&mut self) {
        let kinds = if self.range_depth > 0 { 5 } else { 3 };
        match self.random.random_range(0..kinds) {
            0 => self.out.push_str("{{/* c */}}"),
            1 | 2 => self.action(|drawer| {
                drawer.put(&["$x", "$y", "$z"]);
                drawer.put(&[" := ", " = "]);
                drawer.pipeline(0);
            }),
            3 => self.out.push_str("{{break}}"),
            _ => self.out.push_str("{{continue}}"),
        }
    }

    fn branch(&mut self, kind: &str, depth: u32) {
        self.action(|drawer| {
            drawer.out.push_str(kind);
            drawer.out.push(' ');
            if drawer.one_in(4) {
                drawer.out.push_str("$z := ");
            }
            drawer.pipeline(0);
        });
        self.list(depth + 1);
        if self.one_in(3) {
            self.out.push_str("{{else ");
            self.out.push_str(kind);
            self.out.push(' ');
            self.pipeline(1);
            self.out.push_str("}}");
            self.list(depth + 1);
        }
        self.end(depth);
    }

    fn range(&mut self, depth: u32) {
        self.action(|drawer| {
            drawer.out.push_str("range ");
            drawer.put(&["", "", "$z := ", "$x, $z := ", "$x = ", "$x, $y = "]);
            if drawer.one_in(4) {
                drawer.pipeline(0);
            } else {
                drawer.put(&[
                    "$.l",
                    "$.m",
                    "$.is",
                    "$.ss",
                    "$.tm",
                    "$.e",
                    "3",
                    "$.l | len",
                    "$.by",
                    "$x",
                ]);
            }
        });
        self.range_depth += 1;
        self.list(depth + 1);
        self.range_depth -= 1;
        self.end(depth);
    }

    fn end(&mut self, depth: u32) {
        if self.one_in(3) {
            self.out.push_str("{{else}}");
            self.list(depth + 1);
        }
        self.action(|drawer| drawer.out.push_str("end"));
    }

    fn pipeline(&mut self, depth: u32) {
        self.command(depth);
        for _ in 0..self.random.random_range(0..10_u32).saturating_sub(7) {
            self.out.push_str(" | ");
            if self.one_in(12) {
                self.call(depth);
            } else {
                self.put(&[
                    "print",
                    "printf \"%v\"",
                    "html",
                    "not",
                    "and 1",
                    "or $.z",
                    "eq 1",
                    "print $.a",
                    "len | print",
                ]);
            }
        }
    }

    fn command(&mut self, depth: u32) {
        if self.one_in(2) {
            self.call(depth);
        } else {
            self.operand(depth);
            if self.one_in(30) {
                self.out.push(' ');
                self.operand(depth);
            }
        }
    }

    fn call(&mut self, depth: u32) {
        if !self.one_in(12) {
            let call = CALLS.choose(&mut self.random).copied().unwrap_or_default();
            for (at, part) in call.split('@').enumerate() {
                if at > 0 {
                    self.operand(depth + 1);
                }
                self.out.push_str(part);
            }
            return;
        }
        self.put(&FUNCTIONS);
        for _ in 0..self.random.random_range(0..4) {
            self.out.push(' ');
            self.operand(depth + 1);
        }
    }

    fn operand(&mut self, depth: u32) {
        match self.random.random_range(0..10) {
            0..=3 => self.field(),
            4 | 5 if self.one_in(40) => self.out.push_str("nil"),
            4 | 5 => self.put(&LITERALS),
            6 => self.out.push('.'),
            7 => {
                self.put(&VARIABLES);
                if self.one_in(12) {
                    self.put(&FIELDS);
                }
            }
            _ if depth >= DEPTH_MAX => self.field(),
            _ => {
                self.out.push('(');
                if self.one_in(12) {
                    self.out.push_str("$z := ");
                }
                self.pipeline(depth + 1);
                self.out.push(')');
                if self.one_in(12) {
                    self.put(&FIELDS);
                }
            }
        }
    }

    /// Cuts something out or puts something in.
    fn spoil(&mut self, template: &mut String) {
        let places: Vec<usize> = template.char_indices().map(|(at, _)| at).collect();
        let Some(at) = places.choose(&mut self.random).copied() else {
            return;
        };
        if self.one_in(2) {
            let scrap = SCRAPS.choose(&mut self.random).copied().unwrap_or_default();
            template.insert_str(at, scrap);
        } else {
            let length = self.random.random_range(1..6);
            let end = places
                .iter()
                .copied()
                .find(|end| *end >= at + length)
                .unwrap_or(template.len());
            template.replace_range(at..end, "");
        }
    }
}

/// The smallest template that still differs, found by leaving out ever smaller pieces.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut smallest = case.clone();
    let mut size = smallest.template.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < smallest.template.len() {
            let mut smaller = smallest.clone();
            let end = (at + size).min(smaller.template.len());
            if smaller.template.is_char_boundary(at) && smaller.template.is_char_boundary(end) {
                smaller.template.replace_range(at..end, "");
                if differs(&smaller) {
                    smallest = smaller;
                    continue;
                }
            }
            at += size;
        }
        size /= 2;
    }
    smallest
}
