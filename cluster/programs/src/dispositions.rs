//! Signals that this process ignores would be ignored by its programs too: SIGHUP below `nohup`, SIGINT in the background of a
//! script. A container runtime gives programs the defaults. Only Linux shows which signals are ignored.

use std::fs;
use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

/// The line of `/proc/self/status` with the signals that are ignored, as a mask in hexadecimal digits.
const IGNORED: &str = "SigIgn:";

static DONE: Once = Once::new();

/// Lets programs that are started from now on begin with the defaults. This process still does nothing on these signals: it has
/// handlers instead, which the kernel resets when a program starts.
pub(crate) fn reset_for_programs() {
    DONE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for number in ignored(&status) {
            // The standard library resets SIGPIPE. Others refuse to be handled, such as SIGSEGV, and stay ignored.
            if let Err(error) = signal(SignalKind::from_raw(number)) {
                tracing::debug!(number, %error, "programs ignore a signal that this process ignores");
            }
        }
    });
}

/// The numbers of the ordinary signals that are ignored.
fn ignored(status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    (1..32).filter(|number| mask >> (number - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_signals_are_the_bits_of_a_mask() {
        assert_eq!(
            ignored("SigBlk:\t00000000000000ff\nSigIgn:\t0000000000001003\n"),
            [1, 2, 13]
        );
        for none in ["SigIgn:\t0000000000000000\n", ""] {
            assert!(ignored(none).is_empty(), "{none}");
        }
    }
}
