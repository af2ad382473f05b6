//! Command lines of images: `--name=value` as Go programs take them. A flag that an image does not know ends it, as it
//! ends the program whose name it carries: nothing that was asked for is silently left out.

use std::collections::BTreeMap;

use cluster_node::Exit;

/// The flags of one container.
#[derive(Debug)]
pub(crate) struct Flags {
    program: &'static str,
    values: BTreeMap<String, String>,
}

impl Flags {
    /// Reads a command line; a first word that is no flag is the program's path.
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

    /// A flag's value, if it is given and not empty.
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
        Ok(self.parsed(name)?.unwrap_or(false))
    }

    fn wrong(&self, name: &str, what: &str) -> Exit {
        Exit::failed(format!("{}: --{name} {what}", self.program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, Exit> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Flags::parse("prog", &args, &["port", "leader-elect", "class"])
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let flags = parse(&["/usr/local/bin/prog", "--port=443", "--leader-elect", "--class="]).unwrap();
        assert_eq!(flags.parsed::<u16>("port").unwrap(), Some(443));
        assert!(flags.is_on("leader-elect").unwrap());
        assert_eq!(flags.get("class"), None);
    }

    #[test]
    fn what_is_not_known_or_not_there_ends_the_program_by_name() {
        assert_eq!(parse(&["--prot=1"]).unwrap_err().message, "prog: unknown flag: --prot");
        assert_eq!(
            parse(&["prog", "extra"]).unwrap_err().message,
            "prog: unexpected argument: extra"
        );
        let flags = parse(&["--port=many"]).unwrap();
        assert_eq!(
            flags.parsed::<u16>("port").unwrap_err().message,
            "prog: --port cannot be \"many\""
        );
        assert_eq!(
            flags.required("class").unwrap_err().message,
            "prog: --class is required"
        );
    }
}
