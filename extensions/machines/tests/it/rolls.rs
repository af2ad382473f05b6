//! What replaces machines, what does not, and how many at a time.

use api_meta::ErrorCode;
use serde_json::json;

use crate::pool::{Pool, pool};
use crate::row::Step::{Again, Fails, Secret, Settle, Write};
use crate::row::{Row, change, play, row};

/// A change of a pool of two machines that replaces both.
fn replaces(name: &'static str, with: impl FnOnce(&mut Pool)) -> Row {
    change(name, vec![pool(2)], vec![pool(2).with(with)], [2, 0, 4])
}

/// A change of a pool of two machines that replaces none.
fn keeps(name: &'static str, with: impl FnOnce(&mut Pool)) -> Row {
    change(name, vec![pool(2)], vec![pool(2).with(with)], [2, 2, 2])
}

#[test]
fn changes_of_what_machines_are_replace_them() {
    play(vec![
        replaces("image", |pool| pool.image = "1.1.0"),
        replaces("machine type", |pool| pool.machine_type = "large"),
        replaces("root disk", |pool| pool.volume = "50Gi"),
        replaces("Kubernetes minor version", |pool| pool.version = "1.34.0"),
        replaces("container runtime", |pool| pool.cri = "other"),
        replaces("the provider's data", |pool| {
            pool.more = json!({"providerConfig": {"spot": true}});
        }),
    ]);
}

#[test]
fn changes_of_what_machines_have_keep_them() {
    play(vec![
        keeps("nothing", |_| {}),
        keeps("Kubernetes patch version", |pool| pool.version = "1.33.9"),
        keeps("labels", |pool| pool.more = json!({"labels": {"a": "b"}})),
        keeps("annotations", |pool| pool.more = json!({"annotations": {"a": "b"}})),
        keeps("taints", |pool| {
            pool.more = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
        }),
        keeps("time-outs", |pool| {
            pool.more = json!({"machineControllerManager": {"machineDrainTimeout": "7m0s"}});
        }),
        keeps("capacity", |pool| {
            pool.more = json!({"nodeTemplate": {"capacity": {"cpu": "4"}}});
        }),
        keeps("priority", |pool| pool.more = json!({"priority": 5})),
        keeps("surge", |pool| pool.surge = json!(2)),
        row(
            "user data",
            vec![pool(2)],
            vec![Secret("user-data", "cloud_config", "other"), Again, Settle],
            [2, 2, 2],
        ),
        row(
            "credentials",
            vec![pool(2)],
            vec![Secret("cloudprovider", "key", "second"), Again, Settle],
            [2, 2, 2],
        ),
    ]);
}

/// An update of a pool with this room.
fn within(name: &'static str, machines: i32, surge: serde_json::Value, unavailable: serde_json::Value) -> Row {
    let count = usize::try_from(machines).unwrap();
    let from = pool(machines).room(surge, unavailable);
    let to = from.clone().image("1.1.0");
    change(name, vec![from], vec![to], [count, 0, 2 * count])
}

#[test]
fn an_update_stays_within_surge_and_unavailability() {
    play(vec![
        within("surge 2", 3, json!(2), json!(0)),
        within("unavailable 1", 3, json!(0), json!(1)),
        within("surge 1 and unavailable 1", 3, json!(1), json!(1)),
        within("surge 100%", 3, json!("100%"), json!(0)),
        within("unavailable 50%", 4, json!(0), json!("50%")),
        within("unavailable 34% of 3", 3, json!("0%"), json!("34%")),
        within("more room than machines", 2, json!(5), json!(5)),
        within("one machine without surge", 1, json!(0), json!(1)),
    ]);
}

#[test]
fn pools_and_zones_are_updated_side_by_side() {
    let three = || pool(3).zones(&["a", "b", "c"]);
    let five = || pool(5).zones(&["a", "b"]).room("50%", 0);
    let (p, q) = (|| pool(2), || pool(1).named("q"));
    play(vec![
        change("three zones", vec![three()], vec![three().image("2")], [3, 0, 6]),
        change("one of two pools", vec![p(), q()], vec![p().image("2"), q()], [3, 1, 5]),
        change(
            "both of two pools",
            vec![p(), q()],
            vec![p().image("2"), q().image("2")],
            [3, 0, 6],
        ),
        change("shares in zones", vec![five()], vec![five().image("2")], [5, 0, 10]),
    ]);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let problem: &[ErrorCode] = &[ErrorCode::ConfigurationProblem];
    let in_place = || pool(2).more(json!({"updateStrategy": "AutoInPlaceUpdate"}));
    play(vec![
        row(
            "no room at all",
            vec![pool(2)],
            vec![
                Write(vec![pool(2).room(0, 0).image("2")]),
                Fails("pool p: maxSurge and maxUnavailable are both 0", problem),
                Write(vec![pool(2).room(0, 1).image("2")]),
                Settle,
            ],
            [2, 0, 4],
        ),
        row(
            "an update in place",
            vec![pool(2)],
            vec![
                Write(vec![in_place()]),
                Fails("pool p: updateStrategy AutoInPlaceUpdate is not supported", problem),
                Write(vec![pool(2)]),
                Settle,
            ],
            [2, 2, 2],
        ),
        row(
            "a new pool with an update in place",
            vec![in_place()],
            vec![
                Fails("pool p: updateStrategy AutoInPlaceUpdate is not supported", problem),
                Write(vec![pool(1)]),
                Settle,
            ],
            [1, 0, 1],
        ),
    ]);
}
