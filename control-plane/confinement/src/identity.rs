//! Whose requests are confined, and to which seed. It trusts names and groups as they were authenticated, and nothing else;
//! what names a seed only in part is confined to none.

use api_meta::names::{
    EXTENSION_SERVICE_ACCOUNT_PREFIX, SEED_NAMESPACE_PREFIX, SEED_USER_PREFIX, SEEDS_GROUP, SERVICE_ACCOUNT_USER_PREFIX,
};

/// User of the operator of extensions that live in a landscape's process, before the name of its seed. It is confined as
/// an extension is.
pub const BUILTIN_OPERATOR_USER_PREFIX: &str = "orangery:builtin-operator:";
const ACCOUNTS_GROUP_PREFIX: &str = "system:serviceaccounts:";

/// What kind of part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// The gardenlet of the seed.
    Gardenlet,
    /// An extension in the seed, under a service account of the seed's namespace.
    Extension,
}

/// A part that is confined to a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the seed.
    pub seed: String,
    /// What it is.
    pub party: Party,
}

/// The answer of [`identify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Not confined: roles decide.
    Other,
    /// Confined to a seed.
    Confined(Identity),
    /// It claims a seed, but not clearly which: everything is refused. The text is the reason.
    Unclear(String),
}

/// Who a user of this name and these groups is.
pub fn identify<'a>(name: &'a str, groups: impl IntoIterator<Item = &'a str>) -> Who {
    let (mut of_seeds, mut accounts) = (false, Vec::new());
    for group in groups {
        of_seeds |= group == SEEDS_GROUP;
        accounts.extend(group.strip_prefix(ACCOUNTS_GROUP_PREFIX));
    }
    let gardenlet = name.strip_prefix(SEED_USER_PREFIX);
    let operator = name.strip_prefix(BUILTIN_OPERATOR_USER_PREFIX);
    match (of_seeds, gardenlet, extension(name), operator) {
        (false, None, None, None) => Who::Other,
        (true, Some(seed), None, None) if accounts.is_empty() => confined(name, seed, Party::Gardenlet),
        (false, None, Some(seed), None) => {
            let own = format!("{SEED_NAMESPACE_PREFIX}{seed}");
            match accounts.as_slice() {
                [namespace] if *namespace == own => confined(name, seed, Party::Extension),
                _ => unclear(
                    name,
                    &format!("it is not of the group {ACCOUNTS_GROUP_PREFIX}{own} alone"),
                ),
            }
        }
        (false, None, None, Some(seed)) if accounts.is_empty() => confined(name, seed, Party::Extension),
        (true, None, ..) => unclear(
            name,
            &format!("it is of the group {SEEDS_GROUP}, but its name is not {SEED_USER_PREFIX}NAME"),
        ),
        (false, Some(_), ..) => unclear(name, &format!("it is not of the group {SEEDS_GROUP}")),
        _ => unclear(name, "its groups are those of different parts"),
    }
}

/// The seed in whose namespace the service account of an extension is.
fn extension(name: &str) -> Option<&str> {
    let (namespace, account) = name.strip_prefix(SERVICE_ACCOUNT_USER_PREFIX)?.split_once(':')?;
    let seed = namespace.strip_prefix(SEED_NAMESPACE_PREFIX)?;
    account.starts_with(EXTENSION_SERVICE_ACCOUNT_PREFIX).then_some(seed)
}

fn confined(name: &str, seed: &str, party: Party) -> Who {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if seed.is_empty() || !seed.chars().all(is_name) {
        return unclear(name, &format!("{seed:?} is no name of a seed"));
    }
    Who::Confined(Identity {
        seed: seed.to_owned(),
        party,
    })
}

fn unclear(name: &str, why: &str) -> Who {
    Who::Unclear(format!(
        "it is not clear which seed the user {name:?} belongs to: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "gardener.cloud:system:seed:a";
    const EXTENSION: &str = "system:serviceaccount:seed-a:extension-x";

    #[test]
    fn gardenlets_extensions_and_operators_are_confined_to_their_seed() {
        let of = |seed: &str, party| {
            Who::Confined(Identity {
                seed: seed.to_owned(),
                party,
            })
        };
        let gardenlet = identify(A, [SEEDS_GROUP, "system:authenticated"]);
        assert_eq!(gardenlet, of("a", Party::Gardenlet));
        let groups = ["system:serviceaccounts", "system:serviceaccounts:seed-a"];
        assert_eq!(identify(EXTENSION, groups), of("a", Party::Extension));
        let operator = identify("orangery:builtin-operator:a-2", ["system:authenticated"]);
        assert_eq!(operator, of("a-2", Party::Extension));
    }

    #[test]
    fn users_without_a_seed_are_left_to_roles() {
        for name in [
            "alice",
            "orangery:builtin-operator",
            "system:serviceaccount:seed-a:default",
            "system:serviceaccount:garden-a:extension-x",
            "system:serviceaccount:garden:gardener-dashboard",
        ] {
            assert_eq!(identify(name, ["system:authenticated"]), Who::Other, "{name}");
        }
    }

    #[test]
    fn unclear_identities_are_refused() {
        let cases: [(&str, &[&str]); 10] = [
            ("alice", &[SEEDS_GROUP]),
            (A, &[]),
            ("gardener.cloud:system:seed:", &[SEEDS_GROUP]),
            ("gardener.cloud:system:seed:a:b", &[SEEDS_GROUP]),
            ("gardener.cloud:system:seed:A", &[SEEDS_GROUP]),
            (EXTENSION, &[]),
            (EXTENSION, &["system:serviceaccounts:seed-b"]),
            (
                EXTENSION,
                &["system:serviceaccounts:seed-a", "system:serviceaccounts:seed-b"],
            ),
            (EXTENSION, &["system:serviceaccounts:seed-a", SEEDS_GROUP]),
            ("orangery:builtin-operator:", &[]),
        ];
        for (name, groups) in cases {
            let who = identify(name, groups.iter().copied());
            assert!(matches!(who, Who::Unclear(_)), "{name} {groups:?}: {who:?}");
        }
    }
}
