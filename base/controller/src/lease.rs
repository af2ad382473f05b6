//! Leases: a heartbeat that others can read, and leadership so that one of several replicas acts.
//! A single process needs neither.
//!
//! Two candidates never lead at once while their clocks run at the same rate; what time they show does not matter. A leader
//! stops `renew_deadline` after it *sent* the last write that was answered, whatever hangs or fails meanwhile. Another
//! candidate takes the lease when it has not changed for the `lease_duration` that the leader wrote into it, counted from when
//! this candidate *saw* that write, and only from the version that it saw. client-go (v0.35 tools/leaderelection) counts
//! the leader's deadline from the start of each renewal, so there a slow answer may let it outlive its lease.
//!
//! Not covered: requests that the leader sent in time and that arrive late, a process that was suspended, until it runs again,
//! and a lease that is deleted or changed by hand.

use std::future::Future;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{WaitState, Waited, apply, fault_of, is_conflict, is_exists, wait_until};
use base_clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a leader's lease holds after its last renewal.
    pub lease_duration: Duration,
    /// A leader that has not renewed for this long stops acting; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// The pause after a failed write of a lease.
    pub retry_pause: Duration,
}

/// client-go's usual values.
impl Default for Terms {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_pause: Duration::from_secs(2),
        }
    }
}

impl Terms {
    /// How often a leader renews: often enough for a second try before it has to give up, and for others to see it. Of
    /// client-go's values, its retry period.
    fn renew_period(&self) -> Duration {
        (self.lease_duration / 3).min(self.renew_deadline / 5)
    }

    /// How long a renewal waits for its answer: short enough for a second try before the leader has to give up.
    fn renew_timeout(&self) -> Duration {
        (self.renew_deadline - self.renew_period()) / 2
    }
}

/// The leadership was lost, and another may act now.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The lease could not be renewed in time.
    #[error("leadership lost: the lease {lease} could not be renewed for {after:?}")]
    NotRenewed {
        /// Name of the lease.
        lease: String,
        /// Since the last renewal.
        after: Duration,
    },
    /// The lease is another's, or has been deleted.
    #[error("leadership lost: the lease {lease} is held by {holder}")]
    Taken {
        /// Name of the lease.
        lease: String,
        /// Who holds it; a hyphen for no one.
        holder: String,
    },
}

/// Runs `body` while this process, known as `identity`, holds the lease `name`; waits until it does, and retries where
/// it may not read or write the lease: the permission may come later. The token given to `body` is cancelled when
/// leadership is lost, with which `body` is dropped, or when `stop` is. On a stop the lease is released.
pub async fn lead<F, Fut>(
    api: Api<Lease>,
    name: &str,
    identity: &str,
    clock: Clock,
    stop: CancellationToken,
    body: F,
) -> Result<(), Lost>
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    lead_by(Terms::default(), api, name, identity, clock, stop, body).await
}

/// As [`lead`], with these times.
///
/// # Errors
/// As [`lead`].
pub async fn lead_by<F, Fut>(
    terms: Terms,
    api: Api<Lease>,
    name: &str,
    identity: &str,
    clock: Clock,
    stop: CancellationToken,
    body: F,
) -> Result<(), Lost>
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let gate = Gate {
        terms,
        api,
        name: name.to_owned(),
        identity: identity.to_owned(),
        clock,
    };
    let Some((mut lease, sent)) = stop.run_until_cancelled(gate.acquire()).await else {
        return Ok(());
    };
    tracing::info!(lease = name, identity, "leading");
    let leading = stop.child_token();
    let lost = tokio::select! {
        // First: a body must not go on once the deadline is over.
        biased;
        lost = gate.renew(&mut lease, sent) => Some(lost),
        () = body(leading.clone()) => None,
    };
    leading.cancel();
    match lost {
        Some(lost) => Err(lost),
        None => {
            gate.release(lease).await;
            Ok(())
        }
    }
}

struct Gate {
    terms: Terms,
    api: Api<Lease>,
    name: String,
    identity: String,
    clock: Clock,
}

impl Gate {
    /// Waits, by watching, until the lease is free or has not been renewed for its duration, and takes it. Only
    /// our own clock is used: another machine's may be wrong. Gives the lease and when the write that took it was sent.
    async fn acquire(&self) -> (Lease, Instant) {
        let (mut known, mut logged): (Option<Lease>, Option<String>) = (None, None);
        loop {
            let patience = self.holds_for(known.as_ref());
            let free = wait_until(&self.api, &self.name, patience, |lease| match lease {
                None => WaitState::Done(None),
                Some(lease) if self.may_take(lease) => WaitState::Done(Some(lease.clone())),
                Some(lease) if known.as_ref().is_none_or(|known| known.spec != lease.spec) => {
                    known = Some(lease.clone());
                    WaitState::Done(Some(lease.clone()))
                }
                Some(_) => WaitState::NotYet("it is held by another".to_owned()),
            })
            .await;
            let found = match free {
                Ok(Some(lease)) if !self.may_take(&lease) => continue,
                Ok(found) => found,
                Err(Waited::TimedOut { .. }) => known.take(),
                Err(Waited::Failed(fault)) => {
                    self.not_taken(&fault, &mut logged).await;
                    continue;
                }
            };
            let sent = Instant::now();
            let fault = match timeout(self.terms.renew_deadline, self.write(found)).await {
                Ok(Ok(lease)) => return (lease, sent),
                Ok(Err(error)) if is_conflict(&error) || is_exists(&error) => continue,
                Ok(Err(error)) => fault_of(error, &format!("take the lease {}", self.name)),
                Err(_) => Fault::transient(format!("take the lease {}: no answer in time", self.name)),
            };
            self.not_taken(&fault, &mut logged).await;
        }
    }

    /// Logs why, once for each fault, and waits for the next try.
    async fn not_taken(&self, fault: &Fault, logged: &mut Option<String>) {
        let text = fault.chain();
        if fault.class == FaultClass::Transient || logged.as_ref() == Some(&text) {
            tracing::debug!(lease = self.name, "{text}");
        } else {
            tracing::warn!(lease = self.name, class = %fault.class, hint = %fault.hint, "{text}");
            *logged = Some(text);
        }
        sleep(self.terms.retry_pause).await;
    }

    /// How long a lease holds without renewal: as long as its holder counts on, who may have other terms than we.
    fn holds_for(&self, lease: Option<&Lease>) -> Duration {
        let written = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        match written.and_then(|seconds| u64::try_from(seconds).ok()) {
            Some(seconds) => Duration::from_secs(seconds),
            None => self.terms.lease_duration,
        }
    }

    fn may_take(&self, lease: &Lease) -> bool {
        holder(lease).is_none_or(|holder| holder.is_empty() || holder == self.identity)
    }

    /// Writes us into `found` (or a new lease), if it is still as it was found.
    async fn write(&self, found: Option<Lease>) -> Result<Lease, kube::Error> {
        let now = self.clock.now();
        let old = found.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(&self.identity);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds(self.terms.lease_duration)),
            acquire_time: if ours {
                old.acquire_time.clone()
            } else {
                Some(MicroTime(now))
            },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(old.lease_transitions.unwrap_or(-1) + i32::from(!ours)),
            ..old
        };
        match found {
            Some(mut lease) => {
                lease.spec = Some(spec);
                self.api.replace(&self.name, &PostParams::default(), &lease).await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    ..Default::default()
                };
                self.api
                    .create(
                        &PostParams::default(),
                        &Lease {
                            metadata,
                            spec: Some(spec),
                        },
                    )
                    .await
            }
        }
    }

    /// Renews until that has failed for too long. The lease holds at least since `renewed`, when the write that took it was sent.
    async fn renew(&self, lease: &mut Lease, mut renewed: Instant) -> Lost {
        loop {
            let next = renewed + self.terms.renew_period();
            match timeout_at(renewed + self.terms.renew_deadline, self.renew_once(lease, next)).await {
                Ok(Ok(sent)) => renewed = sent,
                Ok(Err(lost)) => return lost,
                Err(_) => return self.lost(renewed.elapsed()),
            }
        }
    }

    /// Renews at `at`, and after each failure once more. Gives when the write that succeeded was sent.
    async fn renew_once(&self, lease: &mut Lease, at: Instant) -> Result<Instant, Lost> {
        sleep_until(at).await;
        let limit = self.terms.renew_timeout();
        let mut is_reread = false;
        loop {
            let sent = Instant::now();
            match timeout(limit, self.write(Some(lease.clone()))).await {
                Ok(Ok(fresh)) => {
                    *lease = fresh;
                    return Ok(sent);
                }
                // Another client wrote it, or we did and missed the answer: if it is still ours, go on with what is there.
                Ok(Err(error)) if is_conflict(&error) => match timeout(limit, self.api.get_opt(&self.name)).await {
                    Ok(Ok(Some(fresh))) if self.may_take(&fresh) => {
                        *lease = fresh;
                        // The first time without a pause: after a missed answer there is little time left.
                        if !std::mem::replace(&mut is_reread, true) {
                            continue;
                        }
                    }
                    Ok(Ok(other)) => return Err(self.taken(other.as_ref())),
                    Ok(Err(error)) => tracing::debug!("lease {} not read: {error}", self.name),
                    Err(_) => tracing::debug!("lease {} not read: no answer", self.name),
                },
                Ok(Err(error)) => tracing::debug!("lease {} not renewed: {error}", self.name),
                Err(_) => {
                    tracing::debug!("lease {} not renewed: no answer", self.name);
                    continue;
                }
            }
            sleep(self.terms.retry_pause).await;
        }
    }

    fn lost(&self, after: Duration) -> Lost {
        Lost::NotRenewed {
            lease: self.name.clone(),
            after,
        }
    }

    fn taken(&self, lease: Option<&Lease>) -> Lost {
        Lost::Taken {
            lease: self.name.clone(),
            holder: lease.and_then(holder).unwrap_or("-").to_owned(),
        }
    }

    /// Lets another take over at once.
    async fn release(&self, lease: Lease) {
        let releasing = async {
            match self.write_released(lease).await {
                // A renewal without an answer may have been written.
                Err(error) if is_conflict(&error) => match self.api.get_opt(&self.name).await? {
                    Some(fresh) if holder(&fresh) == Some(&self.identity) => self.write_released(fresh).await,
                    _ => Ok(()),
                },
                released => released,
            }
        };
        match timeout(self.terms.renew_deadline, releasing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("lease {} not released: {error}", self.name),
            Err(_) => tracing::debug!("lease {} not released: no answer", self.name),
        }
    }

    async fn write_released(&self, mut lease: Lease) -> Result<(), kube::Error> {
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        let replaced = self.api.replace(&self.name, &PostParams::default(), &lease).await;
        replaced.map(drop)
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// Renews the lease `name` in the namespace of `api` every `period` until `stop`, so that others can see that
/// `identity` is alive. Failures are logged when they begin and tried again at the next beat.
pub async fn heartbeat(
    api: Api<Lease>,
    name: &str,
    identity: &str,
    period: Duration,
    clock: Clock,
    stop: CancellationToken,
) {
    heartbeat_while(api, name, identity, period, clock, stop, || true).await;
}

/// As [`heartbeat`]; a beat is left out while `can_work` does not hold. It is called before each.
pub async fn heartbeat_while(
    api: Api<Lease>,
    name: &str,
    identity: &str,
    period: Duration,
    clock: Clock,
    stop: CancellationToken,
    can_work: impl Fn() -> bool + Send,
) {
    let beating = async {
        let mut failing = false;
        loop {
            if !can_work() {
                sleep(period).await;
                continue;
            }
            let lease = beat(name, identity, period, clock.now());
            match apply(&api, &lease, identity).await {
                Ok(_) => failing = false,
                Err(fault) if !failing => {
                    failing = true;
                    tracing::warn!(lease = name, class = %fault.class, hint = %fault.hint, "{fault}");
                }
                Err(_) => {}
            }
            sleep(period).await;
        }
    };
    stop.run_until_cancelled(beating).await;
}

fn beat(name: &str, identity: &str, period: Duration, now: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(seconds(period)),
            renew_time: Some(MicroTime(now)),
            ..Default::default()
        }),
    }
}

/// Rounded up: a lease must not seem to end before it does.
fn seconds(duration: Duration) -> i32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(whole).unwrap_or(i32::MAX)
}
