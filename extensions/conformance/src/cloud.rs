//! What the cloud holds according to the author's command, and how two moments differ. It knows no cloud.

use std::collections::BTreeMap;

/// Lines that are shown of a difference.
const SHOWN_MAX: usize = 5;

/// Resources, a line for each, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inventory(BTreeMap<String, usize>);

impl Inventory {
    pub(crate) fn of(output: &str) -> Self {
        let mut lines = BTreeMap::new();
        for line in output.lines().map(str::trim).filter(|line| !line.is_empty()) {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        Self(lines)
    }

    /// How many resources there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().sum()
    }

    /// What is there now and was not, and the other way round; nothing if both are the same.
    pub(crate) fn compare(&self, now: &Self) -> Result<(), String> {
        let beyond = |some: &Self, others: &Self| -> Vec<String> {
            let of = |line: &String| others.0.get(line).copied().unwrap_or_default();
            let more = some.0.iter().filter(|(line, count)| **count > of(line));
            more.map(|(line, _)| line.clone()).collect()
        };
        let (added, missing) = (beyond(now, self), beyond(self, now));
        let part = |what: &str, lines: &[String]| match lines {
            [] => None,
            lines => Some(format!("{what} {}", shown(lines))),
        };
        let all: Vec<String> = [part("holds in addition", &added), part("lacks", &missing)]
            .into_iter()
            .flatten()
            .collect();
        match all.is_empty() {
            true => Ok(()),
            false => Err(format!("the cloud {}", all.join(", and "))),
        }
    }
}

fn shown(lines: &[String]) -> String {
    let first: Vec<String> = lines.iter().take(SHOWN_MAX).map(|line| format!("{line:?}")).collect();
    match lines.len().saturating_sub(SHOWN_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inventories_are_compared_without_order_and_with_numbers() {
        let before = Inventory::of("vpc-1\nsubnet\nsubnet\n");
        assert_eq!(before.compare(&Inventory::of(" subnet\n\nvpc-1\nsubnet")), Ok(()));
        assert_eq!(before.len(), 3);
        let text = before.compare(&Inventory::of("vpc-2\nsubnet")).unwrap_err();
        assert_eq!(
            text,
            "the cloud holds in addition \"vpc-2\", and lacks \"subnet\", \"vpc-1\""
        );
    }
}
