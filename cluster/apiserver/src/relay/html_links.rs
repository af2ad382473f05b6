//! Rewrites the links of pages to lead through this server. Tags are parsed as far as links need it; all else is unchanged.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go, rewriteHTML)

use std::io::{Read, Write};

use base_client::{ResponseBody, full_body};
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use futures::StreamExt;
use http::{HeaderMap, header};
use http_body_util::BodyExt;

use crate::relay::rewriting::UrlRewriter;
use crate::wire::status::Status;

/// Largest page whose links are rewritten, decompressed: the whole page is held in memory.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Elements whose content is never parsed as tags.
const TEXT_ELEMENTS: [&str; 10] = [
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "script",
    "style",
    "title",
    "textarea",
    "xmp",
];
/// The attributes of elements that hold URLs.
const LINK_ATTRIBUTES: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// How a page is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    None,
    Gzip,
    Deflate,
}

/// The page with its links rewritten; one with an unknown content encoding is unchanged.
///
/// # Errors
/// 503: the page is incomplete or too large.
pub(crate) async fn rewritten(
    headers: &mut HeaderMap,
    body: ResponseBody,
    rewriter: &UrlRewriter,
) -> Result<ResponseBody, Status> {
    let encoding = match headers.get(header::CONTENT_ENCODING).map(http::HeaderValue::as_bytes) {
        None | Some(b"") => Encoding::None,
        Some(b"gzip") => Encoding::Gzip,
        Some(b"deflate") => Encoding::Deflate,
        Some(_) => return Ok(body),
    };
    let unreadable = |why: String| Status::unavailable(format!("error trying to reach service: {why}"));
    let page = whole(body).await.map_err(unreadable)?;
    let page = match decompressed(&page, encoding) {
        Ok(page) => page,
        Err(why) => return Err(unreadable(why)),
    };
    let page = with_links(&page, |place| rewriter.rewritten(place));
    let page = compressed(page, encoding).map_err(|error| unreadable(error.to_string()))?;
    headers.remove(header::CONTENT_LENGTH);
    Ok(full_body(page))
}

/// All of a page. Errors: it is incomplete or too large.
async fn whole(body: ResponseBody) -> Result<Bytes, String> {
    let (mut chunks, mut page) = (body.into_data_stream(), BytesMut::new());
    while let Some(chunk) = chunks.next().await {
        page.extend_from_slice(&chunk.map_err(|error| error.to_string())?);
        if page.len() > PAGE_BYTES_MAX {
            return Err(format!("the page has more than {PAGE_BYTES_MAX} bytes"));
        }
    }
    Ok(page.freeze())
}

fn decompressed(page: &Bytes, encoding: Encoding) -> Result<Bytes, String> {
    let limit = PAGE_BYTES_MAX as u64 + 1;
    let mut out = Vec::new();
    let read = match encoding {
        // A request for the head alone has no page.
        Encoding::None => return Ok(page.clone()),
        _ if page.is_empty() => return Ok(page.clone()),
        Encoding::Gzip => GzDecoder::new(&page[..]).take(limit).read_to_end(&mut out),
        Encoding::Deflate => DeflateDecoder::new(&page[..]).take(limit).read_to_end(&mut out),
    };
    read.map_err(|error| error.to_string())?;
    if out.len() > PAGE_BYTES_MAX {
        return Err(format!("the page has more than {PAGE_BYTES_MAX} bytes"));
    }
    Ok(out.into())
}

fn compressed(page: Vec<u8>, encoding: Encoding) -> std::io::Result<Vec<u8>> {
    match encoding {
        Encoding::None => Ok(page),
        _ if page.is_empty() => Ok(page),
        Encoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&page)?;
            encoder.finish()
        }
        Encoding::Deflate => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&page)?;
            encoder.finish()
        }
    }
}

/// A page with each link replaced by the result of `link`.
fn with_links(page: &[u8], link: impl Fn(&str) -> String) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        let (before, tag) = rest.split_at(at);
        out.extend_from_slice(before);
        let opens = tag.get(1).is_some_and(u8::is_ascii_alphabetic);
        if let Some((read, length)) = opens.then(|| Tag::read(tag)).flatten() {
            read.write(&mut out, &link);
            rest = &tag[length..];
            if !read.closed && TEXT_ELEMENTS.contains(&read.name.as_str()) {
                let (text, behind) = rest.split_at(text_length(rest, &read.name));
                out.extend_from_slice(text);
                rest = behind;
            }
            continue;
        }
        let length = match opens {
            // A tag without an end is text, and so is what follows.
            true => tag.len(),
            false if tag.starts_with(b"<!--") => end_of(tag, b"-->"),
            false => 1,
        };
        out.extend_from_slice(&tag[..length]);
        rest = &tag[length..];
    }
    out.extend_from_slice(rest);
    out
}

/// The length of the text up to the end of `mark`; all of it without one.
fn end_of(text: &[u8], mark: &[u8]) -> usize {
    let at = text.windows(mark.len()).position(|part| part == mark);
    at.map_or(text.len(), |at| at + mark.len())
}

/// The length of the text up to the end tag of an element.
fn text_length(rest: &[u8], name: &str) -> usize {
    let end = format!("</{name}");
    let ends = |part: &[u8]| part.eq_ignore_ascii_case(end.as_bytes());
    rest.windows(end.len()).position(ends).unwrap_or(rest.len())
}

/// A start tag.
struct Tag {
    name: String,
    /// Keys and values, without quotes, not unescaped.
    attributes: Vec<(String, String)>,
    /// Whether it is self-closing.
    closed: bool,
}

impl Tag {
    /// A tag at the start of the text, and its length. `None`: it has no end.
    fn read(text: &[u8]) -> Option<(Self, usize)> {
        let mut at = 1;
        let name = word(text, &mut at, b" \t\r\n\x0c/>")?;
        let mut tag = Self {
            name: name.to_ascii_lowercase(),
            attributes: Vec::new(),
            closed: false,
        };
        loop {
            skip(text, &mut at, b" \t\r\n\x0c/");
            if *text.get(at)? == b'>' {
                tag.closed = text.get(at.wrapping_sub(1)) == Some(&b'/');
                return Some((tag, at + 1));
            }
            let key = word(text, &mut at, b" \t\r\n\x0c/>=")?.to_ascii_lowercase();
            skip(text, &mut at, b" \t\r\n\x0c");
            let mut value = String::new();
            if *text.get(at)? == b'=' {
                at += 1;
                skip(text, &mut at, b" \t\r\n\x0c");
                value = match *text.get(at)? {
                    quote @ (b'"' | b'\'') => {
                        at += 1;
                        let value = word(text, &mut at, &[quote])?;
                        at += 1;
                        value
                    }
                    _ => word(text, &mut at, b" \t\r\n\x0c>")?,
                };
            } else if key.is_empty() {
                // A stray character.
                at += 1;
                continue;
            }
            if !tag.attributes.iter().any(|(own, _)| *own == key) {
                tag.attributes.push((key, value));
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>, link: &impl Fn(&str) -> String) {
        let links = LINK_ATTRIBUTES
            .iter()
            .find(|(name, _)| *name == self.name)
            .map_or(&[][..], |(_, keys)| keys);
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        for (key, value) in &self.attributes {
            let mut value = unescaped(value);
            if links.contains(&key.as_str()) {
                value = link(&value);
            }
            out.extend_from_slice(format!(" {key}=\"{}\"", escaped(&value)).as_bytes());
        }
        out.extend_from_slice(if self.closed { b"/>" } else { b">" });
    }
}

/// The text up to one of `ends`. None: there is none.
fn word(text: &[u8], at: &mut usize, ends: &[u8]) -> Option<String> {
    let start = *at;
    let length = text.get(start..)?.iter().position(|byte| ends.contains(byte))?;
    *at = start + length;
    Some(String::from_utf8_lossy(&text[start..*at]).into_owned())
}

fn skip(text: &[u8], at: &mut usize, what: &[u8]) {
    while text.get(*at).is_some_and(|byte| what.contains(byte)) {
        *at += 1;
    }
}

/// The value with character references decoded; those of unknown names stay.
fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find(';') else { break };
        match character(&rest[1..end]) {
            Some(character) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    let number = name.strip_prefix('#');
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match number?.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok().and_then(char::from_u32),
            None => number?.parse().ok().and_then(char::from_u32),
        },
    }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&#39;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\r' => out.push_str("&#13;"),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(page: &str) -> String {
        String::from_utf8(with_links(page.as_bytes(), |place| format!("/p{place}"))).unwrap()
    }

    #[test]
    fn links_are_rewritten_and_nothing_else() {
        for (page, wanted) in [
            ("<A HREF=/x?a&amp;b>t</A>", "<a href=\"/p/x?a&amp;b\">t</A>"),
            ("<img alt='/x' src='/y' />", "<img alt=\"/x\" src=\"/p/y\"/>"),
            ("<p title=\"/x\">1 < 2 <br/>", "<p title=\"/x\">1 < 2 <br/>"),
            (
                "<!-- <a href=/x> --><!doctype html>",
                "<!-- <a href=/x> --><!doctype html>",
            ),
            (
                "<script src=/x>a='<a href=/y>'</script><a href=/z>",
                "<script src=\"/p/x\">a='<a href=/y>'</script><a href=\"/p/z\">",
            ),
            (
                "<input disabled formaction=/x>",
                "<input disabled=\"\" formaction=\"/p/x\">",
            ),
            ("</a href=/x>", "</a href=/x>"),
        ] {
            assert_eq!(rewritten(page), wanted);
        }
    }

    #[test]
    fn a_truncated_page_is_unchanged() {
        for page in [
            "<",
            "<a",
            "<a href",
            "<a href=",
            "<a href=\"/x",
            "<!--",
            "<script>x",
            "a<a =",
            "<a ==>",
        ] {
            let _ = rewritten(page);
        }
        assert_eq!(rewritten("x<a href=\"/x"), "x<a href=\"/x");
    }

    #[test]
    fn a_small_page_that_decompresses_to_a_huge_one_is_refused() {
        let bomb = compressed(vec![b'a'; PAGE_BYTES_MAX + 1], Encoding::Gzip).unwrap();
        assert!(bomb.len() < PAGE_BYTES_MAX / 100);
        assert!(
            decompressed(&bomb.into(), Encoding::Gzip)
                .unwrap_err()
                .contains("more than")
        );
        let page = compressed(b"<a href=/>".to_vec(), Encoding::Deflate).unwrap();
        assert_eq!(
            &decompressed(&page.into(), Encoding::Deflate).unwrap()[..],
            b"<a href=/>"
        );
    }
}
