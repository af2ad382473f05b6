//! Shows an operation of a Shoot while it runs: on a terminal as a picture of its task graph, elsewhere as plain
//! lines. It looks on and changes nothing: events come from a bounded feed that does not wait for its listeners, the rest from a
//! watch of the Shoot.
//!
//! `view` is what is known, `render`, `plain` and `summary` make lines of it, `console` alone writes. `lines` follows a
//! Shoot without events of its flow, for a caller that only
//! has a client of the garden.

mod console;
pub mod lines;
mod paint;
mod plain;
mod render;
mod summary;
mod text;
mod view;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::Fault;
use base_client::{WaitState, wait_until};
use base_clock::Clock;
use base_flow_run::{Listener, Received};
use kube::Api;
use tokio::time::MissedTickBehavior;

pub use console::{Console, Logs, Surroundings};
pub use lines::Ended;
pub use paint::{Line, Paint};
pub use plain::Plain;
pub use render::{Canvas, Letters, frame};
pub use summary::summary;
pub use view::{Standing, Trouble, View};

/// Time between two pictures: ten a second look alive, more only cost.
const PICTURE_EVERY: Duration = Duration::from_millis(100);

/// Watches the Shoot `namespace/name` until its operation has ended, and shows it on `console`; the last words are a
/// summary of what took how long, or of what went wrong.
///
/// # Errors
/// The garden no longer answers, or `timeout` is up; the summary has been shown nevertheless.
pub async fn follow(
    shoots: &Api<Shoot>,
    (namespace, name): (&str, &str),
    listener: Listener,
    timeout: Duration,
    clock: &Clock,
    console: &Console,
) -> Result<Ended, Fault> {
    let show = Show {
        state: Mutex::new((View::new(&format!("{namespace}/{name}"), clock.now()), Plain::default())),
        clock,
        console,
    };
    let watching = wait_until(shoots, name, timeout, |shoot| show.see(shoot));
    let ended = show.until(watching, listener).await;
    show.conclude();
    ended.map_err(Fault::from)
}

struct Show<'a> {
    state: Mutex<(View, Plain)>,
    clock: &'a Clock,
    console: &'a Console,
}

impl Show<'_> {
    async fn until<T>(&self, watching: impl Future<Output = T>, mut listener: Listener) -> T {
        // A stopped command leaves the picture as it was last.
        let _left = Leaving(self.console);
        let mut watching = std::pin::pin!(watching);
        let mut ticks = tokio::time::interval(PICTURE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_open = true;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut watching => break answer,
                received = listener.next(), if is_open => match received {
                    Some(received) => self.take(&received),
                    None => is_open = false,
                },
                _ = ticks.tick() => self.picture(),
            }
        };
        // Events from before the Shoot reported its end.
        while let Some(received) = listener.next_now() {
            self.take(&received);
        }
        self.console.clear();
        answer
    }

    fn see(&self, shoot: Option<&Shoot>) -> WaitState<Ended> {
        let now = self.clock.now();
        let (view, plain) = &mut *self.state();
        view.see(shoot);
        self.lines(plain.standing(view, now));
        match &view.standing.ended {
            Some(ended) => WaitState::Done(ended.clone()),
            None if view.standing.before.is_empty() => WaitState::NotYet(view.standing.description.clone()),
            None => WaitState::NotYet(view.standing.before.clone()),
        }
    }

    fn take(&self, received: &Received) {
        let (view, plain) = &mut *self.state();
        match received {
            Received::Event(next) if next.subject == view.subject => {
                view.take(&next.event);
                self.lines(plain.event(view, &next.event));
            }
            Received::Event(_) => {}
            Received::Missed(count) => view.miss(*count),
        }
    }

    fn picture(&self) {
        let now = self.clock.now();
        let (view, plain) = &mut *self.state();
        if self.console.draws() {
            self.console.draw(&frame(view, now, self.console.canvas()));
        } else {
            self.lines(plain.late(view, now));
        }
    }

    fn conclude(&self) {
        let (view, _) = &*self.state();
        self.console
            .print_lines(&summary(view, self.clock.now(), self.console.paper()));
    }

    fn lines(&self, lines: Vec<String>) {
        if !self.console.draws() {
            lines.iter().for_each(|line| self.console.print(line));
        }
    }

    fn state(&self) -> MutexGuard<'_, (View, Plain)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Leaving<'a>(&'a Console);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
