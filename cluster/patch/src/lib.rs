//! The four ways in which clients change an object without sending all of it, and who owns which field afterwards.
//!
//! JSON patch, JSON merge patch, strategic merge patch and server-side apply with managed fields, after apimachinery
//! v0.35 and structured-merge-diff v6. Everything here is a pure function of JSON values and a field tree: no I/O, no
//! clock, no defaulting, no validation of the result, and no panics whatever a client sends.

mod apply;
mod element;
mod error;
mod json;
mod last_applied;
mod managers;
mod misfit;
mod prune;
mod set;
mod strategic;
mod strategic_lists;
mod typed;
mod versions;

pub use apply::{ApplyOptions, Elsewhere, UpdateOptions, managed_in, server_side_apply, track_update, track_update_in};
pub use element::Element;
pub use error::{Conflict, Conflicts, PatchError, go_text};
pub use json::{COPY_BYTES_MAX, DEPTH_MAX, OPERATIONS_MAX, json_patch, merge_patch};
pub use managers::UPDATE_MANAGERS_MAX;
pub use set::{Branch, FieldSet};
pub use strategic::{strategic_merge, strategic_shown};
pub use versions::{Versions, server_side_apply_in};
