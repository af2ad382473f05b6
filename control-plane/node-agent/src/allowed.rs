//! Waiting for rights: the first machines of a new cluster start while its roles are still being written. It never
//! waits for anything else.

use std::future::Future;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use tokio::time::Instant;

/// How long a refusal may pass: the creator of a cluster has granted its machines their rights by then, and a person
/// who looks for a token that was taken back should not have to look for long.
const GRANTED_WITHIN: Duration = Duration::from_secs(60);
/// The first pause: the rights are usually a few writes away.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause: a machine that may join should not stand idle.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Tries again while access is refused, with growing pauses, and returns the last refusal when it does not pass.
pub(crate) async fn once_allowed<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let deadline = Instant::now() + GRANTED_WITHIN;
    let mut pause = PAUSE_MIN;
    loop {
        match attempt().await {
            Err(fault) if fault.class == FaultClass::Access && Instant::now() + pause <= deadline => {
                tracing::debug!(%fault, ?pause, "refused, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            ended => return ended,
        }
    }
}
