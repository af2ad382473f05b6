//! The verbs: create, read, list, watch, update, patch, delete, and subresources. Authorization and admission are decided
//! elsewhere.

pub(crate) mod action;
pub(crate) mod address_allocation;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod ineffective_kinds;
pub(crate) mod list;
pub(crate) mod managed_fields;
pub(crate) mod new_object;
pub(crate) mod patch;
pub(crate) mod path_match;
pub(crate) mod pod_actions;
pub(crate) mod read;
pub(crate) mod reviews;
pub(crate) mod route;
pub(crate) mod scale;
pub(crate) mod tables;
pub(crate) mod token_request;
pub(crate) mod update;
pub(crate) mod validation;
pub(crate) mod watch;
pub(crate) mod write;
