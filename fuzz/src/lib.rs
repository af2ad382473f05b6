//! Shared by all fuzzers: a violated property ends the process. The properties are in `tests/fuzz`.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

/// Sources of other projects: a panic there that is caught is no finding.
const OTHERS: &str = "/registry/";

/// Runs an input through the property of `target`.
pub fn run(target: &str, input: &[u8]) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // libFuzzer's own hook ends the process at every panic. The interpreter of expressions panics at times, which the
        // product catches; an uncaught panic still ends the process.
        drop(take_hook());
        let standard = take_hook();
        set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            if panic.location().is_none_or(|place| !place.file().contains(OTHERS)) {
                standard(panic);
            }
        }));
    });
    tests_fuzz::check(target, input);
}
