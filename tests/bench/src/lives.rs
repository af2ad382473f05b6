//! What a Shoot that came and went leaves behind: one is created and deleted again and again in a running landscape.

use std::path::Path;

use api_core::v1beta1::Shoot;
use base_client::delete_and_wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::landscape::{self, EXAMPLE, GIVE_UP};
use crate::process::{Landscape, Place};
use crate::shoots::create;

/// The Shoot that comes and goes beside the example.
const NAME: &str = "again";
/// After how many lives the memory is printed, at most: enough points to see whether it levels off.
const POINTS: u8 = 20;

/// Measures `lives` lives in memory and in a folder and prints what memory the process has on the way.
pub(crate) async fn run(lives: u8, program: &Path) -> Result<(), String> {
    for place in Place::ALL {
        measure(lives, place, program).await?;
    }
    Ok(())
}

async fn measure(lives: u8, place: Place, program: &Path) -> Result<(), String> {
    let name = place.name();
    let mut landscape = Landscape::start(program, 1, place)?;
    let shoots = landscape::first_shoot(&mut landscape).await?;
    let example = shoots
        .get(EXAMPLE)
        .await
        .map_err(|error| format!("cannot read the example: {error}"))?;
    let every = lives.div_ceil(POINTS).max(1);
    let mut points = vec![landscape.own_megabytes().unwrap_or(f64::NAN)];
    println!("{name}, before the first life: {:.1} MB", points[0]);
    for life in 1..=lives {
        live(&shoots, &example).await?;
        if life % every == 0 || life == lives {
            let megabytes = landscape.own_megabytes().unwrap_or(f64::NAN);
            println!("{name}, after {life} lives: {megabytes:.1} MB");
            points.push(megabytes);
        }
    }
    let half = points.len() / 2;
    let (Some(middle), Some(last)) = (points.get(half), points.last()) else {
        return Ok(());
    };
    let counted = f64::from(every) * (points.len() - 1 - half) as f64;
    println!(
        "{name}, in the last {counted} lives: {:.0} KB per life",
        (last - middle) * 1024.0 / counted
    );
    Ok(())
}

async fn live(shoots: &Api<Shoot>, example: &Shoot) -> Result<(), String> {
    create(shoots, example, NAME).await?;
    landscape::succeeded(shoots, NAME).await?;
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    shoots
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&confirmed))
        .await
        .map_err(|error| format!("cannot confirm the deletion of Shoot {NAME}: {error}"))?;
    delete_and_wait(shoots, NAME, GIVE_UP)
        .await
        .map_err(|waited| waited.to_string())
}
