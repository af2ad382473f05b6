//! From process start to the first Shoot `Succeeded`, and a second reconcile without change.

use std::path::Path;
use std::time::{Duration, Instant};

use api_core::v1beta1::Shoot;
use base_client::{Judgement, wait_until};
use base_clock::Clock;
use kube::Api;
use kube::api::{Patch, PatchParams};
use programs_orangery::follow::{Ended, follow};
use programs_orangery::kubeconfig;

use crate::process::Landscape;

/// Far beyond anything that could still be called a start.
const GIVE_UP: Duration = Duration::from_secs(120);
/// How often the data folder is looked at until the kubeconfig is there: fine enough for figures in hundredths.
const LOOK: Duration = Duration::from_millis(5);

struct Figures {
    first: f64,
    second: f64,
    megabytes: f64,
}

/// Measures `runs` times and prints the medians.
pub(crate) async fn run(runs: u8) -> Result<(), String> {
    let mut all = Vec::new();
    for number in 1..=runs {
        let figures = measure(number).await?;
        println!(
            "run {number}: first Shoot after {:.2} s, second reconcile {:.0} ms, peak {:.0} MB",
            figures.first,
            figures.second * 1000.0,
            figures.megabytes
        );
        all.push(figures);
    }
    println!(
        "median of {runs}: first Shoot after {:.2} s, second reconcile {:.0} ms, peak {:.0} MB",
        median(all.iter().map(|figures| figures.first)),
        median(all.iter().map(|figures| figures.second)) * 1000.0,
        median(all.iter().map(|figures| figures.megabytes))
    );
    Ok(())
}

async fn measure(number: u8) -> Result<Figures, String> {
    let started = Instant::now();
    let mut landscape = Landscape::start(number)?;
    wait_for_kubeconfig(&mut landscape).await?;
    let client = kubeconfig::garden_client(landscape.folder()).map_err(|fault| fault.to_string())?;
    let shoots: Api<Shoot> = Api::namespaced(client, "garden-local");
    succeeded(&shoots).await?;
    let first = started.elapsed().as_secs_f64();
    let second = second_reconcile(&shoots).await?;
    let megabytes = landscape.peak_megabytes().unwrap_or(f64::NAN);
    Ok(Figures {
        first,
        second,
        megabytes,
    })
}

async fn wait_for_kubeconfig(landscape: &mut Landscape) -> Result<(), String> {
    let path = kubeconfig::path(landscape.folder(), "garden");
    let deadline = Instant::now() + GIVE_UP;
    while !Path::exists(&path) {
        landscape.check()?;
        if Instant::now() > deadline {
            return Err(format!("{} did not appear within {GIVE_UP:?}", path.display()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn succeeded(shoots: &Api<Shoot>) -> Result<(), String> {
    match follow(shoots, "local", GIVE_UP, &Clock::real(), |_| {}).await {
        Ok(Ended::Succeeded) => Ok(()),
        Ok(Ended::Failed(errors)) => Err(format!("the Shoot failed: {}", errors.join("; "))),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Asks for a reconcile as a user does and waits until the gardenlet has observed and finished it.
async fn second_reconcile(shoots: &Api<Shoot>) -> Result<f64, String> {
    let patch = serde_json::json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let started = Instant::now();
    let asked = shoots
        .patch("local", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| format!("cannot ask for a reconcile: {error}"))?;
    let generation = asked.metadata.generation;
    wait_until(shoots, "local", GIVE_UP, |shoot| {
        match shoot.and_then(|shoot| shoot.status.as_ref()) {
            Some(status) if status.observed_generation >= generation && is_succeeded(status) => Judgement::Done(()),
            _ => Judgement::NotYet("the reconcile has not ended".to_owned()),
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

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
