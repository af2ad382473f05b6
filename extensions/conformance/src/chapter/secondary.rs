//! An object that another extension is primary for, which is played by the kit: the extension may add conditions.

use std::sync::Arc;

use api_extensions::DefaultStatus;
use api_meta::{Fault, LastOperation, LastOperationState, LastOperationType, RawJson};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::objects::{Objects, objects};
use crate::rule::Rule;
use crate::stage::{Actor, Stage, Stop};
use crate::template;

/// The object, and its status as its primary wrote it.
pub(crate) struct Secondary(Option<(Actor, DefaultStatus)>);

impl Secondary {
    /// Makes it and reports its success.
    ///
    /// # Errors
    /// What the API server returns; a kind and type that the extension is primary for.
    pub(crate) async fn begin(stage: &mut Stage) -> Result<Self, Stop> {
        let Some((kind, type_)) = stage.subject.secondary.clone() else {
            let reason = "no kind and type was given that the extension is a secondary for (--secondary)";
            stage.ledger.skipped(Rule::SecondaryWritesConditionsOnly, reason);
            return Ok(Self(None));
        };
        if kind == stage.subject.kind && type_ == stage.subject.type_ {
            let wrong = format!("the extension is primary for {kind} of type {type_:?}, not secondary");
            return Err(Fault::user(wrong).hint("name another kind or type").into());
        }
        stage.step("create an object that another extension is primary for");
        let handle: Arc<dyn Objects> =
            objects(kind, &stage.client, &stage.names.namespace, &stage.options.clock).into();
        let mut spec = template::least(kind, &stage.names, &template::region(&stage.subject));
        spec.insert("type".to_owned(), json!(type_));
        let name = format!("{}-secondary", stage.names.object(kind, &type_));
        let (actor, _) = stage.make_with(handle, &name, spec, None, false).await?;
        let status = of_primary(stage);
        let put = |new: &mut DefaultStatus| {
            let conditions = std::mem::take(&mut new.conditions);
            *new = DefaultStatus {
                conditions,
                ..status.clone()
            };
        };
        let written = actor.objects.edit_status(&actor.name, &put).await?;
        stage.present(&actor, written)?;
        Ok(Self(Some((actor, status))))
    }

    /// Looks what happened to it.
    pub(crate) fn end(&self, stage: &mut Stage) {
        let Some((actor, status)) = &self.0 else {
            return;
        };
        stage.step("look at an object that another extension is primary for");
        let own = |status: &DefaultStatus| DefaultStatus {
            conditions: Vec::new(),
            ..status.clone()
        };
        let (nothing, expected) = (DefaultStatus::default(), own(status));
        let entries = actor.record.since(0);
        let foreign = entries.iter().filter_map(|entry| entry.version()).find(|version| {
            let now = own(&version.status);
            now != nothing && now != expected
        });
        let outcome = foreign.map_or(Ok(()), |version| {
            Err(format!(
                "{} the status is {:?}, observedGeneration {}, and the primary wrote {:?}",
                version.place(),
                version.state(),
                version.observed(),
                status
                    .last_operation
                    .as_ref()
                    .map(|last| last.description.as_str())
                    .unwrap_or_default()
            ))
        });
        stage.checked(Rule::SecondaryWritesConditionsOnly, &actor.title, outcome);
    }
}

/// What a primary has reported.
fn of_primary(stage: &Stage) -> DefaultStatus {
    let now = stage.options.clock.now();
    // Whole seconds, as they come back.
    let now = now.round(jiff::Unit::Second).unwrap_or(now);
    let raw = || Some(RawJson::from(json!({"of": "the primary"})));
    DefaultStatus {
        provider_status: raw(),
        state: raw(),
        observed_generation: Some(1),
        last_operation: Some(LastOperation {
            description: "reported by the kit as the primary".to_owned(),
            last_update_time: Time(now),
            progress: 100,
            state: LastOperationState::Succeeded,
            type_: LastOperationType::Create,
        }),
        ..DefaultStatus::default()
    }
}
