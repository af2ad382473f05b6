//! How time and memory grow with the number of Shoots that are created at once.

use std::path::Path;
use std::time::Instant;

use api_core::v1beta1::Shoot;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::landscape::{self, EXAMPLE, median};
use crate::process::{Landscape, Place};

/// How many Shoots are created at once, beside the example.
const COUNTS: [u32; 3] = [1, 10, 100];

/// Per Shoot.
struct Figures {
    seconds: f64,
    megabytes: f64,
}

/// Measures every count `runs` times, each in a landscape of its own, and prints the medians beside each other.
pub(crate) async fn run(runs: u8, place: Place, program: &Path) -> Result<(), String> {
    let mut one: Option<Figures> = None;
    for count in COUNTS {
        let mut all = Vec::new();
        for number in 1..=runs {
            let figures = measure(number, count, place, program).await?;
            println!(
                "{count} at once, run {number}: {:.2} s and {:.2} MB per Shoot",
                figures.seconds, figures.megabytes
            );
            all.push(figures);
        }
        let median = Figures {
            seconds: median(all.iter().map(|figures| figures.seconds)),
            megabytes: median(all.iter().map(|figures| figures.megabytes)),
        };
        let growth = one.as_ref().map_or_else(String::new, |one| {
            format!(
                ": {:.2} and {:.2} times those of one",
                median.seconds / one.seconds,
                median.megabytes / one.megabytes
            )
        });
        println!(
            "{count} at once {}, median of {runs}: {:.2} s and {:.2} MB per Shoot{growth}",
            place.name(),
            median.seconds,
            median.megabytes
        );
        one.get_or_insert(median);
    }
    Ok(())
}

async fn measure(number: u8, count: u32, place: Place, program: &Path) -> Result<Figures, String> {
    let mut landscape = Landscape::start(program, number, place)?;
    // Code that runs for the first time is not what a Shoot costs.
    let shoots = landscape::first_shoot(&mut landscape).await?;
    let example = shoots
        .get(EXAMPLE)
        .await
        .map_err(|error| format!("cannot read the example: {error}"))?;
    let memory = || landscape.own_megabytes().unwrap_or(f64::NAN);
    let (before, started) = (memory(), Instant::now());
    for index in 0..count {
        create(&shoots, &example, &name(index)).await?;
    }
    for index in 0..count {
        landscape::succeeded(&shoots, &name(index)).await?;
    }
    let count = f64::from(count);
    Ok(Figures {
        seconds: started.elapsed().as_secs_f64() / count,
        megabytes: (memory() - before) / count,
    })
}

fn name(index: u32) -> String {
    format!("s{index:03}")
}

/// Creates a Shoot like the example under another name.
pub(crate) async fn create(shoots: &Api<Shoot>, example: &Shoot, name: &str) -> Result<(), String> {
    let mut shoot = Shoot {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: example.spec.clone(),
        status: None,
    };
    // Each Shoot gets a domain of its own and is placed anew.
    shoot.spec.dns = None;
    shoot.spec.seed_name = None;
    let created = shoots.create(&PostParams::default(), &shoot).await;
    created
        .map(drop)
        .map_err(|error| format!("cannot create Shoot {name}: {error}"))
}
