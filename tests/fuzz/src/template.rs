//! Templates: the input is the text, executed on a few values, with limits so small that none takes long.

use std::sync::{Arc, LazyLock};

use base_clock::{Clock, Entropy};
use base_gotemplate::{Context, Functions, Host, Limits, MissingKey, Set, Value};
use jiff::Timestamp;

const OUTPUT_BYTES_MAX: usize = 256 << 10;

static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new().with_sprig().with_helm()));

/// Limits that bound one input to a few milliseconds.
pub(crate) fn limits() -> Limits {
    Limits {
        steps_max: 100_000,
        output_bytes_max: OUTPUT_BYTES_MAX,
        string_bytes_max: 64 << 10,
        render_depth_max: 50,
    }
}

pub(crate) fn check(input: &[u8]) {
    let mut set = Set::new("t", Arc::clone(&FUNCTIONS), MissingKey::Zero);
    if set.parse("t", input).is_err() {
        return;
    }
    let list = Value::list(vec![Value::int(3), Value::from("b"), Value::Nil, Value::from(1.5)]);
    let map = Value::map([("x", Value::int(1)), ("l", list.clone())]);
    let data = [
        ("a", Value::int(1)),
        ("s", Value::from("text é")),
        ("l", list),
        ("m", map),
    ];
    let mut host = Host {
        entropy: Some(Entropy::seeded(1)),
        clock: Some(Clock::simulated(Timestamp::UNIX_EPOCH)),
        ..Host::default()
    };
    let mut context = Context {
        limits: limits(),
        host: &mut host,
    };
    if let Ok(output) = Arc::new(set).render("t", Value::map(data), &mut context) {
        assert!(output.len() <= OUTPUT_BYTES_MAX, "{} bytes", output.len());
    }
}
