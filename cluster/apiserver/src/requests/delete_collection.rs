//! DELETE of a collection: everything that a list would show, one by one, and answered as that list. A refused deletion does
//! not stop the others.

use cluster_store::Entry;
use kube::client::Body;

use crate::kinds::filter::Filter;
use crate::requests::delete::{DeleteOptions, remove};
use crate::requests::list::{collect, write};
use crate::state::context::Context;
use crate::storage::errors::store_status;
use crate::wire::answer::Answer;
use crate::wire::negotiation::Expected;
use crate::wire::query::{ListOptions, Purpose};
use crate::wire::status::Status;

/// Whether the object of this name is still the listed one.
async fn is_there(context: &Context, listed: &Entry) -> Result<bool, Status> {
    let found = context.server.store.get(&listed.key).await.map_err(store_status)?;
    Ok(found.is_some_and(|found| found.object.meta().uid == listed.object.meta().uid))
}

pub(crate) async fn delete_all(context: &Context, body: Body) -> Result<Answer, Status> {
    let shape = context.shape(Expected::List)?;
    let options = DeleteOptions::read(context, body).await?;
    let selection = ListOptions::parse(&context.query, Purpose::List)?;
    if context.served.info().namespaced && context.namespace().is_none() {
        return Err(Status::method_not_allowed());
    }
    let filter = Filter::new(&context.served, context.version(), &selection)?;
    let found = collect(context, &selection, &filter).await?;
    let (mut warnings, mut refusal) = (Vec::new(), None);
    for entry in &found.entries {
        // An object that has been created since under a listed name is not deleted.
        let listed = options.clone().only(&entry.object.meta().uid);
        match remove(context, &entry.key.name, &listed).await {
            Ok((_, more)) => warnings.extend(more),
            // Another caller was faster.
            Err(status) if status.reason() == "NotFound" => {}
            Err(status) if status.reason() == "Conflict" && !is_there(context, entry).await? => {}
            Err(status) => drop(refusal.get_or_insert(status)),
        }
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    Ok(write(context, &found, shape)?.warn(warnings))
}
