//! The garden as production runs it: each program a process of its own beside a real kube-apiserver and etcd, with the rights of its
//! manifest. Measures what its processes hold at rest, and what many Seeds, extensions and Shoots take them until each Seed has the
//! ControllerInstallations that its Shoots need. No gardenlet and no extension runs.

use std::collections::BTreeSet;
use std::time::Instant;

use api_core::v1beta1::ControllerInstallation;
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tests_parts::Folder;
use tests_production::landscape::OfGarden;

use super::figures::{Figure, print_medians, print_run};
use super::{AT_ONCE, GIVE_UP, REST, objects, prepare};
use crate::load::{Target, send_all};
use crate::process::{megabytes, processor_seconds};

/// How much is created.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times; the median is reported, with the least and the greatest
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// Seeds
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
    /// Registrations of extensions: one for the provider, the others for one type of `Extension` each
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=100))]
    registrations: u32,
    /// Shoots, in turn one for each Seed; each has one of the extensions
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    shoots: u32,
}

impl Arguments {
    /// The Seed of a Shoot; the first is the one of [`objects::preparations`].
    fn seed(&self, shoot: u32) -> String {
        seed(shoot % self.seeds)
    }

    /// The type of a Shoot's extension: Shoots of one Seed have different ones until all types are used.
    fn extension(&self, shoot: u32) -> u32 {
        let (round, seed) = (shoot / self.seeds, shoot % self.seeds);
        (round + seed) % (self.registrations - 1)
    }

    /// How many ControllerInstallations there are in the end: on each Seed the provider's and those of its Shoots' extensions.
    fn installations(&self) -> usize {
        let of_shoots: BTreeSet<_> = (0..self.shoots)
            .map(|shoot| (self.seed(shoot), self.extension(shoot)))
            .collect();
        self.seeds as usize + of_shoots.len()
    }
}

fn seed(number: u32) -> String {
    match number {
        0 => "seed".to_owned(),
        number => format!("seed-{number:04}"),
    }
}

/// Measures and prints every run and the medians.
pub(crate) async fn run(arguments: &Arguments) -> Result<(), String> {
    let mut all = Vec::new();
    for number in 1..=arguments.runs {
        let figures = measure(arguments).await?;
        print_run(&format!("run {number}"), &figures);
        all.push(figures);
    }
    let Arguments {
        seeds,
        registrations,
        shoots,
        runs,
    } = arguments;
    let installations = arguments.installations();
    print_medians(
        &format!(
            "{seeds} Seeds, {registrations} registrations, {shoots} Shoots, {installations} installations, medians of {runs}"
        ),
        &all,
    );
    Ok(())
}

/// The garden's processes.
struct Processes(Vec<(&'static str, u32)>);

impl Processes {
    fn of(garden: &mut OfGarden) -> Result<Self, String> {
        let parts = garden.parts().into_iter();
        parts
            .map(|part| Ok((part.name(), part.process()?)))
            .collect::<Result<_, String>>()
            .map(Self)
    }

    /// Adds a figure of each process, and their sum, which it returns.
    fn push(&self, what: &str, unit: &'static str, figure: impl Fn(u32) -> f64, figures: &mut Vec<Figure>) -> f64 {
        let mut sum = 0.0;
        for (name, process) in &self.0 {
            let value = figure(*process);
            sum += value;
            figures.push(Figure::new(&format!("{what}: {name}"), unit, value));
        }
        figures.push(Figure::new(&format!("{what}: all"), unit, sum));
        sum
    }

    fn worked(&self) -> Vec<(u32, f64)> {
        self.0
            .iter()
            .map(|(_, process)| (*process, processor_seconds(*process)))
            .collect()
    }
}

/// What a process has worked since `before`.
fn since(before: &[(u32, f64)], process: u32) -> f64 {
    let former = before.iter().find(|(number, _)| *number == process);
    processor_seconds(process) - former.map_or(f64::NAN, |(_, seconds)| *seconds)
}

async fn measure(arguments: &Arguments) -> Result<Vec<Figure>, String> {
    let folder = Folder::temporary("orangery-bench-")?;
    let mut garden = OfGarden::alone(folder.path().to_owned()).await?;
    let processes = Processes::of(&mut garden)?;
    let target = Target {
        endpoint: garden.garden.real.endpoint.clone(),
        processes: processes.0.iter().map(|(_, process)| *process).collect(),
    };
    let mut figures = Vec::new();
    tokio::time::sleep(REST).await;
    memory(&processes, "at rest, empty", &mut figures);

    prepare(&target).await?;
    let seeds = (1..arguments.seeds).map(|number| objects::create_seed(&seed(number)));
    send_all(&target, seeds.collect(), AT_ONCE).await?;
    let extensions = (1..arguments.registrations).map(|number| objects::register_extension(&extension(number - 1)));
    send_all(&target, extensions.collect(), AT_ONCE).await?;
    until(&garden.garden.admin, arguments.seeds as usize).await?;

    let (begun, before) = (Instant::now(), processes.worked());
    let shoots = (0..arguments.shoots).map(|number| {
        let type_ = extension(arguments.extension(number));
        objects::create_with_extension(number, &arguments.seed(number), &type_)
    });
    send_all(&target, shoots.collect(), AT_ONCE).await?;
    figures.push(Figure::new("Shoots created after", "s", begun.elapsed().as_secs_f64()));
    until(&garden.garden.admin, arguments.installations()).await?;
    figures.push(Figure::new(
        "all installations after",
        "s",
        begun.elapsed().as_secs_f64(),
    ));
    let worked = processes.push("processor", "s", |process| since(&before, process), &mut figures);
    let each = worked * 1e3 / f64::from(arguments.shoots);
    figures.push(Figure::new("processor for each Shoot", "ms", each));
    processes.push("peak of memory", "MB", |process| of(process, "VmHWM"), &mut figures);
    tokio::time::sleep(REST).await;
    memory(&processes, "at rest, with all", &mut figures);
    let before = processes.worked();
    tokio::time::sleep(REST).await;
    let rest = REST.as_secs_f64();
    let per_second = |process| since(&before, process) * 1e3 / rest;
    processes.push("processor with all", "ms/s", per_second, &mut figures);
    Ok(figures)
}

fn extension(number: u32) -> String {
    format!("extra-{number:02}")
}

fn of(process: u32, figure: &str) -> f64 {
    megabytes(process, figure).unwrap_or(f64::NAN)
}

/// Resident memory, and the part of it that is not pages of files.
fn memory(processes: &Processes, when: &str, figures: &mut Vec<Figure>) {
    processes.push(&format!("memory {when}"), "MB", |process| of(process, "VmRSS"), figures);
    processes.push(
        &format!("anonymous memory {when}"),
        "MB",
        |process| of(process, "RssAnon"),
        figures,
    );
}

/// Waits until there are so many ControllerInstallations.
async fn until(garden: &Client, count: usize) -> Result<(), String> {
    let api: Api<ControllerInstallation> = Api::all(garden.clone());
    let mut events = base_client::watch(api, watcher::Config::default()).boxed();
    let mut there = BTreeSet::new();
    let waited = tokio::time::timeout(GIVE_UP, async {
        while there.len() < count {
            match events.next().await {
                Some(Ok(Event::Apply(object) | Event::InitApply(object))) => drop(there.insert(object.name_any())),
                Some(Ok(Event::Delete(object))) => drop(there.remove(&object.name_any())),
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => return Err(format!("cannot watch ControllerInstallations: {error}")),
                None => return Err("the watch has ended".to_owned()),
            }
        }
        Ok(())
    });
    waited
        .await
        .map_err(|_| format!("there are not {count} ControllerInstallations after {GIVE_UP:?}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_has_the_provider_and_one_extension_for_each_of_its_shoots() {
        let arguments = |seeds, registrations, shoots| Arguments {
            runs: 1,
            seeds,
            registrations,
            shoots,
        };
        assert_eq!(arguments(50, 30, 500).installations(), 550);
        assert_eq!(arguments(2, 3, 100).installations(), 6, "all extensions on both");
        assert_eq!(arguments(250, 30, 10_000).installations(), 7_500);
        let one = arguments(2, 3, 4);
        let placed: Vec<_> = (0..4).map(|shoot| (one.seed(shoot), one.extension(shoot))).collect();
        let expected = [("seed", 0), ("seed-0001", 1), ("seed", 1), ("seed-0001", 0)];
        assert_eq!(placed, expected.map(|(seed, type_)| (seed.to_owned(), type_)));
    }
}
