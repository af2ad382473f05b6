//! All cases of [`crate::cases`] in process, each between servers of its own.

use control_plane_resource_manager::Options;
use serde_json::json;
use tests_kit::{Embedded, embedded_with};

use crate::cases::{Case, FILES, Ground, cases, lacks, run_case};
use crate::{Landscape, NAMESPACE};

/// How many cases there are to be at least, and how many of them any API server can run.
const CASES_MIN: usize = 60;
const PLAIN_MIN: usize = 40;

/// Runs all cases of a file.
async fn run_file(name: &str) {
    let text = FILES.iter().find(|(known, _)| *known == name).unwrap().1;
    let mut failed = Vec::new();
    for case in cases(text) {
        let target: Embedded = embedded_with("target", Vec::new(), |builder| builder).await;
        let client = target.admin();
        let options = Options {
            namespace: Some(NAMESPACE.to_owned()),
            garbage_collection: name == "collection",
            ..Options::default()
        };
        let landscape = Landscape::start_as(target, client, options).await;
        let ground = Ground {
            source: landscape.source.admin(),
            target: landscape.target.admin(),
            namespace: NAMESPACE.to_owned(),
        };
        if let Err(problem) = run_case(&case, &ground).await {
            failed.push(format!("{}: {problem}", case.name));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn cases_of_merge_end_as_written() {
    run_file("merge").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_order_end_as_written() {
    run_file("order").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_deletion_end_as_written() {
    run_file("deletion").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_ownership_end_as_written() {
    run_file("ownership").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_health_end_as_written() {
    run_file("health").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_collection_end_as_written() {
    run_file("collection").await;
}

#[test]
fn there_are_enough_cases_and_each_has_a_name_of_its_own() {
    let all: Vec<Case> = FILES.iter().flat_map(|(_, text)| cases(text)).collect();
    let mut names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    assert!(all.len() >= CASES_MIN, "{} cases", all.len());
    let plain = all.iter().filter(|case| !case.needs_virtual_time).count();
    assert!(plain >= PLAIN_MIN, "{plain} that any API server can run");
}

#[test]
fn an_expectation_is_a_part_of_what_is_there() {
    let live = json!({"a": {"b": [1, 2]}, "c": "d"});
    assert_eq!(lacks(&json!({"a": {"b": [1, 2]}, "x": null}), &live, ""), None);
    assert_eq!(
        lacks(&json!({"a": {"b": [1]}}), &live, "").unwrap(),
        "/a/b is [1,2], not [1]"
    );
}
