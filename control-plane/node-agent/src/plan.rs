//! What to do so that a machine has what it should: pure. Actions come in the order in which they are safe: files before
//! the units that read them, everything written before anything starts, removals after what used them has stopped.

use std::collections::BTreeSet;

use crate::desired::{Desired, DesiredFile, DesiredUnit};
use crate::machine::Seen;

/// One thing to do on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write a file.
    WriteFile {
        /// Absolute path.
        path: String,
        /// Content and mode.
        file: DesiredFile,
    },
    /// Remove a file.
    RemoveFile {
        /// Absolute path.
        path: String,
    },
    /// Write unit file and drop-ins.
    WriteUnit {
        /// Unit name.
        name: String,
        /// The unit.
        unit: DesiredUnit,
    },
    /// Stop, disable and remove a unit.
    RemoveUnit {
        /// Unit name.
        name: String,
    },
    /// Let the unit manager read unit files again.
    Reload,
    /// Start with the system, or not.
    Enable {
        /// Unit name.
        name: String,
        /// Whether.
        enabled: bool,
    },
    /// Start a unit that does not run, restart one that does.
    Restart {
        /// Unit name.
        name: String,
    },
    /// Stop a unit.
    Stop {
        /// Unit name.
        name: String,
    },
}

/// An action and why it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What to do.
    pub action: Action,
    /// Why, in words.
    pub why: String,
}

/// All that is missing; empty when the machine is as it should be. Only what this agent wrote before is ever removed.
pub fn plan(desired: &Desired, seen: &Seen) -> Vec<Planned> {
    let mut planned = Vec::new();
    let files = write_files(desired, seen, &mut planned);
    let units = write_units(desired, seen, &mut planned);
    for (name, unit) in &desired.units {
        run_unit(name, unit, seen, &files, &units, &mut planned);
    }
    let gone = "the operating system config no longer has it";
    for name in seen.units.keys().filter(|name| !desired.units.contains_key(*name)) {
        act(&mut planned, Action::RemoveUnit { name: name.clone() }, gone);
    }
    for path in seen.files.keys().filter(|path| !desired.files.contains_key(*path)) {
        act(&mut planned, Action::RemoveFile { path: path.clone() }, gone);
    }
    planned
}

fn act(planned: &mut Vec<Planned>, action: Action, why: &str) {
    planned.push(Planned {
        action,
        why: why.to_owned(),
    });
}

/// Writes what is new or different; returns the paths.
fn write_files<'a>(desired: &'a Desired, seen: &Seen, planned: &mut Vec<Planned>) -> BTreeSet<&'a str> {
    let mut changed = BTreeSet::new();
    for (path, file) in &desired.files {
        let why = match seen.files.get(path) {
            Some(known) if known.digest == file.digest() => continue,
            Some(_) => "its content or mode changed",
            None => "it is new",
        };
        changed.insert(path.as_str());
        let (path, file) = (path.clone(), file.clone());
        act(planned, Action::WriteFile { path, file }, why);
    }
    changed
}

/// Writes what is new or different; returns the names.
fn write_units<'a>(desired: &'a Desired, seen: &Seen, planned: &mut Vec<Planned>) -> BTreeSet<&'a str> {
    let mut changed = BTreeSet::new();
    for (name, unit) in &desired.units {
        let why = match seen.units.get(name) {
            Some(known) if known.digest == unit.digest() => continue,
            Some(_) => "its unit file changed",
            None => "it is new",
        };
        changed.insert(name.as_str());
        let (name, unit) = (name.clone(), unit.clone());
        act(planned, Action::WriteUnit { name, unit }, why);
    }
    if !changed.is_empty() {
        act(planned, Action::Reload, "unit files changed");
    }
    changed
}

/// Enables, starts, restarts or stops one unit, if it is not as it should be.
fn run_unit(
    name: &str,
    unit: &DesiredUnit,
    seen: &Seen,
    changed_files: &BTreeSet<&str>,
    changed_units: &BTreeSet<&str>,
    planned: &mut Vec<Planned>,
) {
    let (known, name) = (seen.units.get(name), name.to_owned());
    if known.map(|known| known.enabled) != Some(unit.enabled) {
        let why = if unit.enabled {
            "it starts with the system"
        } else {
            "it does not start with the system"
        };
        let (name, enabled) = (name.clone(), unit.enabled);
        act(planned, Action::Enable { name, enabled }, why);
    }
    let running = known.is_some_and(|known| known.running);
    if unit.stopped {
        if running {
            act(planned, Action::Stop { name }, "its command is stop");
        }
        return;
    }
    let depends_on_change = unit.file_paths.iter().any(|path| changed_files.contains(path.as_str()));
    let why = match (changed_units.contains(name.as_str()), depends_on_change, running) {
        (true, _, _) => "its unit file changed",
        (false, true, _) => "a file it depends on changed",
        (false, false, false) => "it does not run",
        (false, false, true) => return,
    };
    act(planned, Action::Restart { name }, why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Content;
    use crate::machine::Machine;
    use crate::memory::MemoryMachine;

    fn file(text: &str) -> DesiredFile {
        DesiredFile {
            permissions: 0o644,
            content: Content::Bytes(text.to_owned().into()),
        }
    }

    fn unit(text: &str, depends_on: &[&str]) -> DesiredUnit {
        DesiredUnit {
            content: Some(text.to_owned()),
            enabled: true,
            file_paths: depends_on.iter().map(|path| (*path).to_owned()).collect(),
            ..DesiredUnit::default()
        }
    }

    fn desired(files: &[(&str, &str)], units: &[(&str, DesiredUnit)]) -> Desired {
        Desired {
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), file(text)))
                .collect(),
            units: units
                .iter()
                .map(|(name, unit)| ((*name).to_owned(), unit.clone()))
                .collect(),
        }
    }

    /// Applies and returns in short what was done; planning again leaves nothing.
    async fn settle(machine: &MemoryMachine, desired: &Desired) -> Vec<String> {
        let planned = plan(desired, &machine.seen().await.unwrap());
        let mut done = Vec::new();
        for Planned { action, .. } in planned {
            machine.perform(&action).await.unwrap();
            done.push(match action {
                Action::WriteFile { path, .. } => format!("write {path}"),
                Action::RemoveFile { path } => format!("remove {path}"),
                Action::WriteUnit { name, .. } => format!("write {name}"),
                Action::RemoveUnit { name } => format!("remove {name}"),
                Action::Reload => "reload".to_owned(),
                Action::Enable { name, enabled } => format!("enable {name} {enabled}"),
                Action::Restart { name } => format!("restart {name}"),
                Action::Stop { name } => format!("stop {name}"),
            });
        }
        assert_eq!(plan(desired, &machine.seen().await.unwrap()), []);
        done
    }

    #[tokio::test]
    async fn a_machine_settles_and_only_what_changed_is_touched_again() {
        let machine = MemoryMachine::new(Default::default());
        let first = desired(
            &[("/a", "1"), ("/b", "1")],
            &[("x.service", unit("x", &["/a"])), ("y.service", unit("y", &[]))],
        );
        assert_eq!(
            settle(&machine, &first).await,
            [
                "write /a",
                "write /b",
                "write x.service",
                "write y.service",
                "reload",
                "enable x.service true",
                "restart x.service",
                "enable y.service true",
                "restart y.service",
            ]
        );
        let changed = desired(
            &[("/a", "2"), ("/b", "1")],
            &[("x.service", unit("x", &["/a"])), ("y.service", unit("y", &[]))],
        );
        assert_eq!(settle(&machine, &changed).await, ["write /a", "restart x.service"]);
        let fewer = desired(
            &[("/b", "1")],
            &[(
                "y.service",
                DesiredUnit {
                    stopped: true,
                    ..unit("y", &[])
                },
            )],
        );
        assert_eq!(
            settle(&machine, &fewer).await,
            ["stop y.service", "remove x.service", "remove /a"]
        );
        assert_eq!(machine.read("/a"), None);
    }
}
