//! Charts: the input is an archive, or the tar in one, since no fuzzer gets through gzip. A valid chart is rendered with
//! small limits.

use std::io::Write as _;

use base_clock::Entropy;
use base_helm::{Chart, Engine, Setting};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Map;

use crate::template::limits;

pub(crate) fn check(input: &[u8]) {
    let _ = Chart::from_archive(input);
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(input).expect("a vector takes all");
    let packed = packed.finish().expect("a vector takes all");
    if let Ok(chart) = Chart::from_archive(&packed) {
        let engine = Engine::new(limits()).with_entropy(Entropy::seeded(1));
        let _ = engine.render(&chart, &Map::new(), &Setting::default());
    }
}
