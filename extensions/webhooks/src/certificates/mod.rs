//! Authority and certificate of an extension's webhooks, in one Secret. The replica that leads renews them; every replica shows
//! what the Secret holds. No API server is ever without an authority that it knows: a new one is published long before a
//! certificate of it is shown, and the one before stays published until the last of its certificates has expired.

mod keep;
mod plan;
mod stored;

pub(crate) use keep::{Keeper, show};
pub(crate) use plan::Wanted;
