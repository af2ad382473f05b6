//! One write in progress: the data that admission and the verbs share. Its steps are in `admission` and in `requests/write`.

use crate::state::context::Context;

/// One write in progress.
pub(crate) struct Write<'a> {
    pub(crate) context: &'a Context,
    pub(crate) dry_run: bool,
    /// The manager that gets the changed fields; none when managed fields are set already (server-side apply).
    pub(crate) manager: Option<String>,
    pub(crate) warnings: Vec<String>,
    /// The name of the new object was generated: admission sees none.
    pub(crate) generated: bool,
}

impl<'a> Write<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        Self {
            context,
            dry_run: context.query.dry_run(),
            manager: Some(context.manager()),
            warnings: Vec::new(),
            generated: false,
        }
    }
}
