//! What an extension says is to be done reaches whoever looks at the Shoot, on every way that leads there, and alone.

use api_extensions::Infrastructure;
use api_meta::{Fault, LastOperationState};
use kube::Api;
use programs_orangery::cli::ShootRef;
use programs_orangery::why::observe::{Access, observe};
use programs_orangery::why::plan::plan;
use serde_json::json;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID};

use crate::scene::{Scene, until};

const HINT: &str = "correct spec.provider.infrastructureConfig of the Shoot";

/// The hint of a text that must have just one.
fn hint_of(text: &str) -> Option<&str> {
    assert_eq!(text.matches("(to do: ").count(), 1, "{text}");
    Fault::untold(text).1
}

#[tokio::test(start_paused = true)]
async fn the_hint_of_an_extension_stands_in_its_object_in_the_shoot_and_in_the_answer_to_why() {
    let scene = Scene::start().await;
    scene
        .create(|shoot| shoot["spec"]["provider"]["infrastructureConfig"] = json!({"networks": 5}))
        .await;
    let shoot = until(&scene.world, NAME, LastOperationState::Failed).await;
    let infrastructures: Api<Infrastructure> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let of_object = infrastructures.get(NAME).await.unwrap().status.unwrap();
    assert_eq!(hint_of(&of_object.last_error.unwrap().description), Some(HINT));
    let of_shoot = shoot.status.unwrap().last_errors;
    assert_eq!(of_shoot.len(), 1, "{of_shoot:?}");
    assert_eq!(hint_of(&of_shoot[0].description), Some(HINT));

    let access = Access {
        garden: scene.world.garden.clone(),
        seeds: Box::new({
            let seed = scene.world.seed.clone();
            move |_| Ok(seed.clone())
        }),
    };
    let asked = ShootRef {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
    };
    let answer = plan(&observe(&access, &asked, scene.clock.now()).await.unwrap());
    let blocker = &answer.blockers[0];
    assert_eq!(blocker.to_do, HINT, "{answer:#?}");
    assert!(!blocker.says.contains("to do"), "{blocker:#?}");
}
