//! Binds the shoot through its subresource `binding`. It writes nothing else.

use api_core::v1beta1::Shoot;
use api_meta::{Fault, Unscheduled};
use base_client::fault_of;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::{Context, Decision};

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    /// Nothing.
    Nothing,
    /// Nothing; the text says what is waited for.
    Waiting(String),
    /// The shoot now has this seed.
    Bound(String),
    /// No seed fits, and why.
    Rejected(Unscheduled),
}

pub(crate) async fn apply(shoot: &Shoot, decision: Decision, context: &Context) -> Result<Done, Fault> {
    let seed = match decision {
        Decision::Nothing => return Ok(Done::Nothing),
        Decision::Wait(why) => return Ok(Done::Waiting(why)),
        Decision::Reject(why) => return Ok(Done::Rejected(why)),
        Decision::Bind { seed } => seed,
    };
    let (name, namespace) = (shoot.name_any(), shoot.namespace().unwrap_or_default());
    let mut bound = shoot.clone();
    bound.spec.seed_name = Some(seed.clone());
    let api: Api<Shoot> = Api::namespaced(context.client.clone(), &namespace);
    api.replace_subresource("binding", &name, &PostParams::default(), &bound)
        .await
        .map_err(|error| fault_of(error, &format!("bind Shoot {namespace}/{name} to seed {seed}")))?;
    Ok(Done::Bound(seed))
}
