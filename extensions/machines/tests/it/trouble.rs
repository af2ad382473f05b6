//! Changes in the middle of others, machines that fail, clouds that refuse, processes that end.

use std::time::Duration;

use api_meta::{ErrorCode, Fault};

use crate::pool::pool;
use crate::row::Step::{Again, Delete, Fails, Gone, Hibernate, Join, Lose, Pass, Restart, Settle, Sicken, Write, Yard};
use crate::row::{play, row};
use crate::yard::Moods;

fn whole(moods: &mut Moods) {
    moods.limit = usize::MAX;
    moods.slow = Duration::from_secs(1);
    moods.joins = true;
    moods.broken = None;
}

fn unjoined(moods: &mut Moods) {
    moods.joins = false;
}

fn broken(moods: &mut Moods) {
    moods.broken = Some(|what| Fault::transient(format!("cannot {what}: the cloud is out of order")));
}

fn denied(moods: &mut Moods) {
    moods.broken = Some(|what| Fault::access(format!("cannot {what}: access denied")));
}

fn slow(moods: &mut Moods) {
    moods.slow = Duration::from_secs(90);
}

#[test]
fn changes_in_the_middle_of_an_update_are_followed() {
    let (one, two, three) = (|| pool(3), || pool(3).image("2"), || pool(3).image("3"));
    play(vec![
        row(
            "back in the middle",
            vec![one()],
            vec![Write(vec![two()]), Pass(30), Write(vec![one()]), Settle],
            [3, 2, 6],
        ),
        row(
            "back before anything was made",
            vec![one()],
            vec![Write(vec![two()]), Write(vec![one()]), Settle],
            [3, 3, 3],
        ),
        row(
            "two at once",
            vec![one()],
            vec![Write(vec![two()]), Write(vec![three()]), Settle],
            [3, 0, 6],
        ),
        row(
            "another one in the middle",
            vec![one()],
            vec![Write(vec![two()]), Pass(30), Write(vec![three()]), Settle],
            [3, 0, 8],
        ),
        row(
            "more machines in the middle",
            vec![one()],
            vec![Write(vec![two()]), Pass(30), Write(vec![pool(4).image("2")]), Settle],
            [4, 0, 7],
        ),
        row(
            "deleted in the middle",
            vec![one()],
            vec![Write(vec![two()]), Pass(30), Delete(false), Gone(0)],
            [0, 0, 5],
        ),
        row(
            "deleted before machines have joined",
            vec![one()],
            vec![Write(vec![pool(5)]), Pass(1), Delete(false), Gone(0)],
            [0, 0, 5],
        ),
    ]);
}

#[test]
fn machines_that_fail_are_replaced() {
    play(vec![
        row(
            "a node that is not ready",
            vec![pool(2)],
            vec![Sicken, Pass(15 * 60), Again, Settle],
            [2, 1, 3],
        )
        .takes(1),
        row(
            "a machine that is lost",
            vec![pool(2)],
            vec![Lose, Pass(15 * 60), Again, Settle],
            [2, 1, 3],
        )
        .takes(1),
        row(
            "a machine that is lost in the middle of an update",
            vec![pool(3)],
            vec![Write(vec![pool(3).image("2")]), Pass(10), Lose, Settle],
            [3, 0, 7],
        )
        .takes(1),
        row(
            "machines that never join",
            vec![pool(2)],
            vec![
                Yard(unjoined),
                Write(vec![pool(2).image("2")]),
                Fails("machines have not joined within 5 minutes", &[]),
                Yard(whole),
                Join,
                Settle,
            ],
            [2, 0, 4],
        ),
        row(
            "machines that never join, then the former ones again",
            vec![pool(2)],
            vec![
                Yard(unjoined),
                Write(vec![pool(2).image("2")]),
                Fails("machines have not joined within 5 minutes", &[]),
                Yard(whole),
                Write(vec![pool(2)]),
                Settle,
            ],
            [2, 2, 3],
        ),
        row(
            "machines that do not join in time",
            vec![pool(1)],
            vec![Yard(unjoined), Write(vec![pool(2)]), Pass(21 * 60), Yard(whole), Settle],
            [2, 1, 4],
        ),
    ]);
}

#[test]
fn a_cloud_that_refuses_is_reported_with_its_code_and_tried_again() {
    let quota: &[ErrorCode] = &[ErrorCode::InfraQuotaExceeded];
    play(vec![
        row(
            "a quota",
            vec![pool(2)],
            vec![
                Yard(|moods| moods.limit = 2),
                Write(vec![pool(2).image("2")]),
                Fails("QuotaExceeded: the account has 2 of 2 machines", quota),
                Yard(whole),
                Again,
                Settle,
            ],
            [2, 0, 4],
        ),
        row(
            "a quota without an update",
            vec![pool(1)],
            vec![
                Yard(|moods| moods.limit = 2),
                Write(vec![pool(3)]),
                Fails("QuotaExceeded", quota),
                Write(vec![pool(2)]),
                Settle,
                Yard(whole),
            ],
            [2, 1, 2],
        ),
        row(
            "a permission",
            vec![pool(1)],
            vec![
                Yard(denied),
                Write(vec![pool(2)]),
                Fails("access denied", &[ErrorCode::InfraUnauthorized]),
                Yard(whole),
                Again,
                Settle,
            ],
            [2, 1, 2],
        ),
        row(
            "a cloud out of order for a while",
            vec![pool(2)],
            vec![
                Yard(broken),
                Write(vec![pool(2).image("2")]),
                Pass(100),
                Yard(whole),
                Settle,
            ],
            [2, 0, 4],
        ),
        row(
            "a slow cloud",
            vec![pool(2)],
            vec![Yard(slow), Write(vec![pool(2).image("2")]), Settle, Yard(whole)],
            [2, 0, 4],
        ),
    ]);
}

#[test]
fn a_forced_deletion_forgets_what_the_cloud_does_not_release() {
    play(vec![
        row(
            "a cloud that works",
            vec![pool(2)],
            vec![Delete(true), Gone(0)],
            [0, 0, 2],
        ),
        row(
            "a deletion that hangs, then is forced",
            vec![pool(2)],
            vec![Yard(slow), Delete(false), Pass(10), Yard(whole), Gone(0)],
            [0, 0, 2],
        ),
        row(
            "a deletion that hangs for longer than a forced one waits, then is forced",
            vec![pool(2)],
            vec![
                Yard(|moods| moods.slow = Duration::from_secs(120)),
                Delete(false),
                Pass(70),
                Delete(true),
                Gone(0),
                Yard(whole),
                Gone(0),
            ],
            [0, 0, 2],
        ),
        row(
            "a cloud out of reach",
            vec![pool(2)],
            vec![Yard(broken), Delete(true), Gone(2)],
            [0, 0, 2],
        ),
    ]);
}

#[test]
fn a_process_that_ends_midway_is_continued_by_the_next() {
    let (one, two) = (|| pool(3), || pool(3).image("2"));
    play(vec![
        row(
            "of an update",
            vec![one()],
            vec![Write(vec![two()]), Pass(30), Restart, Settle],
            [3, 0, 6],
        ),
        row(
            "of a creation",
            vec![pool(1)],
            vec![Write(vec![pool(4)]), Pass(2), Restart, Settle],
            [4, 1, 4],
        ),
        row(
            "of a deletion",
            vec![one()],
            vec![Delete(false), Pass(1), Restart, Gone(0)],
            [0, 0, 3],
        ),
        row(
            "of falling asleep",
            vec![one()],
            vec![Hibernate(true), Pass(1), Restart, Settle],
            [0, 0, 3],
        ),
    ]);
}
