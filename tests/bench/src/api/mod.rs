//! The embedded API server beside kube-apiserver with etcd, in one run and one after the other: what a client gets done in a
//! second, what that costs the server's processors, how soon watches tell, memory and start. The load comes from the same
//! machine, so that the figures of the quicker one are held down by its client more than those of the slower one.

mod requests;
mod subject;

use std::path::Path;
use std::sync::Arc;

use self::requests::{Kind, name, preparations};
use self::subject::{Subject, Which};
use crate::landscape::{median, shown};
use crate::load::{Taken, Target, send_all};
use crate::watches::{Delivered, Load, deliver, version};

/// How much is sent.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times each server is started and measured; the medians are reported
    #[arg(long, default_value_t = 3)]
    runs: u8,
    /// Measures the embedded API server alone, without a word on its peer
    #[arg(long)]
    alone: bool,
    /// Objects that are created, changed, read and listed; 0 leaves them out
    #[arg(long, default_value_t = 5_000)]
    objects: usize,
    /// Bytes of payload of each
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// How often the whole list is read
    #[arg(long, default_value_t = 100)]
    lists: usize,
    /// Requests under way at a time
    #[arg(long, default_value_t = 32)]
    at_once: usize,
    /// Objects of 2,048 bytes with which memory is measured; 0 leaves it out
    #[arg(long, default_value_t = 50_000)]
    stored: usize,
    /// Watchers of one kind of object, beside a measurement with one; 0 leaves them out. On two cores kube-apiserver cuts some of
    /// 1,000 off
    #[arg(long, default_value_t = 200)]
    watchers: usize,
    /// Changes that they receive, each second
    #[arg(long, default_value_t = 1_000)]
    changes: usize,
}

/// So many lists at once as there are processors to answer them on a small machine.
const LISTS_AT_ONCE: usize = 2;
/// Bytes of each object when memory is measured.
const STORED_BYTES: usize = 2_048;
/// Objects that are changed in turn while others watch.
const CHANGED: usize = 100;
/// How long changes are sent to watchers.
const WATCH_SECONDS: usize = 5;
/// Changes a second that one watcher receives.
const FEW_CHANGES: usize = 100;

/// One figure of one server.
struct Figure {
    what: String,
    unit: &'static str,
    value: f64,
    /// Whether the greater one is better.
    more: bool,
}

/// Measures both, prints every figure beside its peer.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    for (ours, real) in Which::PAIRS {
        println!("{} beside {}, medians of {}:", ours.name(), real.name(), arguments.runs);
        let (mut of_ours, mut of_real) = (Vec::new(), Vec::new());
        for number in 1..=arguments.runs {
            for (which, all) in [(ours, &mut of_ours), (real, &mut of_real)] {
                if arguments.alone && which == real {
                    continue;
                }
                eprintln!("  run {number}: {}", which.name());
                all.push(measure(which, arguments, program).await?);
            }
        }
        for (place, figure) in of_ours
            .first()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let middle = |runs: &[Vec<Figure>]| {
                median(
                    runs.iter()
                        .filter_map(|figures| figures.get(place))
                        .map(|figure| figure.value),
                )
            };
            let mine = middle(&of_ours);
            if arguments.alone {
                println!("  {:<44} {:>10} {}", figure.what, shown(mine), figure.unit);
                continue;
            }
            let theirs = middle(&of_real);
            let better = if figure.more { mine / theirs } else { theirs / mine };
            println!(
                "  {:<44} {:>10} {:>10} {:<8} {better:>6.1} times better",
                figure.what,
                shown(mine),
                shown(theirs),
                figure.unit
            );
        }
    }
    Ok(())
}

async fn measure(which: Which, arguments: &Arguments, program: &Path) -> Result<Vec<Figure>, String> {
    let subject = Subject::start(which, program).await?;
    let mut figures = vec![
        Figure {
            what: "start to ready".to_owned(),
            unit: "ms",
            value: subject.ready_after.as_secs_f64() * 1e3,
            more: false,
        },
        Figure {
            what: "memory, empty".to_owned(),
            unit: "MB",
            value: subject.target.megabytes(),
            more: false,
        },
    ];
    prepare(&subject).await?;
    for kind in [Kind::Configmaps, Kind::Widgets]
        .into_iter()
        .filter(|_| arguments.objects > 0)
    {
        phases(&subject, kind, arguments, &mut figures).await?;
    }
    for (watchers, per_second) in [(1, FEW_CHANGES), (arguments.watchers, arguments.changes)] {
        if watchers > 0 {
            let load = load(&subject.target, watchers, per_second).await?;
            add_figures(&load, &deliver(&subject.target, &load).await?, &mut figures);
        }
    }
    drop(subject);
    if arguments.stored > 0 {
        figures.push(stored(which, arguments, program).await?);
    }
    Ok(figures)
}

async fn prepare(subject: &Subject) -> Result<(), String> {
    let mut connection = subject.target.endpoint.connect().await?;
    for call in preparations() {
        let answer = connection.send(&call).await?;
        if !answer.status.is_success() {
            return Err(format!("{}: {}", call.path, answer.status));
        }
    }
    // Real Kubernetes serves a definition a moment after it has taken it.
    while !connection.send(&Kind::Widgets.list()).await?.status.is_success() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn phases(subject: &Subject, kind: Kind, arguments: &Arguments, figures: &mut Vec<Figure>) -> Result<(), String> {
    let names: Vec<String> = (0..arguments.objects).map(name).collect();
    let create = names.iter().map(|name| kind.create(name, arguments.bytes));
    let taken = send_all(&subject.target, create.collect(), arguments.at_once).await?;
    phase(kind, "create", taken, figures);
    let patch = names.iter().map(|name| kind.patch(name, "yes"));
    let taken = send_all(&subject.target, patch.collect(), arguments.at_once).await?;
    phase(kind, "merge patch", taken, figures);
    let apply = names.iter().map(|name| kind.apply(name));
    let taken = send_all(&subject.target, apply.collect(), arguments.at_once).await?;
    phase(kind, "apply", taken, figures);
    let get = names.iter().map(|name| kind.get(name));
    let taken = send_all(&subject.target, get.collect(), arguments.at_once).await?;
    phase(kind, "get", taken, figures);
    let lists = (0..arguments.lists).map(|_| kind.list());
    let taken = send_all(&subject.target, lists.collect(), LISTS_AT_ONCE).await?;
    phase(kind, "list of all", taken, figures);
    Ok(())
}

fn phase(kind: Kind, what: &str, taken: Taken, figures: &mut Vec<Figure>) {
    let what = format!("{}: {what}", kind.name());
    figures.push(Figure {
        what: format!("{what}, processor"),
        unit: "ms each",
        value: taken.milliseconds_each(),
        more: false,
    });
    figures.push(Figure {
        what,
        unit: "a second",
        value: taken.per_second(),
        more: true,
    });
}

/// So many watch all ConfigMaps, of which some are changed in turn.
async fn load(target: &Target, watchers: usize, per_second: usize) -> Result<Load, String> {
    let kind = Kind::Configmaps;
    let mut connection = target.endpoint.connect().await?;
    let changed = |number: usize| format!("w-{}", name(number % CHANGED));
    for number in 0..CHANGED {
        // They may be there from the measurement before.
        connection.send(&kind.create(&changed(number), 100)).await?;
    }
    // From here on, as a client that has listed.
    let watch = kind.watch(&version(&mut connection, &kind.first()).await?);
    Ok(Load {
        watches: vec![watch; watchers],
        received: per_second * WATCH_SECONDS,
        per_second,
        seconds: WATCH_SECONDS,
        change: Arc::new(move |number, text| kind.patch(&changed(number), text)),
    })
}

fn add_figures(load: &Load, delivered: &Delivered, figures: &mut Vec<Figure>) {
    let what = format!("{} watching, {} changes a second", load.watches.len(), load.per_second);
    for (part, unit, value, more) in [
        ("changes made", "a second", delivered.changes_per_second, true),
        ("delivered", "of 1", delivered.fraction, true),
        ("median", "ms", delivered.median.as_secs_f64() * 1e3, false),
        ("99 of 100 within", "ms", delivered.p99.as_secs_f64() * 1e3, false),
        ("processor", "s", delivered.processor_seconds, false),
    ] {
        figures.push(Figure {
            what: format!("{what}: {part}"),
            unit,
            value,
            more,
        });
    }
}

/// Memory with many objects, in a server of its own.
async fn stored(which: Which, arguments: &Arguments, program: &Path) -> Result<Figure, String> {
    let subject = Subject::start(which, program).await?;
    prepare(&subject).await?;
    let create = (0..arguments.stored).map(|number| Kind::Configmaps.create(&name(number), STORED_BYTES));
    send_all(&subject.target, create.collect(), arguments.at_once).await?;
    Ok(Figure {
        what: format!("memory, {} objects of 2 KB", arguments.stored),
        unit: "MB",
        value: subject.target.megabytes(),
        more: false,
    })
}
