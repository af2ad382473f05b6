//! Shoots that move to another seed with their machines.

use std::time::Duration;

use crate::pool::pool;
use crate::row::Step::{Calm, Come, Hibernate, Leave, Lose, Pass, Restart, Scale, Settle, Write, Yard};
use crate::row::{play, row};

#[test]
fn machines_move_with_their_shoot_and_nothing_touches_them() {
    let in_zones = |zones: &[&'static str]| pool(3).zones(zones);
    let q = || pool(1).named("q");
    play(vec![
        row(
            "as they are",
            vec![pool(2)],
            vec![Leave, Come(vec![pool(2)]), Settle],
            [2, 2, 2],
        ),
        row(
            "in zones and pools",
            vec![in_zones(&["a", "b"]), q()],
            vec![Leave, Come(vec![in_zones(&["a", "b"]), q()]), Settle],
            [4, 4, 4],
        ),
        row(
            "as an autoscaler has left them",
            vec![pool(1).size(1, 5)],
            vec![
                Scale("p-z1", 3),
                Pass(60),
                Leave,
                Come(vec![pool(1).size(1, 5)]),
                Settle,
            ],
            [3, 1, 3],
        ),
        row(
            "asleep",
            vec![pool(2)],
            vec![
                Hibernate(true),
                Settle,
                Calm,
                Leave,
                Come(vec![pool(2)]),
                Settle,
                Hibernate(false),
                Settle,
            ],
            [2, 0, 4],
        ),
        row(
            "twice",
            vec![pool(2)],
            vec![Leave, Come(vec![pool(2)]), Settle, Leave, Come(vec![pool(2)]), Settle],
            [2, 2, 2],
        ),
        row(
            "while the process ends",
            vec![pool(2)],
            vec![Leave, Come(vec![pool(2)]), Pass(0), Restart, Settle],
            [2, 2, 2],
        ),
    ]);
}

#[test]
fn a_migration_succeeds_once_no_call_of_the_cloud_is_on_its_way() {
    play(vec![row(
        "while machines are being made",
        vec![pool(1).size(1, 5)],
        vec![
            Yard(|moods| moods.slow = Duration::from_secs(90)),
            Scale("p-z1", 3),
            Pass(10),
            Leave,
            Yard(|moods| moods.slow = Duration::from_secs(1)),
            Come(vec![pool(1).size(1, 5)]),
            Settle,
        ],
        [3, 1, 3],
    )]);
}

#[test]
fn what_changed_on_the_way_is_made_up_for() {
    let q = || pool(1).named("q");
    play(vec![
        row(
            "and go on with an update",
            vec![pool(3)],
            vec![
                Write(vec![pool(3).image("2")]),
                Pass(60),
                Leave,
                Come(vec![pool(3).image("2")]),
                Settle,
            ],
            [3, 0, 6],
        ),
        row(
            "and are updated there",
            vec![pool(2)],
            vec![Leave, Come(vec![pool(2).image("2")]), Settle],
            [2, 0, 4],
        ),
        row(
            "without a pool that has gone meanwhile",
            vec![pool(2), q()],
            vec![Leave, Come(vec![pool(2)]), Settle],
            [2, 2, 3],
        ),
        row(
            "and one is lost on the way",
            vec![pool(2)],
            vec![Leave, Lose, Come(vec![pool(2)]), Settle],
            [2, 1, 3],
        )
        .takes(2),
    ]);
}
