//! User data that is a shell script, as Gardener's operating system extensions write it (gardener/gardener v1.150
//! extensions/pkg/controller/operatingsystemconfig/bash.go): files from here-documents, then units that are enabled and
//! started. It is read and never run: what is neither, or depends on something else, is skipped and named.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::shell::{Command, End, NeverEnds, Word, commands};
use super::{Born, UserDataError};

/// Mode of a file that a shell makes, with the usual mask.
const MODE_OF_NEW_FILES: u32 = 0o644;
/// Characters of a command's name in the note that it is skipped.
const NAME_MAX: usize = 40;

/// Reads a script.
pub(super) fn read(text: &str, born: &mut Born) -> Result<(), UserDataError> {
    let commands = commands(text).map_err(|NeverEnds(line)| UserDataError::Script { line })?;
    let mut reader = Reader {
        born,
        blocks: Vec::new(),
    };
    let (mut link, mut understood) = (End::Next, true);
    for pipeline in commands.split_inclusive(|command| command.end != End::Pipe) {
        let Some(last) = pipeline.last() else { continue };
        let done = match (reader.in_block(pipeline), link, understood) {
            (true, _, _) => Done::Skipped,
            (_, End::Or, _) | (_, End::And, false) => reader.skip(pipeline),
            _ => reader.follow(pipeline)?,
        };
        if done == Done::Exit {
            break;
        }
        (link, understood) = (last.end, done == Done::Followed);
    }
    Ok(())
}

/// What has become of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Followed,
    Skipped,
    Exit,
}

struct Reader<'a> {
    born: &'a mut Born,
    /// How the conditions, loops and functions end that are open.
    blocks: Vec<&'static str>,
}

impl Reader<'_> {
    /// Whether a pipeline is a part of a condition, loop or function: whether and how often that runs is unknown.
    fn in_block(&mut self, pipeline: &[Command]) -> bool {
        let before = !self.blocks.is_empty();
        let mut opened = false;
        for command in pipeline {
            opened |= self.keywords(command);
        }
        if opened && !before {
            self.skip(pipeline);
        }
        before || opened
    }

    /// Opens and closes blocks by the keywords that a command begins with; whether it opened one.
    fn keywords(&mut self, command: &Command) -> bool {
        let mut opened = false;
        // `f (`: a parenthesis is the last word of its command.
        let function = command.words.len() > 1 && command.words.last().is_some_and(|word| is_bare(word, "("));
        if function && self.blocks.last() != Some(&"esac") {
            self.blocks.push(")");
            return true;
        }
        for word in &command.words {
            let keyword = if word.quoted || word.expands {
                ""
            } else {
                word.text.as_str()
            };
            let closes = match keyword {
                "if" => "fi",
                "for" | "while" | "until" | "select" => "done",
                "case" => "esac",
                "{" => "}",
                "(" => ")",
                "then" | "do" | "else" | "elif" | "!" => continue,
                "function" => {
                    opened |= self.opens_function(command);
                    break;
                }
                "fi" | "done" | "esac" | "}" | ")" => {
                    self.blocks.pop_if(|open| *open == keyword);
                    continue;
                }
                _ => break,
            };
            // Patterns of a case may stand in parentheses, and always end with one.
            if keyword != "(" || self.blocks.last() != Some(&"esac") {
                self.blocks.push(closes);
            }
            opened = true;
        }
        opened
    }

    /// `function f {`; with parentheses, or the brace on a line of its own, those open the block themselves.
    fn opens_function(&mut self, command: &Command) -> bool {
        let opens = command.words.last().is_some_and(|word| is_bare(word, "{"));
        if opens {
            self.blocks.push("}");
        }
        opens
    }

    fn skip(&mut self, pipeline: &[Command]) -> Done {
        let first = pipeline.first();
        let name = first.and_then(|command| command.words.first());
        // Behind an equals sign stands a value, which may be secret.
        let name = name.map_or("", |word| word.text.split('=').next().unwrap_or_default());
        let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        let line = first.map_or(0, |command| command.line);
        self.born.skip(format!("line {line}: {name:?} is not run"));
        Done::Skipped
    }

    /// Executes a pipeline, if it is about files and units.
    fn follow(&mut self, pipeline: &[Command]) -> Result<Done, UserDataError> {
        let expands = |word: &Word| word.expands;
        let unclear = |command: &Command| command.unclear || command.words.iter().chain(&command.into).any(expands);
        if pipeline.iter().any(unclear) {
            return Ok(self.skip(pipeline));
        }
        let followed = match pipeline {
            [one] if is_exit(one) => return Ok(Done::Exit),
            [one] => self.one(one)?,
            [from, decode] if is_decoder(decode) => {
                let text = output(from).filter(|_| from.into.is_none());
                match (text.and_then(|text| decoded(&text)), &decode.into) {
                    (Some(bytes), Some(into)) => self.write(into, bytes)?,
                    _ => false,
                }
            }
            _ => false,
        };
        Ok(match followed {
            true => Done::Followed,
            false => self.skip(pipeline),
        })
    }

    fn one(&mut self, command: &Command) -> Result<bool, UserDataError> {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        if let Some(into) = &command.into {
            let bytes = match &command.input {
                Some(input) if is_decoder(command) => decoded(input),
                _ => output(command).map(Bytes::from),
            };
            return match bytes {
                Some(bytes) => self.write(into, bytes),
                None => Ok(false),
            };
        }
        match words.as_slice() {
            // Folders come with their files; the rest changes nothing that is looked at.
            ["mkdir" | "set" | "echo" | ":" | "true", ..] | [] => Ok(true),
            ["chmod", mode, paths @ ..] => Ok(paths.iter().all(|path| self.change_mode(path, mode))),
            ["touch", paths @ ..] => self.touch(paths),
            ["systemctl", arguments @ ..] => self.systemctl(arguments),
            _ => Ok(false),
        }
    }

    fn write(&mut self, into: &Word, bytes: Bytes) -> Result<bool, UserDataError> {
        if into.text == "/dev/null" {
            return Ok(true);
        }
        // What is written again keeps its mode.
        let mode = self.born.mode_of(&into.text).unwrap_or(MODE_OF_NEW_FILES);
        self.born.write(&into.text, mode, bytes)
    }

    fn touch(&mut self, paths: &[&str]) -> Result<bool, UserDataError> {
        for path in paths {
            let there = self.born.mode_of(path).is_some();
            if !there && !self.born.write(path, MODE_OF_NEW_FILES, Bytes::new())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn change_mode(&mut self, path: &str, mode: &str) -> bool {
        // systemd reads unit files whatever their mode.
        if Born::unit_path(path).is_some() {
            return true;
        }
        let Some(before) = self.born.mode_of(path) else {
            return false;
        };
        let mode = match mode {
            "+x" | "a+x" => Some(before | 0o111),
            "u+x" => Some(before | 0o100),
            octal => u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o7777),
        };
        mode.is_some_and(|mode| self.born.change_mode(path, mode))
    }

    fn systemctl(&mut self, arguments: &[&str]) -> Result<bool, UserDataError> {
        let now = arguments.contains(&"--now");
        let mut plain = arguments.iter().filter(|argument| !argument.starts_with('-'));
        let verb = match plain.next() {
            Some(&"daemon-reload" | &"unmask") => return Ok(true),
            Some(verb @ (&"enable" | &"start" | &"restart" | &"stop" | &"disable" | &"mask")) => *verb,
            _ => return Ok(false),
        };
        for name in plain {
            let Some(unit) = self.born.unit(name)? else {
                return Ok(false);
            };
            match verb {
                // One that starts with the system is started at the latest when this is over.
                "enable" => (unit.enabled, unit.stopped) = (true, false),
                "stop" => unit.stopped = true,
                "disable" => (unit.enabled, unit.stopped) = (false, unit.stopped || now),
                "mask" => (unit.enabled, unit.stopped) = (false, true),
                _ => unit.stopped = false,
            }
        }
        Ok(true)
    }
}

fn is_bare(word: &Word, text: &str) -> bool {
    !word.quoted && word.text == text
}

fn is_exit(command: &Command) -> bool {
    command.words.first().is_some_and(|word| is_bare(word, "exit"))
}

/// What a command prints, where it is a text that stands in the script.
fn output(command: &Command) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    match words.as_slice() {
        ["cat"] | ["cat", "-"] => command.input.clone(),
        ["echo", "-n", text @ ..] => Some(text.join(" ")),
        ["echo", first, ..] if first.starts_with('-') => None,
        ["echo", text @ ..] => Some(text.join(" ") + "\n"),
        _ => None,
    }
}

fn is_decoder(command: &Command) -> bool {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    matches!(words.as_slice(), ["base64", "-d" | "-D" | "--decode"])
}

fn decoded(text: &str) -> Option<Bytes> {
    let dense: String = text.split_whitespace().collect();
    STANDARD.decode(dense).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::super::parse_user_data;
    use crate::desired::{Content, Desired, DesiredUnit};

    fn read(script: &str) -> (Desired, Vec<String>) {
        let data = parse_user_data(&format!("#!/bin/bash\n{script}")).unwrap();
        (data.desired, data.skipped)
    }

    fn text(desired: &Desired, path: &str) -> String {
        match &desired.files[path].content {
            Content::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => format!("{other:?}"),
        }
    }

    /// The shape of what Garden Linux's and the local provider's extensions write.
    const PROVISION: &str = r#"if [ -f "/var/lib/osc/provision-osc-applied" ]; then
  echo "Provision OSC already applied, exiting..."
  exit 0
fi

if [ ! -s /etc/containerd/config.toml ]; then
  mkdir -p /etc/containerd/
  containerd config default > /etc/containerd/config.toml
fi
mkdir -p /etc/systemd/system/containerd.service.d
cat <<EOF > /etc/systemd/system/containerd.service.d/11-exec_config.conf
[Service]
EOF
chmod 0644 /etc/systemd/system/containerd.service.d/11-exec_config.conf

mkdir -p "/var/lib/node"

cat << EOF | base64 -d > "/var/lib/node/token"
aHVu
dGVyMg==
EOF
chmod "0640" "/var/lib/node/token"

cat << EOF > "/var/lib/node/plain"
fi
EOF

cat << EOF | base64 -d > "/etc/systemd/system/init.service"
W1VuaXRdCg==
EOF
grep -sq "^nfsd$" /etc/modules || echo "nfsd" >>/etc/modules
modprobe nfsd
nslookup $(hostname) || systemctl restart systemd-networkd

systemctl daemon-reload
systemctl enable containerd && systemctl restart containerd
systemctl enable 'init.service' && systemctl restart --no-block 'init.service'

mkdir -p /var/lib/osc
touch /var/lib/osc/provision-osc-applied
"#;

    #[test]
    fn a_provision_script_gives_its_files_and_units() {
        let (desired, skipped) = read(PROVISION);
        assert_eq!(
            desired.files.keys().collect::<Vec<_>>(),
            [
                "/var/lib/node/plain",
                "/var/lib/node/token",
                "/var/lib/osc/provision-osc-applied"
            ]
        );
        assert_eq!(text(&desired, "/var/lib/node/token"), "hunter2");
        assert_eq!(text(&desired, "/var/lib/node/plain"), "fi\n");
        assert_eq!(desired.files["/var/lib/node/token"].permissions, 0o640);
        let init = &desired.units["init.service"];
        assert_eq!(init.content.as_deref(), Some("[Unit]\n"));
        assert!(init.enabled && !init.stopped);
        let containerd = &desired.units["containerd.service"];
        assert_eq!(containerd.drop_ins["11-exec_config.conf"], "[Service]\n");
        assert!(containerd.enabled && containerd.content.is_none());
        assert_eq!(desired.units.len(), 2);
        let names: Vec<_> = skipped.iter().filter_map(|note| note.split('"').nth(1)).collect();
        assert_eq!(names, ["if", "if", "grep", "echo", "modprobe", "nslookup", "systemctl"]);
        assert!(skipped[0].starts_with("line 2: "), "{}", skipped[0]);
    }

    #[test]
    fn what_stands_in_a_block_is_not_run() {
        for script in [
            "if true; then echo x > /a; fi",
            "for i in 1 2; do\necho x > /a\ndone",
            "while read line; do if x; then y; fi; echo x > /a; done",
            "f() {\n echo x > /a\n}",
            "function f {\n echo x > /a\n}",
            "case x in\n a) echo x > /a;;\n (b) echo x > /a;;\nesac",
            "( echo x > /a )",
            "{ echo x > /a; }",
            "until zypper -q install; [ $? -ne 7 ]; do sleep 1; echo x > /a; done",
        ] {
            let (desired, skipped) = read(&format!("{script}\necho y > /b\n"));
            assert_eq!(desired.files.keys().collect::<Vec<_>>(), ["/b"], "{script}");
            assert!(!skipped.is_empty(), "{script}");
        }
    }

    #[test]
    fn what_depends_on_an_unknown_outcome_is_not_run() {
        let (desired, _) = read("unknown && echo x > /a\nunknown || echo x > /b\necho x > /c && echo x > /d\n");
        assert_eq!(desired.files.keys().collect::<Vec<_>>(), ["/c", "/d"]);
        let (desired, _) = read("echo x > /a\nexit 0\necho x > /b\n");
        assert_eq!(desired.files.keys().collect::<Vec<_>>(), ["/a"]);
    }

    #[test]
    fn unclear_content_and_paths_are_skipped_silently() {
        let script = "cat << E > /a\n$TOKEN hunter2\nE\necho hunter2 > $x/b\necho hunter2 | base64 -d > /c\n\
            SECRET=hunter2 run\ncat << 'E' > /d\n$TOKEN\nE\necho x > relative\necho x > /e/../f\n";
        let (desired, skipped) = read(script);
        assert_eq!(desired.files.keys().collect::<Vec<_>>(), ["/d"]);
        assert_eq!(text(&desired, "/d"), "$TOKEN\n");
        assert_eq!(skipped.len(), 6, "{skipped:?}");
        assert!(!skipped.concat().contains("hunter2"), "{skipped:?}");
    }

    #[test]
    fn a_unit_runs_only_if_the_script_starts_it() {
        let (desired, _) = read(
            "echo '[Unit]' > /etc/systemd/system/idle.service\nsystemctl stop docker\nsystemctl start a.timer\n\
             systemctl enable --now b.socket\nsystemctl disable --now c\nsystemctl mask d\n",
        );
        let state = |unit: &DesiredUnit| (unit.enabled, unit.stopped);
        let states: Vec<_> = desired
            .units
            .iter()
            .map(|(name, unit)| (name.as_str(), state(unit)))
            .collect();
        assert_eq!(
            states,
            [
                ("a.timer", (false, false)),
                ("b.socket", (true, false)),
                ("c.service", (false, true)),
                ("d.service", (false, true)),
                ("docker.service", (false, true)),
                ("idle.service", (false, true)),
            ]
        );
    }

    #[test]
    fn a_quote_without_end_is_an_error_that_names_its_line() {
        let error = parse_user_data("#!/bin/sh\necho 'hunter2\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the user data: a quote or substitution never ends"
        );
    }
}
