//! What a user does to a Shoot next, by chance alone: which deeds there are, how often each, and what is to be asked of
//! the API for it. Sends no requests: the same seed gives the same deeds in the same order.

use std::fmt;
use std::time::Duration;

use base_clock::Entropy;

use crate::wish::{POOLS, Pool, VERSIONS, Wish};

/// The longest pause between a creation and the deletion that comes into it.
const MID_CREATE_MAX_MS: u64 = 4000;

/// What is done to a Shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// It is created, under a name that was used before.
    Create,
    /// It is created and deleted in the middle of that.
    CreateAndDelete,
    /// It is deleted.
    Delete,
    /// It is deleted and created again under its name.
    Recreate,
    /// The same, and the first of two new ones is deleted while it is made.
    RecreateTwice,
    /// It gets another pool.
    AddPool,
    /// It loses a pool.
    RemovePool,
    /// A pool grows or shrinks.
    Resize,
    /// A pool gets other labels and annotations.
    Relabel,
    /// Kubernetes is raised to the next version.
    Upgrade,
    /// The additional Extension comes or goes.
    Extension,
    /// Its infrastructure gets a configuration that the provider refuses.
    Misconfigure,
    /// That is taken back.
    Mend,
    /// A reconcile is asked for.
    Reconcile,
    /// A retry is asked for.
    Retry,
    /// The pod behind one of its machines is deleted.
    LoseMachine,
    /// A pod of its control plane is deleted.
    LoseControlPlane,
}

/// How often each is drawn, of the sum of all. What does not fit the Shoot is drawn again.
const WEIGHTS: [(Deed, u64); 14] = [
    (Deed::Delete, 4),
    (Deed::Recreate, 4),
    (Deed::RecreateTwice, 3),
    (Deed::AddPool, 10),
    (Deed::RemovePool, 10),
    (Deed::Resize, 14),
    (Deed::Relabel, 12),
    (Deed::Upgrade, 8),
    (Deed::Extension, 6),
    (Deed::Misconfigure, 4),
    (Deed::Reconcile, 10),
    (Deed::Retry, 4),
    (Deed::LoseMachine, 6),
    (Deed::LoseControlPlane, 6),
];

/// What is asked of the API, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Create it, once what had its name has gone.
    Create(Wish),
    /// Make it so.
    Change(Wish),
    /// Set the operation annotation.
    Operation(&'static str),
    /// Confirm and ask for the deletion, and do not wait.
    Delete,
    /// Do nothing for so long.
    Pause(Duration),
    /// Delete one of its pods in the seed.
    LosePod {
        /// A machine's, or one of the control plane's.
        machine: bool,
        /// Which of them, counted round.
        pick: u64,
        /// Whether it may end in order.
        gently: bool,
    },
}

impl Deed {
    /// What is done next to a Shoot of which this is wanted; `None`: that there is none.
    #[must_use]
    pub fn draw(wish: Option<&Wish>, entropy: &Entropy) -> Self {
        let Some(wish) = wish else {
            return match entropy.below(4) {
                0 => Self::CreateAndDelete,
                _ => Self::Create,
            };
        };
        if wish.misconfigured && entropy.below(2) == 0 {
            return Self::Mend;
        }
        loop {
            let all: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
            let mut left = entropy.below(all);
            let drawn = WEIGHTS.iter().find(|(_, weight)| {
                let found = left < *weight;
                left = left.saturating_sub(*weight);
                found
            });
            if let Some((deed, _)) = drawn
                && deed.fits(wish)
            {
                return *deed;
            }
        }
    }

    fn fits(self, wish: &Wish) -> bool {
        match self {
            Self::AddPool => wish.pools.len() < POOLS.len(),
            Self::RemovePool => wish.pools.len() > 1,
            Self::Upgrade => wish.version + 1 < VERSIONS.len(),
            Self::Misconfigure => !wish.misconfigured,
            Self::Create | Self::CreateAndDelete | Self::Mend => false,
            _ => true,
        }
    }

    /// Changes what is wanted, and says what is to be asked for that.
    pub fn orders(self, wish: &mut Option<Wish>, entropy: &Entropy) -> Vec<Order> {
        let new = |wish: &mut Option<Wish>| Order::Create(wish.insert(Wish::draw(entropy)).clone());
        let pause = || Order::Pause(Duration::from_millis(entropy.below(MID_CREATE_MAX_MS)));
        match self {
            Self::Create => vec![new(wish)],
            Self::CreateAndDelete => {
                let orders = vec![new(wish), pause(), Order::Delete];
                *wish = None;
                orders
            }
            Self::Delete => {
                *wish = None;
                vec![Order::Delete]
            }
            Self::Recreate => vec![Order::Delete, new(wish)],
            Self::RecreateTwice => vec![Order::Delete, new(wish), pause(), Order::Delete, new(wish)],
            Self::Reconcile => vec![Order::Operation("reconcile")],
            Self::Retry => vec![Order::Operation("retry")],
            Self::LoseMachine | Self::LoseControlPlane => vec![Order::LosePod {
                machine: self == Self::LoseMachine,
                pick: entropy.below(1000),
                gently: entropy.below(2) == 0,
            }],
            _ => wish
                .as_mut()
                .map(|wish| {
                    self.change(wish, entropy);
                    Order::Change(wish.clone())
                })
                .into_iter()
                .collect(),
        }
    }

    fn change(self, wish: &mut Wish, entropy: &Entropy) {
        let one = entropy.below(wish.pools.len().max(1) as u64) as usize;
        let pool = wish.pools.values_mut().nth(one);
        match (self, pool) {
            (Self::Resize, Some(pool)) => pool.resize(),
            (Self::Relabel, Some(pool)) => pool.mark += 1,
            (Self::AddPool, _) => {
                let free = POOLS.iter().find(|name| !wish.pools.contains_key(*name));
                wish.pools.extend(free.map(|name| (*name, Pool::draw(entropy))));
            }
            (Self::RemovePool, _) => {
                let name = wish.pools.keys().nth(one).copied();
                wish.pools.retain(|other, _| Some(*other) != name);
            }
            (Self::Upgrade, _) => wish.version += 1,
            (Self::Extension, _) => wish.extension = !wish.extension,
            (Self::Misconfigure, _) => wish.misconfigured = true,
            (Self::Mend, _) => wish.misconfigured = false,
            _ => {}
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "created under a name used before",
            Self::CreateAndDelete => "created, and deleted in the middle of it",
            Self::Delete => "deleted",
            Self::Recreate => "deleted, and created again under the same name",
            Self::RecreateTwice => "deleted, created, deleted in the middle of it, created",
            Self::AddPool => "a pool added",
            Self::RemovePool => "a pool removed",
            Self::Resize => "a pool grown or shrunk",
            Self::Relabel => "labels and annotations of a pool changed",
            Self::Upgrade => "Kubernetes raised to the next patch or minor version",
            Self::Extension => "an Extension added or removed",
            Self::Misconfigure => "infrastructure configuration that the provider refuses",
            Self::Mend => "that configuration mended",
            Self::Reconcile => "annotation `gardener.cloud/operation=reconcile`",
            Self::Retry => "annotation `gardener.cloud/operation=retry`",
            Self::LoseMachine => "a machine's pod deleted in the seed",
            Self::LoseControlPlane => "a pod of the control plane deleted in the seed",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn history(seed: u64) -> (Vec<Deed>, Vec<Order>) {
        let entropy = Entropy::seeded(seed);
        let mut wish = Some(Wish::draw(&entropy));
        let (mut deeds, mut orders) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let deed = Deed::draw(wish.as_ref(), &entropy);
            let before = wish.clone();
            let ordered = deed.orders(&mut wish, &entropy);
            assert!(!ordered.is_empty(), "{deed:?} of {before:?}");
            if let Some(wish) = &wish {
                assert!(!wish.pools.is_empty() && wish.version < VERSIONS.len(), "{wish:?}");
            }
            if let (Some(Order::Change(to)), Some(before)) = (ordered.first(), &before) {
                assert_ne!(to, before, "{deed:?} changes nothing");
            }
            deeds.push(deed);
            orders.extend(ordered);
        }
        (deeds, orders)
    }

    #[test]
    fn a_seed_gives_every_deed_and_always_the_same_ones() {
        let (deeds, orders) = history(1);
        assert_eq!((&deeds, &orders), (&history(1).0, &history(1).1));
        assert_ne!(deeds, history(2).0);
        let kinds: BTreeSet<Deed> = deeds.into_iter().collect();
        assert_eq!(kinds.len(), WEIGHTS.len() + 3, "{kinds:?}");
    }

    #[test]
    fn what_is_created_was_deleted_before_and_what_is_changed_is_there() {
        let mut there = true;
        for order in history(3).1 {
            match order {
                Order::Create(_) => assert!(!std::mem::replace(&mut there, true)),
                Order::Delete => assert!(std::mem::replace(&mut there, false)),
                Order::Pause(_) => {}
                _ => assert!(there, "{order:?}"),
            }
        }
    }
}
