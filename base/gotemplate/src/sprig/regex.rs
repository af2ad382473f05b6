//! Regular expressions as `regexp` of Go 1.26 matches them: the expressions are translated for the crate `regex`
//! ([`base_go::regex`]), the loops over matches are Go's. Texts that are no UTF-8 are matched with U+FFFD for each invalid
//! byte, as in Go.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base_go::regex::{ReadError, read};
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Input, util::syntax};

use super::args::{Answer, int, string_list, text};
use crate::environment::error::{Fault, LimitError};
use crate::text::quote::{can_backquote, quoted};
use crate::text::{Str, push_rune, runes};
use crate::value::function::{Function, Scope};
use crate::value::{List, Type, Value};

/// What a compiled expression may take: `\pL{100}` takes about one.
const COMPILED_BYTES_MAX: usize = 4 << 20;
/// Expressions that are cached: a chart has a few, and each may take as much as the bound above.
const CACHED_MAX: usize = 16;
/// Instructions times bytes of text: a second or two where the matcher can skip nothing.
const WORK_MAX: usize = 1 << 28;
/// So much of it counts as one step: the most is four million steps.
const WORK_PER_STEP: usize = 64;
/// A search that takes no more steps if it scans all that is left counts as so many: for names and the like, following it would
/// take longer than the search.
const UNFOLLOWED_STEPS_MAX: usize = 16;
/// Steps to compile an instruction, unless the expression is cached.
const COMPILE_STEPS: usize = 256;

/// An expression that can be searched for.
struct Program {
    regex: Regex,
    /// What the crate compiles
    text: String,
    /// Follows a search byte by byte, to find where it ends; made when it is needed first, none if that fails
    follower: OnceLock<Option<DFA>>,
    names: Vec<Option<Vec<u8>>>,
    size: usize,
    is_empty: bool,
}

impl Program {
    fn follower(&self) -> Option<&DFA> {
        let make = || {
            let thompson = thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(COMPILED_BYTES_MAX))
                .which_captures(WhichCaptures::None);
            DFA::builder()
                .configure(DFA::config().skip_cache_capacity_check(true))
                .syntax(syntax::Config::new().utf8(false))
                .thompson(thompson)
                .build(&self.text)
                .ok()
        };
        self.follower.get_or_init(make).as_ref()
    }
}

type Cached = Arc<Mutex<HashMap<Str, Arc<Program>>>>;
type Work = fn(&Search<'_>, &Scope<'_>, &[Value]) -> Answer;

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    const INT: Type = Type::INT;
    let cached = Cached::default();
    let pairs: [(&str, &str, Vec<Type>, Work); 6] = [
        ("regexMatch", "mustRegexMatch", vec![Str, Str], |search, scope, _| {
            Ok(Value::Bool(search.find(0, scope)?.is_some()))
        }),
        ("regexFind", "mustRegexFind", vec![Str, Str], |search, scope, _| {
            let found = search.find(0, scope)?.map(|(from, to)| search.slice(from, to));
            Ok(Value::string(found.unwrap_or_default()))
        }),
        ("regexFindAll", "mustRegexFindAll", vec![Str, Str, INT], find_all),
        ("regexSplit", "mustRegexSplit", vec![Str, Str, INT], split),
        (
            "regexReplaceAll",
            "mustRegexReplaceAll",
            vec![Str, Str, Str],
            replace_all,
        ),
        (
            "regexReplaceAllLiteral",
            "mustRegexReplaceAllLiteral",
            vec![Str, Str, Str],
            |search, scope, args| {
                search.replace(scope, |out, _| {
                    out.extend_from_slice(text(args, 2));
                })
            },
        ),
    ];
    let mut functions = vec![Function::new("regexQuoteMeta", [Str], |scope, args| {
        scope.check_length(text(args, 0).len().saturating_mul(2))?;
        Ok(Value::string(quote_meta(text(args, 0))))
    })];
    for (name, must, params, work) in pairs {
        for (name, panics) in [(name, true), (must, false)] {
            let cached = Arc::clone(&cached);
            // With an invalid expression `regexMatch` is false; the others without `must` panic.
            let ignores_errors = name == "regexMatch";
            functions.push(Function::new(name, params.clone(), move |scope, args| {
                let pattern = text(args, 0);
                let program = match program(&cached, pattern, scope) {
                    Err(Fault::Message(_)) if ignores_errors => return Ok(Value::Bool(false)),
                    Err(Fault::Message(why)) if panics => {
                        let shown = match can_backquote(pattern) {
                            true => format!("`{}`", String::from_utf8_lossy(pattern)),
                            false => quoted(pattern),
                        };
                        return Err(Fault::Message(format!("regexp: Compile({shown}): {why}")));
                    }
                    program => program?,
                };
                work(&Search::new(&program, text(args, 1), scope)?, scope, args)
            }));
        }
    }
    functions
}

fn program(cached: &Cached, pattern: &[u8], scope: &Scope<'_>) -> Result<Arc<Program>, Fault> {
    let lock = || cached.lock().unwrap_or_else(PoisonError::into_inner);
    let pattern = Str::from(pattern);
    if let Some(program) = lock().get(&pattern) {
        return Ok(Arc::clone(program));
    }
    let limit = Fault::Limit(LimitError::Regex);
    let read = match read(&pattern) {
        Ok(read) => read,
        Err(ReadError::Syntax(why)) => return Err(Fault::Message(why)),
        Err(ReadError::Limit) => return Err(limit),
    };
    scope.spend(read.size.saturating_mul(COMPILE_STEPS))?;
    let built = RegexBuilder::new(&read.text).size_limit(COMPILED_BYTES_MAX).build();
    let program = Arc::new(Program {
        // Only the size can be refused here.
        regex: built.map_err(|_| limit)?,
        text: read.text,
        follower: OnceLock::new(),
        names: read.names,
        size: read.size,
        is_empty: pattern.is_empty(),
    });
    let mut cached = lock();
    if cached.len() >= CACHED_MAX {
        cached.clear();
    }
    cached.insert(pattern, Arc::clone(&program));
    Ok(program)
}

/// An expression and the text it is searched in.
struct Search<'s> {
    program: &'s Program,
    text: &'s [u8],
    /// The text as UTF-8
    shown: Cow<'s, [u8]>,
    /// Where each byte of `shown` comes from, if that is not the text itself
    places: Vec<usize>,
    /// What [`Program::follower`] remembers of this text
    followed: RefCell<Option<Cache>>,
}

impl<'s> Search<'s> {
    fn new(program: &'s Program, text: &'s [u8], scope: &Scope<'_>) -> Result<Self, Fault> {
        if text.len().saturating_mul(program.size) > WORK_MAX {
            return Err(Fault::Limit(LimitError::Regex));
        }
        scope.spend(text.len() * program.size / WORK_PER_STEP)?;
        let (mut shown, mut places) = (Cow::Borrowed(text), Vec::new());
        if std::str::from_utf8(text).is_err() {
            let mut valid = Vec::with_capacity(text.len());
            for (at, rune, _) in runes(text) {
                push_rune(&mut valid, rune);
                places.resize(valid.len(), at);
            }
            places.push(text.len());
            shown = Cow::Owned(valid);
        }
        Ok(Self {
            program,
            text,
            shown,
            places,
            followed: RefCell::default(),
        })
    }

    /// Counts a search as steps, unless it begins at 0: [`Self::new`] has counted the whole text once. A search may scan far
    /// beyond what it finds: `a.*b|a` looks for a `b` behind each `a`.
    fn count(&self, from: usize, scope: &Scope<'_>) -> Result<(), Fault> {
        if from == 0 {
            return Ok(());
        }
        let steps = |bytes: usize| 1 + bytes.saturating_mul(self.program.size) / WORK_PER_STEP;
        let rest = self.shown.len() - from;
        let scanned = match steps(rest) {
            0..=UNFOLLOWED_STEPS_MAX => rest,
            _ => self.scanned(from).unwrap_or(rest),
        };
        scope.spend(steps(scanned))
    }

    /// How many bytes a search scans, if that can be known.
    fn scanned(&self, from: usize) -> Option<usize> {
        let follower = self.program.follower()?;
        let mut cache = self.followed.borrow_mut();
        let cache = cache.get_or_insert_with(|| follower.create_cache());
        let bytes = self.shown.get(from..)?;
        let input = Input::new(&*self.shown).range(from..);
        let mut state = follower.start_state_forward(cache, &input).ok()?;
        for (before, byte) in bytes.iter().enumerate() {
            state = follower.next_state(cache, state, *byte).ok()?;
            if state.is_quit() {
                return None;
            }
            if state.is_dead() {
                return Some(before + 1);
            }
        }
        Some(bytes.len())
    }

    /// A part of the text, by places in `shown`.
    fn slice(&self, from: usize, to: usize) -> &'s [u8] {
        let place = |at: usize| match self.places.is_empty() {
            true => at,
            false => self.places.get(at).copied().unwrap_or(self.text.len()),
        };
        self.text.get(place(from)..place(to)).unwrap_or_default()
    }

    /// Whether a rune begins at that place, or the text ends.
    fn is_boundary(&self, at: usize) -> bool {
        self.shown.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
    }

    /// The place behind the rune that begins there.
    fn behind(&self, at: usize) -> usize {
        let mut next = at + 1;
        while !self.is_boundary(next) {
            next += 1;
        }
        next
    }

    /// The first match from some place on.
    fn find(&self, mut from: usize, scope: &Scope<'_>) -> Result<Option<(usize, usize)>, Fault> {
        loop {
            self.count(from, scope)?;
            let Some(found) = self.program.regex.find_at(&self.shown, from) else {
                return Ok(None);
            };
            // `\B` matches between the bytes of a rune, too, which Go does not.
            if self.is_boundary(found.start()) {
                return Ok(Some((found.start(), found.end())));
            }
            from = self.behind(found.start());
        }
    }

    /// The first matches, none of them empty where the one before has ended: `allMatches`.
    fn all(&self, count_max: Option<usize>, scope: &Scope<'_>) -> Result<Vec<(usize, usize)>, Fault> {
        let mut matches = Vec::new();
        let (mut at, mut last_end) = (0, None);
        while at <= self.shown.len()
            && count_max.is_none_or(|max| matches.len() < max)
            && let Some((from, to)) = self.find(at, scope)?
        {
            let is_empty = to == at;
            at = if is_empty { self.behind(at) } else { to };
            if !is_empty || last_end != Some(from) {
                matches.push((from, to));
            }
            last_end = Some(to);
        }
        Ok(matches)
    }

    /// `replaceAll`
    fn replace(&self, scope: &Scope<'_>, write: impl Fn(&mut Vec<u8>, &CaptureLocations)) -> Answer {
        let mut out = Vec::new();
        let mut locations = self.program.regex.capture_locations();
        let (mut last_end, mut at) = (0, 0);
        while at <= self.shown.len()
            && let Some((from, to)) = self.find(at, scope)?
        {
            self.program.regex.captures_read_at(&mut locations, &self.shown, from);
            out.extend_from_slice(self.slice(last_end, from));
            if to > last_end || from == 0 {
                write(&mut out, &locations);
            }
            scope.check_length(out.len())?;
            last_end = to;
            at = to.max(self.behind(at));
        }
        out.extend_from_slice(self.slice(last_end, self.shown.len()));
        scope.check_length(out.len())?;
        Ok(Value::string(out))
    }

    fn group(&self, locations: &CaptureLocations, at: usize) -> Option<&'s [u8]> {
        locations.get(at).map(|(from, to)| self.slice(from, to))
    }

    /// `expand`: a template with the groups of a match that it names.
    fn expand(&self, template: &[u8], locations: &CaptureLocations, out: &mut Vec<u8>) {
        let mut rest = template;
        while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
            let (before, behind) = rest.split_at(dollar);
            out.extend_from_slice(before);
            if let Some(behind) = behind.strip_prefix(b"$$") {
                out.push(b'$');
                rest = behind;
                continue;
            }
            let Some((name, behind)) = group_name(behind) else {
                out.push(b'$');
                rest = behind.get(1..).unwrap_or_default();
                continue;
            };
            rest = behind;
            let group = match number(name) {
                Some(number) => self.group(locations, number),
                None => {
                    let names = self.program.names.iter().enumerate();
                    names
                        .filter(|(_, known)| known.as_deref() == Some(name))
                        .find_map(|(at, _)| self.group(locations, at))
                }
            };
            out.extend_from_slice(group.unwrap_or_default());
        }
        out.extend_from_slice(rest);
    }
}

/// The name behind a dollar, and what follows it: the longest that there can be.
fn group_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"$")?;
    let inner = text.strip_prefix(b"{");
    let name = inner.unwrap_or(text);
    let is_part = |rune: char| rune == '_' || crate::text::is_letter_or_digit(rune);
    let end = runes(name).find(|(_, rune, _)| !is_part(*rune));
    let (name, behind) = name.split_at(end.map_or(name.len(), |(at, ..)| at));
    if name.is_empty() {
        return None;
    }
    match inner {
        Some(_) => Some((name, behind.strip_prefix(b"}")?)),
        None => Some((name, behind)),
    }
}

/// The number that a name is, unless it has zeros in front or is too large.
fn number(name: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(name).ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_number.then(|| text.parse().ok())?
}

fn count(args: &[Value]) -> Option<usize> {
    usize::try_from(int(args, 2)).ok()
}

fn find_all(search: &Search<'_>, scope: &Scope<'_>, args: &[Value]) -> Answer {
    let matches = search.all(count(args), scope)?;
    if matches.is_empty() {
        return Ok(Value::List(List::nil(Type::Str)));
    }
    let found = matches.into_iter().map(|(from, to)| search.slice(from, to).into());
    Ok(string_list(found.collect()))
}

fn split(search: &Search<'_>, scope: &Scope<'_>, args: &[Value]) -> Answer {
    let parts_max = count(args);
    if parts_max == Some(0) {
        return Ok(Value::List(List::nil(Type::Str)));
    }
    if !search.program.is_empty && search.text.is_empty() {
        return Ok(string_list(vec!["".into()]));
    }
    let mut parts: Vec<Str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for (from, to) in search.all(parts_max, scope)? {
        if parts_max.is_some_and(|max| parts.len() + 1 >= max) {
            break;
        }
        end = from;
        if to != 0 {
            parts.push(search.slice(begin, end).into());
        }
        begin = to;
    }
    if end != search.shown.len() {
        parts.push(search.slice(begin, search.shown.len()).into());
    }
    Ok(string_list(parts))
}

fn replace_all(search: &Search<'_>, scope: &Scope<'_>, args: &[Value]) -> Answer {
    let template = text(args, 2);
    search.replace(scope, |out, locations| search.expand(template, locations, out))
}

fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}
