//! What holds for extension objects of every kind of the table.

use api_core::v1beta1::ControllerInstallation;
use api_extensions::{ExtensionKind, ExtensionObject, ForKind};
use api_meta::{Condition, conditions::installation as reason};
use base_client::{api_in, delete};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tests_kit::until;

use crate::status_cases::sample;
use crate::world::World;

/// A type that nothing else has.
const TYPE: &str = "every";

struct Create<'a>(&'a Client);

impl<'a> ForKind for Create<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let api = api_in::<K>(self.0, "default");
            let object = sample("sample", TYPE, "shoot");
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        .boxed()
    }
}

struct Delete<'a>(&'a Client);

impl<'a> ForKind for Delete<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let api = api_in::<K>(self.0, "default");
            // The played extension of the kind may hold it.
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch("sample", &PatchParams::default(), &free).await.unwrap();
            delete(&api, "sample").await.unwrap();
        }
        .boxed()
    }
}

async fn required(world: &World, what: &str, holds: impl Fn(&Condition) -> bool) {
    let api: Api<ControllerInstallation> = Api::all(world.garden.admin());
    until(&api, TYPE, what, |one| {
        let conditions = one.status.as_ref().map_or(&[][..], |status| &status.conditions);
        Condition::find(conditions, reason::REQUIRED).is_some_and(&holds)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_any_kind_makes_its_extension_required() {
    let world = World::start().await;
    let all: Vec<(&str, &str)> = ExtensionKind::NAMES.iter().map(|kind| (*kind, TYPE)).collect();
    world.register(TYPE, &all).await;
    world.install(TYPE).await;
    let seed = world.seed.admin();
    let mut present: Vec<String> = Vec::new();
    for kind in ExtensionKind::ALL {
        kind.with(Create(&seed)).await;
        present.push(format!("{kind}/{TYPE}"));
        let message = format!("extension objects still exist in the seed: [{}]", present.join(", "));
        required(&world, &message, |condition| condition.message == message).await;
    }
    for kind in ExtensionKind::ALL {
        kind.with(Delete(&seed)).await;
    }
    let none = |condition: &Condition| condition.reason == reason::NO_EXTENSION_OBJECTS;
    required(&world, "required by nothing any more", none).await;
}
