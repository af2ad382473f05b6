//! Random graphs with random failures: nothing starts before what it waits for, everything unaffected finishes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_meta::Fault;
use base_flow::{After, Flow, Name};
use base_flow_run::{FlowEnd, run};
use proptest::prelude::*;

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered(usize);

impl Name for Numbered {
    fn name(&self) -> &'static str {
        NAMES[self.0]
    }
}

#[derive(Debug, Clone)]
struct Case {
    /// Task `i` waits for these, all below `i`.
    after: Vec<BTreeSet<usize>>,
    skipped: BTreeSet<usize>,
    failing: BTreeSet<usize>,
    seconds: Vec<u64>,
}

fn case() -> impl Strategy<Value = Case> {
    let tasks = NAMES.len();
    (
        prop::collection::vec(prop::collection::btree_set(0..tasks, 0..4), tasks),
        prop::collection::btree_set(0..tasks, 0..3),
        prop::collection::btree_set(0..tasks, 0..3),
        prop::collection::vec(0u64..4, tasks),
    )
        .prop_map(|(after, skipped, failing, seconds)| Case {
            after: after
                .into_iter()
                .enumerate()
                .map(|(task, before)| before.into_iter().filter(|earlier| *earlier < task).collect())
                .collect(),
            skipped,
            failing,
            seconds,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn order_holds_and_unaffected_branches_finish(case in case()) {
        let mut flow = Flow::builder("random");
        for (task, before) in case.after.iter().enumerate() {
            let after: Vec<After<Numbered>> = before.iter().map(|earlier| Numbered(*earlier).into()).collect();
            flow.task(Numbered(task)).after(after).skip_if(case.skipped.contains(&task), "random");
        }
        let flow = flow.build().unwrap();
        let log: RefCell<Vec<(&str, usize)>> = RefCell::default();
        let work = async |task: Numbered, _| {
            log.borrow_mut().push(("start", task.0));
            tokio::time::sleep(Duration::from_secs(case.seconds[task.0])).await;
            if case.failing.contains(&task.0) {
                return Err(Fault::user("fails by the case"));
            }
            log.borrow_mut().push(("done", task.0));
            Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(run(&flow, &super::options(), work, |_, _| ()));

        // The expected result, computed without the engine: in number order every dependency is decided first.
        let mut passes: BTreeMap<usize, bool> = BTreeMap::new();
        let mut expected_done = BTreeSet::new();
        let mut expected_failed = Vec::new();
        for task in 0..NAMES.len() {
            let reached = case.after[task].iter().all(|earlier| passes[earlier]);
            let skipped = case.skipped.contains(&task);
            let fails = case.failing.contains(&task) && !skipped;
            if reached && fails {
                expected_failed.push(Numbered(task));
            }
            if reached && !skipped && !fails {
                expected_done.insert(Numbered(task));
            }
            passes.insert(task, reached && !fails);
        }
        prop_assert_eq!(outcome.progress.succeeded().collect::<BTreeSet<_>>(), expected_done);
        let all = expected_failed.is_empty();
        prop_assert_eq!(outcome.errors.iter().map(|error| error.task).collect::<Vec<_>>(), expected_failed);
        prop_assert_eq!(outcome.end, if all { FlowEnd::Succeeded } else { FlowEnd::Failed });

        let log = log.borrow();
        for (at, (what, task)) in log.iter().enumerate() {
            if *what == "start" {
                for earlier in (0..NAMES.len()).filter(|earlier| flow.precedes(Numbered(*earlier), Numbered(*task))) {
                    let done = log[..at].contains(&("done", earlier));
                    prop_assert!(done || case.skipped.contains(&earlier), "{task} started before {earlier} was done");
                }
            }
        }
    }
}
