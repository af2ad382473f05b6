//! What `up --example` shows, as pictures and as lines, from a scripted run; and how a terminal is written to.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use api_core::v1beta1::Shoot;
use base_flow_run::{Event, FlowEnd, Planned, What};
use jiff::Timestamp;
use landscape_terminal::{Canvas, Console, Letters, Line, Paint, Plain, Surroundings, View, frame, summary};
use serde_json::{Value, json};
use tests_kit::assert_golden;

fn golden(name: &str, actual: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/live");
    assert_golden(format!("{folder}/{name}.txt"), actual);
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_767_225_600_000 + millis).unwrap()
}

/// The tasks of the scripted flow with what they wait for, by number.
const TASKS: [(&str, &[usize]); 9] = [
    ("Deploying control plane namespace", &[]),
    ("Initializing secrets management", &[0]),
    ("Deploying Shoot infrastructure", &[1]),
    ("Waiting until Shoot infrastructure has been reconciled", &[2]),
    ("Waiting until the BackupEntry for ETCD data has been reconciled", &[0]),
    ("Deploying main and events ETCDs", &[1, 4]),
    ("Deploying referenced resources", &[0]),
    ("Deploying Kubernetes API server", &[3, 5]),
    ("Waiting until Kubernetes API server rolled out", &[7]),
];

fn task(number: usize) -> String {
    TASKS[number].0.to_owned()
}

fn start(number: usize) -> What {
    What::TaskStarted { task: task(number) }
}

fn done(number: usize) -> What {
    What::TaskSucceeded {
        task: task(number),
        failed_before: false,
    }
}

fn waits(number: usize, object: &str, reason: &str) -> What {
    What::TaskWaits {
        task: task(number),
        object: object.into(),
        reason: reason.into(),
    }
}

fn begins() -> What {
    let plan = |(name, after): &(&str, &[usize])| Planned {
        task: (*name).to_owned(),
        after: after.iter().map(|number| task(*number)).collect(),
    };
    What::FlowStarted {
        tasks: TASKS.len(),
        skipped: 1,
        plan: TASKS.iter().map(plan).collect(),
    }
}

const ENTRY: &str = "BackupEntry garden-local/local--1";
const NETWORK: &str = "Infrastructure shoot--local--local/local";
const NOT_PICKED_UP: &str = "extension \"local\" has not picked up the operation \"reconcile\" yet";

/// Up to where nothing has failed for good: two tasks wait, one is between two tries.
fn half() -> Vec<(i64, What)> {
    vec![
        (120, begins()),
        (
            120,
            What::TaskSkipped {
                task: "Deploying external domain DNS record".into(),
                reason: "no external domain".into(),
            },
        ),
        (120, start(0)),
        (150, done(0)),
        (150, start(1)),
        (150, start(4)),
        (151, start(6)),
        (160, waits(4, ENTRY, "it has not been reconciled yet")),
        (
            170,
            What::TaskRetried {
                task: task(6),
                attempts: 1,
                error: "write Secret ref-tls in shoot--local--local: the API server\nanswered 503".into(),
                wait_ms: 14_000,
            },
        ),
        (560, done(1)),
        (560, start(2)),
        (570, done(2)),
        (570, start(3)),
        (580, waits(3, NETWORK, NOT_PICKED_UP)),
    ]
}

/// From there: the infrastructure fails, everything else that can be done is done.
fn failure() -> Vec<(i64, What)> {
    let mut all = half();
    all.extend([
        (13_000, done(4)),
        (13_000, start(5)),
        (13_200, done(5)),
        (14_170, done(6)),
        (
            31_000,
            What::TaskFailed {
                task: task(3),
                error: format!("{NETWORK}: quota of region exceeded"),
                codes: vec!["ERR_INFRA_QUOTA_EXCEEDED".into()],
            },
        ),
        (31_000, What::FlowFinished { end: FlowEnd::Failed }),
    ]);
    all
}

/// Or everything is done.
fn success() -> Vec<(i64, What)> {
    let mut all = half();
    all.extend([
        (900, done(4)),
        (900, start(5)),
        (1_000, done(5)),
        (1_400, done(6)),
        (2_570, done(3)),
        (2_570, start(7)),
        (2_580, done(7)),
        (2_580, start(8)),
        (2_960, done(8)),
        (
            2_960,
            What::FlowFinished {
                end: FlowEnd::Succeeded,
            },
        ),
    ]);
    all
}

fn shoot(status: Value) -> Shoot {
    let mut shoot: Shoot = serde_json::from_value(json!({
        "metadata": {"name": "local", "namespace": "garden-local", "generation": 1},
        "spec": {"region": "local", "kubernetes": {"version": "1.35.0"}, "provider": {"type": "local"}},
    }))
    .unwrap();
    shoot.status = Some(serde_json::from_value(status).unwrap());
    shoot
}

fn operation(state: &str, progress: i32, description: &str, errors: Value) -> Shoot {
    shoot(json!({
        "observedGeneration": 1,
        "gardener": {"id": "", "name": "", "version": ""}, "hibernated": false, "technicalID": "", "uid": "",
        "lastOperation": {
            "type": "Create", "state": state, "progress": progress, "description": description,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        },
        "lastErrors": errors,
    }))
}

fn view(story: &[(i64, What)], shoot: &Shoot) -> View {
    let mut view = View::new("garden-local/local", at(0));
    for (millis, what) in story {
        view.take(&event(*millis, what));
    }
    view.see(Some(shoot));
    view
}

fn event(millis: i64, what: &What) -> Event {
    Event {
        time: at(millis),
        flow: "Shoot cluster reconciliation".into(),
        what: what.clone(),
    }
}

fn half_way() -> View {
    view(&half(), &operation("Processing", 33, "", json!([])))
}

fn given_up() -> View {
    let errors = json!([{
        "taskID": task(3), "codes": ["ERR_INFRA_QUOTA_EXCEEDED"], "lastUpdateTime": "2026-01-01T00:00:31Z",
        "description": format!("{NETWORK}: quota of region exceeded (to do: ask your provider for a higher quota)"),
    }]);
    view(&failure(), &operation("Failed", 66, "task failed", errors))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

fn canvas(width: usize, height: usize) -> Canvas {
    Canvas {
        width,
        height,
        letters: Letters::Unicode,
    }
}

/// What is not a terminal: lines are as long as they are.
const PAPER: Canvas = Canvas {
    width: usize::MAX,
    height: usize::MAX,
    letters: Letters::Unicode,
};

#[test]
fn pictures_half_way_match_their_goldens() {
    for width in [40, 80, 160] {
        let picture = frame(&half_way(), at(2_345), canvas(width, 23));
        golden(&format!("half-way-{width}"), &text(&picture));
    }
    let ascii = Canvas {
        letters: Letters::Ascii,
        ..canvas(80, 8)
    };
    golden("half-way-ascii-short", &text(&frame(&half_way(), at(2_345), ascii)));
}

#[test]
fn pictures_of_trouble_match_their_goldens() {
    for width in [40, 80] {
        golden(
            &format!("given-up-{width}"),
            &text(&frame(&given_up(), at(31_100), canvas(width, 23))),
        );
    }
    let missing = json!([{
        "taskID": "Check required extensions", "lastUpdateTime": "2026-01-01T00:00:00Z",
        "description": "Network of type calico is not registered (to do: register an extension for it)",
    }]);
    let early = view(&[], &operation("Error", 0, "", missing.clone()));
    golden("before-the-flow-80", &text(&frame(&early, at(400), canvas(80, 23))));
    let again = view(&[], &operation("Processing", 0, "", missing));
    assert_eq!(frame(&again, at(500), canvas(80, 23)).len(), 1, "that error is past");
}

#[test]
fn a_picture_never_exceeds_its_canvas() {
    for view in [View::new("garden-local/local", at(0)), half_way(), given_up()] {
        for width in 1..=200 {
            for height in 1..=30 {
                let picture = frame(&view, at(2_345), canvas(width, height));
                assert!(!picture.is_empty() && picture.len() <= height, "{width} x {height}");
                for line in picture {
                    assert!(line.columns() <= width, "{width} x {height}: {}", line.text());
                }
            }
        }
    }
}

#[test]
fn the_percentage_is_the_one_of_the_last_operation() {
    assert_eq!(half_way().percent(), 33, "3 of 9 tasks, as Progress counts");
    let mut behind = half_way();
    behind.miss(7);
    behind.see(Some(&operation("Processing", 55, "", json!([]))));
    assert_eq!(behind.percent(), 55, "events were missed: only the Shoot knows");
}

#[test]
fn last_words_match_their_goldens() {
    let fine = view(&success(), &operation("Succeeded", 100, "", json!([])));
    golden("succeeded", &text(&summary(&fine, at(3_010), PAPER)));
    golden("failed", &text(&summary(&given_up(), at(31_100), PAPER)));
    let narrow = canvas(60, 1);
    golden("succeeded-60", &text(&summary(&fine, at(3_010), narrow)));
    golden("failed-60", &text(&summary(&given_up(), at(31_100), narrow)));
    let already = view(&[], &operation("Succeeded", 100, "", json!([])));
    assert_eq!(
        text(&summary(&already, at(20), PAPER)),
        "garden-local/local: Create Succeeded in 0.02 s\n"
    );
    // The time-out has passed: what is still open is named with what it waits for.
    golden("not-ended", &text(&summary(&half_way(), at(300_000), PAPER)));
}

#[test]
fn plain_lines_report_the_same_story_without_a_flood() {
    let mut view = View::new("garden-local/local", at(0));
    let mut plain = Plain::default();
    let mut lines = plain.standing(&view, at(0));
    view.see(Some(&operation("Processing", 0, "", json!([]))));
    lines.extend(plain.standing(&view, at(100)));
    let story = failure();
    let mut next = story.iter().peekable();
    for tick in 0..400 {
        let now = tick * 100;
        while let Some((millis, what)) = next.next_if(|(millis, _)| *millis <= now) {
            let event = event(*millis, what);
            view.take(&event);
            lines.extend(plain.event(&view, &event));
        }
        lines.extend(plain.late(&view, at(now)));
    }
    view.see(Some(&operation("Failed", 66, "the infrastructure failed", json!([]))));
    lines.extend(plain.standing(&view, at(31_100)));
    golden("plain", &(lines.join("\n") + "\n"));
}

/// What has been written to a console, and the size of its terminal.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

fn terminal() -> Surroundings {
    Surroundings {
        terminal: true,
        logs_here: true,
        term: "xterm-256color".into(),
        no_colour: false,
        locale: "C.UTF-8".into(),
    }
}

#[test]
fn a_picture_is_drawn_in_place_and_lines_that_stay_go_above_it() {
    let paper = Paper::default();
    let width = Arc::new(Mutex::new(80));
    let size = Arc::clone(&width);
    let console = Console::new(terminal(), paper.clone(), move || Some((*size.lock().unwrap(), 24)));
    assert!(console.draws());
    assert_eq!(console.canvas(), canvas(80, 19));
    let line = |text: &str| Line::default().with(Paint::Good, text);
    console.draw(&[line("one"), line("two")]);
    assert_eq!(paper.take(), "\x1b[32mone\x1b[0m\r\n\x1b[32mtwo\x1b[0m\r\n");
    console.draw(&[line("one"), line("two")]);
    assert_eq!(paper.take(), "", "nothing has changed");
    console.draw(&[line("three")]);
    assert_eq!(
        paper.take(),
        "\r\x1b[2A\x1b[2K\r\n\x1b[2K\r\n\x1b[2A\x1b[32mthree\x1b[0m\r\n"
    );
    console.print("stays");
    assert_eq!(
        paper.take(),
        "\r\x1b[1A\x1b[2K\r\n\x1b[1Astays\n\x1b[32mthree\x1b[0m\r\n"
    );
    *width.lock().unwrap() = 2;
    console.clear();
    assert_eq!(
        paper.take(),
        "\r\x1b[3A\x1b[2K\r\n\x1b[2K\r\n\x1b[2K\r\n\x1b[3A",
        "five columns stand in three rows of a terminal that is two wide now"
    );
    console.draw(&[line("four")]);
    paper.take();
    console.leave();
    console.print("below");
    assert_eq!(paper.take(), "below\n");
}

#[test]
fn what_cannot_draw_gets_lines_and_what_wants_no_colour_gets_none() {
    let console = |around: Surroundings| {
        let paper = Paper::default();
        let console = Console::new(around, paper.clone(), || None);
        console.print_lines(&[Line::default().with(Paint::Bad, "x")]);
        (console.draws(), paper.take(), console.canvas().letters)
    };
    let colourless = Surroundings {
        no_colour: true,
        ..terminal()
    };
    assert_eq!(console(colourless), (true, "x\n".into(), Letters::Unicode));
    let dumb = Surroundings {
        term: "dumb".into(),
        locale: "C".into(),
        ..terminal()
    };
    assert_eq!(console(dumb), (false, "x\n".into(), Letters::Ascii));
    let file = Surroundings {
        terminal: false,
        ..terminal()
    };
    assert_eq!(console(file), (false, "x\n".into(), Letters::Unicode));
}
