//! Scenarios: the whole landscape in one process and in virtual time.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on has failed")]

mod addresses;
mod changes;
mod changes_pools;
mod charts;
mod confinement;
mod container_runtimes;

mod domains;
mod drift;
mod etcd_events;
mod examples;
mod extension_hints;
mod extension_status;
mod extension_webhooks;
mod failing_together;
mod first_light;
mod hibernation;
mod installations;
mod isolation;
mod isolation_across;
mod joining;
mod kubectl;
mod kubectl_apply;
mod kubectl_versions;
mod network_policies;
mod networks;
mod people;
mod real;
mod scene;
mod seeds;
mod selection;
mod several_seeds;
mod tenants;
mod why;
mod zones;
