//! News of a table's newest change. All who wait hear it in the order in which they began to wait: tokio's watch channel
//! draws that order by lot, and then no run could be repeated. It keeps no changes.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::Revision;

/// The revision of the newest change.
pub(super) struct News {
    newest: AtomicU64,
    told: Notify,
}

impl News {
    pub(super) fn new(start: Revision) -> Self {
        News {
            newest: AtomicU64::new(start.0),
            told: Notify::new(),
        }
    }

    /// Whoever looks from now on sees it. Those who wait are woken by [`News::wake`], which takes its time if they are many.
    pub(super) fn note(&self, newest: Revision) {
        self.newest.store(newest.0, Ordering::Release);
    }

    /// Wakes all who wait, in the order in which they began to.
    pub(super) fn wake(&self) {
        self.told.notify_waiters();
    }

    pub(super) fn newest(&self) -> Revision {
        Revision(self.newest.load(Ordering::Acquire))
    }

    /// Returns once there is something newer.
    pub(super) async fn newer_than(&self, seen: Revision) {
        loop {
            // Made before looking, it hears what is told in between; and who has seen all that is noted is woken by what is noted next.
            let told = self.told.notified();
            if self.newest() > seen {
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn who_waited_first_hears_first() {
        let news = Arc::new(News::new(Revision(1)));
        let heard: Arc<Mutex<Vec<u32>>> = Arc::default();
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let (news, heard) = (Arc::clone(&news), Arc::clone(&heard));
                tokio::spawn(async move {
                    news.newer_than(Revision(1)).await;
                    heard.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        news.note(Revision(2));
        news.wake();
        futures::future::join_all(waiting).await;
        assert_eq!(*heard.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }
}
