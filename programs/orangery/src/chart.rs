//! `orangery chart`: makes the arguments into what `landscape-charts` takes, prints what it gives, and shows on a
//! terminal how far a chart from a registry has come. It decides nothing about charts.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use landscape_charts::{Pull, Registration, Render, Setting, Watcher, lint, manifests, render};
use landscape_terminal::{Console, Line, Paint};
use tokio::time::Instant;

use crate::cli;

/// What comes faster is not worth a line.
const QUICK: Duration = Duration::from_millis(500);
/// Between two changes of the line.
const REFRESH: Duration = Duration::from_millis(100);

/// Runs the command, and prints to `out`.
///
/// # Errors
/// A chart or values that are not there or that Helm refuses, each with one thing to do; `out` takes no more.
pub(crate) async fn run(command: &cli::Chart, out: &mut dyn Write) -> Result<(), Fault> {
    match command {
        cli::Chart::Render(arguments) => print_rendered(arguments, out).await,
        cli::Chart::Lint(arguments) => print_lint(arguments, out).await,
        cli::Chart::Registration(arguments) => print_registration(arguments, out).await,
    }
}

async fn print_rendered(arguments: &cli::ChartRender, out: &mut dyn Write) -> Result<(), Fault> {
    let (name, chart) = name_and_chart(&arguments.name_and_chart);
    let fetching = Fetching::of(chart);
    let rendered = render(&Render {
        chart,
        name,
        namespace: &arguments.namespace,
        is_upgrade: arguments.is_upgrade,
        setting: &fetching.setting(&arguments.setting),
    })
    .await;
    let mut rendered = fetching.ended(rendered)?;
    if arguments.no_hooks {
        rendered.sorted.hooks.clear();
    }
    print(out, &rendered.manifest(arguments.include_crds))
}

async fn print_lint(arguments: &cli::ChartLint, out: &mut dyn Write) -> Result<(), Fault> {
    let (name, chart) = name_and_chart(&arguments.name_and_chart);
    let fetching = Fetching::of(chart);
    let found = lint(name, chart, &fetching.setting(&arguments.setting)).await;
    let found = fetching.ended(found)?;
    print(out, &found.text())?;
    found.verdict(arguments.strict)
}

async fn print_registration(arguments: &cli::ChartRegistration, out: &mut dyn Write) -> Result<(), Fault> {
    let (name, chart) = name_and_chart(&arguments.name_and_chart);
    let fetching = Fetching::of(chart);
    let made = manifests(&Registration {
        name,
        chart,
        resources: &arguments.resource,
        secondary: arguments.secondary,
        policy: arguments.policy.as_deref(),
        setting: &fetching.setting(&arguments.setting),
    })
    .await;
    print(out, &fetching.ended(made)?)
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), Fault> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Fault::user(format!("cannot print to standard output: {error}"))),
    }
}

/// The words NAME and CHART of a command line.
fn name_and_chart(words: &[String]) -> (Option<&str>, &str) {
    match words {
        [name, chart] => (Some(name), chart),
        [chart] => (None, chart),
        other => unreachable!("the command line takes one or two, not {other:?}"),
    }
}

/// A line on standard error for as long as a chart is fetched.
struct Fetching {
    console: Console,
    watcher: Option<Watcher>,
}

impl Fetching {
    fn of(chart: &str) -> Self {
        let console = Console::of_errors();
        Self {
            watcher: console.draws().then(|| watcher(chart, console.clone())),
            console,
        }
    }

    fn setting(&self, arguments: &cli::ChartSetting) -> Setting {
        let pull = &arguments.pull;
        Setting {
            values: arguments.values.clone(),
            set: arguments.set.clone(),
            set_string: arguments.set_string.clone(),
            set_json: arguments.set_json.clone(),
            set_file: arguments.set_file.clone(),
            set_literal: arguments.set_literal.clone(),
            kube_version: arguments.kube_version.clone(),
            api_versions: arguments.api_versions.clone(),
            pull: Pull {
                version: pull.version.clone(),
                username: pull.username.clone(),
                password: pull.password.clone(),
                password_stdin: pull.password_stdin,
                ca_file: pull.ca_file.clone(),
                cert_file: pull.cert_file.clone(),
                key_file: pull.key_file.clone(),
                insecure_skip_tls_verify: pull.insecure_skip_tls_verify,
                plain_http: pull.plain_http,
                watcher: self.watcher.clone(),
            },
        }
    }

    /// Takes the line away.
    fn ended<T>(self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        self.console.clear();
        outcome
    }
}

/// A progress line of a chart's download, if it takes long.
fn watcher(name: &str, console: Console) -> Watcher {
    let name = name.to_owned();
    let next = Mutex::new(Instant::now() + QUICK);
    Arc::new(move |bytes, of| {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now >= *next {
            *next = now + REFRESH;
            let line = Line::default().with(Paint::Faint, format!("{name}: {}", progress(bytes, of)));
            console.draw(&[line]);
        }
    })
}

fn progress(bytes: u64, of: Option<u64>) -> String {
    let tenths = |bytes: u64| {
        let tenths = bytes.saturating_mul(10) >> 20;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match of {
        Some(of) => format!("{} of {} MiB", tenths(bytes), tenths(of)),
        None => format!("{} MiB", tenths(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use landscape_terminal::{Console, Surroundings};

    use super::{QUICK, progress, watcher};

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_shown_on_a_terminal() {
        let shown = Shown::default();
        let around = Surroundings {
            terminal: true,
            term: "xterm".to_owned(),
            ..Surroundings::default()
        };
        let console = Console::new(around, shown.clone(), || None);
        let watcher = watcher("oci://a/b", console.clone());
        watcher(1, None);
        assert_eq!(shown.text(), "");
        tokio::time::advance(QUICK).await;
        watcher(3 << 20, Some(10 << 20));
        assert!(shown.text().contains("oci://a/b: 3.0 of 10.0 MiB"), "{}", shown.text());
        watcher(4 << 20, Some(10 << 20));
        assert!(!shown.text().contains("4.0 of 10.0 MiB"), "{}", shown.text());
    }

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl Shown {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl std::io::Write for Shown {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_is_printed_in_tenths() {
        assert_eq!(progress(3 << 19, Some(10 << 20)), "1.5 of 10.0 MiB");
        assert_eq!(progress(1, None), "0.0 MiB");
    }
}
