//! Measures how long ours and Helm take for a chart, and how much memory: each in a process of its own, with the chart loaded
//! once and rendered again and again, loaded each time, and loaded each time with one engine, as in a gardenlet.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base_helm::values::Values;
use base_helm::{Chart, Engine, Setting};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ours::release;
use crate::real::{RealChart, charts};
use crate::{Answer, Case, Oracle, Outcome};

/// How often a chart is rendered,
const TIMES: usize = 1000;
/// or how long, if that is shorter: Helm needs half a second for the largest.
const TIME_MAX: Duration = Duration::from_secs(4);

/// The measurements of one process. Times are medians of one rendering in milliseconds; memory is the peak of the process, in
/// megabytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    /// Bytes of output
    output: usize,
    /// With the chart loaded once
    loaded: f64,
    /// With the chart loaded each time, and a new engine
    fresh: f64,
    /// With the chart loaded each time, and one engine; Helm's caches nothing
    #[serde(default)]
    one_engine: Option<f64>,
    /// Memory after the first rendering
    once: f64,
    /// Memory at the end
    peak: f64,
    /// How often it was rendered, loaded once
    renderings: usize,
}

/// Measures ours, in the process that [`run`] starts for each chart. Returns the measurements as JSON.
///
/// # Errors
/// The chart cannot be rendered.
pub fn measure(folder: &Path) -> Outcome<String> {
    let load = || Chart::from_folder(folder).map_err(|error| error.to_string());
    let setting = Setting {
        release: release(false),
        ..Setting::default()
    };
    let render = |engine: &Engine, chart: &Chart| -> Outcome<String> {
        let rendered = engine.render(chart, &Values::new(), &setting);
        Ok(rendered.map_err(|error| error.to_string())?.manifest(false))
    };
    let fresh = || render(&Engine::default(), &load()?);
    let output = fresh()?.len();
    let once = peak()?;
    let (fresh, _) = median(fresh)?;
    let (engine, chart) = (Engine::default(), load()?);
    let (loaded, renderings) = median(|| render(&engine, &chart))?;
    let (one_engine, _) = median(|| render(&engine, &load()?))?;
    let measured = Measured {
        output,
        loaded,
        fresh,
        one_engine: Some(one_engine),
        once,
        peak: peak()?,
        renderings,
    };
    serde_json::to_string(&measured).map_err(|error| error.to_string())
}

fn median(mut render: impl FnMut() -> Outcome<String>) -> Outcome<(f64, usize)> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < TIMES && begun.elapsed() < TIME_MAX {
        let start = Instant::now();
        render()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((middle(&mut times), times.len()))
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn peak() -> Outcome<f64> {
    let peak = tests_parts::memory_kib(std::process::id(), "VmHWM");
    Ok(peak.ok_or("the machine does not report this process' memory")? as f64 / 1024.0)
}

/// Measures both for each published chart: prints a line for each, and the medians of how much better ours is.
///
/// # Errors
/// The charts, Helm's program or our own are missing.
pub fn run(filter: &str, mut print: impl FnMut(String)) -> Outcome {
    print(format!(
        "{:<44} {:>8} {:>18} {:>20} {:>10} {:>16}",
        "milliseconds and megabytes, ours / Helm's",
        "output",
        "loaded once",
        "loaded each time",
        "one engine",
        "memory"
    ));
    let mut better = [(); 5].map(|()| Vec::new());
    let mut all = charts()?;
    all.retain(|chart| chart.name.contains(filter));
    for chart in all {
        let theirs = match of_helm(&chart)? {
            Answer::Output(text) => text,
            // Some charts need values, or have their dependencies elsewhere.
            Answer::Error(_) => continue,
        };
        let [ours, theirs] = [of_ours(&chart)?, theirs]
            .map(|line| serde_json::from_str::<Measured>(&line).map_err(|error| format!("{line}: {error}")));
        let (ours, theirs) = (ours?, theirs?);
        let one_engine = ours
            .one_engine
            .ok_or("our own program has not reported how long it takes with one engine")?;
        print(format!(
            "{:<44} {:>8} {:>8.3} / {:>7.2} {:>8.2} / {:>9.2} {:>10.2} {:>6.0} / {:>7.0}",
            short(&chart.name),
            ours.output,
            ours.loaded,
            theirs.loaded,
            ours.fresh,
            theirs.fresh,
            one_engine,
            ours.once,
            theirs.once
        ));
        for (all, (ours, theirs)) in better.iter_mut().zip([
            (ours.loaded, theirs.loaded),
            (ours.fresh, theirs.fresh),
            (one_engine, theirs.fresh),
            (ours.once, theirs.once),
            (ours.peak, theirs.peak),
        ]) {
            all.push(theirs / ours);
        }
    }
    let count = better[0].len();
    let [loaded, fresh, one_engine, once, peak] = better.map(|mut values| middle(&mut values));
    print(format!(
        "{count} charts, medians: {loaded:.1} times faster loaded once, {fresh:.1} times loaded each time, \
         {one_engine:.1} times with one engine; memory {once:.1} times less for one rendering, {peak:.1} times less for all"
    ));
    Ok(())
}

/// The last parts of a path, as far as they fit into a line.
fn short(name: &str) -> &str {
    let cut = name.len().saturating_sub(43);
    let cut = (cut..=name.len()).find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    &name[cut..]
}

fn of_helm(chart: &RealChart) -> Outcome<Answer> {
    let request = json!({"Path": chart.folder(), "Times": TIMES, "Seconds": TIME_MAX.as_secs_f64()});
    // A process for each, so that none has the memory of the one before.
    Oracle::start()?.answer(&Case::of_value("measure", request))
}

fn of_ours(chart: &RealChart) -> Outcome<String> {
    let program = env::current_exe().map_err(|error| format!("our own program is not known: {error}"))?;
    let output = Command::new(program).arg("--measure").arg(chart.folder()).output();
    let output = output.map_err(|error| format!("cannot start our own program: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{}: {}",
            chart.name,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
