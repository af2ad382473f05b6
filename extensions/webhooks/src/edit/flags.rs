//! Flags of a container's program, wherever they stand: in `command` or in `args`, as `--flag=value` or as two words.

use std::ops::Range;

use k8s_openapi::api::core::v1::Container;

/// What separates the values of a flag that is a list.
const SEPARATOR: &str = ",";

/// The flags of a container. A flag is named with its dashes, as in `--cloud-provider`.
pub struct Flags<'a>(&'a mut Container);

impl<'a> Flags<'a> {
    /// Those of this container.
    pub fn of(container: &'a mut Container) -> Self {
        Self(container)
    }

    /// The value of a flag; empty for one without value. The last one counts, as it does to the program.
    #[must_use]
    pub fn get(&self, flag: &str) -> Option<&str> {
        let lists = [self.0.args.as_deref(), self.0.command.as_deref()];
        lists.into_iter().flatten().find_map(|words| {
            let last = occurrences(words, flag).pop()?;
            Some(value_of(words, &last, flag))
        })
    }

    /// Gives a flag this value. One that stands there several times is left once; one that does not stand there is added behind the
    /// other flags.
    pub fn set(&mut self, flag: &str, value: &str) {
        self.write(flag, value, format!("{flag}={value}"));
    }

    /// Sets a flag that has no value.
    pub fn set_bare(&mut self, flag: &str) {
        self.write(flag, "", flag.to_owned());
    }

    /// Takes a flag away.
    pub fn remove(&mut self, flag: &str) {
        for words in self.lists() {
            for place in occurrences(words, flag).into_iter().rev() {
                words.drain(place);
            }
        }
    }

    /// Puts a value into the list that a flag has; a flag that does not stand there gets it alone.
    pub fn include(&mut self, flag: &str, value: &str) {
        let mut values = self.values(flag);
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
            self.set(flag, &values.join(SEPARATOR));
        }
    }

    /// Takes a value out of the list that a flag has. A list that is empty then goes with its flag.
    pub fn exclude(&mut self, flag: &str, value: &str) {
        let values = self.values(flag);
        let left: Vec<&str> = values
            .iter()
            .map(String::as_str)
            .filter(|known| *known != value)
            .collect();
        match (left.len() == values.len(), left.is_empty()) {
            (true, _) => {}
            (false, true) => self.remove(flag),
            (false, false) => self.set(flag, &left.join(SEPARATOR)),
        }
    }

    fn values(&self, flag: &str) -> Vec<String> {
        let values = self.get(flag).unwrap_or_default().split(SEPARATOR);
        values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    fn write(&mut self, flag: &str, value: &str, word: String) {
        let times: usize = self.lists().map(|words| occurrences(words, flag).len()).sum();
        if times == 1 && self.get(flag) == Some(value) {
            return;
        }
        let mut word = Some(word);
        for words in self.lists() {
            let places = occurrences(words, flag);
            let Some((first, others)) = places.split_first() else {
                continue;
            };
            for place in others.iter().rev() {
                words.drain(place.clone());
            }
            drop(words.splice(first.clone(), word.take()));
        }
        if let Some(word) = word {
            self.home().push(word);
        }
    }

    fn lists(&mut self) -> impl Iterator<Item = &mut Vec<String>> {
        [self.0.command.as_mut(), self.0.args.as_mut()].into_iter().flatten()
    }

    /// Where the other flags stand.
    fn home(&mut self) -> &mut Vec<String> {
        let Container { command, args, .. } = &mut *self.0;
        let has_flags = |words: &Option<Vec<String>>| words.iter().flatten().any(|word| word.starts_with('-'));
        let in_command = match (has_flags(command), has_flags(args)) {
            (_, true) => false,
            (true, false) => true,
            // The program alone: its flags follow, as Gardener writes them.
            (false, false) => args.is_none() && command.is_some(),
        };
        match in_command {
            true => command.get_or_insert_default(),
            false => args.get_or_insert_default(),
        }
    }
}

/// Where a flag stands, in order. A word without dash behind a flag without `=` is its value: the programs of control planes have no
/// other such words.
fn occurrences(words: &[String], flag: &str) -> Vec<Range<usize>> {
    let found = words.iter().enumerate().filter_map(|(at, word)| {
        let rest = word.strip_prefix(flag)?;
        let has_value = || words.get(at + 1).is_some_and(|next| !next.starts_with('-'));
        match rest {
            "" if has_value() => Some(at..at + 2),
            "" => Some(at..at + 1),
            rest => rest.starts_with('=').then_some(at..at + 1),
        }
    });
    found.collect()
}

fn value_of<'w>(words: &'w [String], place: &Range<usize>, flag: &str) -> &'w str {
    match place.len() {
        2 => &words[place.start + 1],
        _ => words[place.start][flag.len()..].trim_start_matches('='),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(words)
    }

    /// `command | args` after a change, which changes nothing when it is made again.
    fn changed(command: &str, args: &str, change: impl Fn(&mut Flags<'_>)) -> String {
        let mut container = Container {
            command: words(command),
            args: words(args),
            ..Container::default()
        };
        change(&mut Flags::of(&mut container));
        let once = container.clone();
        change(&mut Flags::of(&mut container));
        assert_eq!(container, once, "{command} | {args}");
        let text = |words: Option<Vec<String>>| words.unwrap_or_default().join(" ");
        format!("{} | {}", text(container.command), text(container.args))
    }

    #[test]
    fn a_flag_is_set_where_it_stands_or_behind_the_others() {
        let cases = [
            ("kcm --a=1", "", "kcm --a=1 --x=2 | "),
            (
                "/hyperkube kcm --a=1 --x=9 --b",
                "",
                "/hyperkube kcm --a=1 --x=2 --b | ",
            ),
            ("kcm", "", "kcm --x=2 | "),
            ("", "", " | --x=2"),
            ("sh", "run", "sh | run --x=2"),
            ("kcm", "--a=1", "kcm | --a=1 --x=2"),
            ("kcm --x 9 --a", "", "kcm --x=2 --a | "),
            ("kcm --x 2 --a", "", "kcm --x 2 --a | "),
            ("kcm --x --a", "", "kcm --x=2 --a | "),
            ("kcm --x=1 --x=2", "--x=3", "kcm --x=2 | "),
            ("kcm --x-y=1", "", "kcm --x-y=1 --x=2 | "),
        ];
        for (command, args, expected) in cases {
            assert_eq!(changed(command, args, |flags| flags.set("--x", "2")), expected);
        }
        assert_eq!(changed("kcm --x=1", "", |flags| flags.set_bare("--x")), "kcm --x | ");
    }

    #[test]
    fn a_flag_is_removed_wherever_and_however_it_stands() {
        let cases = [
            ("kcm --x=1 --a --x 2", "--x", "kcm --a | "),
            ("kcm --a=1", "--b", "kcm --a=1 | --b"),
            ("kcm --xy=1", "", "kcm --xy=1 | "),
        ];
        for (command, args, expected) in cases {
            assert_eq!(changed(command, args, |flags| flags.remove("--x")), expected);
        }
    }

    #[test]
    fn lists_gain_and_lose_single_values() {
        let include = |flags: &mut Flags<'_>| flags.include("--g", "B=true");
        let exclude = |flags: &mut Flags<'_>| flags.exclude("--g", "B=true");
        assert_eq!(changed("k --g=A=true", "", include), "k --g=A=true,B=true | ");
        assert_eq!(changed("k --g=B=true,A=true", "", include), "k --g=B=true,A=true | ");
        assert_eq!(changed("k", "", include), "k --g=B=true | ");
        assert_eq!(changed("k --g=A=true,B=true", "", exclude), "k --g=A=true | ");
        assert_eq!(changed("k --g=B=true --a", "", exclude), "k --a | ");
        assert_eq!(changed("k --a", "", exclude), "k --a | ");
    }

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let mut container = Container {
            command: words("k --x=1 --x=2 --y --z 3"),
            args: words("--x=4"),
            ..Container::default()
        };
        let flags = Flags::of(&mut container);
        let cases = [("--x", Some("4")), ("--y", Some("")), ("--z", Some("3")), ("--w", None)];
        for (flag, value) in cases {
            assert_eq!(flags.get(flag), value, "{flag}");
        }
    }
}
