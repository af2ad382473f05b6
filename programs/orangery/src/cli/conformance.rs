//! Arguments of `orangery conformance`.

use std::path::PathBuf;

use api_extensions::{ExtensionClass, ExtensionKind};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

/// Arguments of `orangery conformance`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery conformance --kubeconfig .orangery/seed.kubeconfig --kind Infrastructure --type local
    Does with an Infrastructure what gardenlet does, and compares what the extension makes of it with the contract.
  orangery conformance --kind Worker --type moon --config moon.yaml --kill 'pkill moon' --cloud-check 'moonctl list'
    The same with the extension's own configuration, with crashes, and with a look at what the cloud holds.

Exit codes: 0 no rule is broken; 1 rules are broken; 2 the command line is wrong, or nothing could be validated.
The rules: docs/conformance.md")]
pub struct Conformance {
    /// Kubeconfig of the seed
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Kind of the objects, such as Infrastructure
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub kind: ExtensionKind,
    /// Type of the objects: their spec.type
    #[arg(long = "type", value_name = "TYPE", value_parser = type_)]
    pub type_: String,
    /// Class of the objects: shoot, seed or garden
    #[arg(long, value_name = "CLASS", default_value = "shoot", value_parser = class)]
    pub class: ExtensionClass,
    /// A further class that the extension works on; may be given several times
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub also_class: Vec<ExtensionClass>,
    /// A kind and type that the extension is a secondary for
    #[arg(long, value_name = "KIND/TYPE", value_parser = secondary)]
    pub secondary: Option<Secondary>,
    /// File with fragments of specs and of the Cluster; see docs/conformance.md
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Manifest of a Secret with the credentials that the objects name
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Command of the shell that ends the extension's process; what started it has to start it again
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub kill: Option<String>,
    /// Command of the shell that prints what the cloud holds, a line for each resource
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub cloud_check: Option<String>,
    /// The extension's own namespace, where its heartbeat is
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub heartbeat: Option<String>,
    /// Seconds that one operation may take; by default as long as gardenlet waits for the kind
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: Option<u64>,
    /// Seconds that an object is watched that has to be left alone
    #[arg(long, value_name = "SECONDS", default_value_t = extensions_conformance::PATIENCE.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub patience: u64,
    /// The form of the report
    #[arg(long, value_name = "FORM", value_enum, default_value_t = ReportForm::Text)]
    pub output: ReportForm,
    /// File for the report in JUnit's form, beside what is printed
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportForm {
    /// For people: the verdict, what is broken and what to do, what was skipped
    Text,
    /// For programs
    Json,
    /// For build servers: JUnit's XML
    Junit,
}

/// A kind and type that an extension is a secondary for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// The kind.
    pub kind: ExtensionKind,
    /// The type.
    pub type_: String,
}

/// The kind of this name, or what the kinds are.
pub(super) fn kind(text: &str) -> Result<ExtensionKind, String> {
    ExtensionKind::of(text).ok_or_else(|| format!("the kinds are {}", ExtensionKind::NAMES.join(", ")))
}

/// Longest value of a label, which the type becomes.
const TYPE_LENGTH_MAX: usize = 63;

fn type_(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let fits = !text.is_empty()
        && text.len() <= TYPE_LENGTH_MAX
        && text.chars().all(|c| is_plain(c) || matches!(c, '-' | '.'))
        && text.starts_with(is_plain)
        && text.ends_with(is_plain);
    match fits {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a type has letters, digits, dashes and dots, at most {TYPE_LENGTH_MAX}, with a letter or digit at either end"
        )),
    }
}

fn class(text: &str) -> Result<ExtensionClass, String> {
    let all = [ExtensionClass::Shoot, ExtensionClass::Seed, ExtensionClass::Garden];
    let found = all.into_iter().find(|class| class.as_str() == text);
    found.ok_or_else(|| "the classes are shoot, seed and garden".to_owned())
}

fn secondary(text: &str) -> Result<Secondary, String> {
    match text.split_once('/') {
        Some((name, type_)) if !type_.is_empty() => Ok(Secondary {
            kind: kind(name)?,
            type_: type_.to_owned(),
        }),
        _ => Err("a kind and a type are named as in ControlPlane/moon".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_kinds_classes_and_secondaries_are_refused_with_what_is_allowed() {
        assert!(
            kind("infrastructure")
                .unwrap_err()
                .contains("BackupBucket, BackupEntry, Bastion")
        );
        assert_eq!(class("shoots").unwrap_err(), "the classes are shoot, seed and garden");
        for wrong in ["", "-a", "a.", "Fake Type", "a/b", &"a".repeat(64)] {
            assert!(type_(wrong).is_err(), "{wrong}");
        }
        assert_eq!(type_("local-Ext.2").as_deref(), Ok("local-Ext.2"));
        for wrong in ["ControlPlane", "ControlPlane/", "/moon", "Moon/moon"] {
            assert!(secondary(wrong).is_err(), "{wrong}");
        }
        let read = secondary("ControlPlane/moon/2").unwrap();
        assert_eq!(
            (read.kind, read.type_.as_str()),
            (ExtensionKind::ControlPlane, "moon/2")
        );
    }
}
