//! How time and memory grow with the number of Shoots that are created at once.

use std::time::Instant;

use api_core::v1beta1::Shoot;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::landscape::{self, EXAMPLE, median};
use crate::process::Landscape;

/// How many Shoots are created at once, beside the example.
const COUNTS: [u32; 3] = [1, 10, 100];

/// Per Shoot.
struct Figures {
    seconds: f64,
    megabytes: f64,
}

/// Measures every count `runs` times, each in a landscape of its own, and prints the medians beside each other.
pub(crate) async fn run(runs: u8) -> Result<(), String> {
    let mut smaller: Option<Figures> = None;
    for count in COUNTS {
        let mut all = Vec::new();
        for number in 1..=runs {
            all.push(measure(number, count).await?);
        }
        let median = Figures {
            seconds: median(all.iter().map(|figures| figures.seconds)),
            megabytes: median(all.iter().map(|figures| figures.megabytes)),
        };
        let growth = smaller.as_ref().map_or_else(String::new, |smaller| {
            format!(
                " ({:.2} and {:.2} times the figures before)",
                median.seconds / smaller.seconds,
                median.megabytes / smaller.megabytes
            )
        });
        println!(
            "{count} at once, median of {runs}: {:.2} s and {:.2} MB per Shoot{growth}",
            median.seconds, median.megabytes
        );
        smaller = Some(median);
    }
    Ok(())
}

async fn measure(number: u8, count: u32) -> Result<Figures, String> {
    let mut landscape = Landscape::start(number)?;
    // Code that runs for the first time is not what a Shoot costs.
    let shoots = landscape::first_shoot(&mut landscape).await?;
    let example = shoots
        .get(EXAMPLE)
        .await
        .map_err(|error| format!("cannot read the example: {error}"))?;
    let memory = || landscape.resident_megabytes().unwrap_or(f64::NAN);
    let (before, started) = (memory(), Instant::now());
    for index in 0..count {
        create(&shoots, &example, index).await?;
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

async fn create(shoots: &Api<Shoot>, example: &Shoot, index: u32) -> Result<(), String> {
    let mut shoot = Shoot {
        metadata: ObjectMeta {
            name: Some(name(index)),
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
        .map_err(|error| format!("cannot create Shoot {}: {error}", name(index)))
}
