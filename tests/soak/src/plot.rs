//! Draws samples: two panels over one axis of minutes, readable on light and on dark paper. Writes SVG by itself.

use std::fmt::Write as _;

use crate::product::Event;
use crate::sample::{Phase, Sample};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 576.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 884.0;
/// Top and bottom of each panel.
const PANELS: [(f64, f64); 2] = [(84.0, 292.0), (366.0, 524.0)];
/// About so many lines across a panel.
const TICKS: f64 = 5.0;

const STYLE: &str = "\
text{fill:#1f2328;font:12px system-ui,sans-serif}\
.title{font-size:17px;font-weight:600}\
.quiet{fill:#59636e}\
.paper{fill:#fff}\
.grid{stroke:#d1d9e0;stroke-width:1}\
.frame{stroke:#818b98;stroke-width:1;fill:none}\
.phase{fill:#eff2f5}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}\
.a{stroke:#0969da}.b{stroke:#bc4c00}.c{stroke:#8250df}\
.fa{fill:#0969da}.fb{fill:#bc4c00}.fc{fill:#8250df}\
.kill{stroke:#cf222e;stroke-width:1.2}\
.stop{stroke:#cf222e;stroke-width:1.2;stroke-dasharray:3 3}\
@media(prefers-color-scheme:dark){\
text{fill:#f0f6fc}.quiet{fill:#9198a1}.paper{fill:#0d1117}.grid{stroke:#2a313c}.frame{stroke:#656c76}.phase{fill:#151b23}\
.a{stroke:#4493f8}.b{stroke:#f0883e}.c{stroke:#ab7df8}.fa{fill:#4493f8}.fb{fill:#f0883e}.fc{fill:#ab7df8}\
.kill,.stop{stroke:#f85149}}";

/// A line of a panel: its class, what it is called, its figure.
type Line = (&'static str, &'static str, fn(&Sample) -> f64);

const LINES: [&[Line]; 2] = [
    &[
        ("a", "resident, own (RssAnon)", |sample| sample.rss_anon_mb),
        ("b", "resident, files (RssFile)", |sample| sample.rss_file_mb),
        ("c", "state folder on the disk", |sample| sample.folder_mb),
    ],
    &[
        ("a", "Shoots", |sample| sample.shoots as f64),
        ("b", "of them worked on", |sample| sample.under_way as f64),
    ],
];
const UNITS: [&str; 2] = ["MB", "Shoots"];

/// What is drawn.
pub struct Plot<'a> {
    /// Above everything.
    pub title: &'a str,
    /// The lines.
    pub samples: &'a [Sample],
    /// Where a process ended.
    pub events: &'a [Event],
}

impl Plot<'_> {
    /// As a file's text.
    #[must_use]
    pub fn svg(&self) -> String {
        let minutes = self.samples.last().map_or(1.0, |sample| sample.seconds / 60.0).max(0.1);
        let x = |seconds: f64| LEFT + seconds / 60.0 / minutes * (RIGHT - LEFT);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"26\">{}</text>\n",
            escaped(self.title),
            escaped(self.title)
        );
        for (number, &(top, bottom)) in PANELS.iter().enumerate() {
            self.shade(&mut svg, top, bottom, x, number == 0);
            let lines = LINES[number];
            let highest = lines
                .iter()
                .flat_map(|(_, _, figure)| self.samples.iter().map(figure))
                .fold(1.0, f64::max);
            let (step, end) = scale(highest);
            let y = |value: f64| bottom - value / end * (bottom - top);
            let mut tick = 0.0;
            while tick <= end + step / 2.0 {
                let at = y(tick);
                let _ = writeln!(
                    svg,
                    "<path class=\"grid\" d=\"M{LEFT},{at:.1}H{RIGHT}\"/><text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    LEFT - 8.0,
                    at + 4.0,
                    number_of(tick, step)
                );
                tick += step;
            }
            self.marks(&mut svg, top, bottom, x);
            for (class, _, figure) in lines {
                let _ = writeln!(
                    svg,
                    "<path class=\"line {class}\" d=\"{}\"/>",
                    path(self.samples, figure, x, y)
                );
            }
            legend(&mut svg, lines, UNITS[number], top);
            axis(&mut svg, minutes, top, bottom, x, number + 1 == PANELS.len());
        }
        svg += "</svg>\n";
        svg
    }

    /// Every second phase is shaded; their names stand above the first panel.
    fn shade(&self, svg: &mut String, top: f64, bottom: f64, x: impl Fn(f64) -> f64, named: bool) {
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            let Some((from, to)) = self.span(phase) else {
                continue;
            };
            let (from, to) = (x(from), x(to));
            if number % 2 == 1 {
                let _ = writeln!(
                    svg,
                    "<rect class=\"phase\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    to - from,
                    bottom - top
                );
            }
            // A name needs so much room.
            if named && to - from > 46.0 {
                let _ = writeln!(
                    svg,
                    "<text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    (from + to) / 2.0,
                    top - 6.0,
                    phase.name()
                );
            }
        }
    }

    /// From the first sample of a phase to the first of the next.
    fn span(&self, phase: Phase) -> Option<(f64, f64)> {
        let first = self.samples.iter().find(|sample| sample.phase == phase)?;
        let next = self.samples.iter().find(|sample| sample.phase > phase);
        let next = next.or(self.samples.last())?;
        Some((first.seconds, next.seconds))
    }

    fn marks(&self, svg: &mut String, top: f64, bottom: f64, x: impl Fn(f64) -> f64) {
        for event in self.events {
            let class = if event.killed { "kill" } else { "stop" };
            let _ = writeln!(
                svg,
                "<path class=\"{class}\" d=\"M{:.1},{top}V{bottom}\"/>",
                x(event.seconds)
            );
        }
    }
}

fn path(samples: &[Sample], figure: &fn(&Sample) -> f64, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    for (number, sample) in samples.iter().enumerate() {
        let letter = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1},{:.1}", x(sample.seconds), y(figure(sample)));
    }
    path
}

fn legend(svg: &mut String, lines: &[Line], unit: &str, top: f64) {
    let y = top - 26.0;
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\" font-weight=\"600\">{unit}</text>");
    let mut x = LEFT + 70.0;
    for (class, name, _) in lines {
        let _ = writeln!(
            svg,
            "<rect class=\"f{class}\" x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"3\"/><text x=\"{:.1}\" y=\"{y}\">{name}</text>",
            y - 6.0,
            x + 20.0
        );
        // About as wide as its letters are.
        x += 44.0 + 6.4 * name.len() as f64;
    }
    let _ = writeln!(
        svg,
        "<path class=\"kill\" d=\"M{x},{:.1}v13\"/><text x=\"{:.1}\" y=\"{y}\">kill -9</text><path class=\"stop\" d=\"M{:.1},{:.1}v13\"/><text x=\"{:.1}\" y=\"{y}\">stop</text>",
        y - 11.0,
        x + 8.0,
        x + 62.0,
        y - 11.0,
        x + 70.0
    );
}

fn axis(svg: &mut String, minutes: f64, top: f64, bottom: f64, x: impl Fn(f64) -> f64, named: bool) {
    let _ = writeln!(svg, "<path class=\"frame\" d=\"M{LEFT},{top}V{bottom}H{RIGHT}\"/>");
    let (step, _) = scale(minutes * 0.6);
    let mut tick = 0.0;
    while tick <= minutes {
        let at = x(tick * 60.0);
        let _ = writeln!(
            svg,
            "<path class=\"frame\" d=\"M{at:.1},{bottom}v4\"/><text class=\"quiet\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number_of(tick, step)
        );
        tick += step;
    }
    if named {
        let _ = writeln!(
            svg,
            "<text class=\"quiet\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">minutes since the first start</text>",
            bottom + 38.0
        );
    }
}

/// The step between lines, a round number, and the first multiple of it that is high enough.
fn scale(highest: f64) -> (f64, f64) {
    let rough = highest / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    (step, (highest / step).ceil() * step)
}

/// A number on an axis with lines so far apart.
fn number_of(tick: f64, step: f64) -> String {
    if step < 1.0 {
        format!("{tick:.1}")
    } else {
        format!("{tick:.0}")
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_numbers_and_room_for_everything() {
        for (highest, step, end) in [
            (200.0, 50.0, 200.0),
            (2304.0, 500.0, 2500.0),
            (7.0, 2.0, 8.0),
            (1.0, 0.2, 1.0),
        ] {
            let (s, e) = scale(highest);
            assert!((s - step).abs() < 1e-9 && (e - end).abs() < 1e-9, "{highest}: {s} {e}");
        }
    }
}
