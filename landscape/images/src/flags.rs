//! Command lines of images. Our own programs take `--name=value`. The programs of Kubernetes and etcd take what the real
//! program of that version takes, in every notation that its flag library accepts; flags without an effect here are
//! listed in the container's log. A flag that a program does not know ends it, as it ends the program whose name it
//! carries: nothing that was asked for is silently left out.

mod parse;
mod table;
mod value;

use std::collections::BTreeMap;

use cluster_node::{ContainerContext, Exit, image_tag};

use parse::{Parsed, Stop};
use table::Table;

/// The exit code with which Go's flag library ends a program whose command line it refuses.
const EXIT_USAGE: i32 = 2;

/// A program that is imitated: which flags it has, and what becomes of them here.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its registered flags, in all versions.
    pub(crate) table: &'static str,
    /// The library that reads its command line.
    pub(crate) library: Library,
    /// The flags that have an effect here; all others are accepted and listed in the log.
    pub(crate) effective: &'static [&'static str],
    /// The flags whose value is a file that the real program reads when it starts.
    pub(crate) files: &'static [&'static str],
}

/// Which library reads a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// github.com/spf13/pflag under component-base's command.
    Pflag,
    /// Go's own `flag`.
    Go,
}

impl Program {
    /// Reads the container's command line as the real program of the version in its image's tag does.
    ///
    /// # Errors
    /// How the real program ends: it refuses the command line, a file is not there, or help or its version was wanted.
    pub(crate) fn flags(&self, context: &ContainerContext) -> Result<Flags, Exit> {
        let tag = context.container.image.as_deref().and_then(image_tag);
        let read = self.read(tag, &context.args);
        for note in &read.notes {
            context.log.line(note);
        }
        let flags = read.flags?;
        self.check_files(&flags, context)?;
        Ok(flags)
    }

    /// As [`Program::flags`] of a container whose program is the real one, which logs and checks for itself.
    ///
    /// # Errors
    /// It refuses the command line.
    pub(crate) fn silently(&self, context: &ContainerContext) -> Result<Flags, Exit> {
        let tag = context.container.image.as_deref().and_then(image_tag);
        self.read(tag, &context.args).flags
    }

    /// The flags that the newest version registers, in order.
    pub(crate) fn registered(&self) -> impl Iterator<Item = &'static str> {
        let names: Vec<&str> = Table::of(self.table, table::minor(None)).names().collect();
        names.into_iter()
    }

    /// The same of a command line alone, without looking at files.
    #[cfg(test)]
    pub(crate) fn flags_of(&self, args: &[String]) -> Result<Flags, Exit> {
        self.read(None, args).flags
    }

    /// Reads a command line. The notes are what the program logs, also if it ends then.
    fn read(&self, tag: Option<&str>, args: &[String]) -> Read {
        let table = Table::of(self.table, table::minor(tag));
        // A first word that is no flag is the program's path.
        let args = if is_path(args) { &args[1..] } else { args };
        let parsed = match self.library {
            Library::Pflag => parse::pflag(&table, self.name, args),
            Library::Go => parse::go(&table, args),
        };
        let Parsed {
            values,
            mut notes,
            stop,
        } = parsed;
        let end = |code, message| Exit { code, message };
        let flags = match stop {
            Some(Stop::Refused(message)) => Err(match self.library {
                Library::Pflag => Exit::failed(format!("Error: {message}")),
                Library::Go => end(EXIT_USAGE, message),
            }),
            Some(Stop::Unexpected(message)) => Err(Exit::failed(format!("Error: {message}"))),
            Some(Stop::Help) => Err(end(0, format!("Usage:\n  {} [flags]", self.name))),
            None if values.get("version").is_some_and(|version| wants_version(version)) => {
                Err(end(0, self.version(tag)))
            }
            None => {
                let idle = values.keys().filter(|name| !self.effective.contains(&name.as_str()));
                let idle: Vec<String> = idle.map(|name| format!("--{name}")).collect();
                if !idle.is_empty() {
                    notes.push(format!("Flags without an effect here: {}", idle.join(", ")));
                }
                Ok(Flags {
                    program: self.name,
                    values,
                })
            }
        };
        Read { flags, notes }
    }

    fn version(&self, tag: Option<&str>) -> String {
        match self.library {
            Library::Pflag => format!("Kubernetes {}", tag.unwrap_or(cluster_apiserver::DEFAULT_GIT_VERSION)),
            Library::Go => format!("{} Version: {}", self.name, ETCD_VERSION),
        }
    }

    fn check_files(&self, flags: &Flags, context: &ContainerContext) -> Result<(), Exit> {
        for flag in self.files {
            let paths = flags.get(flag).unwrap_or_default().split(',');
            for path in paths.filter(|path| !path.is_empty()) {
                let is_there = context.files.volume(path).is_some() || context.files.read(path).is_ok();
                if !is_there {
                    let why = format!("open {path}: no such file or directory");
                    return Err(Exit::failed(format!("{}: --{flag}: {why}", self.name)));
                }
            }
        }
        Ok(())
    }
}

/// The version of etcd whose flags are in the table.
const ETCD_VERSION: &str = "3.6.16";

/// What a program makes of its command line, and what it logs about it.
struct Read {
    flags: Result<Flags, Exit>,
    notes: Vec<String>,
}

/// Whether `--version` prints it; a version as its value changes which one the program reports.
fn wants_version(value: &str) -> bool {
    value == "raw" || value::boolean(value) == Some(true)
}

fn is_path(args: &[String]) -> bool {
    args.first().is_some_and(|word| !word.starts_with('-'))
}

/// The flags of one container.
#[derive(Debug)]
pub(crate) struct Flags {
    program: &'static str,
    values: BTreeMap<String, String>,
}

impl Flags {
    /// Reads a command line of a program of ours; a first word that is no flag is the program's path.
    pub(crate) fn parse(program: &'static str, args: &[String], known: &[&str]) -> Result<Self, Exit> {
        let wrong = |what: String| Exit::failed(format!("{program}: {what}"));
        let mut values = BTreeMap::new();
        for (position, arg) in args.iter().enumerate() {
            let Some(flag) = arg.strip_prefix("--") else {
                if position == 0 {
                    continue;
                }
                return Err(wrong(format!("unexpected argument: {arg}")));
            };
            // As pflag reads booleans: the name alone switches it on.
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            if !known.contains(&name) {
                return Err(wrong(format!("unknown flag: --{name}")));
            }
            values.insert(name.to_owned(), value.to_owned());
        }
        Ok(Flags { program, values })
    }

    /// A flag's value, if it is given and not empty. Several values of a list are joined by commas.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The value of a flag without which the program cannot run.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Exit> {
        self.get(name).ok_or_else(|| self.wrong(name, "is required"))
    }

    /// A flag as a number, a network, ...
    pub(crate) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Exit> {
        let parse = |value: &str| {
            value
                .parse()
                .map_err(|_| self.wrong(name, &format!("cannot be {value:?}")))
        };
        self.get(name).map(parse).transpose()
    }

    /// A boolean; false when it is not given.
    pub(crate) fn is_on(&self, name: &str) -> Result<bool, Exit> {
        let read = |value| value::boolean(value).ok_or_else(|| self.wrong(name, &format!("cannot be {value:?}")));
        self.get(name).map_or(Ok(false), read)
    }

    fn wrong(&self, name: &str, what: &str) -> Exit {
        Exit::failed(format!("{}: --{name} {what}", self.program))
    }
}

#[cfg(test)]
mod tests;
