//! The loop of development in real time: what is reported and installed after each change of a file. Waits by reports.

use std::fs;
use std::io::Write;

use api_meta::Fault;
use futures::FutureExt;
use futures::future::BoxFuture;
use landscape_extension_folder::{Host, Run, Runs, develop};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::bench::{Bench, COPY};

/// A landscape that hands on what it gets.
struct Recorder {
    reports: mpsc::UnboundedSender<String>,
    runs: watch::Sender<Runs>,
}

impl Host for Recorder {
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>> {
        self.reports.send(format!("install {} objects", objects.len())).unwrap();
        async { Ok(()) }.boxed()
    }

    fn line(&self, text: &str) {
        self.reports.send(format!("| {text}")).unwrap();
    }

    fn program_built(&self) {
        // What a node does.
        self.runs.send_modify(|runs| {
            let restarts = runs.0.first().map_or(0, |run| run.restarts + 1);
            runs.0 = vec![run(restarts)];
        });
    }

    fn report(&self, text: &str) {
        self.reports.send(text.to_owned()).unwrap();
    }

    fn colour(&self) -> bool {
        false
    }
}

fn run(restarts: i32) -> Run {
    Run {
        seed: "local".to_owned(),
        pod: "moon".to_owned(),
        uid: "u".to_owned(),
        container: "moon".to_owned(),
        restarts,
        ready: true,
        waits: None,
    }
}

/// What is reported, in order.
struct Reports(mpsc::UnboundedReceiver<String>);

impl Reports {
    /// The next text that begins so; what comes before it is given too.
    async fn until(&mut self, start: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let waiting = async {
            while let Some(text) = self.0.recv().await {
                texts.push(text);
                if texts.last().is_some_and(|text| text.starts_with(start)) {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(tests_kit::WAIT_MAX, waiting).await;
        assert!(waited.is_ok(), "not reported: {start:?}; reported: {texts:?}");
        texts
    }
}

/// Runs the loop on a folder until the story has ended.
async fn follow(bench: &Bench, story: impl AsyncFnOnce(&mut Reports)) {
    let folder = bench.folder().await;
    let (reports, all) = mpsc::unbounded_channel();
    let (runs, seen) = watch::channel(Runs::default());
    let recorder = Recorder { reports, runs };
    let mut reports = Reports(all);
    tokio::select! {
        ended = develop(&folder, &recorder, seen) => unreachable!("{ended:?}"),
        () = story(&mut reports) => {}
    }
}

fn last(texts: &[String]) -> &str {
    texts.last().unwrap()
}

#[tokio::test]
async fn each_change_is_built_and_installed_and_broken_ones_await_the_next() {
    let bench = Bench::new(COPY);
    follow(&bench, async |reports| {
        let first = reports.until("running").await;
        assert!(first[..2] == ["| compiling", "install 2 objects"], "{first:?}");
        assert!(
            first[2].starts_with("built in ") && first[2].ends_with(" s, installed"),
            "{first:?}"
        );

        bench.write("source", "two");
        let second = reports.until("rebuilt in ").await;
        assert!(last(&second).contains(" s, reloaded in "), "{second:?}");
        assert_eq!(fs::read_to_string(bench.path().join("program")).unwrap(), "two");

        bench.write("source", "broken");
        let third = reports.until("not built: ").await;
        assert!(third.contains(&"| broken".to_owned()), "{third:?}");
        bench.write("source", "three");
        reports.until("rebuilt in ").await;

        bench.write("chart/values.yaml", "image: [");
        reports.until("not installed: ").await;
        bench.write("chart/values.yaml", "image: registry.example.org/sun");
        let other = reports.until("not installed: ").await;
        assert!(
            last(&other).contains("no image registry.example.org/moon any more"),
            "{other:?}"
        );
        bench.write("chart/values.yaml", "image: registry.example.org/moon\nreplicas: 1");
        let installed = reports.until("install 2 objects").await;
        assert!(
            !installed.contains(&"| compiling".to_owned()),
            "the chart alone has changed: {installed:?}"
        );

        bench.write("source", "broken");
        bench.write("chart/values.yaml", "image: registry.example.org/moon\nreplicas: 2");
        reports.until("not built: ").await;
        bench.write("source", "four");
        // The chart that could not be installed with a broken source is installed with the corrected one.
        reports.until("install 2 objects").await;
    })
    .await;
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_build_begins_another() {
    // The first build never ends, whatever the source is by then.
    let bench = Bench::new(
        "if mkdir first 2> /dev/null; then mkfifo gate; echo begun; read line < gate; fi; echo begun; cp source program",
    );
    follow(&bench, async |reports| {
        reports.until("| begun").await;
        bench.write("source", "two");
        reports.until("| begun").await;
        reports.until("install 2 objects").await;
    })
    .await;
    assert_eq!(fs::read_to_string(bench.path().join("program")).unwrap(), "two");
}

#[tokio::test]
async fn a_watched_file_may_be_replaced_by_rename_again_and_again() {
    let bench = Bench::new("cp inner/source program.new && mv program.new program");
    bench.write("inner/source", "one");
    bench.settings(|settings| settings["watch"] = serde_json::json!(["inner/source"]));
    follow(&bench, async |reports| {
        reports.until("running").await;
        for text in ["two", "three", "four"] {
            bench.replace("inner/source", text);
            reports.until("rebuilt in ").await;
            assert_eq!(fs::read_to_string(bench.path().join("program")).unwrap(), text);
        }
        fs::remove_file(bench.path().join("inner/source")).unwrap();
        reports.until("not built: ").await;
        bench.write("inner/source", "five");
        reports.until("rebuilt in ").await;
    })
    .await;
}

#[tokio::test]
async fn a_watched_folder_that_is_replaced_is_watched_again() {
    let bench = Bench::new("cp code/deep/source program.new && mv program.new program");
    bench.write("code/deep/source", "one");
    bench.write("other/deep/source", "two");
    bench.settings(|settings| settings["watch"] = serde_json::json!(["code/deep"]));
    follow(&bench, async |reports| {
        reports.until("running").await;
        let rename = |from: &str, to: &str| fs::rename(bench.path().join(from), bench.path().join(to)).unwrap();
        rename("code", "gone");
        rename("other", "code");
        reports.until("rebuilt in ").await;
        bench.write("code/deep/source", "three");
        reports.until("rebuilt in ").await;
        assert_eq!(fs::read_to_string(bench.path().join("program")).unwrap(), "three");
        fs::remove_dir_all(bench.path().join("code")).unwrap();
        reports.until("not built: ").await;
        bench.write("code/deep/source", "four");
        reports.until("rebuilt in ").await;
    })
    .await;
}

#[tokio::test]
async fn a_build_that_writes_into_its_sources_is_bounded_and_named() {
    // It writes once it runs, and ends by itself long after the write was reported.
    let bench = Bench::new("echo begun; date +%N > generated; sleep 2; cat source generated > program");
    bench.settings(|settings| {
        settings.as_object_mut().unwrap().remove("watch");
    });
    follow(&bench, async |reports| {
        let first = reports.until("generated changed while the program was built").await;
        let builds = first.iter().filter(|text| *text == "| begun").count();
        // Three are interrupted, one goes through, and is repeated; a report that comes late makes one of them more or less.
        assert!((4..=6).contains(&builds), "{first:?}");
        let named = first
            .iter()
            .find(|text| text.contains("because generated changed"))
            .unwrap();
        assert!(named.contains("watch of orangery-extension.yaml"), "{named}");
        bench.write("source", "two");
        let second = reports.until("generated changed while the program was built").await;
        let builds = second.iter().filter(|text| *text == "| begun").count();
        assert!((2..=3).contains(&builds), "it is repeated once: {second:?}");
        let program = fs::read_to_string(bench.path().join("program")).unwrap();
        assert!(program.starts_with("two"), "{program}");
        // The source is built, and nothing after it.
        bench.write("chart/values.yaml", "image: [");
        let third = reports.until("not installed: ").await;
        assert!(!third.contains(&"| begun".to_owned()), "{third:?}");
    })
    .await;
}

#[tokio::test]
async fn a_chart_corrected_before_the_first_install_is_installed_without_a_build() {
    let bench = Bench::new("echo begun; read line < gate; cp source program");
    let gate = bench.path().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.unwrap().success());
    // Open for both here, it keeps its lines while no shell has it open, and no shell waits to open it.
    let mut gate = fs::File::options().read(true).write(true).open(gate).unwrap();
    follow(&bench, async |reports| {
        reports.until("| begun").await;
        bench.replace("chart/values.yaml", "image: [");
        // The chart's change has begun another build. The one before may still be dying, and read of the first line.
        reports.until("| begun").await;
        gate.write_all(b"\n\n").unwrap();
        reports.until("not installed: ").await;
        bench.replace("chart/values.yaml", "image: registry.example.org/moon\n");
        let corrected = reports.until("running").await;
        assert_eq!(corrected, ["install 2 objects", "installed", "running"]);
    })
    .await;
}

#[tokio::test]
async fn a_change_of_rights_alone_is_installed_and_waits_for_no_pod() {
    let bench = Bench::new(COPY);
    follow(&bench, async |reports| {
        reports.until("running").await;
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: moon}\nrules: []\n";
        bench.write("chart/templates/rbac.yaml", role);
        let changed = reports.until("installed").await;
        assert_eq!(changed, ["install 2 objects", "installed, its pods stay as they are"]);
    })
    .await;
}

#[tokio::test]
async fn changed_settings_are_read_again_and_those_needing_a_restart_are_refused() {
    let bench = Bench::new(COPY);
    bench.write("other", "other");
    follow(&bench, async |reports| {
        reports.until("running").await;
        bench.settings(|settings| {
            settings["build"] = serde_json::json!(["cp", "other", "program"]);
            settings["watch"] = serde_json::json!(["other"]);
        });
        reports.until("rebuilt in ").await;
        bench.write("other", "another");
        reports.until("rebuilt in ").await;
        assert_eq!(fs::read_to_string(bench.path().join("program")).unwrap(), "another");

        bench.settings(|settings| settings["program"] = "other".into());
        let refused = reports.until("the changed settings do not count").await;
        assert!(
            last(&refused).contains("other now, which was") && last(&refused).contains("start `up` again"),
            "{refused:?}"
        );
        bench.settings(|settings| settings["watch"] = serde_json::json!(["none"]));
        let missing = reports.until("the changed settings do not count").await;
        assert!(last(&missing).contains("watch[0] is \"none\""), "{missing:?}");
        bench.settings(|settings| {
            settings["program"] = "program".into();
            settings["watch"] = serde_json::json!(["source"]);
        });
        reports.until("rebuilt in ").await;
    })
    .await;
}
