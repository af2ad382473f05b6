//! Why a Shoot or a ControllerInstallation is not as its owner wants it: what blocks it, who is to act, and one thing to
//! do. It reads the garden and the seed, decides from what was read, and changes nothing.
//!
//! [`observe`] reads, [`plan`] is a plain function from what was read to blockers in their order, [`report`] prints.
//! Causes are found in data: objects, their conditions, and the [`api_meta::OperationReport`] of a Shoot. Sentences of
//! statuses are shown and never taken apart.

pub mod facts;
pub mod near;
pub mod observe;
pub mod plan;
pub mod report;
