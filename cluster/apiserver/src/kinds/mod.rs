//! What is served: the trait of a kind, the registry, built-in kinds, custom resources, conversion between versions, rendering.
//! Nothing here writes to a store.

pub(crate) mod builtin;
pub(crate) mod conversion;
pub(crate) mod conversion_cache;
pub(crate) mod conversion_webhook;
pub(crate) mod custom;
pub(crate) mod definition;
pub(crate) mod event_cache;
pub(crate) mod events;
pub(crate) mod filter;
pub mod kind;
pub(crate) mod metadata;
pub(crate) mod namespaces;
pub(crate) mod other_objects;
pub(crate) mod pods;
pub(crate) mod registry;
pub(crate) mod rendering;
pub(crate) mod resource;
pub(crate) mod review_kinds;
pub(crate) mod signing_requests;
pub(crate) mod strategies;
