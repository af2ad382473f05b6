//! Objects beside the subject's that the extension has to leave alone: of another type, and of another class. They are
//! there during the whole run.

use api_extensions::ExtensionClass;
use api_meta::annotations::operation;
use serde_json::json;

use crate::fragments::Field;
use crate::rule::Rule;
use crate::stage::{Actor, Stage, Stop};
use crate::template;

/// The objects, each with the rule about it.
pub(crate) struct Bystanders(Vec<(Rule, Actor)>);

impl Bystanders {
    /// Makes them.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn begin(stage: &mut Stage) -> Result<Self, Stop> {
        stage.step("create objects of another type and class");
        let name = stage.object_name();
        let other = format!("{}-conformance", stage.subject.type_);
        let mut all = Vec::new();
        let mut spec = template::spec(&stage.subject, &stage.names);
        spec.insert("type".to_owned(), json!(other));
        let objects = stage.objects.clone();
        let beside = format!("{name}-other-type");
        let (actor, _) = stage
            .make_with(objects.clone(), &beside, spec, Some(operation::RECONCILE), false)
            .await
            .map_err(|stop| stop.of(Field::Spec))?;
        all.push((Rule::OtherTypesUntouched, actor));

        let known =
            |class: &ExtensionClass| *class == stage.subject.class || stage.subject.other_classes.contains(class);
        let classes = [ExtensionClass::Seed, ExtensionClass::Garden, ExtensionClass::Shoot];
        match classes.into_iter().find(|class| !known(class)) {
            Some(class) => {
                let mut spec = template::spec(&stage.subject, &stage.names);
                spec.insert("class".to_owned(), json!(class));
                let beside = format!("{name}-other-class");
                let made = stage
                    .make_with(objects, &beside, spec, Some(operation::RECONCILE), false)
                    .await;
                all.push((Rule::OtherClassesUntouched, made?.0));
            }
            None => stage.ledger.skipped(
                Rule::OtherClassesUntouched,
                "the extension works on objects of all classes",
            ),
        }
        let bystanders = Self(all);
        tokio::time::sleep(stage.options.patience).await;
        bystanders.look(stage);
        Ok(bystanders)
    }

    /// Looks what happened to them during the run.
    pub(crate) fn end(&self, stage: &mut Stage) {
        stage.step("look at objects of another type and class");
        self.look(stage);
    }

    fn look(&self, stage: &mut Stage) {
        for (rule, actor) in &self.0 {
            let entries = actor.record.since(0);
            let outcome = match entries.get(1).map(|entry| entry.version()) {
                None => Ok(()),
                Some(Some(version)) => Err(format!(
                    "{} it was written: the status is {:?}, finalizers {:?}, annotation {:?}",
                    version.place(),
                    version.state(),
                    version.finalizers(),
                    version.operation().unwrap_or_default()
                )),
                Some(None) => Err("it was deleted".to_owned()),
            };
            stage.checked(*rule, &actor.title, outcome);
        }
    }
}
