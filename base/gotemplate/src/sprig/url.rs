//! URLs taken apart and put together, as `net/url` of Go 1.26 does it.

use std::net::IpAddr;

use super::args::{Answer, find, kind, map, text};
use crate::environment::error::Fault;
use crate::text::quote::quoted;
use crate::text::{Str, runes};
use crate::value::function::{Function, Scope};
use crate::value::{Map, Type, Value};

/// How many times as long a text is at most when it is escaped.
const ESCAPED_FACTOR: usize = 3;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new("urlParse", [Type::Str], |_, args| -> Answer {
            let url = Url::read(text(args, 0)).map_err(|why| unparsable("url", &why))?;
            Ok(Value::Map(url.parts()))
        }),
        Function::new("urlJoin", [super::args::map_type()], join),
    ]
}

fn unparsable(what: &str, why: &str) -> Fault {
    Fault::Message(format!("unable to parse {what}: {why}"))
}

/// A part of a URL, which decides what is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

/// `shouldEscape`
fn is_escaped(byte: u8, part: Part) -> bool {
    let allowed: &[u8] = match part {
        Part::Path => b"$&+,/:;=@",
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
        Part::User => b"$&+,;=",
        Part::Fragment => b"$&+,/:;=?@!()*",
    };
    !byte.is_ascii_alphanumeric() && !b"-_.~".contains(&byte) && !allowed.contains(&byte)
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if is_escaped(*byte, part) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    let is_host = matches!(part, Part::Host | Part::Zone);
    while let Some(byte) = text.get(at) {
        if *byte != b'%' {
            if is_host && byte.is_ascii() && is_escaped(*byte, part) {
                let shown = quoted(&[*byte]);
                return Err(format!("invalid character {shown} in host name"));
            }
            out.push(*byte);
            at += 1;
            continue;
        }
        let escape = text.get(at..text.len().min(at + 3)).unwrap_or_default();
        let wrong = || format!("invalid URL escape {}", quoted(escape));
        let digits = match escape {
            [_, high, low] => char::from(*high).to_digit(16).zip(char::from(*low).to_digit(16)),
            _ => None,
        };
        let (high, low) = digits.ok_or_else(wrong)?;
        let meant = u8::try_from(high << 4 | low).unwrap_or(0);
        // In a host only what is not ASCII is escaped, and the mark of a zone.
        let is_refused = match part {
            Part::Host => high < 8 && escape != b"%25",
            Part::Zone => escape != b"%25" && meant != b' ' && is_escaped(meant, Part::Host),
            _ => false,
        };
        if is_refused {
            return Err(wrong());
        }
        out.push(meant);
        at += 3;
    }
    Ok(out)
}

fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (text.get(..place).unwrap_or_default(), text.get(place + 1..)),
        None => (text, None),
    }
}

struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl User {
    fn read(text: &[u8]) -> Result<Self, String> {
        let fits = |rune: char| rune.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(rune);
        if !runes(text).all(|(_, rune, _)| fits(rune)) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = cut(text, b':');
        Ok(Self {
            name: unescape(name, Part::User)?,
            password: password.map(|password| unescape(password, Part::User)).transpose()?,
        })
    }

    fn written(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}

#[derive(Default)]
struct Url {
    scheme: Vec<u8>,
    opaque: Vec<u8>,
    user: Option<User>,
    host: Vec<u8>,
    path: Vec<u8>,
    query: Vec<u8>,
    fragment: Vec<u8>,
}

impl Url {
    /// `url.Parse`
    fn read(text: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let mut url = Self::without_fragment(before).map_err(|why| format!("parse {}: {why}", quoted(before)))?;
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            let read = unescape(fragment, Part::Fragment);
            url.fragment = read.map_err(|why| format!("parse {}: {why}", quoted(text)))?;
        }
        Ok(url)
    }

    fn without_fragment(text: &[u8]) -> Result<Self, String> {
        let mut url = Self::default();
        if text.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = cut(rest, b'?');
        url.query = query.unwrap_or_default().to_vec();
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let has_authority = !url.scheme.is_empty() || !rest.starts_with(b"///");
        if let Some(authority) = rest.strip_prefix(b"//").filter(|_| has_authority) {
            let end = find(authority, b"/", 0).unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            rest = path;
            url.set_authority(authority)?;
        }
        url.path = unescape(rest, Part::Path)?;
        Ok(url)
    }

    fn set_authority(&mut self, authority: &[u8]) -> Result<(), String> {
        let at = authority.iter().rposition(|byte| *byte == b'@');
        let host = at.map_or(Some(authority), |at| authority.get(at + 1..));
        let is_strict = matches!(self.scheme.as_slice(), b"http" | b"https");
        self.host = read_host(host.unwrap_or_default(), is_strict)?;
        let user = at.and_then(|at| authority.get(..at));
        self.user = user.map(User::read).transpose()?;
        Ok(())
    }

    fn parts(self) -> Map {
        let hostname = hostname(&self.host).to_vec();
        let user = self.user.map(|user| user.written()).unwrap_or_default();
        let entries = [
            ("scheme", self.scheme),
            ("host", self.host),
            ("hostname", hostname),
            ("path", self.path),
            ("query", self.query),
            ("opaque", self.opaque),
            ("fragment", self.fragment),
            ("userinfo", user),
        ];
        Map::new(
            Type::Any,
            entries.into_iter().map(|(name, text)| (name, Value::string(text))),
        )
    }

    /// `URL.String`
    fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_place(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }

    fn write_place(&self, out: &mut Vec<u8>) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if has_authority || !self.scheme.is_empty() && !self.path.is_empty() {
            out.extend_from_slice(b"//");
        }
        if let Some(user) = &self.user {
            out.extend(user.written());
            out.push(b'@');
        }
        out.extend(escape(&self.host, Part::Host));
        let path = match self.path.as_slice() {
            b"*" => b"*".to_vec(),
            path => escape(path, Part::Path),
        };
        if path.first().is_some_and(|first| *first != b'/') && !self.host.is_empty() {
            out.push(b'/');
        }
        // Otherwise the text before the colon would be a scheme.
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

/// `getScheme`
fn scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = cut(text, b':');
                return Ok((scheme, rest.unwrap_or_default()));
            }
            _ => break,
        }
    }
    Ok((b"", text))
}

fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn check_port(text: &[u8]) -> Result<(), String> {
    match is_port(text) {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", quoted(text))),
    }
}

/// `parseHost`. If it is strict, all behind the first colon is the port.
fn read_host(host: &[u8], is_strict: bool) -> Result<Vec<u8>, String> {
    let last = |wanted: u8| host.iter().rposition(|byte| *byte == wanted);
    match last(b'[') {
        Some(0) => read_literal(host),
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            let colon = if is_strict { find(host, b":", 0) } else { last(b':') };
            check_port(colon.and_then(|at| host.get(at..)).unwrap_or_default())?;
            unescape(host, Part::Host)
        }
    }
}

/// An address in brackets.
fn read_literal(host: &[u8]) -> Result<Vec<u8>, String> {
    let close = host
        .iter()
        .rposition(|byte| *byte == b']')
        .ok_or("missing ']' in host")?;
    let port = host.get(close + 1..).unwrap_or_default();
    check_port(port)?;
    let name = host.get(1..close).unwrap_or_default();
    let name = match find(name, b"%25", 0) {
        Some(zone) => {
            let (address, zone) = name.split_at(zone);
            [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?].concat()
        }
        None => unescape(name, Part::Host)?,
    };
    let (address, zone) = cut(&name, b'%');
    let read = std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
    match read {
        Some(IpAddr::V4(_)) if zone.is_none() => Err("invalid IP-literal".to_owned()),
        Some(IpAddr::V6(_)) if zone.is_none_or(|zone| !zone.is_empty()) => {
            Ok([b"[", name.as_slice(), b"]", port].concat())
        }
        _ => {
            // Go's messages about invalid addresses are more detailed.
            let why = match zone {
                Some([]) => "zone must be a non-empty string",
                _ => "unable to parse IP",
            };
            Err(format!("invalid host: ParseAddr({}): {why}", quoted(&name)))
        }
    }
}

/// The host without port and brackets.
fn hostname(host: &[u8]) -> &[u8] {
    let colon = host.iter().rposition(|byte| *byte == b':');
    let without_port = colon.and_then(|at| {
        let (name, port) = host.split_at(at);
        is_port(port).then_some(name)
    });
    let name = without_port.unwrap_or(host);
    let bare = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    bare.unwrap_or(name)
}

fn join(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let parts = map(args, 0);
    let part = |key: &str| -> Result<Str, Fault> {
        match parts.get(key.as_bytes()) {
            None => Ok("".into()),
            Some(Value::Str(text)) => {
                scope.check_length(text.len().saturating_mul(ESCAPED_FACTOR))?;
                Ok(text)
            }
            Some(value) if value.is_nil() => Err(Fault::from(super::args::NIL_POINTER)),
            Some(value) => {
                let kind = kind(&value);
                Err(Fault::Message(format!(
                    "unable to parse {key} key, must be of type string, but {kind} found"
                )))
            }
        }
    };
    let mut url = Url {
        scheme: part("scheme")?.to_vec(),
        host: part("host")?.to_vec(),
        path: part("path")?.to_vec(),
        query: part("query")?.to_vec(),
        opaque: part("opaque")?.to_vec(),
        fragment: part("fragment")?.to_vec(),
        user: None,
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let whole = [b"proto://", user.bytes(), b"@host"].concat();
        url.user = Url::read(&whole)
            .map_err(|why| unparsable("userinfo in dict", &why))?
            .user;
    }
    Ok(Value::string(url.written()))
}
