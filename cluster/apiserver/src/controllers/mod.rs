//! What a server does beside requests: definitions become served, its own objects are created, and writes of other servers to
//! the same store are observed.

pub(crate) mod admission_loader;
pub(crate) mod aggregated_roles;
pub(crate) mod api_service_availability;
pub(crate) mod api_services;
pub(crate) mod bootstrap;
pub(crate) mod default_policy;
pub(crate) mod definition_conditions;
pub(crate) mod definitions;
pub(crate) mod event_expiry;
pub(crate) mod front_mirror;
pub(crate) mod kubernetes_service;
pub(crate) mod observed_writes;
pub(crate) mod other_servers;
pub(crate) mod own_objects;
