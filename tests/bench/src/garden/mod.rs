//! The garden's API alone with many Shoots in one project: what requests take, how soon the scheduler has placed all of them,
//! memory, the folder, a start from that folder, and Shoots of one megabyte. The real gardener-apiserver is not measured
//! beside it: it is in no package registry.

pub(crate) mod etcd;
mod figures;
mod large;
mod objects;
pub(crate) mod processes;

use std::path::Path;
use std::time::{Duration, Instant};

use tests_conformance::Connection;

use self::figures::{Figure, print_medians, print_run};
use crate::load::{Taken, Target, send_all};
use crate::process::Place;
use crate::server::{Server, Start};

/// How much is sent.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times; the median is reported, with the least and the greatest
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) runs: u8,
    /// Shoots that are created
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// Runs no controller and no scheduler, so that nothing but requests writes
    #[arg(long)]
    pub(crate) requests_alone: bool,
}

/// Requests under way at a time.
const AT_ONCE: usize = 8;
/// So many of the Shoots are patched.
const PATCHED_MAX: u32 = 1_000;
/// How often the whole list is read, whole and by pages.
const LISTS: usize = 10;
/// Between two looks for Shoots without a seed.
const LOOK: Duration = Duration::from_millis(100);
/// Far beyond what it takes to place all Shoots.
const GIVE_UP: Duration = Duration::from_secs(3_600);
/// How long nothing is done before memory is read: the allocator gives back within ten seconds what has been freed.
const REST: Duration = Duration::from_secs(12);
/// A process that works less than this part of the time is at rest.
const IDLE: f64 = 0.02;

/// Measures a garden in a folder and one in memory and prints every run and the medians.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    for place in [Place::Folder, Place::Memory] {
        let name = place.name();
        let mut all = Vec::new();
        for number in 1..=arguments.runs {
            let figures = measure(place, arguments, program).await?;
            print_run(&format!("{name}, run {number}"), &figures);
            all.push(figures);
        }
        let (count, runs) = (arguments.count, arguments.runs);
        print_medians(&format!("{count} Shoots {name}, medians of {runs}"), &all);
    }
    Ok(())
}

async fn measure(place: Place, arguments: &Arguments, program: &Path) -> Result<Vec<Figure>, String> {
    let mut flags = vec!["garden", "--port", "0"];
    if let Place::Memory = place {
        flags.push("--memory");
    }
    if arguments.requests_alone {
        flags.push("--controllers=");
    }
    let start = Start {
        program,
        arguments: &flags,
        kubeconfig: "garden.kubeconfig",
    };
    let server = Server::start(&start).await?;
    let mut figures = vec![
        Figure::milliseconds("start to ready, empty", server.ready_after),
        Figure::new("memory, empty", "MB", server.target.megabytes()),
    ];
    prepare(&server.target).await?;
    writes(&server.target, arguments, &mut figures).await?;
    if let Place::Memory = place {
        settle(&server.target).await?;
        memory(&server.target, &mut figures);
        return Ok(figures);
    }
    lists(&server.target, arguments.count, &mut figures).await?;
    settle(&server.target).await?;
    memory(&server.target, &mut figures);
    let megabytes = server.folder_bytes()? as f64 / 1e6;
    figures.push(Figure::new("folder", "MB", megabytes));
    let server = server.restart(&start).await?;
    restarted(&server, arguments.count, &mut figures).await?;
    settle(&server.target).await?;
    figures.push(Figure::new("memory after that start", "MB", server.target.megabytes()));
    large::measure(&server.target, &mut figures).await?;
    Ok(figures)
}

async fn prepare(target: &Target) -> Result<(), String> {
    let mut connection = target.endpoint.connect().await?;
    for call in objects::preparations() {
        let answer = connection.send(&call).await?;
        if !answer.status.is_success() {
            let answered = String::from_utf8_lossy(&answer.body);
            return Err(format!("{} {}: {} {answered}", call.method, call.path, answer.status));
        }
    }
    Ok(())
}

/// Creates the Shoots, waits until all have a seed, and patches some.
async fn writes(target: &Target, arguments: &Arguments, figures: &mut Vec<Figure>) -> Result<(), String> {
    let create = (0..arguments.count).map(objects::create);
    let (begun, before) = (Instant::now(), target.processor_seconds());
    let taken = send_all(target, create.collect(), AT_ONCE).await?;
    phase("create", taken, figures);
    if !arguments.requests_alone {
        until_placed(target).await?;
        let worked = (target.processor_seconds() - before) * 1e3 / f64::from(arguments.count);
        figures.push(Figure::new("all placed after", "s", begun.elapsed().as_secs_f64()));
        figures.push(Figure::new("create and place: processor", "ms each", worked));
    }
    let patch = (0..arguments.count.min(PATCHED_MAX)).map(objects::patch);
    let taken = send_all(target, patch.collect(), AT_ONCE).await?;
    phase("merge patch", taken, figures);
    Ok(())
}

/// Waits until the scheduler has given every Shoot a seed.
async fn until_placed(target: &Target) -> Result<(), String> {
    let mut connection = target.endpoint.connect().await?;
    let begun = Instant::now();
    let call = objects::without_seed();
    while begun.elapsed() < GIVE_UP {
        let answer = connection.send(&call).await?;
        if !answer.status.is_success() {
            return Err(format!("{}: {}", call.path, answer.status));
        }
        if objects::is_empty_list(&answer.body) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(format!("there are still Shoots without a seed after {GIVE_UP:?}"))
}

/// Reads the list whole and by pages, one request at a time.
async fn lists(target: &Target, count: u32, figures: &mut Vec<Figure>) -> Result<(), String> {
    let mut connection = target.endpoint.connect().await?;
    let mut bytes = 0;
    for (what, paged) in [("list", false), ("list by pages of 500", true)] {
        let (begun, before) = (Instant::now(), target.processor_seconds());
        for _ in 0..LISTS {
            bytes = if paged {
                pages(&mut connection, count).await?
            } else {
                whole(&mut connection).await?
            };
        }
        let taken = Taken {
            requests: LISTS,
            time: begun.elapsed(),
            processor_seconds: target.processor_seconds() - before,
        };
        phase(what, taken, figures);
    }
    figures.push(Figure::new("bytes of a list", "MB", bytes as f64 / 1e6));
    Ok(())
}

/// Reads the whole list in one answer; its bytes.
async fn whole(connection: &mut Connection) -> Result<usize, String> {
    let call = objects::list();
    let answer = connection.send(&call).await?;
    if !answer.status.is_success() {
        return Err(format!("{}: {}", call.path, answer.status));
    }
    Ok(answer.body.len())
}

/// Reads all pages; their bytes.
async fn pages(connection: &mut Connection, count: u32) -> Result<usize, String> {
    let (mut bytes, mut read, mut token) = (0, 0, String::new());
    let expected = count.div_ceil(objects::PAGE);
    loop {
        let call = objects::page(&token);
        let answer = connection.send(&call).await?;
        if !answer.status.is_success() {
            return Err(format!("{}: {}", call.path, answer.status));
        }
        (bytes, read) = (bytes + answer.body.len(), read + 1);
        match objects::continue_token(&answer.body) {
            Some(next) if read < expected => token = next,
            None if read == expected => return Ok(bytes),
            Some(_) | None => return Err(format!("{read} pages were read of {expected}")),
        }
    }
}

/// What the first list after a start from the folder took.
async fn restarted(server: &Server, count: u32, figures: &mut Vec<Figure>) -> Result<(), String> {
    let mut connection = server.target.endpoint.connect().await?;
    whole(&mut connection).await?;
    let listed = server.begun.elapsed();
    let worked = server.target.processor_seconds();
    let what = format!("start with {count} Shoots");
    figures.push(Figure::milliseconds(&format!("{what}, to ready"), server.ready_after));
    figures.push(Figure::milliseconds(&format!("{what}, to the first list"), listed));
    figures.push(Figure::new(&format!("{what}: processor"), "ms", worked * 1e3));
    Ok(())
}

/// Waits until controllers have nothing left to do and the allocator has given back what was freed.
async fn settle(target: &Target) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < GIVE_UP {
        let before = target.processor_seconds();
        tokio::time::sleep(REST).await;
        if target.processor_seconds() - before < IDLE * REST.as_secs_f64() {
            return Ok(());
        }
    }
    Err(format!("the garden is not at rest after {GIVE_UP:?}"))
}

fn memory(target: &Target, figures: &mut Vec<Figure>) {
    figures.push(Figure::new("memory, peak", "MB", target.peak_megabytes()));
    figures.push(Figure::new("memory at rest", "MB", target.megabytes()));
}

fn phase(what: &str, taken: Taken, figures: &mut Vec<Figure>) {
    figures.push(Figure::new(what, "a second", taken.per_second()));
    figures.push(Figure::new(
        &format!("{what}: processor"),
        "ms each",
        taken.milliseconds_each(),
    ));
}
