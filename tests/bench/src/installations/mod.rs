//! Many extensions by chart on several seeds: how long each installation takes from its registration, what the process
//! holds and works while they stand there, how long their removal takes, and what it leaves behind.

mod chart;
mod follow;

use std::path::Path;
use std::time::{Duration, Instant};

use api_core::v1beta1::Seed;
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, wait_until};
use clap::Args;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use landscape_local::{SEEDS_MAX, SeedSettings};
use serde_json::Value;

use self::follow::Follower;
use crate::landscape::{self, GIVE_UP, median};
use crate::process::{Landscape, Place};

/// Seeds of the two landscapes that are measured.
const SEEDS: [u8; 2] = [5, 1];
/// What a Seed reports once nothing is left to do for it.
const CONDITIONS: [&str; 3] = ["GardenletReady", "ExtensionsReady", "BackupBucketsReady"];
/// How long nothing is done before memory is read: the allocator gives back within ten seconds what has been freed.
const SETTLE: Duration = Duration::from_secs(15);
/// Names of the charts that are installed together begin with this.
const MANY: &str = "many-";
/// Names of those that are installed alone: one for whatever is done for the first time, one before the many, one beside.
const ALONE: [&str; 3] = ["first", "alone", "beside"];

/// What is measured.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many times; the median is reported
    #[arg(long, default_value_t = 3)]
    runs: u8,
    /// How many charts are registered together
    #[arg(long, default_value_t = 60)]
    charts: u16,
    /// Measure only a landscape with so many seeds
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(SEEDS_MAX)))]
    seeds: Option<u8>,
    /// For how many seconds each landscape is left alone at the end, before memory is read once more: what watches could
    /// resume in is kept for five minutes
    #[arg(long)]
    linger: Option<u16>,
    /// How often the charts are installed and removed again in each landscape; all but the first show what each life leaves
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    lives: u8,
}

/// One run, as columns of results: what, unit, figure.
type Row = Vec<(&'static str, &'static str, f64)>;

/// Measures a landscape of five seeds and one of a single seed and prints the medians.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    let sizes = arguments.seeds.map_or(SEEDS.to_vec(), |seeds| vec![seeds]);
    for seeds in sizes {
        let mut all: Vec<Row> = Vec::new();
        for number in 1..=arguments.runs {
            let row = measure(number, seeds, arguments, program).await?;
            print(&format!("{seeds} seeds, run {number}"), &row);
            all.push(row);
        }
        let first = all.first().cloned().unwrap_or_default();
        let medians = first.iter().enumerate().map(|(place, &(what, unit, _))| {
            let of_all = all.iter().filter_map(|row| row.get(place));
            (what, unit, median(of_all.map(|&(_, _, figure)| figure)))
        });
        let (charts, runs) = (arguments.charts, arguments.runs);
        print(
            &format!("{charts} charts on {seeds} seeds, median of {runs}"),
            &medians.collect(),
        );
    }
    Ok(())
}

fn print(title: &str, row: &Row) {
    println!("{title}:");
    for (what, unit, figure) in row {
        println!("  {what}: {figure:.2} {unit}");
    }
}

async fn measure(number: u8, seeds: u8, arguments: &Arguments, program: &Path) -> Result<Row, String> {
    let count = seeds.to_string();
    let mut landscape = Landscape::start_with(program, number, Place::Memory, &["--seeds", &count])?;
    let garden = landscape::garden(&mut landscape).await?;
    for seed in 1..=seeds {
        until_ready(&garden, &SeedSettings::numbered(seed).name).await?;
    }
    let place = Measured {
        landscape,
        follower: Follower::new(&garden),
        garden,
        seeds: seeds.into(),
    };
    place.run(arguments).await
}

async fn until_ready(garden: &Client, name: &str) -> Result<(), String> {
    let seeds: Api<Seed> = Api::all(garden.clone());
    let waited = wait_until(&seeds, name, GIVE_UP, |seed| {
        let known = seed.and_then(|seed| seed.status.as_ref());
        let known = known.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let lacks = |type_: &&&str| {
            Condition::find(known, type_).is_none_or(|condition| condition.status != ConditionStatus::True)
        };
        match CONDITIONS.iter().find(lacks) {
            Some(type_) => WaitState::NotYet(format!("its condition {type_} is not True")),
            None => WaitState::Done(()),
        }
    })
    .await;
    waited.map_err(|waited| waited.to_string())
}

/// A landscape and what is known of it.
struct Measured {
    landscape: Landscape,
    garden: Client,
    follower: Follower,
    seeds: usize,
}

/// How a landscape is while nothing changes.
struct Standing {
    megabytes: f64,
    /// Processor time for a second of the wall.
    milliseconds: f64,
}

impl Measured {
    async fn run(mut self, arguments: &Arguments) -> Result<Row, String> {
        let many: Vec<String> = (0..arguments.charts)
            .map(|number| format!("{MANY}{number:03}"))
            .collect();
        // Code that runs for the first time is not what an installation costs.
        self.alone(ALONE[0]).await?;
        let alone = self.alone(ALONE[1]).await?;
        let before = self.standing().await;

        let worked = self.landscape.processor_seconds();
        self.install(MANY, &many).await?;
        let installing = self.landscape.processor_seconds() - worked;
        let seconds = self.follower.seen.seconds(MANY);
        let with = self.standing().await;
        let beside = self.alone(ALONE[2]).await?;

        let (worked, started) = (self.landscape.processor_seconds(), Instant::now());
        self.remove(MANY, &many).await?;
        let removed = started.elapsed().as_secs_f64();
        let removing = self.landscape.processor_seconds() - worked;
        let after = self.standing().await;
        let at = |part: f64| at(&seconds, part);
        let mut row = vec![
            ("one chart alone, installed on the last seed after", "s", alone),
            ("installed after, median of all", "s", at(0.5)),
            ("installed after, 95 of 100 within", "s", at(0.95)),
            ("installed after, the last one", "s", at(1.0)),
            ("processor of installing", "s", installing),
            ("one more chart beside them, on the last seed after", "s", beside),
            ("all gone after", "s", removed),
            ("processor of removing", "s", removing),
            ("memory before", "MB", before.megabytes),
            ("memory with all", "MB", with.megabytes),
            ("memory when all have gone", "MB", after.megabytes),
            ("processor while none stand there", "ms/s", before.milliseconds),
            ("processor while all stand there", "ms/s", with.milliseconds),
            ("processor when all have gone", "ms/s", after.milliseconds),
            (
                "peak of resident memory",
                "MB",
                self.landscape.peak_megabytes().unwrap_or(f64::NAN),
            ),
        ];
        for _ in 1..arguments.lives {
            self.install(MANY, &many).await?;
            self.remove(MANY, &many).await?;
            row.push(("memory after one more life", "MB", self.standing().await.megabytes));
        }
        if let Some(seconds) = arguments.linger {
            tokio::time::sleep(Duration::from_secs(seconds.into())).await;
            row.push((
                "memory at the end",
                "MB",
                self.landscape.own_megabytes().unwrap_or(f64::NAN),
            ));
        }
        Ok(row)
    }

    /// Installs one chart and removes it; tells how long it took until every seed had it.
    async fn alone(&mut self, name: &str) -> Result<f64, String> {
        let names = [name.to_owned()];
        self.install(name, &names).await?;
        let seconds = self.follower.seen.seconds(name);
        self.remove(name, &names).await?;
        Ok(at(&seconds, 1.0))
    }

    /// Registers charts whose names begin with `prefix`, and waits until every seed has all of them.
    async fn install(&mut self, prefix: &str, names: &[String]) -> Result<(), String> {
        for name in names {
            let deployment = chart::deployment(name, chart::archive(name)?);
            create(&self.garden, deployment).await?;
        }
        let wanted = names.len() * self.seeds;
        let created = async {
            for name in names {
                create(&self.garden, chart::registration(name)).await?;
            }
            Ok(())
        };
        let installed = self
            .follower
            .until("installed", |seen| seen.installed(prefix).count() == wanted);
        tokio::try_join!(created, installed).map(drop)
    }

    /// Deletes registrations and deployments, and waits until they and all their installations have gone.
    async fn remove(&mut self, prefix: &str, names: &[String]) -> Result<(), String> {
        let garden = self.garden.clone();
        let deleted = async {
            for name in names {
                delete(&garden, &chart::registration(name)).await?;
                delete(&garden, &chart::deployment(name, Vec::new())).await?;
            }
            Ok(())
        };
        let gone = self.follower.until("gone", |seen| seen.count(prefix) == 0);
        tokio::try_join!(deleted, gone).map(drop)
    }

    /// Leaves the landscape alone for a while, then looks at it.
    async fn standing(&self) -> Standing {
        tokio::time::sleep(SETTLE).await;
        let (worked, started) = (self.landscape.processor_seconds(), Instant::now());
        tokio::time::sleep(SETTLE).await;
        Standing {
            milliseconds: (self.landscape.processor_seconds() - worked) * 1e3 / started.elapsed().as_secs_f64(),
            megabytes: self.landscape.own_megabytes().unwrap_or(f64::NAN),
        }
    }
}

/// The figure below which a part of all lie.
fn at(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len() as f64 * part) as usize;
    let place = place.min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// Where an object of the garden is written, its name, and it.
fn place(garden: &Client, object: &Value) -> Result<(Api<DynamicObject>, String, DynamicObject), String> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| format!("no object: {error}"))?;
    let types = object.types.clone().unwrap_or_default();
    let kind = (&types).try_into().map_err(|error| format!("no kind: {error}"))?;
    let name = object.metadata.name.clone().unwrap_or_default();
    Ok((
        Api::all_with(garden.clone(), &ApiResource::from_gvk(&kind)),
        name,
        object,
    ))
}

async fn create(garden: &Client, object: Value) -> Result<(), String> {
    let (api, name, object) = place(garden, &object)?;
    let created = api.create(&PostParams::default(), &object).await;
    created
        .map(drop)
        .map_err(|error| format!("cannot create {name}: {error}"))
}

async fn delete(garden: &Client, object: &Value) -> Result<(), String> {
    let (api, name, _) = place(garden, object)?;
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted
        .map(drop)
        .map_err(|error| format!("cannot delete {name}: {error}"))
}
