//! What an extension says is to be done reaches whoever looks at the Shoot, on every way that leads there, and alone.

use api_extensions::Infrastructure;
use api_meta::{
    Condition, ErrorCode, FaultClass, LastOperationState, ObjectName, OperationReport, conditions, without_hint,
};
use control_plane_diagnosis::observe::{Access, observe};
use control_plane_diagnosis::plan::plan;
use kube::Api;
use serde_json::json;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID};

use crate::scene::{Scene, until};

const HINT: &str = "correct spec.provider.infrastructureConfig of the Shoot";

/// The text ends with the hint, and names nothing else to do.
fn ends_with_hint(text: &str) {
    assert_eq!(text.matches("(to do: ").count(), 1, "{text}");
    assert!(without_hint(text, HINT).is_some(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_extensions_hint_appears_in_its_object_the_shoot_and_why() {
    let scene = Scene::start().await;
    scene
        .create(|shoot| shoot["spec"]["provider"]["infrastructureConfig"] = json!({"networks": 5}))
        .await;
    let shoot = until(&scene.world, NAME, LastOperationState::Failed).await;
    let infrastructures: Api<Infrastructure> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let of_object = infrastructures.get(NAME).await.unwrap().status.unwrap();
    ends_with_hint(&of_object.last_error.unwrap().description);
    let condition = Condition::find(&of_object.conditions, conditions::ACTION_REQUIRED).unwrap();
    assert_eq!(condition.message, HINT, "as data, for whoever reads the object");

    let status = shoot.status.unwrap();
    assert_eq!(status.last_errors.len(), 1, "{:?}", status.last_errors);
    ends_with_hint(&status.last_errors[0].description);
    let annotations = shoot.metadata.annotations.as_ref();
    let report = OperationReport::current(annotations, status.observed_generation, status.last_operation.as_ref());
    let error = &report.unwrap().errors[0];
    assert_eq!((error.hint.as_str(), error.class), (HINT, FaultClass::User));
    assert_eq!(error.codes, [ErrorCode::ConfigurationProblem]);
    assert_eq!(
        error.object,
        Some(ObjectName::new("Infrastructure", Some(TECHNICAL_ID), NAME))
    );
    assert!(!error.text.contains("to do"), "{error:?}");

    let access = Access {
        garden: scene.world.garden.clone(),
        seeds: Box::new({
            let seed = scene.world.seed.clone();
            move |_| Ok(seed.clone())
        }),
    };
    let answer = plan(&observe(&access, NAMESPACE, NAME, scene.clock.now()).await.unwrap());
    let blocker = &answer.blockers[0];
    assert_eq!(blocker.to_do, HINT, "{answer:#?}");
    assert!(!blocker.message.contains("to do"), "{blocker:#?}");
}
