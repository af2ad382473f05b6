//! How time and memory grow with the number of Shoots that are created at once.

use std::path::Path;
use std::time::Instant;

use api_core::v1beta1::Shoot;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::landscape::{self, EXAMPLE, median};
use crate::process::{Landscape, Place};

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times; the median is reported
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: u8,
    /// How many Shoots are created at once, beside the example; several numbers one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100])]
    pub(crate) counts: Vec<u32>,
    /// Where the landscape keeps its state
    #[arg(long, value_enum, default_value_t = Place::Memory)]
    pub(crate) state: Place,
}

/// Per Shoot.
struct Figures {
    seconds: f64,
    processor_seconds: f64,
    megabytes: f64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2} s, {:.3} processor seconds and {:.2} MB per Shoot",
            self.seconds, self.processor_seconds, self.megabytes
        )
    }
}

/// Measures every count `runs` times, each in a landscape of its own, and prints the medians beside each other.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    let (runs, place) = (arguments.runs, arguments.state);
    let mut first: Option<(u32, Figures)> = None;
    for count in &arguments.counts {
        let mut all = Vec::new();
        for number in 1..=runs {
            let figures = measure(number, *count, place, program).await?;
            println!("{count} at once, run {number}: {figures}");
            all.push(figures);
        }
        let median = Figures {
            seconds: median(all.iter().map(|figures| figures.seconds)),
            processor_seconds: median(all.iter().map(|figures| figures.processor_seconds)),
            megabytes: median(all.iter().map(|figures| figures.megabytes)),
        };
        let growth = first.as_ref().map_or_else(String::new, |(count, first)| {
            format!(
                ": {:.2}, {:.2} and {:.2} times those of {count}",
                median.seconds / first.seconds,
                median.processor_seconds / first.processor_seconds,
                median.megabytes / first.megabytes
            )
        });
        println!("{count} at once {}, median of {runs}: {median}{growth}", place.name());
        first.get_or_insert((*count, median));
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
    let (before, worked, started) = (memory(), landscape.processor_seconds(), Instant::now());
    for index in 0..count {
        create(&shoots, &example, &name(index)).await?;
    }
    for index in 0..count {
        landscape::succeeded(&shoots, &name(index)).await?;
    }
    let count = f64::from(count);
    Ok(Figures {
        seconds: started.elapsed().as_secs_f64() / count,
        processor_seconds: (landscape.processor_seconds() - worked) / count,
        megabytes: (memory() - before) / count,
    })
}

/// The name of the Shoot of this number.
pub(crate) fn name(index: u32) -> String {
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
    // Each Shoot gets a domain of its own and is scheduled again.
    shoot.spec.dns = None;
    shoot.spec.seed_name = None;
    let created = shoots.create(&PostParams::default(), &shoot).await;
    created
        .map(drop)
        .map_err(|error| format!("cannot create Shoot {name}: {error}"))
}
