//! The conformance kit for extensions: it does with objects in a seed what gardenlet does, and compares everything that
//! happens to them with the rules of the contract. It sees an extension through the API alone, whatever language that is
//! written in, and knows no provider.

mod chapter;
mod check;
mod cloud;
mod episode;
mod fragments;
mod ledger;
mod objects;
mod options;
mod record;
mod removal;
mod report;
mod rule;
mod run;
mod stage;
mod stop;
mod subject;
mod surroundings;
mod template;
mod version;

pub use options::{HEARTBEAT_AGE_MAX, Hook, Options, PATIENCE, SETTLE, timeout_of};
pub use report::{Evidence, Outcome, Report, RuleResult, Verdict};
pub use rule::Rule;
pub use run::validate;
pub use subject::{BadSpec, ClusterFragments, Fragments, Subject, credentials};
