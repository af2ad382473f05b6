//! Dates and TOML drawn from a seed.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::Case;
use crate::generate::yaml_value;

/// What layouts are made of, and what looks as if it were a part of one.
const LAYOUT_PARTS: [&str; 61] = [
    "2006",
    "06",
    "01",
    "1",
    "Jan",
    "January",
    "02",
    "2",
    "_2",
    "002",
    "__2",
    "Mon",
    "Monday",
    "15",
    "3",
    "03",
    "4",
    "04",
    "5",
    "05",
    "PM",
    "pm",
    "MST",
    "-0700",
    "-07:00",
    "-07",
    "-070000",
    "-07:00:00",
    "Z0700",
    "Z07:00",
    "Z07",
    "Z070000",
    "Z07:00:00",
    ".000",
    ".999",
    ",000",
    ".000000000",
    ".999999999",
    ",9",
    ".0",
    " ",
    "-",
    "/",
    ":",
    "T",
    ", ",
    "_",
    "Z",
    "é",
    "x",
    "Janet",
    "Mond",
    "M",
    "0",
    "_2006",
    ".00a",
    "P",
    "2006-01-02",
    "15:04:05",
    "Jan _2 15:04:05",
    "2006-01-02T15:04:05Z07:00",
];
const LETTERS: [&str; 16] = [
    "0", "1", "9", ":", "-", "+", " ", "Z", "T", ".", "x", "PM", "Feb", "UTC", "CEST", "é",
];
/// Zones of which all copies of the database tell the same from 1970 on.
const ZONES: [&str; 12] = [
    "UTC",
    "",
    "Local",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Pacific/Chatham",
    "nowhere",
    "Etc/GMT+5",
];
const SPANS: [&str; 14] = [
    "1h",
    "-1h",
    "24h",
    "1.5s",
    "-1ns",
    "720h",
    "8760h",
    "1m30s",
    "x",
    "",
    "1",
    "100000h",
    "-2000000h",
    "999us",
];
const KEYS: [&str; 16] = [
    "a",
    "b",
    "c",
    "a",
    "b",
    "\"a\"",
    "'b'",
    "\"a b\"",
    "\"\"",
    "1",
    "a-b",
    "é",
    "\"\\u00e9\"",
    " a ",
    "\"\\q\"",
    "",
];
const VALUES: [&str; 49] = [
    "1",
    "-1",
    "+2",
    "0x1f",
    "0o7",
    "0b1",
    "1_0",
    "01",
    "1.5",
    "-0.0",
    "1e3",
    "1e",
    "inf",
    "-inf",
    "nan",
    "true",
    "false",
    "tru",
    "\"x\"",
    "\"x\\n\\t\"",
    "\"\\u00e9\"",
    "\"\\ud800\"",
    "'y'",
    "\"",
    "'",
    "\"\"\"a\nb\"\"\"",
    "\"\"\"a\\\n  b\"\"\"",
    "'''\nc'''",
    "\"\"\"\"q\"\"\"\"",
    "2020-01-02",
    "2020-01-02T03:04:05Z",
    "2020-01-02 03:04:05.5+01:00",
    "03:04:05",
    "2020-01-02T03:04",
    "2020-13-02",
    "1:2",
    "[]",
    "{}",
    "[1, 2]",
    "[\n1, # c\n]",
    "{a = 1}",
    "{a.b = 1, a.c = 2}",
    "[{a = 1}, {b = [2]}]",
    "{a = 1,}",
    "[1 2]",
    "9223372036854775808",
    "",
    "x",
    "1.5.5",
];

fn random_of(seed: u64, number: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7))
}

fn one<'a>(random: &mut SmallRng, of: &[&'a str]) -> &'a str {
    of.choose(random).copied().unwrap_or_default()
}

/// A moment in a zone by a layout, what that layout reads again of it, and the moment some time later.
pub fn draw_date(seed: u64, number: u64) -> Case {
    let mut random = random_of(seed, number);
    let count = random.random_range(1..7);
    let layout: String = (0..count).map(|_| one(&mut random, &LAYOUT_PARTS)).collect();
    let zone = one(&mut random, &ZONES);
    let seconds: i64 = match random.random_range(0..8) {
        0 => random.random_range(0..10_000_000_000),
        1 => 253_402_300_799,
        _ => random.random_range(0..4_102_444_800),
    };
    let span = one(&mut random, &SPANS);
    let text = match random.random_range(0..4) {
        0 => format!("\"{}{}\"", one(&mut random, &LETTERS), one(&mut random, &LETTERS)),
        1 => format!("(print $w \"{}\")", one(&mut random, &LETTERS)),
        2 => format!("(trimPrefix \"{}\" $w)", one(&mut random, &LETTERS)),
        _ => "$w".to_owned(),
    };
    let template = format!(
        "{{{{$l := \"{layout}\"}}}}{{{{$w := dateInZone $l {seconds} \"{zone}\"}}}}{{{{$w}}}}|{{{{$t := toDate $l {text}}}}}{{{{$t}}}}|\
         {{{{$u := dateModify \"{span}\" $t}}}}{{{{$u.Format $l}}}}|{{{{$u.Weekday}}}} {{{{$u.YearDay}}}} {{{{$u.Sub $t}}}}|\
         {{{{$u.AddDate {} {} {}}}}}|{{{{mustToDate $l {text}}}}}",
        random.random_range(-3..4),
        random.random_range(-30..30),
        random.random_range(-400..400)
    );
    Case {
        name: format!("date {number} of seed {seed}"),
        missing_key: "default".to_owned(),
        sprig: true,
        data: "null".to_owned(),
        template,
        ..Case::default()
    }
}

fn key(random: &mut SmallRng) -> String {
    let count = if random.random_ratio(1, 3) { 2 } else { 1 };
    let parts: Vec<&str> = (0..count).map(|_| one(random, &KEYS)).collect();
    parts.join(".")
}

/// A text that is nearly TOML, read and written again; and values that are written.
pub fn draw_toml(seed: u64, number: u64) -> Case {
    let mut random = random_of(seed, number);
    let lines: Vec<String> = (0..random.random_range(1..7))
        .map(|_| match random.random_range(0..8) {
            0 => format!("[{}]", key(&mut random)),
            1 => format!("[[{}]]", key(&mut random)),
            2 => "# é".to_owned(),
            3 => format!("{} = {} # c", key(&mut random), one(&mut random, &VALUES)),
            4 => {
                let (first, second) = (one(&mut random, &VALUES), one(&mut random, &VALUES));
                format!(
                    "{} = {{{} = {first}, b = [{second}]}}",
                    key(&mut random),
                    key(&mut random)
                )
            }
            _ => format!("{} = {}", key(&mut random), one(&mut random, &VALUES)),
        })
        .collect();
    let end = one(&mut random, &["\n", "\n", "\n", "\r\n", " ", "\n\n"]);
    let value = yaml_value(&mut random, 0);
    Case {
        name: format!("toml {number} of seed {seed}"),
        missing_key: "zero".to_owned(),
        helm: true,
        data: serde_json::json!({ "d": lines.join(end), "v": value }).to_string(),
        template: "{{ $v := fromToml .Values.d }}{{ toJson $v }}|{{ $v }}|{{ toToml $v }}|{{ toToml .Values.v }}|\
                   {{ toToml (dict \"v\" .Values.v) }}"
            .to_owned(),
        ..Case::default()
    }
}
