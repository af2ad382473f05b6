//! Which request is served next when more come at once than are served at once. Each user has a queue, and the queues take turns:
//! a flood of one delays the others by one request, not by all of its own. It never looks at a request beyond its verb.
//!
//! Kubernetes does this by FlowSchemas and priority levels, which an administrator arranges
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/util/flowcontrol). Here the arrangement is fixed: its
//! bounds on requests in flight, one flow per user, leases apart, so that leaders do not change under load.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster_access::{User, group};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::wire::path::RequestInfo;
use crate::wire::status::Status;

/// Requests in flight that only read, and that may change something: the defaults of kube-apiserver
/// (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
const READING_MAX: usize = 400;
const CHANGING_MAX: usize = 200;
/// Requests in flight about leases: each takes well under a millisecond.
const LEASES_MAX: usize = 50;
/// Requests of one user that wait: six queues of fifty, as many as Kubernetes deals to a flow.
const WAITING_PER_USER_MAX: usize = 300;
/// Requests that wait altogether: 64 such queues, as there.
const WAITING_MAX: usize = 3200;
/// How long a request waits for its turn: a quarter of the time that it may take, as there.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// After how long a refused client may try again, as there.
const RETRY_AFTER_SECONDS: u32 = 1;
/// Open watches of one user: several times what the goals of the benchmarks need, a quarter of what all may have.
const WATCHES_PER_USER_MAX: usize = 5000;
/// Open watches of one node, which follows each Secret and ConfigMap that its pods mount: the only node of a seed has five for
/// each Shoot. Three quarters of what all may have.
const WATCHES_PER_NODE_MAX: usize = 15_000;

/// Users that never wait, beside administrators of last resort: the controllers of the server itself, whose work frees others.
const EXEMPT_USERS: [&str; 2] = ["system:kube-controller-manager", "system:kube-scheduler"];

/// The queues of one server.
pub(crate) struct Fairness {
    reading: Arc<Level>,
    changing: Arc<Level>,
    leases: Arc<Level>,
    watches: Mutex<HashMap<u64, usize>>,
}

impl Default for Fairness {
    fn default() -> Self {
        Self {
            reading: Level::of(READING_MAX),
            changing: Level::of(CHANGING_MAX),
            leases: Level::of(LEASES_MAX),
            watches: Mutex::default(),
        }
    }
}

impl Fairness {
    /// Waits until it is the request's turn; none for requests that never wait. The seat is to be held until the answer is
    /// made.
    ///
    /// # Errors
    /// 429: too many requests of this user wait already, or its turn has not come in time.
    pub(crate) async fn acquire_seat(&self, user: &User, info: &RequestInfo) -> Result<Option<Seat>, Status> {
        let probe = || {
            ["/healthz", "/livez", "/readyz"]
                .iter()
                .any(|path| info.path.starts_with(path))
        };
        if is_exempt(user) || info.is_long_running() || (info.target.is_none() && probe()) {
            return Ok(None);
        }
        let is_lease =
            |target: &crate::wire::path::Target| target.group == "coordination.k8s.io" && target.resource == "leases";
        let level = match info.verb {
            _ if info.target.as_ref().is_some_and(is_lease) => &self.leases,
            "get" | "list" | "head" | "options" => &self.reading,
            _ => &self.changing,
        };
        level.acquire_seat(flow(user)).await.map(Some).ok_or_else(busy)
    }

    /// How many requests are in flight that only read, and that may change something.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        let [reading, changing, leases] = [&self.reading, &self.changing, &self.leases].map(|level| level.in_flight());
        (reading, changing + leases)
    }

    /// Counts a watch that begins; [`Self::unwatch`] counts it when it ends.
    ///
    /// # Errors
    /// 429: this user has too many.
    pub(crate) fn watch(&self, user: &User) -> Result<u64, Status> {
        let flow = flow(user);
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let count = watches.entry(flow).or_default();
        if let Some(count_max) = watches_max(user)
            && *count >= count_max
        {
            return Err(Status::too_many_requests(
                format!("too many open watches: a user has at most {count_max}, please end some"),
                RETRY_AFTER_SECONDS,
            ));
        }
        *count += 1;
        Ok(flow)
    }

    pub(crate) fn unwatch(&self, flow: u64) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        lower(&mut watches, flow);
    }
}

fn is_exempt(user: &User) -> bool {
    EXEMPT_USERS.contains(&user.name.as_str()) || user.is_in(group::MASTERS)
}

/// How many watches a user may have open; none for a user without a limit of its own.
fn watches_max(user: &User) -> Option<usize> {
    match user.is_in(group::NODES) {
        _ if is_exempt(user) => None,
        true => Some(WATCHES_PER_NODE_MAX),
        false => Some(WATCHES_PER_USER_MAX),
    }
}

/// Users whose names have the same hash share their turns.
fn flow(user: &User) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.name.hash(&mut hasher);
    hasher.finish()
}

fn busy() -> Status {
    Status::busy(RETRY_AFTER_SECONDS)
}

fn lower(counts: &mut HashMap<u64, usize>, flow: u64) {
    if let Some(count) = counts.get_mut(&flow) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&flow);
        }
    }
}

/// Requests of one kind: up to `seats` at once, the others wait.
struct Level {
    seats: usize,
    /// One user gets no more seats: requests that wait for something else (a webhook that does not answer) leave some to
    /// others.
    per_user_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: usize,
    held: HashMap<u64, usize>,
    queues: HashMap<u64, VecDeque<oneshot::Sender<Seat>>>,
    /// Users that wait, in the order of their turns. While a seat is free, all of these have as many as they may.
    turns: VecDeque<u64>,
    waiting: usize,
}

/// The right to be served. When it is dropped, it goes to the user whose turn is next.
pub(crate) struct Seat {
    /// None once it is given back.
    level: Option<Arc<Level>>,
    flow: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            level.pass_on(self.flow);
        }
    }
}

impl Level {
    fn of(seats: usize) -> Arc<Self> {
        let state = State {
            free: seats,
            ..State::default()
        };
        Arc::new(Self {
            seats,
            per_user_max: (seats * 3 / 4).max(1),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self) -> usize {
        self.seats - self.state().free
    }

    /// None: there is no room to wait, or it took too long.
    async fn acquire_seat(self: &Arc<Self>, flow: u64) -> Option<Seat> {
        let receiver = {
            let mut state = self.state();
            if state.free > 0 && state.may_take(flow, self.per_user_max) {
                state.take(flow);
                return Some(self.seat(flow));
            }
            state.wait(flow)?
        };
        timeout(WAIT_MAX, receiver).await.ok()?.ok()
    }

    fn seat(self: &Arc<Self>, flow: u64) -> Seat {
        Seat {
            level: Some(self.clone()),
            flow,
        }
    }

    /// Gives a seat of `flow` to the user whose turn it is. Requests that have gone meanwhile are skipped.
    fn pass_on(self: &Arc<Self>, mut flow: u64) {
        loop {
            let next = {
                let mut state = self.state();
                state.free += 1;
                lower(&mut state.held, flow);
                state.next(self.per_user_max)
            };
            let Some((next, waiter)) = next else { return };
            let Err(mut seat) = waiter.send(self.seat(next)) else {
                return;
            };
            seat.level = None;
            flow = next;
        }
    }
}

impl State {
    fn may_take(&self, flow: u64, held_max: usize) -> bool {
        self.held.get(&flow).is_none_or(|held| *held < held_max)
    }

    fn take(&mut self, flow: u64) {
        self.free -= 1;
        *self.held.entry(flow).or_default() += 1;
    }

    fn wait(&mut self, flow: u64) -> Option<oneshot::Receiver<Seat>> {
        let queue = self.queues.entry(flow).or_default();
        if queue.len() >= WAITING_PER_USER_MAX || self.waiting >= WAITING_MAX {
            // Requests that have gone free their places.
            let before = queue.len();
            queue.retain(|waiter| !waiter.is_closed());
            self.waiting -= before - queue.len();
            if queue.len() >= WAITING_PER_USER_MAX || self.waiting >= WAITING_MAX {
                if queue.is_empty() {
                    self.queues.remove(&flow);
                }
                return None;
            }
        }
        let (waiter, receiver) = oneshot::channel();
        queue.push_back(waiter);
        if !self.turns.contains(&flow) {
            self.turns.push_back(flow);
        }
        self.waiting += 1;
        Some(receiver)
    }

    /// Takes a seat for the user whose turn it is, whose next turn is last. None: no user waits that may have one more.
    fn next(&mut self, held_max: usize) -> Option<(u64, oneshot::Sender<Seat>)> {
        for _ in 0..self.turns.len() {
            let flow = self.turns.pop_front()?;
            if !self.may_take(flow, held_max) {
                self.turns.push_back(flow);
                continue;
            }
            let queue = self.queues.entry(flow).or_default();
            let before = queue.len();
            let waiter = std::iter::from_fn(|| queue.pop_front()).find(|waiter| !waiter.is_closed());
            self.waiting -= before - queue.len();
            if queue.is_empty() {
                self.queues.remove(&flow);
            } else {
                self.turns.push_back(flow);
            }
            if let Some(waiter) = waiter {
                self.take(flow);
                return Some((flow, waiter));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    type Acquiring = BoxFuture<'static, Option<Seat>>;

    fn acquire(level: &Arc<Level>, flow: u64) -> Acquiring {
        let level = level.clone();
        async move { level.acquire_seat(flow).await }.boxed()
    }

    /// So many requests, each polled once.
    fn flood(level: &Arc<Level>, flow: u64, count: usize) -> (Vec<Seat>, Vec<Acquiring>) {
        let (mut seats, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut acquiring = acquire(level, flow);
            match (&mut acquiring).now_or_never() {
                Some(Some(seat)) => seats.push(seat),
                Some(None) => {}
                None => waiting.push(acquiring),
            }
        }
        (seats, waiting)
    }

    #[test]
    fn node_may_have_more_watches_than_another_user_and_both_have_a_limit() {
        let opened = |user: User| {
            let fairness = Fairness::default();
            let granted = (0..WATCHES_PER_NODE_MAX + 1).filter(|_| fairness.watch(&user).is_ok());
            granted.count()
        };
        let user = |groups: &[&str]| User {
            name: "someone".to_owned(),
            groups: groups.iter().map(|name| (*name).to_owned()).collect(),
            ..User::default()
        };
        assert_eq!(opened(user(&[])), WATCHES_PER_USER_MAX);
        assert_eq!(opened(user(&[group::NODES])), WATCHES_PER_NODE_MAX);
        assert_eq!(
            opened(user(&[group::MASTERS])),
            WATCHES_PER_NODE_MAX + 1,
            "no limit of their own"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_leaves_seats_to_others_and_is_refused_when_too_many_wait() {
        let level = Level::of(8);
        let (seats, waiting) = flood(&level, 1, 500);
        assert_eq!((seats.len(), waiting.len()), (6, WAITING_PER_USER_MAX));
        let (others, rest) = flood(&level, 2, 5);
        assert_eq!(others.len(), 2, "what is left goes to the first that come");
        assert_eq!(level.in_flight(), 8);
        drop((seats, others, waiting, rest));
        assert_eq!(level.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_others_wait_for_one_request_and_not_for_all() {
        let level = Level::of(4);
        let (mut greedy, mut queue) = flood(&level, 1, 200);
        let (_second, _) = flood(&level, 2, 1);
        let mut third = acquire(&level, 3);
        assert!((&mut third).now_or_never().is_none(), "all seats are taken");
        // Those of the flood that begin before the third: it is first in the row, for the flood had its turn before.
        let mut begun = 0;
        loop {
            greedy.pop().expect("seats to give");
            if let Some(seat) = (&mut third).now_or_never() {
                assert!(seat.is_some());
                break;
            }
            let next = queue
                .iter_mut()
                .find_map(|acquiring| acquiring.now_or_never().flatten());
            greedy.push(next.expect("the seat went to the flood"));
            begun += 1;
        }
        assert!(begun <= 1, "{begun} requests of the flood came first");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_request_takes_no_turn_and_one_that_waits_too_long_is_refused() {
        let level = Level::of(1);
        let (seats, gone) = flood(&level, 1, 3);
        let mut stays = acquire(&level, 2);
        assert!((&mut stays).now_or_never().is_none());
        drop(gone);
        drop(seats);
        let seat = (&mut stays).now_or_never().flatten();
        assert!(seat.is_some(), "the turn went to no request");
        assert!(
            acquire(&level, 3).await.is_none(),
            "the clock runs while nothing else does"
        );
        assert_eq!(
            level.state().waiting,
            1,
            "a request that has gone leaves when it is its turn"
        );
        drop(seat);
        assert_eq!((level.in_flight(), level.state().waiting), (0, 0));
    }

    #[test]
    fn a_user_s_watches_are_counted_until_they_end() {
        let fairness = Fairness::default();
        let (jane, root) = (User::new("jane", &[]), User::new("root", &[group::MASTERS]));
        let all: Vec<u64> = (0..WATCHES_PER_USER_MAX)
            .map(|_| fairness.watch(&jane).unwrap())
            .collect();
        assert_eq!(fairness.watch(&jane).unwrap_err().code().as_u16(), 429);
        assert!(fairness.watch(&User::new("joe", &[])).is_ok());
        fairness.unwatch(all[0]);
        assert!(fairness.watch(&jane).is_ok());
        assert!((0..=WATCHES_PER_USER_MAX).all(|_| fairness.watch(&root).is_ok()));
    }
}
