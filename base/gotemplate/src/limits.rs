//! What the execution of a template may take.

/// Templates inside templates: Go's own limit, with its own error.
pub(crate) const TEMPLATE_DEPTH_MAX: usize = 100_000;

/// What one execution may take. The defaults leave real charts room and keep a hostile one within about a second.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Steps: about one for each name, constant, call and piece of text. The default is 50 million, a few seconds at the
    /// very most; a chart of 75 KB takes about ten thousand.
    pub steps_max: u64,
    /// Bytes of output, those of templates executed for a function's value among them. The default is 64 MiB: what
    /// Kubernetes takes in one object is 1.5.
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
