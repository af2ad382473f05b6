//! A cloud that misbehaves on request: networks, subnets, security groups, key pairs, load balancers, volumes and instances in
//! accounts with credentials and quotas. It never waits for time to pass: whatever takes a while takes a number of calls. Only
//! what lags behind is bounded by time as well ([`Settings::lag_max`]), because clients wait for it.
//!
//! What makes it like a cloud, and unlike a map:
//! - **Ids are the cloud's, tags are the client's**, and nothing is unique but ids: two requests make two things.
//! - **Dependencies**: what something else hangs on is not deleted.
//! - **Lists lag behind** ([`Settings::list_lag`]), and so do looks at single things ([`Settings::get_lag`]).
//! - **Calls fail** ([`Harms`]): refused before or after their effect, without an answer, throttled, unauthorized.
//!
//! [`Cloud`] has it in memory, [`serve`] makes it an HTTP server and [`HttpCloud`] is the client of that server. Both are a
//! [`CloudConnector`]. [`Calls`] stands around either, counts what is requested and can end the caller at any call.

mod api;
mod calls;
mod client;
mod error;
mod harm;
mod held;
mod item;
mod kind;
mod memory;
mod path;
mod rules;
mod server;
mod settings;
mod world;

pub use api::{Answer, Call, CloudApi, CloudConnector};
pub use calls::{CallRecord, Calls, Moment};
pub use client::HttpCloud;
pub use error::{CloudError, Reason};
pub use harm::{Harm, Harms, Rates};
pub use held::Held;
pub use item::{
    InstanceSpec, Item, ItemChange, KeyPairSpec, LoadBalancerSpec, NetworkSpec, Rule, SecurityGroupSpec, Spec, State,
    SubnetSpec, Tags, UserData, VolumeSpec,
};
pub use kind::Kind;
pub use memory::{Cloud, Keys};
pub use server::serve;
pub use settings::Settings;
