//! What measurements of a running landscape have in common.

use std::path::Path;
use std::time::{Duration, Instant};

use api_core::v1beta1::Shoot;
use base_clock::Clock;
use kube::{Api, Client};
use landscape_data_folder::kubeconfig;
use landscape_terminal::lines::{Ended, follow};

use crate::process::Landscape;

/// The example Shoot's name.
pub(crate) const EXAMPLE: &str = "local";
/// Its namespace.
const NAMESPACE: &str = "garden-local";
/// Far beyond what a hundred Shoots at once take on two cores.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(900);
/// How often the data folder is looked at until the kubeconfig is there: fine enough for figures in hundredths.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the example Shoot has `Succeeded`; gives access to the Shoots beside it.
pub(crate) async fn first_shoot(landscape: &mut Landscape) -> Result<Api<Shoot>, String> {
    let client = garden(landscape).await?;
    let shoots: Api<Shoot> = Api::namespaced(client, NAMESPACE);
    succeeded(&shoots, EXAMPLE).await?;
    Ok(shoots)
}

/// Waits until the garden can be reached; gives a client for its administrator.
pub(crate) async fn garden(landscape: &mut Landscape) -> Result<Client, String> {
    wait_for_kubeconfig(landscape).await?;
    kubeconfig::garden_client(landscape.folder()).map_err(|fault| fault.to_string())
}

/// Waits until the Shoot `name` has `Succeeded`.
pub(crate) async fn succeeded(shoots: &Api<Shoot>, name: &str) -> Result<(), String> {
    match follow(shoots, name, GIVE_UP, &Clock::real(), |_| {}).await {
        Ok(Ended::Succeeded) => Ok(()),
        Ok(Ended::Failed(errors)) => Err(format!("Shoot {name} failed: {}", errors.join("; "))),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The middle one; of an even number the greater of the two in the middle.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure as it is printed: with decimals where it is small.
pub(crate) fn shown(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
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
