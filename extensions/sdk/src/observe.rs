//! A secondary registration at work: it only ever adds conditions.

use std::sync::Arc;

use api_extensions::ExtensionObject;
use api_meta::Fault;
use base_controller::Next;

use crate::actuator::Observer;
use crate::context::{Again, cause_of};
use crate::reconcile::api_of;
use crate::shared::Shared;
use crate::status::edit_status;

pub(crate) struct Secondary<K: ExtensionObject> {
    pub(crate) shared: Shared,
    pub(crate) observer: Arc<dyn Observer<K>>,
}

impl<K: ExtensionObject> Secondary<K> {
    /// One look at one object.
    pub(crate) async fn observe(self: Arc<Self>, object: Arc<K>) -> Result<Next, Fault> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Next::Change);
        }
        let cluster = self.shared.cluster(&*object, true)?;
        let obsolete = self.shared.stop.child_token();
        let _ends = obsolete.clone().drop_guard();
        let context = self.shared.context(&*object, cluster, obsolete);
        let conditions = match self.observer.observe(&context, &object).await {
            Ok(conditions) => conditions,
            Err(fault) => {
                return match cause_of::<Again>(&fault) {
                    Some(again) => Ok(Next::After(again.after)),
                    None => Err(self.shared.classify(fault)),
                };
            }
        };
        let api = api_of(&self.shared.client, &*object);
        edit_status(&api, &*object, |object| {
            for condition in conditions.clone() {
                condition.put_into(object.common_status().conditions);
            }
        })
        .await
        .map(|_| Next::Change)
    }
}
