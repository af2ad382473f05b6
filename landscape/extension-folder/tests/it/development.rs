//! The loop of development in real time: what is said and installed after each change of a file. Waits by what is said.

use std::fs;

use api_meta::Fault;
use futures::FutureExt;
use futures::future::BoxFuture;
use landscape_extension_folder::{Host, Run, Runs, develop};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::bench::{Bench, COPY};

/// A landscape that hands on what it gets.
struct Recorder {
    said: mpsc::UnboundedSender<String>,
    runs: watch::Sender<Runs>,
}

impl Host for Recorder {
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>> {
        self.said.send(format!("install {} objects", objects.len())).unwrap();
        async { Ok(()) }.boxed()
    }

    fn line(&self, text: &str) {
        self.said.send(format!("| {text}")).unwrap();
        // What a node does once the program is another one.
        if text == "compiling" {
            self.runs.send_modify(|runs| {
                let restarts = runs.0.first().map_or(0, |run| run.restarts + 1);
                runs.0 = vec![run(restarts)];
            });
        }
    }

    fn say(&self, text: &str) {
        self.said.send(text.to_owned()).unwrap();
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

/// What is said, in order.
struct Said(mpsc::UnboundedReceiver<String>);

impl Said {
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
        assert!(waited.is_ok(), "not said: {start:?}; said: {texts:?}");
        texts
    }
}

#[tokio::test]
async fn each_change_is_built_and_installed_and_a_broken_one_waits_for_the_next() {
    let bench = Bench::new(COPY);
    let folder = bench.folder().await;
    let (said, all) = mpsc::unbounded_channel();
    let (runs, seen) = watch::channel(Runs::default());
    let recorder = Recorder { said, runs };
    let mut said = Said(all);
    let story = async {
        let first = said.until("running").await;
        assert!(first[..2] == ["| compiling", "install 2 objects"], "{first:?}");
        assert!(
            first[2].starts_with("built in ") && first[2].ends_with(" s, installed"),
            "{first:?}"
        );

        bench.write("source", "two");
        let second = said.until("rebuilt in ").await;
        assert!(second.last().unwrap().contains(" s, reloaded in "), "{second:?}");
        assert_eq!(fs::read_to_string(&folder.program).unwrap(), "two");

        bench.write("source", "broken");
        let third = said.until("not built: ").await;
        assert!(third.contains(&"| broken".to_owned()), "{third:?}");
        bench.write("source", "three");
        said.until("rebuilt in ").await;

        bench.write("chart/values.yaml", "image: [");
        said.until("not installed: ").await;
        bench.write("chart/values.yaml", "image: registry.example.org/sun");
        let other = said.until("not installed: ").await;
        assert!(
            other
                .last()
                .unwrap()
                .contains("no image registry.example.org/moon any more"),
            "{other:?}"
        );
        bench.write("chart/values.yaml", "image: registry.example.org/moon\nreplicas: 1");
        let last = said.until("install 2 objects").await;
        assert!(
            !last.contains(&"| compiling".to_owned()),
            "the chart alone has changed: {last:?}"
        );

        bench.write("source", "broken");
        bench.write("chart/values.yaml", "image: registry.example.org/moon\nreplicas: 2");
        said.until("not built: ").await;
        bench.write("source", "four");
        // The chart that could not be installed with a broken source is installed with the corrected one.
        said.until("install 2 objects").await;
    };
    tokio::select! {
        ended = develop(&folder, &recorder, seen) => unreachable!("{ended:?}"),
        () = story => {}
    }
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_build_begins_another() {
    // The first build never ends, whatever the source is by then.
    let bench = Bench::new(
        "if mkdir first 2> /dev/null; then mkfifo gate; echo begun; read line < gate; fi; echo begun; cp source program",
    );
    let folder = bench.folder().await;
    let (said, all) = mpsc::unbounded_channel();
    let (runs, seen) = watch::channel(Runs::default());
    let recorder = Recorder { said, runs };
    let mut said = Said(all);
    let story = async {
        said.until("| begun").await;
        bench.write("source", "two");
        said.until("| begun").await;
        said.until("install 2 objects").await;
    };
    tokio::select! {
        ended = develop(&folder, &recorder, seen) => unreachable!("{ended:?}"),
        () = story => {}
    }
    assert_eq!(fs::read_to_string(&folder.program).unwrap(), "two");
}
