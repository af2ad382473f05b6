//! What the execution of a template may take.

/// Templates inside templates: Go's own limit, with its own error.
pub(crate) const TEMPLATE_DEPTH_MAX: usize = 100_000;
/// Bytes of text that count as one step.
pub(crate) const BYTES_PER_STEP: usize = 8;
/// Frames of templates that are searched and count as one step.
pub(crate) const FRAMES_PER_STEP: usize = 8;
/// Steps of a dictionary beside its entries: it takes some 600 bytes, a step elsewhere some 30.
pub(crate) const MAP_STEPS: usize = 16;

/// What one execution may take. The defaults leave real charts room and keep a hostile one within seconds, and within a few
/// GB of memory.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Steps: about one for each name, constant, call and piece of text; one for each item that a function reads, makes or
    /// compares, and for eight bytes. The default is 50 million, a few seconds at most; a chart of 75 KB takes about ten
    /// thousand.
    pub steps_max: u64,
    /// Bytes of output, those of templates executed for a function's value among them. The default is 64 MiB: one object
    /// of Kubernetes has at most 1.5.
    pub output_bytes_max: usize,
    /// Bytes of a single string. The default is 16 MiB.
    pub string_bytes_max: usize,
    /// Templates that functions have executed inside each other (`include`, `tpl`). The default is 2,000: Helm refuses a
    /// template that includes itself more than 1,000 times.
    pub render_depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 50_000_000,
            output_bytes_max: 64 << 20,
            string_bytes_max: 16 << 20,
            render_depth_max: 2_000,
        }
    }
}
