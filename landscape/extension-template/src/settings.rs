//! What an extension is made from, checked once.

use std::path::PathBuf;

use api_extensions::ExtensionKind;
use api_meta::Fault;
use api_meta::names::is_dns_label;

/// Longest name of an extension in bytes: a ControllerDeployment's name has 47 at most, and `stand-in-NAME` is one of the examples.
pub const NAME_BYTES_MAX: usize = 38;
/// Longest type in bytes: it is the end of a label's key.
const TYPE_BYTES_MAX: usize = 63;

/// Names that a crate or a program cannot have: keywords of Rust, crates that every extension imports or that come with Rust,
/// and folders of Cargo.
const TAKEN: [&str; 70] = [
    "abstract",
    "alloc",
    "api-extensions",
    "api-meta",
    "as",
    "async",
    "async-trait",
    "await",
    "base-client",
    "base-serve",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extensions-sdk",
    "extensions-webhooks",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "k8s-openapi",
    "kube",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "use",
    "virtual",
    "where",
    "while",
];
/// Words that some reader of YAML takes for something else than a text.
const NO_TEXTS: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];
/// The name under which every landscape registers its own provider.
const PROVIDER_LOCAL: &str = "provider-local";
/// Types of that provider.
const TYPES_LOCAL: [&str; 2] = ["local", "local-ext"];

/// What a person asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the extension: of its crate, its chart and its registration.
    pub name: String,
    /// Type of its objects; by default its name.
    pub type_: Option<String>,
    /// Kinds of its objects.
    pub kinds: Vec<ExtensionKind>,
    /// Whether it changes control planes of Shoots by a webhook.
    pub webhook: bool,
    /// The checkout of the SDK, absolute.
    pub sdk: PathBuf,
}

/// What an extension is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) name: String,
    pub(crate) type_: String,
    pub(crate) kinds: Vec<ExtensionKind>,
    pub(crate) webhook: bool,
    pub(crate) sdk: PathBuf,
}

impl Settings {
    /// Checks a request.
    ///
    /// # Errors
    /// The first thing that is wrong, with what is allowed and one thing to do.
    pub fn new(request: Request) -> Result<Self, Fault> {
        let Request {
            name,
            type_,
            kinds,
            webhook,
            sdk,
        } = request;
        check_name(&name)?;
        let type_ = type_.unwrap_or_else(|| name.clone());
        check_type(&type_)?;
        let mut seen = Vec::new();
        for kind in kinds {
            if seen.contains(&kind) {
                return Err(Fault::user(format!("--kind {kind} is given twice")).hint("leave one of them out"));
            }
            seen.push(kind);
        }
        if seen.is_empty() {
            let names = ExtensionKind::NAMES.join(", ");
            return Err(Fault::user(format!("no --kind is given; the kinds are {names}")).hint("name one with --kind"));
        }
        if sdk.to_str().is_none_or(|path| path.contains(['"', '\\', '\n'])) {
            let why = format!(
                "the path of the SDK, {}, cannot stand in a Cargo.toml: it has a quote, a backslash or is no UTF-8",
                sdk.display()
            );
            return Err(Fault::user(why).hint("check it out elsewhere, or name it by a link with --sdk"));
        }
        Ok(Self {
            name,
            type_,
            kinds: seen,
            webhook,
            sdk,
        })
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    let begins = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    if !begins || !is_dns_label(name) || name.len() > NAME_BYTES_MAX {
        let why = format!(
            "{name:?} is no name of an extension: such a name has at most {NAME_BYTES_MAX} characters of a-z, 0-9 and -, begins \
             with a letter and does not end with -"
        );
        return Err(Fault::user(why).hint("choose a name like provider-moon"));
    }
    if NO_TEXTS.contains(&name) {
        let why = format!(
            "{name:?} cannot be the name of an extension: readers of YAML take it for something else than a text"
        );
        return Err(Fault::user(why).hint(format!("choose another, such as extension-{name}")));
    }
    if TAKEN.contains(&name) {
        let why =
            format!("{name:?} cannot be the name of an extension: it is a word of Rust or a crate that it imports");
        return Err(Fault::user(why).hint(format!("choose another, such as extension-{name}")));
    }
    if name == PROVIDER_LOCAL {
        let why = format!("the name {name} is taken: every `orangery up` registers its own provider under it");
        return Err(Fault::user(why).hint("choose another name"));
    }
    Ok(())
}

fn check_type(type_: &str) -> Result<(), Fault> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = type_.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    if bytes.len() > TYPE_BYTES_MAX || !edge(bytes.first()) || !edge(bytes.last()) || !bytes.iter().all(inner) {
        let why = format!(
            "--type {type_:?} is no type: a type has at most {TYPE_BYTES_MAX} letters, digits, -, _ and ., and begins and ends \
             with a letter or digit"
        );
        return Err(Fault::user(why).hint("choose a type like moon, or leave --type out"));
    }
    // A number in any notation begins with a digit, and with a letter it is a text for every reader.
    let is_text = !NO_TEXTS.contains(&type_.to_ascii_lowercase().as_str())
        && !type_.starts_with(|first: char| first.is_ascii_digit());
    if !is_text {
        let why = format!("--type {type_} is no type: readers of YAML may take it for something else than a text");
        return Err(Fault::user(why).hint("choose a type that begins with a letter, like moon, or leave --type out"));
    }
    if TYPES_LOCAL.contains(&type_.to_ascii_lowercase().as_str()) {
        let why =
            format!("--type {type_} is taken: objects of this type belong to the provider of `orangery up` itself");
        return Err(Fault::user(why).hint("choose another type, or leave --type out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, type_: Option<&str>, kinds: &[ExtensionKind]) -> Result<Settings, Fault> {
        Settings::new(Request {
            name: name.to_owned(),
            type_: type_.map(str::to_owned),
            kinds: kinds.to_vec(),
            webhook: false,
            sdk: PathBuf::from("/sdk"),
        })
    }

    #[test]
    fn names_are_dns_labels_that_cargo_takes() {
        let long = "a".repeat(NAME_BYTES_MAX);
        for name in ["moon", "provider-moon", "a", "m2", long.as_str()] {
            assert!(request(name, None, &[ExtensionKind::Worker]).is_ok(), "{name}");
        }
        let longer = "a".repeat(NAME_BYTES_MAX + 1);
        let wrong = [
            "",
            "Moon",
            "2moon",
            "-a",
            "a-",
            "a_b",
            "a.b",
            "mönd",
            "a b",
            "../a",
            &longer,
            "match",
            "tokio",
            "test",
            "deps",
            "null",
            "on",
            "y",
            "provider-local",
        ];
        for name in wrong {
            let fault = request(name, None, &[ExtensionKind::Worker]).unwrap_err();
            assert!(
                fault.to_string().contains(name) && !fault.hint.is_empty(),
                "{name}: {fault}"
            );
        }
        assert!(TAKEN.is_sorted(), "in alphabetical order");
    }

    #[test]
    fn types_are_ends_of_label_keys_and_not_those_of_the_landscape() {
        for type_ in ["moon", "Moon.v2", "a_b"] {
            assert!(
                request("moon", Some(type_), &[ExtensionKind::Worker]).is_ok(),
                "{type_}"
            );
        }
        let long = "a".repeat(TYPE_BYTES_MAX + 1);
        for type_ in [
            "",
            "-a",
            "a/b",
            "a b",
            "123",
            "0x1f",
            "True",
            "no",
            "local",
            "Local",
            "local-ext",
            &long,
        ] {
            let fault = request("moon", Some(type_), &[ExtensionKind::Worker]).unwrap_err();
            assert!(!fault.hint.is_empty(), "{type_}");
        }
    }

    #[test]
    fn a_kind_is_given_once() {
        let twice = request("moon", None, &[ExtensionKind::Worker, ExtensionKind::Worker]).unwrap_err();
        assert_eq!(twice.to_string(), "--kind Worker is given twice");
        assert!(request("moon", None, &[]).is_err());
    }
}
