//! Measures the file store: `cargo run --example measure -- [FOLDER]`. A figure per line; the folder is removed afterwards.
//!
//! Creations per second with 1, 32 and 256 writers, a list of 5,000 objects, then memory, file size and the time to
//! open with 50,000 objects of 2 KB.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails may stop")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster_store::{FileOptions, FileStore, Key, Object, Page, Range, Store};
use serde_json::json;

/// How long each number of writers writes.
const SPELL: Duration = Duration::from_secs(5);
const LISTED: usize = 5_000;
const OBJECTS: usize = 50_000;
/// The size of one object, in bytes, more or less.
const SIZE: usize = 2_000;

/// An object that looks like one: labels, an owner, managed fields, and text that is not all the same.
fn object(name: &str, number: usize) -> Object {
    let words: String = (0..SIZE / 7)
        .map(|word| format!("{:x} ", word * (number + 7) % 65_521))
        .collect();
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "some-namespace", "uid": format!("7c2b8a52-0000-4000-8000-{number:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": "measure", "number": format!("n{number}")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "7c2b8a52"}],
            "managedFields": [{"manager": "measure", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}],
        },
        "data": {"a": words.as_str(), "b": words.get(..SIZE / 10).unwrap_or("")},
    }))
    .unwrap()
}

async fn create(store: &FileStore, resource: &str, number: usize) {
    let name = format!("object-{number}");
    let key = Key::new(resource, Some("some-namespace"), name.as_str());
    store.create(key, object(&name, number)).await.unwrap();
}

/// Creations per second while so many writers each wait for their last one.
async fn creations(folder: &Path, writers: usize) -> f64 {
    let store = FileStore::open(folder.join(format!("writers-{writers}")), FileOptions::default())
        .await
        .unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while start.elapsed() < SPELL {
                    create(&store, "configmaps", done * writers + writer).await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    let took = start.elapsed();
    store.close().await.unwrap();
    f64::from(u32::try_from(done).unwrap()) / took.as_secs_f64()
}

/// What the process has in memory, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or("0");
    let kib: u32 = line
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    f64::from(kib) / 1024.0
}

async fn fill(store: &FileStore, resource: &'static str, objects: usize) {
    let tasks = (0..64).map(|part| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in (part..objects).step_by(64) {
                create(&store, resource, number).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn large(folder: PathBuf) {
    let folder = folder.join("large");
    if folder.exists() {
        // A process of its own, so that nothing of the filling is in its memory.
        let before = resident();
        let start = Instant::now();
        let store = FileStore::open(&folder, FileOptions::default()).await.unwrap();
        println!("open with {OBJECTS} objects: {:.2} s", start.elapsed().as_secs_f64());
        println!(
            "memory with {OBJECTS} objects: {:.0} MiB above {before:.0}",
            resident() - before
        );
        let start = Instant::now();
        let listing = store.list(&Range::all("configmaps"), Page::default()).await.unwrap();
        assert_eq!(listing.entries.len(), LISTED);
        println!("list of {LISTED}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        return;
    }
    let store = FileStore::open(&folder, FileOptions::default()).await.unwrap();
    fill(&store, "configmaps", LISTED).await;
    fill(&store, "secrets", OBJECTS - LISTED).await;
    store.close().await.unwrap();
    let file = std::fs::metadata(folder.join("store.redb")).unwrap().len();
    println!("file with {OBJECTS} objects: {} MiB", file >> 20);
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "measured-store".to_owned()));
    if arguments.next().is_some() {
        return large(folder).await;
    }
    println!("an object has {} bytes", object("object-1", 1).bytes().len());
    for writers in [1, 32, 256] {
        println!(
            "{writers} writers: {:.0} creations/s",
            creations(&folder, writers).await
        );
    }
    large(folder.clone()).await;
    let itself = std::env::current_exe().unwrap();
    std::process::Command::new(itself)
        .arg(&folder)
        .arg("large")
        .status()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
