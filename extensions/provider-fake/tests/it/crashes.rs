//! The process ends at calls of a life, of the seed's API server and of the cloud, before and after the call's effect: at a sample
//! of them, and at every one with `PROVIDER_FAKE_SWEEP=full`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use extensions_provider_fake::UNIQUE_TAG;
use extensions_provider_fake::cloud::{
    Answer, Call, Calls, CloudApi, CloudConnector, CloudError, Keys, Kind, Moment, Settings, Spec,
};

use crate::story::{calls_of_a_life, in_virtual_time, life, sweep};
use crate::world::World;

/// The process ends at each call of a life without an end.
fn end_at_each_call(settings: &Settings) {
    let calls = calls_of_a_life(settings);
    assert!(calls.len() > 60, "{calls:#?}");
    let ends = sweep(calls.len() * 2, |number| {
        let moment = Moment {
            call: number / 2 + 1,
            before: number % 2 == 0,
        };
        in_virtual_time(async {
            let world = World::new(settings.clone()).await;
            let ends = Calls::new(Some(moment));
            let of = |process: usize| if process == 0 { ends.clone() } else { Calls::new(None) };
            life(&world, |process| world.start(of(process))).await;
            assert!(ends.has_ended(), "{moment} never came: {}", calls[moment.call - 1]);
        });
    });
    println!("{ends} ends at {} calls, before and after", calls.len());
}

#[test]
fn a_process_that_ends_at_any_call_leaks_and_doubles_nothing() {
    end_at_each_call(&Settings::default());
}

#[test]
fn the_same_holds_for_a_cloud_as_late_as_it_may_be() {
    end_at_each_call(&Settings {
        list_lag: u32::MAX,
        get_lag: u32::MAX,
        ..Settings::default()
    });
}

/// A cloud that forgets by which tag a thing is found, or which token it was made with.
pub(crate) struct Forgetful(pub(crate) Arc<dyn CloudConnector>);

impl CloudConnector for Forgetful {
    fn connect(&self, keys: &Keys, region: &str) -> Arc<dyn CloudApi> {
        Arc::new(ForgetfulApi(self.0.connect(keys, region)))
    }
}

struct ForgetfulApi(Arc<dyn CloudApi>);

#[async_trait]
impl CloudApi for ForgetfulApi {
    async fn call(&self, mut call: Call) -> Result<Answer, CloudError> {
        match &mut call {
            Call::Create {
                spec: Spec::Instance(spec),
                ..
            } => spec.client_token = None,
            Call::Create { tags, .. } => drop(tags.insert(UNIQUE_TAG.to_owned(), "lost".to_owned())),
            _ => {}
        }
        self.0.call(call).await
    }
}

/// Otherwise the tests above would prove nothing.
#[test]
fn what_is_created_without_its_tag_is_noticed_at_each_end() {
    let calls = calls_of_a_life(&Settings::default());
    let creations = calls
        .iter()
        .enumerate()
        // Those of the seed's API server are of resources in the plural.
        .filter(|(_, what)| {
            let kind = what.strip_prefix("create ").unwrap_or_default();
            Kind::ALL.iter().any(|of_cloud| of_cloud.to_string() == kind)
        });
    let creations: Vec<usize> = creations.map(|(at, _)| at + 1).collect();
    assert_eq!(creations.len(), 7, "{calls:#?}");
    for call in creations {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            in_virtual_time(async {
                let world = World::new(Settings::default()).await;
                let cloud = || Arc::new(Forgetful(Arc::new(world.cloud.clone())));
                let end = |process| (process == 0).then_some(Moment { call, before: false });
                life(&world, |process| {
                    world.start_through(world.embedded.admin(), cloud(), Calls::new(end(process)))
                })
                .await;
            });
        }));
        assert!(
            lived.is_err(),
            "the end at call {call} ({}) went unnoticed",
            calls[call - 1]
        );
    }
}
