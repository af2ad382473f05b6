//! Scenarios as rows of tables: from pools, by steps, to what is expected.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use api_machine::{MachineDeployment, SavedMachines};
use api_meta::ErrorCode;
use futures::FutureExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::pool::Pool;
use crate::witness::Witness;
use crate::world::World;
use crate::yard::Moods;

/// One step of a row.
pub(crate) enum Step {
    /// gardenlet writes the Worker with these pools and requests a reconcile.
    Write(Vec<Pool>),
    /// gardenlet requests a reconcile of the same.
    Again,
    /// The shoot is to hibernate, or to wake up; gardenlet requests a reconcile.
    Hibernate(bool),
    /// The last request succeeds.
    Settle,
    /// Machines that go are gone.
    Calm,
    /// An error with this text is reported, with these codes.
    Fails(&'static str, &'static [ErrorCode]),
    /// So many seconds pass.
    Pass(u64),
    /// The yard changes.
    Yard(fn(&mut Moods)),
    /// Machines that did not join do.
    Join,
    /// The first machine by name ends behind the driver's back.
    Lose,
    /// The node of the first machine by name is no longer ready.
    Sicken,
    /// An autoscaler decides about a deployment, by the end of its name.
    Scale(&'static str, i32),
    /// The process ends and another begins.
    Restart,
    /// The Worker is deleted; with force, or without.
    Delete(bool),
    /// The Worker is gone, and the yard holds so many machines that were forgotten.
    Gone(usize),
    /// A Secret of gardenlet's changes: name, key, value.
    Secret(&'static str, &'static str, &'static str),
    /// The shoot leaves: migrate, and the objects go.
    Leave,
    /// The shoot comes, with these pools.
    Come(Vec<Pool>),
}

/// What is expected in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// How many machines there are.
    pub(crate) machines: usize,
    /// How many of those exist that there were when the first pools had settled.
    pub(crate) stayed: usize,
    /// How many were ever made.
    pub(crate) made: usize,
}

/// One scenario.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) pools: Vec<Pool>,
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
    /// How many machines the row itself takes away: the bound for ready machines is lower by as many.
    pub(crate) takes: i32,
}

/// A row in which one change settles: `machines` in the end, of which `stayed` are the first ones; `made` in all.
pub(crate) fn change(name: &'static str, from: Vec<Pool>, to: Vec<Pool>, [machines, stayed, made]: [usize; 3]) -> Row {
    row(
        name,
        from,
        vec![Step::Write(to), Step::Settle],
        [machines, stayed, made],
    )
}

/// A row of several steps.
pub(crate) fn row(name: &'static str, pools: Vec<Pool>, steps: Vec<Step>, [machines, stayed, made]: [usize; 3]) -> Row {
    let end = End { machines, stayed, made };
    Row {
        name,
        pools,
        steps,
        end,
        takes: 0,
    }
}

impl Row {
    pub(crate) fn takes(self, takes: i32) -> Self {
        Self { takes, ..self }
    }
}

/// Plays all rows, one after the other, in virtual time.
pub(crate) fn play(rows: Vec<Row>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let mut world = World::new().await;
        world.restart();
        let mut failed = Vec::new();
        for (number, row) in rows.into_iter().enumerate() {
            world.shoot(&format!("shoot--t--r{number}")).await;
            let played = AssertUnwindSafe(Play::of(&mut world, &row)).catch_unwind();
            if played.await.is_err() {
                failed.push(row.name);
                world = World::new().await;
                world.restart();
            }
        }
        assert_eq!(failed, [""; 0], "rows that failed");
    });
}

struct Play<'a> {
    world: &'a mut World,
    row: &'a Row,
    pools: Vec<Pool>,
    saved: SavedMachines,
    first: BTreeSet<String>,
    made_before: usize,
}

impl<'a> Play<'a> {
    async fn of(world: &'a mut World, row: &'a Row) {
        let mut play = Self {
            made_before: world.yard.made(),
            pools: row.pools.clone(),
            saved: SavedMachines::default(),
            first: BTreeSet::new(),
            world,
            row,
        };
        play.through().await;
    }

    async fn through(&mut self) {
        let (name, row) = (self.row.name, self.row);
        let witness = Witness::of(&self.world.client, &self.world.namespace);
        self.world.write(&self.pools, "reconcile").await;
        // Pools that are refused never settle.
        if !matches!(row.steps.first(), Some(Step::Fails(..))) {
            self.world.succeeds().await;
            self.world.check_settled(name).await;
            self.first = self.world.machine_names().await;
        }
        for step in &row.steps {
            self.step(step).await;
        }
        let gone = matches!(row.steps.last(), Some(Step::Gone(_)));
        if !gone {
            self.world.settles().await;
            self.world.check_settled(name).await;
        }
        let left = self.world.machine_names().await;
        let end = End {
            machines: left.len(),
            stayed: left.intersection(&self.first).count(),
            made: self.world.yard.made() - self.made_before,
        };
        assert_eq!(end, row.end, "{name}");
        witness.check(name, row.takes);
        drop(witness);
        if !gone {
            self.world.delete().await;
            self.world.goes().await;
            self.world.check_gone(name, 0).await;
        }
    }

    async fn step(&mut self, step: &Step) {
        let (world, name) = (&mut *self.world, self.row.name);
        match step {
            Step::Write(pools) => {
                self.pools = pools.clone();
                world.write(pools, "reconcile").await;
            }
            Step::Again => world.write(&self.pools, "reconcile").await,
            Step::Hibernate(enabled) => {
                world.hibernate(*enabled).await;
                world.write(&self.pools, "reconcile").await;
            }
            Step::Settle => drop(world.succeeds().await),
            Step::Calm => world.settles().await,
            Step::Fails(text, codes) => {
                let worker = world.fails_with(text).await;
                let error = worker.status.unwrap().last_error.unwrap();
                assert_eq!(error.codes, *codes, "{name}: {}", error.description);
            }
            Step::Pass(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            Step::Yard(change) => world.yard.set(change),
            Step::Join => world.yard.join_all().await,
            Step::Lose => world.yard.lose(self.first.first().unwrap()).await,
            Step::Sicken => world.yard.sicken(self.first.first().unwrap(), "Unknown").await,
            Step::Scale(end, replicas) => {
                let name = format!("{}-{end}", world.namespace);
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                let api = world.all::<MachineDeployment>();
                api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            }
            Step::Restart => world.restart(),
            Step::Delete(force) => {
                if *force {
                    world.force_deletion().await;
                }
                world.delete().await;
            }
            Step::Gone(held) => {
                world.goes().await;
                world.check_gone(name, *held).await;
            }
            Step::Secret(secret, key, value) => world.secret(secret, key, value).await,
            Step::Leave => {
                world.request("migrate").await;
                world.succeeds().await;
                let held = world.yard.machines();
                self.saved = world.saved().await;
                world.delete_objects().await;
                world.delete().await;
                world.goes().await;
                assert_eq!(world.yard.machines(), held, "{name}: the yard was touched");
            }
            Step::Come(pools) => {
                self.pools = pools.clone();
                world.restore(pools, &self.saved).await;
            }
        }
    }
}
