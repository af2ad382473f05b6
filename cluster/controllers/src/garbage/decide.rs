//! What is to be done with one object, by what is known of its owners and dependents. Pure.

use crate::inventory::{Graph, Item, Owner};

/// The finalizer that keeps an owner until its blocking dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents have forgotten it.
pub(super) const ORPHAN: &str = "orphan";

/// What is to be done with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GarbageAction {
    /// Nothing.
    Keep,
    /// Nothing yet: objects of an owner's kind are not known yet.
    Wait,
    /// Its owners are not known: it goes, or forgets them, if the API server confirms that.
    Suspect {
        /// Owners that do not seem to be there.
        absent: Vec<Owner>,
        /// Owners that are being deleted and wait for this object.
        waiting: Vec<Owner>,
        /// Whether an owner remains, or may remain because its kind is not known.
        is_owned: bool,
        /// Whether it has dependents of its own.
        has_dependents: bool,
    },
    /// It is being deleted in the foreground: these dependents are to go first; none: it may go.
    Foreground {
        /// The uids of dependents that are not being deleted yet.
        delete: Vec<String>,
        /// Whether some are still there.
        blocked: bool,
    },
    /// It is being deleted and leaves these dependents to themselves.
    Orphan(Vec<String>),
}

/// Decides on one object.
pub(super) fn decide(graph: &Graph, uid: &str) -> GarbageAction {
    let Some(item) = graph.item(uid) else {
        return GarbageAction::Keep;
    };
    if item.deleting && item.has_finalizer(ORPHAN) {
        return if graph.is_complete() {
            GarbageAction::Orphan(graph.dependents(uid).map(|(uid, _)| uid.clone()).collect())
        } else {
            GarbageAction::Wait
        };
    }
    if item.deleting && item.has_finalizer(FOREGROUND) {
        return decide_foreground(graph, uid);
    }
    if item.deleting || item.owners.is_empty() {
        return GarbageAction::Keep;
    }
    decide_by_owners(graph, uid, item)
}

fn decide_foreground(graph: &Graph, uid: &str) -> GarbageAction {
    if !graph.is_complete() {
        return GarbageAction::Wait;
    }
    let blocks = |item: &Item| item.owners.iter().any(|owner| owner.uid == uid && owner.blocks);
    let delete = graph
        .dependents(uid)
        .filter(|(_, item)| !item.deleting)
        .map(|(uid, _)| uid.clone())
        .collect();
    GarbageAction::Foreground {
        delete,
        blocked: graph.dependents(uid).any(|(_, item)| blocks(item)),
    }
}

fn decide_by_owners(graph: &Graph, uid: &str, item: &Item) -> GarbageAction {
    let (mut absent, mut waiting, mut is_owned, mut is_unknown) = (Vec::new(), Vec::new(), false, false);
    for owner in &item.owners {
        match graph.item(&owner.uid) {
            Some(found) if found.deleting && found.has_finalizer(FOREGROUND) && owner.blocks => {
                waiting.push(owner.clone());
            }
            Some(_) => is_owned = true,
            None if graph.kind_of_owner(owner).is_none() => is_unknown = true,
            None => absent.push(owner.clone()),
        }
    }
    if is_unknown {
        // An untracked kind may never be served. Upstream retries until it is (`restMappingError`), and an owner that
        // is being deleted in the foreground waits; here the object forgets that owner and stays.
        if waiting.is_empty() || !graph.is_complete() {
            return GarbageAction::Wait;
        }
        is_owned = true;
    }
    if absent.is_empty() && waiting.is_empty() {
        return GarbageAction::Keep;
    }
    let has_dependents = graph.dependents(uid).next().is_some();
    GarbageAction::Suspect {
        absent,
        waiting,
        is_owned,
        has_dependents,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_controller::ObjectKey;
    use kube::core::ApiResource;
    use std::collections::BTreeSet;
    use tokio_util::sync::CancellationToken;

    use crate::kinds::{Kind, KindKey};

    fn kind(plural: &str, kind: &str) -> Kind {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Kind {
            resource,
            namespaced: true,
        }
    }

    fn owner(uid: &str, blocks: bool) -> Owner {
        Owner {
            uid: uid.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: uid.to_owned(),
            blocks,
        }
    }

    fn put(graph: &mut Graph, uid: &str, owners: &[Owner], finalizers: &[&str], deleting: bool) {
        let item = Item {
            kind: kind("pods", "Pod").key(),
            key: ObjectKey::namespaced("n", uid),
            owners: owners.to_vec(),
            finalizers: finalizers.iter().map(|it| (*it).to_owned()).collect(),
            deleting,
        };
        graph.put(uid.to_owned(), item);
    }

    fn graph(ready: bool) -> Graph {
        let mut graph = Graph::default();
        let pods = kind("pods", "Pod");
        graph.track(pods.clone(), CancellationToken::new());
        if ready {
            graph.listed(&pods.key(), &BTreeSet::new());
        }
        graph
    }

    fn dirty(graph: &mut Graph) -> Vec<String> {
        graph.take_dirty_items().into_iter().collect()
    }

    #[test]
    fn dependents_are_evaluated_and_suspected_each_time_an_owner_goes() {
        let mut graph = graph(true);
        put(&mut graph, "a", &[], &[], false);
        put(&mut graph, "b", &[], &[], false);
        put(&mut graph, "child", &[owner("a", true), owner("b", true)], &[], false);
        assert_eq!(dirty(&mut graph), ["child"]);
        assert_eq!(decide(&graph, "child"), GarbageAction::Keep);
        graph.remove("a");
        assert_eq!(dirty(&mut graph), ["child"]);
        let suspect = |absent: &[Owner], is_owned| GarbageAction::Suspect {
            absent: absent.to_vec(),
            waiting: Vec::new(),
            is_owned,
            has_dependents: false,
        };
        assert_eq!(decide(&graph, "child"), suspect(&[owner("a", true)], true));
        graph.remove("b");
        assert_eq!(
            decide(&graph, "child"),
            suspect(&[owner("a", true), owner("b", true)], false)
        );
        graph.remove("child");
        assert_eq!(decide(&graph, "child"), GarbageAction::Keep);
    }

    #[test]
    fn nothing_is_suspected_before_its_owners_kind_has_been_listed() {
        let mut graph = graph(false);
        put(&mut graph, "child", &[owner("a", true)], &[], false);
        assert_eq!(decide(&graph, "child"), GarbageAction::Wait);
        let other = Owner {
            kind: "Unknown".to_owned(),
            ..owner("x", true)
        };
        graph.listed(
            &KindKey {
                group: "".into(),
                plural: "pods".into(),
            },
            &BTreeSet::from(["child".to_owned()]),
        );
        put(&mut graph, "other", &[other], &[], false);
        assert_eq!(decide(&graph, "other"), GarbageAction::Wait, "its kind may come");
        assert!(matches!(decide(&graph, "child"), GarbageAction::Suspect { .. }));
    }

    #[test]
    fn owner_of_an_unknown_kind_does_not_hold_up_a_foreground_deletion() {
        let mut graph = graph(true);
        put(&mut graph, "a", &[], &[FOREGROUND], true);
        let unknown = Owner {
            kind: "Unknown".to_owned(),
            ..owner("x", true)
        };
        put(&mut graph, "shared", &[unknown, owner("a", true)], &[], false);
        let forget = GarbageAction::Suspect {
            absent: Vec::new(),
            waiting: vec![owner("a", true)],
            is_owned: true,
            has_dependents: false,
        };
        assert_eq!(decide(&graph, "shared"), forget);
        // Its kind may be one that is still being listed.
        graph.track(kind("things", "Unknown"), CancellationToken::new());
        assert_eq!(decide(&graph, "shared"), GarbageAction::Wait);
    }

    #[test]
    fn owner_is_looked_at_again_when_a_dependent_stops_blocking_it() {
        for after in [vec![owner("b", true)], vec![owner("a", false), owner("b", true)]] {
            let mut graph = graph(true);
            put(&mut graph, "a", &[], &[FOREGROUND], true);
            put(&mut graph, "b", &[], &[], false);
            put(&mut graph, "shared", &[owner("a", true), owner("b", true)], &[], false);
            dirty(&mut graph);
            put(&mut graph, "shared", &after, &[], false);
            assert_eq!(dirty(&mut graph), ["a", "shared"], "{after:?}");
            assert!(matches!(
                decide(&graph, "a"),
                GarbageAction::Foreground { blocked: false, .. }
            ));
        }
    }

    #[test]
    fn foreground_deletion_waits_for_blocking_dependents_only() {
        let mut graph = graph(true);
        put(&mut graph, "a", &[], &[FOREGROUND], true);
        put(&mut graph, "blocking", &[owner("a", true)], &[], false);
        put(&mut graph, "loose", &[owner("a", false)], &[], false);
        let expected = GarbageAction::Foreground {
            delete: vec!["blocking".into(), "loose".into()],
            blocked: true,
        };
        assert_eq!(decide(&graph, "a"), expected);
        assert!(matches!(
            decide(&graph, "blocking"),
            GarbageAction::Suspect { is_owned: false, .. }
        ));
        dirty(&mut graph);
        graph.remove("blocking");
        assert!(
            dirty(&mut graph).contains(&"a".to_owned()),
            "the owner is looked at again"
        );
        assert_eq!(
            decide(&graph, "a"),
            GarbageAction::Foreground {
                delete: vec!["loose".into()],
                blocked: false
            }
        );
    }

    #[test]
    fn an_owner_with_the_orphan_finalizer_orphans_its_dependents() {
        let mut graph = graph(true);
        put(&mut graph, "a", &[], &[ORPHAN, FOREGROUND], true);
        put(&mut graph, "child", &[owner("a", true)], &[], false);
        assert_eq!(decide(&graph, "a"), GarbageAction::Orphan(vec!["child".into()]));
    }
}
