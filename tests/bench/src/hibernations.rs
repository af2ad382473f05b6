//! How long Shoots take to go to sleep and to wake, and what a sleeping one holds in memory.

use std::path::Path;
use std::time::{Duration, Instant};

use api_core::v1beta1::Shoot;
use api_meta::conditions::shoot::HIBERNATION_POSSIBLE;
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, wait_until};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::landscape::{self, EXAMPLE, GIVE_UP, median};
use crate::process::{Landscape, Place};
use crate::shoots;

/// How long nothing is done before memory is read: the allocator gives back within ten seconds what has been freed.
const REST: Duration = Duration::from_secs(15);

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times each Shoot is hibernated and woken; the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// How many Shoots go to sleep and wake at once, beside one alone
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Where the landscape keeps its state
    #[arg(long, value_enum, default_value_t = Place::Memory)]
    state: Place,
}

/// Measures one Shoot alone and then many at once, in one landscape.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    let mut landscape = Landscape::start(program, 1, arguments.state)?;
    let api = landscape::first_shoot(&mut landscape).await?;
    let mut alone = Vec::new();
    for _ in 0..arguments.runs {
        alone.push(night(&landscape, &api, &[EXAMPLE.to_owned()]).await?);
    }
    print("one Shoot alone", &alone);

    let example = api.get(EXAMPLE).await;
    let example = example.map_err(|error| format!("cannot read the example: {error}"))?;
    let names: Vec<String> = (0..arguments.count).map(shoots::name).collect();
    let before = landscape.own_megabytes().unwrap_or(f64::NAN);
    for name in &names {
        shoots::create(&api, &example, name).await?;
    }
    for name in &names {
        landscape::succeeded(&api, name).await?;
    }
    let count = f64::from(arguments.count);
    let each = |landscape: &Landscape| (landscape.own_megabytes().unwrap_or(f64::NAN) - before) / count;
    tokio::time::sleep(REST).await;
    println!("{count} Shoots awake: {:.2} MB each", each(&landscape));
    let mut all = Vec::new();
    for number in 1..=arguments.runs {
        let asleep = transition(&landscape, &api, &names, true).await?;
        // What was freed is given back by and by: once is enough to see what a sleeping Shoot holds.
        if number == 1 {
            tokio::time::sleep(REST).await;
            println!("{count} Shoots asleep: {:.2} MB each", each(&landscape));
        }
        all.push((asleep, transition(&landscape, &api, &names, false).await?));
    }
    print(&format!("{count} Shoots at once, each"), &all);
    Ok(())
}

/// What a transition took, for each Shoot.
#[derive(Clone, Copy)]
struct Taken {
    seconds: f64,
    processor_seconds: f64,
}

/// Hibernated and woken.
type Night = (Taken, Taken);

fn print(what: &str, nights: &[Night]) {
    for (name, of) in [
        ("hibernated", (|night| night.0) as fn(&Night) -> Taken),
        ("woken", |night| night.1),
    ] {
        let seconds = median(nights.iter().map(|night| of(night).seconds));
        let processor = median(nights.iter().map(|night| of(night).processor_seconds));
        println!(
            "{what}: {name} in {seconds:.2} s, {processor:.3} processor seconds (median of {})",
            nights.len()
        );
    }
}

async fn night(landscape: &Landscape, api: &Api<Shoot>, names: &[String]) -> Result<Night, String> {
    let asleep = transition(landscape, api, names, true).await?;
    Ok((asleep, transition(landscape, api, names, false).await?))
}

async fn transition(landscape: &Landscape, api: &Api<Shoot>, names: &[String], asleep: bool) -> Result<Taken, String> {
    if asleep {
        for name in names {
            until_possible(api, name).await?;
        }
    }
    let (worked, begun) = (landscape.processor_seconds(), Instant::now());
    let patch = Patch::Merge(json!({"spec": {"hibernation": {"enabled": asleep}}}));
    for name in names {
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.map_err(|error| format!("cannot change Shoot {name}: {error}"))?;
    }
    for name in names {
        landscape::succeeded(api, name).await?;
        let shoot = api.get_status(name).await;
        let shoot = shoot.map_err(|error| format!("cannot read Shoot {name}: {error}"))?;
        if shoot.status.as_ref().is_none_or(|status| status.hibernated != asleep) {
            return Err(format!(
                "Shoot {name} has succeeded and status.hibernated is not {asleep}"
            ));
        }
    }
    let count = names.len() as f64;
    Ok(Taken {
        seconds: begun.elapsed().as_secs_f64() / count,
        processor_seconds: (landscape.processor_seconds() - worked) / count,
    })
}

/// Waits until the garden lets a Shoot hibernate: its webhooks are listed some time after it has begun to run.
async fn until_possible(api: &Api<Shoot>, name: &str) -> Result<(), String> {
    let waited = wait_until(api, name, GIVE_UP, |shoot| {
        let constraints = shoot.and_then(|shoot| shoot.status.as_ref());
        let constraints = constraints.map_or(&[][..], |status| &status.constraints);
        match Condition::find(constraints, HIBERNATION_POSSIBLE) {
            Some(constraint) if constraint.status == ConditionStatus::True => WaitState::Done(()),
            _ => WaitState::NotYet(format!("its constraint {HIBERNATION_POSSIBLE} is not True")),
        }
    });
    waited.await.map_err(|waited| waited.to_string())
}
