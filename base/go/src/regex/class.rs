//! Classes of characters in Go's regular expressions, translated for the crate `regex`.

use std::fmt::Write as _;

use super::{INVALID_RANGE, Outcome, Reader, wrong};

/// A class that has no character.
pub(super) const NEVER: &str = r"[^\x{0}-\x{10FFFF}]";
const ANY: &str = r"[\x{0}-\x{10FFFF}]";
/// Surrogates, which no text has.
const SURROGATES: std::ops::RangeInclusive<u32> = 0xD800..=0xDFFF;

/// The classes of POSIX, by name.
const POSIX: [(&[u8], &str); 14] = [
    (b"alnum", "0-9A-Za-z"),
    (b"alpha", "A-Za-z"),
    (b"ascii", r"\x00-\x7F"),
    (b"blank", r"\t\x20"),
    (b"cntrl", r"\x00-\x1F\x7F"),
    (b"digit", "0-9"),
    (b"graph", r"\x21-\x7E"),
    (b"lower", "a-z"),
    (b"print", r"\x20-\x7E"),
    (b"punct", r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E"),
    (b"space", r"\t-\r\x20"),
    (b"upper", "A-Z"),
    (b"word", "0-9A-Za-z_"),
    (b"xdigit", "0-9A-Fa-f"),
];

/// Unicode's general categories with their long names, both as Go compares them.
const CATEGORIES: [(&str, &str); 38] = [
    ("C", "Other"),
    ("Cc", "Control"),
    ("Cf", "Format"),
    ("Cn", "Unassigned"),
    ("Co", "Privateuse"),
    ("L", "Letter"),
    ("Ll", "Lowercaseletter"),
    ("Lm", "Modifierletter"),
    ("Lo", "Otherletter"),
    ("Lt", "Titlecaseletter"),
    ("Lu", "Uppercaseletter"),
    ("M", "Mark"),
    ("Mc", "Spacingmark"),
    ("Me", "Enclosingmark"),
    ("Mn", "Nonspacingmark"),
    ("N", "Number"),
    ("Nd", "Decimalnumber"),
    ("Nl", "Letternumber"),
    ("No", "Othernumber"),
    ("P", "Punctuation"),
    ("Pc", "Connectorpunctuation"),
    ("Pd", "Dashpunctuation"),
    ("Pe", "Closepunctuation"),
    ("Pf", "Finalpunctuation"),
    ("Pi", "Initialpunctuation"),
    ("Po", "Otherpunctuation"),
    ("Ps", "Openpunctuation"),
    ("S", "Symbol"),
    ("Sc", "Currencysymbol"),
    ("Sk", "Modifiersymbol"),
    ("Sm", "Mathsymbol"),
    ("So", "Othersymbol"),
    ("Z", "Separator"),
    ("Zl", "Lineseparator"),
    ("Zp", "Paragraphseparator"),
    ("Zs", "Spaceseparator"),
    ("P", "Punct"),
    ("Nd", "Digit"),
];
/// Unicode's scripts that Go finds: those of one word (Go 1.26 looks for names without underscores among names with them).
const SCRIPTS: [&str; 117] = [
    "Adlam",
    "Ahom",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Carian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Chorasmian",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Dogra",
    "Duployan",
    "Elbasan",
    "Elymaic",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "Inherited",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kawi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Makasar",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Medefaidrin",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "Nandinagari",
    "Newa",
    "Nko",
    "Nushu",
    "Ogham",
    "Oriya",
    "Osage",
    "Osmanya",
    "Palmyrene",
    "Phoenician",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "Sinhala",
    "Sogdian",
    "Soyombo",
    "Sundanese",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Takri",
    "Tamil",
    "Tangsa",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Toto",
    "Ugaritic",
    "Vai",
    "Vithkuqi",
    "Wancho",
    "Yezidi",
    "Yi",
];

/// `[...]`
pub(super) fn bracketed(reader: &mut Reader<'_>) -> Outcome<String> {
    let whole = reader.rest();
    reader.skip(1);
    let is_negated = reader.rest().starts_with(b"^");
    reader.skip(usize::from(is_negated));
    let mut items = String::new();
    let mut is_first = true;
    while is_first || !reader.rest().starts_with(b"]") {
        is_first = false;
        if let Some(class) = posix(reader)? {
            items.push_str(&class);
            continue;
        }
        if let Some(class) = escaped(reader)? {
            items.push_str(&class);
            continue;
        }
        let start = reader.at();
        let low = character(reader, whole)?;
        let mut high = low;
        if matches!(reader.rest(), [b'-', next, ..] if *next != b']') {
            reader.skip(1);
            high = character(reader, whole)?;
            if high < low {
                return Err(wrong(INVALID_RANGE, reader.since(start)));
            }
        }
        range(&mut items, low, high);
    }
    reader.skip(1);
    Ok(match (items.is_empty(), is_negated) {
        (true, false) => NEVER.to_owned(),
        (true, true) => ANY.to_owned(),
        (false, false) => format!("[{items}]"),
        (false, true) => format!("[^{items}]"),
    })
}

fn character(reader: &mut Reader<'_>, whole: &[u8]) -> Outcome<u32> {
    match reader.rest().first() {
        None => Err(wrong("missing closing ]", whole)),
        Some(b'\\') => reader.escape(),
        Some(_) => Ok(u32::from(reader.rune()?)),
    }
}

fn range(items: &mut String, low: u32, high: u32) {
    let low = if SURROGATES.contains(&low) {
        SURROGATES.end() + 1
    } else {
        low
    };
    let high = if SURROGATES.contains(&high) {
        SURROGATES.start() - 1
    } else {
        high
    };
    if low <= high {
        // Writing to a string cannot fail.
        let _ = write!(items, "\\x{{{low:X}}}-\\x{{{high:X}}}");
    }
}

/// `[:alpha:]` inside of brackets.
fn posix(reader: &mut Reader<'_>) -> Outcome<Option<String>> {
    let Some(behind) = reader.rest().strip_prefix(b"[:") else {
        return Ok(None);
    };
    let Some(end) = behind.windows(2).position(|pair| pair == b":]") else {
        return Ok(None);
    };
    let start = reader.at();
    reader.skip(end + 4);
    let name = behind.get(..end).unwrap_or_default();
    let (name, is_negated) = match name.strip_prefix(b"^") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let known = POSIX.iter().find(|(known, _)| *known == name);
    let (_, items) = known.ok_or_else(|| wrong(INVALID_RANGE, reader.since(start)))?;
    Ok(Some(item(items, is_negated)))
}

fn item(items: &str, is_negated: bool) -> String {
    if is_negated {
        format!("[^{items}]")
    } else {
        items.to_owned()
    }
}

/// An escape for a class of characters: `\d`, `\pL`. None for any other.
pub(super) fn escaped(reader: &mut Reader<'_>) -> Outcome<Option<String>> {
    let [b'\\', letter, ..] = reader.rest() else {
        return Ok(None);
    };
    let items = match letter.to_ascii_lowercase() {
        b'd' => "0-9",
        b's' => r"\t\n\x0C\r\x20",
        b'w' => "0-9A-Za-z_",
        b'p' => return unicode(reader, *letter == b'P').map(Some),
        _ => return Ok(None),
    };
    let class = item(items, letter.is_ascii_uppercase());
    reader.skip(2);
    Ok(Some(class))
}

/// `\pL`, `\p{Greek}`, `\P{^Lu}`
fn unicode(reader: &mut Reader<'_>, is_negated: bool) -> Outcome<String> {
    let start = reader.at();
    let rest = reader.rest();
    reader.skip(2);
    let at_end = reader.rest().is_empty();
    let first = reader.rune()?;
    let mut name = match first {
        _ if at_end => String::new(),
        '{' => {
            let end = rest.iter().position(|byte| *byte == b'}');
            let end = end.ok_or_else(|| wrong(INVALID_RANGE, rest))?;
            reader.skip(end - 2);
            String::from_utf8_lossy(rest.get(3..end).unwrap_or_default()).into_owned()
        }
        first => first.to_string(),
    };
    let mut is_negated = is_negated;
    if let Some(bare) = name.strip_prefix('^') {
        name = bare.to_owned();
        is_negated = !is_negated;
    }
    let items = table(&name).ok_or_else(|| wrong(INVALID_RANGE, reader.since(start)))?;
    Ok(item(&items, is_negated))
}

/// The characters of a class of that name.
fn table(name: &str) -> Option<String> {
    let mut canonical = String::new();
    for letter in name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' ')) {
        canonical.push(match canonical.is_empty() {
            true => letter.to_ascii_uppercase(),
            false => letter.to_ascii_lowercase(),
        });
    }
    match canonical.as_str() {
        "Any" => return Some(r"\x{0}-\x{10FFFF}".to_owned()),
        "Assigned" => return Some(r"\P{Cn}".to_owned()),
        "Ascii" => return Some(r"\x00-\x7F".to_owned()),
        "Lc" | "Casedletter" => return Some(r"\p{Lu}\p{Ll}\p{Lt}".to_owned()),
        // No text has them.
        "Cs" | "Surrogate" => return Some(NEVER.to_owned()),
        _ => {}
    }
    let category = CATEGORIES
        .iter()
        .find(|(short, long)| *short == canonical || *long == canonical);
    if let Some((short, _)) = category {
        return Some(format!(r"\p{{{short}}}"));
    }
    let is_script = SCRIPTS.contains(&canonical.as_str());
    is_script.then(|| format!(r"\p{{sc={canonical}}}"))
}
