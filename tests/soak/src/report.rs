//! What stays of a soak: samples, events, a table and a plot, in one folder.

use std::fs;
use std::path::Path;

use crate::plot::Plot;
use crate::product::Event;
use crate::sample::{self, Sample};
use crate::tally::Tally;
use crate::verdict::Finding;

const SAMPLES: &str = "samples.csv";
const EVENTS: &str = "restarts.csv";
const TITLE: &str = "title.txt";
const PLOT: &str = "soak.svg";
const REPORT: &str = "report.md";

/// Writes everything.
///
/// # Errors
/// A file that cannot be written.
pub fn write(
    folder: &Path,
    title: &str,
    samples: &[Sample],
    events: &[Event],
    tally: &Tally,
    findings: &[Finding],
) -> Result<(), String> {
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    put(SAMPLES, &sample::write(samples))?;
    put(EVENTS, &events.iter().map(line).collect::<String>())?;
    put(TITLE, title)?;
    put(REPORT, &report(title, samples, events, tally, findings))?;
    draw(folder).map(drop)
}

/// Draws the plot from the files of a folder; gives its path.
///
/// # Errors
/// A file that is not there or not as it was written.
pub fn draw(folder: &Path) -> Result<std::path::PathBuf, String> {
    let get = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let samples = sample::read(&get(SAMPLES)?).map_err(|why| format!("{}: {why}", folder.join(SAMPLES).display()))?;
    let events: Option<Vec<Event>> = get(EVENTS)?.lines().map(event).collect();
    let events = events.ok_or_else(|| format!("{} has a line that is no restart", folder.join(EVENTS).display()))?;
    let title = get(TITLE)?;
    let plot = Plot {
        title: title.trim(),
        samples: &samples,
        events: &events,
    };
    let path = folder.join(PLOT);
    fs::write(&path, plot.svg()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

fn line(event: &Event) -> String {
    let how = if event.killed { "kill" } else { "stop" };
    format!("{:.1},{how},{:.1}\n", event.seconds, event.back_after)
}

fn event(line: &str) -> Option<Event> {
    let (seconds, rest) = line.split_once(',')?;
    let (how, back_after) = rest.split_once(',')?;
    Some(Event {
        seconds: seconds.parse().ok()?,
        killed: how == "kill",
        back_after: back_after.parse().ok()?,
    })
}

fn report(title: &str, samples: &[Sample], events: &[Event], tally: &Tally, findings: &[Finding]) -> String {
    let mut text = format!("# {title}\n\n{}\n", tally.table());
    text += "| end | at, min | a Shoot can be taken again after, s |\n|---|--:|--:|\n";
    for event in events {
        let how = if event.killed { "`kill -9`" } else { "orderly" };
        text += &format!("| {how} | {:.1} | {:.1} |\n", event.seconds / 60.0, event.back_after);
    }
    text += "\n| rule | found | |\n|---|---|---|\n";
    for finding in findings {
        let verdict = if finding.holds { "holds" } else { "**does not hold**" };
        text += &format!("| {} | {} | {verdict} |\n", finding.rule, finding.found);
    }
    let most = |figure: fn(&Sample) -> f64| samples.iter().map(figure).fold(0.0, f64::max);
    text += &format!(
        "\nPeaks: {:.0} MB resident, {:.0} threads, {:.0} open files, {:.0} MB state folder, load {:.1}.\n",
        most(|sample| sample.rss_anon_mb + sample.rss_file_mb),
        most(|sample| sample.threads as f64),
        most(|sample| sample.open_files as f64),
        most(|sample| sample.folder_mb),
        most(|sample| sample.load)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_read_as_it_was_written() {
        let one = Event {
            seconds: 91.5,
            killed: true,
            back_after: 3.2,
        };
        assert_eq!(event(line(&one).trim()), Some(one));
        assert_eq!(event("soon,kill,1"), None);
    }
}
