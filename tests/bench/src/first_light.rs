//! From process start to the first Shoot `Succeeded`, and a second reconcile without change.

use std::path::Path;
use std::time::Instant;

use api_core::v1beta1::Shoot;
use base_client::{WaitState, wait_until};
use kube::Api;
use kube::api::{Patch, PatchParams};

use crate::landscape::{self, EXAMPLE, GIVE_UP, median};
use crate::process::{Landscape, Place};

struct Figures {
    first: f64,
    second: f64,
    megabytes: f64,
}

/// Measures `runs` times in memory and in a folder and prints the medians.
pub(crate) async fn run(runs: u8, program: &Path) -> Result<(), String> {
    for place in Place::ALL {
        measure_all(runs, place, program).await?;
    }
    Ok(())
}

async fn measure_all(runs: u8, place: Place, program: &Path) -> Result<(), String> {
    let name = place.name();
    let mut all = Vec::new();
    for number in 1..=runs {
        let figures = measure(number, place, program).await?;
        println!(
            "{name}, run {number}: first Shoot after {:.2} s, second reconcile {:.0} ms, peak {:.0} MB",
            figures.first,
            figures.second * 1000.0,
            figures.megabytes
        );
        all.push(figures);
    }
    println!(
        "{name}, median of {runs}: first Shoot after {:.2} s, second reconcile {:.0} ms, peak {:.0} MB",
        median(all.iter().map(|figures| figures.first)),
        median(all.iter().map(|figures| figures.second)) * 1000.0,
        median(all.iter().map(|figures| figures.megabytes))
    );
    Ok(())
}

async fn measure(number: u8, place: Place, program: &Path) -> Result<Figures, String> {
    let started = Instant::now();
    let mut landscape = Landscape::start(program, number, place)?;
    let shoots = landscape::first_shoot(&mut landscape).await?;
    let first = started.elapsed().as_secs_f64();
    let second = second_reconcile(&shoots).await?;
    let megabytes = landscape.peak_megabytes().unwrap_or(f64::NAN);
    Ok(Figures {
        first,
        second,
        megabytes,
    })
}

/// Requests a reconcile as a user does and waits until the gardenlet has observed and finished it.
async fn second_reconcile(shoots: &Api<Shoot>) -> Result<f64, String> {
    let patch = serde_json::json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let started = Instant::now();
    let requested = shoots
        .patch(EXAMPLE, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| format!("cannot request a reconcile: {error}"))?;
    let generation = requested.metadata.generation;
    wait_until(shoots, EXAMPLE, GIVE_UP, |shoot| {
        match shoot.and_then(|shoot| shoot.status.as_ref()) {
            Some(status) if status.observed_generation >= generation && is_succeeded(status) => WaitState::Done(()),
            _ => WaitState::NotYet("the reconcile has not ended".to_owned()),
        }
    })
    .await
    .map_err(|waited| waited.to_string())?;
    Ok(started.elapsed().as_secs_f64())
}

fn is_succeeded(status: &api_core::v1beta1::ShootStatus) -> bool {
    status
        .last_operation
        .as_ref()
        .is_some_and(|operation| operation.state == api_meta::LastOperationState::Succeeded)
}
