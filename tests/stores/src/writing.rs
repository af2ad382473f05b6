//! The process that is killed: many writers, each with keys of its own, and a watch of every resource that goes on from
//! where the one before it was. It prints what it is about to do and the answers, a line each.

use std::io::Write;
use std::path::Path;

use cluster_store::{FileStore, Key, Object, Range, Revision, Store, StoreError};
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::{Outcome, RESOURCES, open};

/// Enough that commits carry many writes.
const WRITERS: u64 = 32;
/// Each writer has its own, so that what a key may hold is known.
const KEYS_PER_WRITER: usize = 3;
/// Bytes of an object beyond what it needs.
const PAD_MAX: usize = 2000;

/// Writes and watches until it is killed. `seen` is how far each resource was watched before.
///
/// # Errors
/// The store cannot be opened, refuses what it may not refuse, or does not resume a watch.
pub async fn until_killed(folder: &Path, seed: u64, seen: [u64; RESOURCES.len()]) -> Outcome {
    let store = open(folder).await.map_err(|error| error.to_string())?;
    tell(&format!("opened {}", store.revision().await.map_err(failed)?))?;
    for (resource, seen) in RESOURCES.into_iter().zip(seen) {
        let mut watch = store
            .watch(&Range::all(resource), Revision(seen))
            .await
            .map_err(failed)?;
        tokio::spawn(async move {
            while let Some(change) = watch.next().await {
                let line = match change {
                    Ok(change) => format!("watched {resource} {}", change.entry.revision),
                    Err(error) => format!("failed watching {resource}: {error}"),
                };
                if tell(&line).is_err() {
                    return;
                }
            }
        });
    }
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), seed, writer)));
    for writer in futures::future::join_all(writers).await {
        writer.map_err(|error| error.to_string())??;
    }
    Ok(())
}

fn failed(error: StoreError) -> String {
    error.to_string()
}

async fn write(store: FileStore, seed: u64, writer: u64) -> Outcome {
    let mut chance = StdRng::seed_from_u64(seed * WRITERS + writer);
    loop {
        let number = chance.random_range(0..KEYS_PER_WRITER);
        let resource = RESOURCES[number];
        let name = format!("w{writer}-{number}");
        let key = Key::new(resource, (resource != "nodes").then_some("n"), name.as_str());
        // Nothing is ever sent twice, by whichever process.
        let id = chance.random_range(1..i64::MAX);
        let current = store.get(&key).await.map_err(failed)?;
        let delete = current.is_some() && chance.random_bool(0.2);
        tell(&format!("sent {resource} {name} {}", if delete { -id } else { id }))?;
        let pad = "p".repeat(chance.random_range(0..PAD_MAX));
        let object = json!({"metadata": {"name": name}, "content": id, "pad": pad});
        let object = Object::from_value(object).map_err(failed)?;
        let written = match current {
            None => store.create(key, object).await,
            Some(current) if delete => store.delete(&key, current.revision).await,
            Some(current) => store.update(&key, current.revision, object).await,
        };
        let entry = written.map_err(failed)?;
        tell(&format!("acknowledged {resource} {name} {}", entry.revision))?;
    }
}

/// One line at once, so that a killed process leaves whole lines.
fn tell(line: &str) -> Outcome {
    let written = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
    written.map_err(|error| format!("no reader is left: {error}"))
}
