//! Kills the writing process, again and again on one folder, and checks what it left.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::ledger::Ledger;
use crate::{Outcome, open};

/// Writes that a process is left to be acknowledged at most, before it dies: far fewer than the history holds of any
/// resource, even when two processes die between two checks.
const ACKNOWLEDGED_MAX: u32 = 200;
/// How long a process lives after that at most: longer than a commit or a copy of the file takes.
const LATER_MAX: Duration = Duration::from_millis(15);
/// One in so many dies before it has opened the folder, or while it does or begins to copy it.
const EARLY: u32 = 6;
/// How long after its start these die at most.
const EARLY_MAX: Duration = Duration::from_millis(60);

/// What was shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Processes that were killed.
    pub kills: u32,
    /// Processes that were killed before they had opened the folder.
    pub before_open: u32,
    /// Left behind a copy of the file that was not finished.
    pub during_copy: u32,
    /// Writes that were acknowledged and are there.
    pub acknowledged: usize,
    /// Writes that were sent and not acknowledged and are there all the same, which they may.
    pub unanswered: usize,
}

/// Kills `kills` processes that `program` starts with the arguments of [`crate::writing::until_killed`].
///
/// # Errors
/// What was lost, is too much, or did not resume; with the folder, which is kept then.
pub async fn kill(program: &Path, kills: u32, seed: u64, report: impl Fn(&Shown)) -> Outcome<Shown> {
    let folder = tempfile::Builder::new().prefix("orangery-kill-").tempdir();
    let folder = folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let mut ledger = Ledger::new();
    let mut shown = Shown::default();
    for round in 0..kills {
        let outcome = one(program, folder.path(), (seed, round, kills), &mut ledger, &mut shown).await;
        if let Err(why) = outcome {
            let retained = folder.keep();
            return Err(format!(
                "seed {seed}, kill {round}: {why}\nthe folder is {}",
                retained.display()
            ));
        }
        shown.kills += 1;
        shown.acknowledged = ledger.found;
        shown.unanswered = ledger.unanswered_found;
        report(&shown);
    }
    Ok(shown)
}

async fn one(
    program: &Path,
    folder: &Path,
    (seed, round, kills): (u64, u32, u32),
    ledger: &mut Ledger,
    shown: &mut Shown,
) -> Outcome {
    let mut chance = StdRng::seed_from_u64(seed << 32 | u64::from(round));
    let process = start(program, folder, chance.random(), ledger)?;
    if !crash(process, &mut chance, ledger)? {
        shown.before_open += 1;
    }
    shown.during_copy += u32::from(folder.join("store.redb.new").exists());
    // Every third process finds the folder as a killed one left it.
    if round % 3 != 1 || round + 1 == kills {
        let store = open(folder).await.map_err(|error| error.to_string())?;
        ledger.check(&store).await?;
        store.close().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn start(program: &Path, folder: &Path, seed: u32, ledger: &Ledger) -> Outcome<Child> {
    let mut command = Command::new(program);
    command.arg("write").arg(folder).arg(seed.to_string());
    command.args(ledger.resumes().map(|revision| revision.to_string()));
    let started = command.stdout(Stdio::piped()).spawn();
    started.map_err(|error| format!("cannot start {}: {error}", program.display()))
}

/// Lets a process write, kills it, and takes down what it said; whether it had opened the folder.
fn crash(mut process: Child, chance: &mut StdRng, ledger: &mut Ledger) -> Outcome<bool> {
    let output = process.stdout.take().ok_or("its output is not read")?;
    let mut lines = BufReader::new(output).lines();
    let mut opened = false;
    let mut take = |line: std::io::Result<String>| {
        let line = line.map_err(|error| format!("cannot read what it says: {error}"))?;
        opened |= line.starts_with("opened");
        ledger.line(&line)
    };
    let early = chance.random_ratio(1, EARLY);
    let mut left = if early {
        0
    } else {
        chance.random_range(0..ACKNOWLEDGED_MAX)
    };
    while left > 0 {
        let line = lines.next().ok_or("it ended before it was killed")?;
        left -= u32::from(take(line)?);
    }
    let later = if early { EARLY_MAX } else { LATER_MAX };
    // Nothing waits for this: it spreads the moment of death over what a process does.
    std::thread::sleep(later.mul_f64(chance.random()));
    let killed = process.kill().and_then(|()| process.wait());
    killed.map_err(|error| format!("cannot kill it: {error}"))?;
    for line in lines {
        take(line)?;
    }
    Ok(opened)
}
