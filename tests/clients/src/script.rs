//! Scripts: what a person types, line by line. Never runs anything.

use std::path::Path;

/// A script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Its file's name without the ending.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// A command for a shell and how its answers are compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) comparison: Comparison,
}

/// How the two answers to a command are compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// `$`: exit code and all output are the same.
    Same,
    /// `~`: both succeed; what they print depends on the moment.
    Succeeds,
    /// `!`: they differ, for the reason that stands before it.
    Differs(String),
}

/// Reads a script: `$`, `~` or `!` begin a command, two spaces go on with it, `#` begins a remark; `! ` is preceded by
/// the remark that says why.
pub(crate) fn read(path: &Path) -> Result<Script, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(Script {
        steps: steps(&text).map_err(|why| format!("{}: {why}", path.display()))?,
        name,
    })
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut remark = String::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let comparison = match line.get(..2) {
            Some("$ ") => Comparison::Same,
            Some("~ ") => Comparison::Succeeds,
            Some("! ") if remark.is_empty() => {
                return Err(format!("line {line_number}: no remark says why they differ"));
            }
            Some("! ") => Comparison::Differs(std::mem::take(&mut remark)),
            Some("  ") => {
                let step = steps
                    .last_mut()
                    .ok_or_else(|| format!("line {line_number} goes on with nothing"))?;
                step.command += "\n";
                step.command += &line[2..];
                continue;
            }
            Some("# ") => {
                let gap = if remark.is_empty() { "" } else { " " };
                remark = remark + gap + &line[2..];
                continue;
            }
            None | Some(_) if line.trim().is_empty() => {
                remark.clear();
                continue;
            }
            _ => return Err(format!("line {line_number} begins with none of $ ~ ! #")),
        };
        remark.clear();
        steps.push(Step {
            line: line_number,
            command: line[2..].to_owned(),
            comparison,
        });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_is_typed() {
        let text = "# Why\n# not.\n! a\n\n$ b <<E\n  c\n  E\n~ d\n";
        let read = steps(text).unwrap();
        let step = |line, command: &str, comparison| Step {
            line,
            command: command.to_owned(),
            comparison,
        };
        assert_eq!(
            read,
            [
                step(3, "a", Comparison::Differs("Why not.".to_owned())),
                step(5, "b <<E\nc\nE", Comparison::Same),
                step(8, "d", Comparison::Succeeds),
            ]
        );
        assert!(steps("! a\n").unwrap_err().contains("line 1"));
        assert!(steps("# x\n\n! a\n").is_err());
        assert!(steps("echo\n").unwrap_err().contains("none of"));
    }
}
