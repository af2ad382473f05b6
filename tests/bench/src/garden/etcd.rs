//! The garden's API on a real etcd: how soon a replica is ready that finds many Shoots there, and what it takes to tell each of many
//! gardenlets of the changes of its own Shoots.

use std::path::Path;
use std::sync::Arc;

use tests_parts::Etcd;

use super::figures::{Figure, print_medians, print_run};
use super::{AT_ONCE, memory, objects, prepare, restarted};
use crate::load::{Target, send_all};
use crate::server::{Server, Start};
use crate::watches::{Load, deliver, version};

/// How much is sent.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times; the median is reported, with the least and the greatest
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) runs: u8,
    /// Shoots that a replica finds when it starts
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Shoots whose changes are watched
    #[arg(long, default_value_t = 2_400, value_parser = clap::value_parser!(u32).range(1..))]
    watched: u32,
    /// Gardenlets that watch, each the Shoots of its own seed
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    gardenlets: u32,
    /// Changes a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
}

/// How long Shoots are changed.
const SECONDS: u32 = 30;

/// Measures and prints every run and the medians.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    let Arguments {
        watched: shoots,
        gardenlets,
        changes,
        ..
    } = arguments;
    if !shoots.is_multiple_of(*gardenlets) || !(changes * SECONDS).is_multiple_of(*gardenlets) {
        return Err(format!(
            "--gardenlets is {gardenlets}: --watched ({shoots}) and {SECONDS} times --changes ({changes}) must be multiples of it"
        ));
    }
    let mut all = Vec::new();
    for number in 1..=arguments.runs {
        let mut figures = Vec::new();
        start(arguments, program, &mut figures).await?;
        watched(arguments, program, &mut figures).await?;
        print_run(&format!("on etcd, run {number}"), &figures);
        all.push(figures);
    }
    print_medians(&format!("on etcd, medians of {}", arguments.runs), &all);
    Ok(())
}

/// A garden on an etcd of its own, without controllers; the etcd ends with the second value.
struct Garden {
    url: String,
    _etcd: Etcd,
}

impl Garden {
    fn new() -> Result<Self, String> {
        let etcd = Etcd::start()?;
        Ok(Self {
            url: etcd.url(),
            _etcd: etcd,
        })
    }

    fn flags(&self) -> [&str; 6] {
        ["garden", "--port", "0", "--controllers=", "--etcd-servers", &self.url]
    }
}

fn start_of<'a>(program: &'a Path, flags: &'a [&'a str]) -> Start<'a> {
    Start {
        program,
        arguments: flags,
        kubeconfig: "garden.kubeconfig",
    }
}

/// A replica that starts when the Shoots are there.
async fn start(arguments: &Arguments, program: &Path, figures: &mut Vec<Figure>) -> Result<(), String> {
    let garden = Garden::new()?;
    let flags = garden.flags();
    let start = start_of(program, &flags);
    let server = Server::start(&start).await?;
    prepare(&server.target).await?;
    let create = (0..arguments.count).map(objects::create);
    let taken = send_all(&server.target, create.collect(), AT_ONCE).await?;
    super::phase("create", taken, figures);
    let server = server.restart(&start).await?;
    restarted(&server, arguments.count, figures).await?;
    figures.push(Figure::new(
        "memory after the first list",
        "MB",
        server.target.megabytes(),
    ));
    Ok(())
}

/// Gardenlets that watch the changes of their Shoots.
async fn watched(arguments: &Arguments, program: &Path, figures: &mut Vec<Figure>) -> Result<(), String> {
    let garden = Garden::new()?;
    let flags = garden.flags();
    let server = Server::start(&start_of(program, &flags)).await?;
    prepare(&server.target).await?;
    let load = load(arguments, &server.target).await?;
    let delivered = deliver(&server.target, &load).await?;
    let what = format!(
        "{} Shoots, {} gardenlets, {} changes a second",
        arguments.watched, arguments.gardenlets, arguments.changes
    );
    for (part, unit, value) in [
        ("changes made", "a second", delivered.changes_per_second),
        ("delivered", "of 1", delivered.fraction),
        ("median", "ms", delivered.median.as_secs_f64() * 1e3),
        ("99 of 100 within", "ms", delivered.p99.as_secs_f64() * 1e3),
        (
            "processor",
            "ms each",
            delivered.processor_seconds * 1e3 / load.changes() as f64,
        ),
    ] {
        figures.push(Figure::new(&format!("{what}: {part}"), unit, value));
    }
    memory(&server.target, figures);
    Ok(())
}

/// Creates the Seeds and their Shoots, in turn one for each seed.
async fn load(arguments: &Arguments, target: &Target) -> Result<Load, String> {
    let Arguments {
        watched,
        gardenlets,
        changes,
        ..
    } = *arguments;
    let seed = |number: u32| format!("seed-{number:04}");
    let seeds = (0..gardenlets).map(|number| objects::create_seed(&seed(number)));
    send_all(target, seeds.collect(), AT_ONCE).await?;
    let shoots = (0..watched).map(|number| objects::create_on(number, &seed(number % gardenlets)));
    send_all(target, shoots.collect(), AT_ONCE).await?;
    let mut connection = target.endpoint.connect().await?;
    let version = version(&mut connection, &objects::page("")).await?;
    let round = gardenlets as usize;
    let (per_second, seconds) = (changes as usize, SECONDS as usize);
    let received = per_second * seconds / round;
    Ok(Load {
        watches: (0..gardenlets)
            .map(|number| objects::watch_of_seed(&seed(number), &version))
            .collect(),
        received,
        per_second,
        seconds,
        change: Arc::new(move |number, text| {
            let of_round = u32::try_from(number).unwrap_or_default() % watched;
            objects::note(of_round, text)
        }),
    })
}
