//! The Shoots of a soak: what is wanted of each, and a task for each that does what was ordered for it, in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base_clock::Entropy;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::deed::{Deed, Order};
use crate::tally::Tally;
use crate::user::User;
use crate::wish::{Place, Wish};

/// All of them.
pub struct Fleet {
    wishes: BTreeMap<Place, Option<Wish>>,
    queues: BTreeMap<Place, UnboundedSender<Order>>,
    tasks: JoinSet<()>,
    waiting: Arc<AtomicU64>,
    tally: Tally,
}

impl Fleet {
    /// So many, none of them wanted yet.
    #[must_use]
    pub fn new(count: usize, user: &User, tally: &Tally) -> Self {
        let mut fleet = Self {
            wishes: BTreeMap::new(),
            queues: BTreeMap::new(),
            tasks: JoinSet::new(),
            waiting: Arc::default(),
            tally: tally.clone(),
        };
        for place in (0..count).map(Place::of) {
            let (queue, orders) = unbounded_channel();
            fleet.tasks.spawn(tend(
                place.clone(),
                user.clone(),
                orders,
                fleet.waiting.clone(),
                tally.clone(),
            ));
            fleet.wishes.insert(place.clone(), None);
            fleet.queues.insert(place, queue);
        }
        fleet
    }

    /// What is wanted of each.
    #[must_use]
    pub fn wishes(&self) -> &BTreeMap<Place, Option<Wish>> {
        &self.wishes
    }

    /// Orders that are not done yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Asks for the Shoot of this place for the first time.
    pub fn create(&mut self, place: &Place, entropy: &Entropy) {
        let wish = Wish::draw(entropy);
        self.wishes.insert(place.clone(), Some(wish.clone()));
        self.order(place, Order::Create(wish));
    }

    /// Does something to any Shoot; says what to which.
    pub fn do_something(&mut self, entropy: &Entropy) -> Option<(Place, Deed)> {
        let one = entropy.below(self.wishes.len() as u64) as usize;
        let (place, wish) = self.wishes.iter_mut().nth(one)?;
        let deed = Deed::draw(wish.as_ref(), entropy);
        let orders = deed.orders(wish, entropy);
        let place = place.clone();
        for order in orders {
            self.order(&place, order);
        }
        self.tally.deed(deed);
        Some((place, deed))
    }

    /// Takes back what would keep a Shoot from succeeding.
    pub fn mend(&mut self) {
        let broken = self.wishes.iter_mut().filter_map(|(place, wish)| {
            let wish = wish.as_mut().filter(|wish| wish.misconfigured)?;
            wish.misconfigured = false;
            Some((place.clone(), wish.clone()))
        });
        for (place, wish) in broken.collect::<Vec<_>>() {
            self.order(&place, Order::Change(wish));
        }
    }

    /// Deletes all.
    pub fn delete_all(&mut self) {
        for place in self.wishes.keys().cloned().collect::<Vec<_>>() {
            if self.wishes.insert(place.clone(), None).flatten().is_some() {
                self.order(&place, Order::Delete);
            }
        }
    }

    fn order(&self, place: &Place, order: Order) {
        if let Some(queue) = self.queues.get(place) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            // A task that has given up has said why.
            if queue.send(order).is_err() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

async fn tend(place: Place, user: User, mut orders: UnboundedReceiver<Order>, waiting: Arc<AtomicU64>, tally: Tally) {
    while let Some(order) = orders.recv().await {
        let done = user.obey(&place, &order).await;
        waiting.fetch_sub(1, Ordering::Relaxed);
        if let Err(why) = done {
            tally.wrong(why);
        }
    }
}
