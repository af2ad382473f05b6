//! Numbers, pools and zones that come and go, autoscalers, and hibernation.

use crate::pool::pool;
use crate::row::Step::{Again, Hibernate, Pass, Scale, Settle, Write};
use crate::row::{change, play, row};

#[test]
fn machines_follow_minimum_and_maximum() {
    play(vec![
        change("more", vec![pool(1)], vec![pool(3)], [3, 1, 3]),
        change("fewer", vec![pool(3)], vec![pool(1)], [1, 1, 3]),
        change("a higher maximum", vec![pool(2)], vec![pool(2).size(2, 9)], [2, 2, 2]),
        change("from none", vec![pool(0)], vec![pool(2)], [2, 0, 2]),
        change("more and others", vec![pool(1)], vec![pool(3).image("2")], [3, 0, 4]),
        change("fewer and others", vec![pool(3)], vec![pool(2).image("2")], [2, 0, 5]),
        change("others of none", vec![pool(0)], vec![pool(0).image("2")], [0, 0, 0]),
    ]);
}

#[test]
fn pools_and_zones_come_and_go_without_touching_others() {
    let in_zones = |zones: &[&'static str]| vec![pool(2).zones(zones)];
    let q = || pool(1).named("q");
    play(vec![
        change("a zone comes", in_zones(&["a"]), in_zones(&["a", "b"]), [2, 1, 3]),
        change("a zone goes", in_zones(&["a", "b"]), in_zones(&["b"]), [2, 1, 3]),
        change(
            "zones change places",
            in_zones(&["a", "b"]),
            in_zones(&["b", "a"]),
            [2, 2, 2],
        ),
        change(
            "a zone for another",
            in_zones(&["a", "b"]),
            in_zones(&["a", "c"]),
            [2, 1, 3],
        ),
        change("a pool comes", vec![pool(2)], vec![pool(2), q()], [3, 2, 3]),
        change("a pool goes", vec![pool(2), q()], vec![pool(2)], [2, 2, 3]),
        change(
            "a pool gets another name",
            vec![pool(2)],
            vec![pool(2).named("q")],
            [2, 0, 4],
        ),
        change(
            "one goes, one rolls",
            vec![pool(2), q()],
            vec![pool(2).image("2")],
            [2, 0, 5],
        ),
    ]);
}

#[test]
fn what_an_autoscaler_decides_stays() {
    let open = || pool(1).size(1, 5);
    play(vec![
        row(
            "out",
            vec![open()],
            vec![Scale("p-z1", 3), Pass(60), Again, Settle],
            [3, 1, 3],
        ),
        row(
            "out, then a lower maximum",
            vec![open()],
            vec![Scale("p-z1", 4), Pass(60), Write(vec![pool(1).size(1, 2)]), Settle],
            [2, 1, 4],
        ),
        row(
            "from none",
            vec![pool(0).size(0, 3)],
            vec![Scale("p-z1", 2), Pass(60), Again, Settle],
            [2, 0, 2],
        ),
        row(
            "out in the middle of an update",
            vec![pool(2).size(2, 5)],
            vec![
                Write(vec![pool(2).size(2, 5).image("2")]),
                Pass(30),
                Scale("p-z1", 4),
                Settle,
            ],
            [4, 0, 6],
        ),
        row(
            "in in the middle of an update",
            vec![open()],
            vec![
                Scale("p-z1", 3),
                Pass(60),
                Write(vec![open().image("2")]),
                Pass(30),
                Scale("p-z1", 1),
                Settle,
            ],
            [1, 0, 5],
        ),
    ]);
}

#[test]
fn a_shoot_that_hibernates_has_no_machines_and_wakes_up_with_its_minimum() {
    let open = || pool(2).size(2, 5);
    play(vec![
        row(
            "sleep and wake",
            vec![open()],
            vec![Hibernate(true), Settle, Hibernate(false), Settle],
            [2, 0, 4],
        ),
        row("sleep", vec![open()], vec![Hibernate(true), Settle], [0, 0, 2]),
        row(
            "wake with the minimum",
            vec![open()],
            vec![
                Scale("p-z1", 4),
                Pass(60),
                Hibernate(true),
                Settle,
                Hibernate(false),
                Settle,
            ],
            [2, 0, 6],
        ),
        row(
            "sleep in the middle of an update, then wake",
            vec![open()],
            vec![
                Write(vec![open().image("2")]),
                Pass(30),
                Hibernate(true),
                Settle,
                Hibernate(false),
                Settle,
            ],
            [2, 0, 6],
        ),
        row(
            "another image while asleep",
            vec![open()],
            vec![
                Hibernate(true),
                Settle,
                Write(vec![open().image("2")]),
                Settle,
                Hibernate(false),
                Settle,
            ],
            [2, 0, 4],
        ),
    ]);
}
