//! The signals that request an end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell shows for a program that Ctrl-C has ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Done with SIGTERM or SIGINT; both are taken from here on. A second one ends the process at once. Must be called within a
/// tokio runtime.
pub(super) fn received() -> impl Future<Output = ()> + Send + 'static {
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok());
    async move {
        next(&mut signals).await;
        tokio::spawn(async move {
            next(&mut signals).await;
            tracing::warn!("ending at once: signalled twice");
            std::process::exit(EXIT_INTERRUPTED);
        });
    }
}

async fn next([interrupt, terminate]: &mut [Option<Signal>; 2]) {
    tokio::select! {
        Some(()) = received_by(interrupt) => {}
        Some(()) = received_by(terminate) => {}
        // Neither kind can be listened to.
        else => std::future::pending().await,
    }
}

async fn received_by(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}
