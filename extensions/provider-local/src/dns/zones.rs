//! The names and what they stand for. Pure but for the lock around them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use api_meta::{ErrorCode, Fault};
use base_controller::ObjectKey;

/// How many CNAMEs are followed for one question: more is a loop or a mistake.
const CHAIN_MAX: usize = 8;
/// Longest name, label and text that DNS can carry.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
const TEXT_MAX: usize = 255;

/// The types of records there are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecordType {
    A,
    Aaaa,
    Cname,
    Txt,
}

/// One value, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Txt(String),
}

/// What one object defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    owner: ObjectKey,
    name: String,
    type_: RecordType,
    values: Vec<Value>,
    ttl_seconds: u32,
}

/// One record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) ttl_seconds: u32,
}

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// These, in the order of a chain of CNAMEs.
    Records(Vec<Answered>),
    /// The name exists and has nothing of this type.
    NoData,
    /// There is no such name.
    NoName,
}

fn refused(text: String) -> Fault {
    Fault::user(text)
        .code(ErrorCode::ConfigurationProblem)
        .hint("correct the DNSRecord's name and values")
}

/// Lower case and without the dot at its end.
fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn check_name(name: &str) -> Result<String, Fault> {
    let name = normal(name);
    let label_ok = |label: &str| !label.is_empty() && label.len() <= LABEL_MAX && label.is_ascii();
    let stars = name.strip_prefix("*.").unwrap_or(&name).contains('*');
    if name.is_empty() || name.len() > NAME_MAX || stars || !name.split('.').all(label_ok) {
        return Err(refused(format!("{name:?} is not a DNS name")));
    }
    Ok(name)
}

impl Entry {
    /// An entry whose name and values are what its type demands.
    pub(crate) fn new(
        owner: ObjectKey,
        name: &str,
        type_: RecordType,
        values: &[String],
        ttl_seconds: u32,
    ) -> Result<Self, Fault> {
        let name = check_name(name)?;
        let values: Vec<Value> = values
            .iter()
            .map(|value| check_value(type_, value))
            .collect::<Result<_, _>>()?;
        if values.is_empty() || (type_ == RecordType::Cname && values.len() > 1) {
            return Err(refused(format!("{name} has {} values", values.len())));
        }
        Ok(Self {
            owner,
            name,
            type_,
            values,
            ttl_seconds,
        })
    }
}

fn check_value(type_: RecordType, text: &str) -> Result<Value, Fault> {
    let wrong = |what: &str| refused(format!("{text:?} is not {what}"));
    match type_ {
        RecordType::A => text.parse().map(Value::A).map_err(|_| wrong("an IPv4 address")),
        RecordType::Aaaa => text.parse().map(Value::Aaaa).map_err(|_| wrong("an IPv6 address")),
        RecordType::Cname => check_name(text).map(Value::Cname),
        RecordType::Txt if text.len() <= TEXT_MAX => Ok(Value::Txt(text.to_owned())),
        RecordType::Txt => Err(refused(format!("a text has more than {TEXT_MAX} bytes"))),
    }
}

/// All names. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zones(Arc<RwLock<BTreeMap<ObjectKey, Entry>>>);

impl Zones {
    /// Takes over what an object defines, in place of its previous definition. Refused if another object defines
    /// something of the same name and type, or if a CNAME would not be alone; what an object defined that does not exist any
    /// more is replaced.
    pub(crate) fn put(&self, entry: Entry, exists: impl Fn(&ObjectKey) -> bool) -> Result<(), Fault> {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let clashes = |other: &Entry| {
            let cname = entry.type_ == RecordType::Cname || other.type_ == RecordType::Cname;
            other.owner != entry.owner && other.name == entry.name && (other.type_ == entry.type_ || cname)
        };
        let in_the_way: Vec<ObjectKey> = entries
            .values()
            .filter(|other| clashes(other))
            .map(|other| other.owner.clone())
            .collect();
        if let Some(owner) = in_the_way.iter().find(|owner| exists(owner)) {
            return Err(
                Fault::dependency(format!("{} is taken by DNSRecord {owner}", entry.name))
                    .code(ErrorCode::RetryableConfigurationProblem)
                    .hint("delete one of the two DNSRecords"),
            );
        }
        for owner in in_the_way {
            entries.remove(&owner);
        }
        entries.insert(entry.owner.clone(), entry);
        Ok(())
    }

    /// Removes what an object defined.
    pub(crate) fn remove(&self, owner: &ObjectKey) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(owner);
    }

    /// Answers a question, following CNAMEs among these names.
    pub(crate) fn answer(&self, question: &str, type_: RecordType) -> Answer {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        let mut name = normal(question);
        for _ in 0..CHAIN_MAX {
            let here = at(&entries, &name);
            let is_of_type = |entry: &&Entry| entry.type_ == type_ || entry.type_ == RecordType::Cname;
            let Some(entry) = here.iter().copied().find(is_of_type) else {
                return match (records.is_empty(), here.is_empty()) {
                    (false, _) => Answer::Records(records),
                    (true, false) => Answer::NoData,
                    (true, true) if has_below(&entries, &name) => Answer::NoData,
                    (true, true) => Answer::NoName,
                };
            };
            let answered = |value: &Value| Answered {
                name: name.clone(),
                value: value.clone(),
                ttl_seconds: entry.ttl_seconds,
            };
            records.extend(entry.values.iter().map(answered));
            match entry.values.first() {
                Some(Value::Cname(next)) if type_ != RecordType::Cname => next.clone_into(&mut name),
                _ => return Answer::Records(records),
            }
        }
        Answer::Records(records)
    }

    /// Whether any name here ends as `name` does in its last two labels: other queries are not ours.
    pub(crate) fn is_authority_for(&self, name: &str) -> bool {
        let domain = |name: &str| name.rsplitn(3, '.').take(2).map(str::to_owned).collect::<Vec<_>>();
        let requested = domain(&normal(name));
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .any(|entry| domain(&entry.name) == requested)
    }
}

/// The entries of a name: its own, else those of the closest `*` above it that no name in between hides.
fn at<'a>(entries: &'a BTreeMap<ObjectKey, Entry>, name: &str) -> Vec<&'a Entry> {
    let named = |wanted: &str| {
        entries
            .values()
            .filter(|entry| entry.name == wanted)
            .collect::<Vec<_>>()
    };
    let own = named(name);
    if !own.is_empty() || has_below(entries, name) {
        return own;
    }
    let names: BTreeSet<&str> = entries.values().map(|entry| entry.name.as_str()).collect();
    let mut rest = name;
    while let Some((_, parent)) = rest.split_once('.') {
        let wild = named(&format!("*.{parent}"));
        if !wild.is_empty() {
            return wild;
        }
        if names.contains(parent) || has_below(entries, parent) {
            return Vec::new();
        }
        rest = parent;
    }
    Vec::new()
}

/// Whether there are names that end with `.name`.
fn has_below(entries: &BTreeMap<ObjectKey, Entry>, name: &str) -> bool {
    entries
        .values()
        .any(|entry| entry.name.strip_suffix(name).is_some_and(|front| front.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: &str, name: &str, type_: RecordType, values: &[&str]) -> Result<Entry, Fault> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        Entry::new(ObjectKey::namespaced("ns", owner), name, type_, &values, 60)
    }

    fn zones(entries: &[(&str, RecordType, &[&str])]) -> Zones {
        let zones = Zones::default();
        for (name, type_, values) in entries {
            zones.put(entry(name, name, *type_, values).unwrap(), |_| true).unwrap();
        }
        zones
    }

    fn answer_text(zones: &Zones, name: &str, type_: RecordType) -> String {
        match zones.answer(name, type_) {
            Answer::Records(records) => {
                let records: Vec<String> = records.iter().map(|r| format!("{} {:?}", r.name, r.value)).collect();
                records.join("; ")
            }
            other => format!("{other:?}"),
        }
    }

    use RecordType::{A, Aaaa, Cname, Txt};

    #[test]
    fn names_match_in_any_case_and_missing_ones_differ_from_empty_ones() {
        let zones = zones(&[("api.x.example", A, &["10.0.0.1", "10.0.0.2"])]);
        assert_eq!(
            answer_text(&zones, "API.x.Example.", A),
            "api.x.example A(10.0.0.1); api.x.example A(10.0.0.2)"
        );
        assert_eq!(answer_text(&zones, "api.x.example", Aaaa), "NoData");
        assert_eq!(answer_text(&zones, "x.example", A), "NoData");
        assert_eq!(answer_text(&zones, "b.x.example", A), "NoName");
        assert!(zones.is_authority_for("other.example") == zones.is_authority_for("q.other.example"));
        assert!(zones.is_authority_for("nothere.x.example") && !zones.is_authority_for("example.org"));
    }

    #[test]
    fn cnames_are_followed_and_loops_end() {
        let names = zones(&[
            ("a.example", Cname, &["b.example"]),
            ("b.example", A, &["10.0.0.1"]),
            ("l1.example", Cname, &["l2.example"]),
            ("l2.example", Cname, &["l1.example"]),
            ("out.example", Cname, &["elsewhere.org"]),
        ]);
        assert_eq!(
            answer_text(&names, "a.example", A),
            "a.example Cname(\"b.example\"); b.example A(10.0.0.1)"
        );
        assert_eq!(
            answer_text(&names, "a.example", Cname),
            "a.example Cname(\"b.example\")"
        );
        assert_eq!(
            answer_text(&names, "out.example", A),
            "out.example Cname(\"elsewhere.org\")"
        );
        assert!(answer_text(&names, "l1.example", A).starts_with("l1.example"));
    }

    #[test]
    fn a_wildcard_stands_for_names_below_it_that_nothing_hides() {
        let names = zones(&[("*.in.example", A, &["10.0.0.9"]), ("own.in.example", Txt, &["hello"])]);
        assert_eq!(answer_text(&names, "a.in.example", A), "a.in.example A(10.0.0.9)");
        assert_eq!(answer_text(&names, "b.a.in.example", A), "b.a.in.example A(10.0.0.9)");
        assert_eq!(answer_text(&names, "own.in.example", A), "NoData");
        assert_eq!(answer_text(&names, "below.own.in.example", A), "NoName");
        assert_eq!(answer_text(&names, "example", A), "NoData");
    }

    #[test]
    fn an_object_replaces_its_own_entry_and_never_anothers() {
        let zones = Zones::default();
        zones
            .put(entry("one", "a.example", A, &["10.0.0.1"]).unwrap(), |_| true)
            .unwrap();
        zones
            .put(entry("one", "a.example", A, &["10.0.0.2"]).unwrap(), |_| true)
            .unwrap();
        assert_eq!(answer_text(&zones, "a.example", A), "a.example A(10.0.0.2)");
        assert!(
            zones
                .put(entry("two", "a.example", A, &["10.0.0.3"]).unwrap(), |_| true)
                .is_err()
        );
        assert!(
            zones
                .put(entry("two", "a.example", Cname, &["b.example"]).unwrap(), |_| true)
                .is_err()
        );
        zones
            .put(entry("two", "a.example", Txt, &["t"]).unwrap(), |_| true)
            .unwrap();
        zones.remove(&ObjectKey::namespaced("ns", "one"));
        assert_eq!(answer_text(&zones, "a.example", A), "NoData");
    }

    #[test]
    fn an_entry_whose_object_has_gone_is_replaced() {
        let zones = Zones::default();
        let put = |owner: &str, value: &str, exists: bool| {
            let entry = entry(owner, "a.example", A, &[value]).unwrap();
            zones.put(entry, |_| exists)
        };
        put("one", "10.0.0.1", true).unwrap();
        assert!(put("two", "10.0.0.2", true).is_err());
        put("two", "10.0.0.2", false).unwrap();
        assert_eq!(answer_text(&zones, "a.example", A), "a.example A(10.0.0.2)");
    }

    #[test]
    fn values_that_do_not_fit_their_type_are_refused() {
        for (name, type_, values) in [
            ("a.example", A, &["fd00::1"][..]),
            ("a.example", Aaaa, &["10.0.0.1"]),
            ("a.example", A, &[]),
            ("a.example", Cname, &["b", "c"]),
            ("a..example", A, &["10.0.0.1"]),
            ("a.*.example", A, &["10.0.0.1"]),
            ("", A, &["10.0.0.1"]),
        ] {
            assert!(entry("o", name, type_, values).is_err(), "{name} {values:?}");
        }
        let long = "t".repeat(256);
        assert!(entry("o", "a.example", Txt, &[long.as_str()]).is_err());
    }
}
