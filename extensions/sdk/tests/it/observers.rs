//! Secondaries: they add conditions and nothing else.

use std::sync::Arc;

use api_extensions::Infrastructure;
use api_meta::LastOperationState::Succeeded;
use api_meta::{Condition, ConditionStatus, Fault};
use async_trait::async_trait;
use extensions_sdk::{Context, Observer, Registration};
use serde_json::json;
use tests_kit::until;

use crate::landscape::{Answering, Seed, state_of};

struct Looks;

#[async_trait]
impl Observer<Infrastructure> for Looks {
    async fn observe(&self, context: &Context, object: &Infrastructure) -> Result<Vec<Condition>, Fault> {
        let text = state_of(object);
        Ok(vec![Condition::new(
            "Observed",
            ConditionStatus::True,
            "Looked",
            &text,
            context.clock.now(),
        )])
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_a_secondary_stays_beside_the_primarys_status() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    let extension = seed.extension();
    tokio::spawn(
        extension
            .secondary::<Infrastructure>(Registration::of_type("example"), Arc::new(Looks))
            .run(),
    );
    seed.start(&reported);
    seed.create("example", json!({})).await;
    let object = until(&seed.infrastructures(), "b", "created and looked at", |object| {
        let conditions = object
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.message == "Create Succeeded 100")
    })
    .await;
    assert_eq!(state_of(&object), "Create Succeeded 100");
    assert_eq!(object.status.unwrap().conditions.len(), 1);
}
