//! Which signals programs ignore when they start: none, whatever this process ignores.

use std::env;
use std::process::Command;

use serde_json::json;

use crate::cluster::World;

/// Set where this test runs below one that ignores signals.
const INSIDE: &str = "TEST_IGNORES_SIGNALS";
const NAME: &str = "dispositions::programs_start_with_the_default_of_signals_that_are_ignored_here";

/// The mask of ignored signals without those from 32 on, which C libraries keep to themselves.
fn ordinary_ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_start_with_the_default_of_signals_that_are_ignored_here() {
    if env::var_os(INSIDE).is_none() {
        let again = Command::new("/bin/sh")
            .args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"])
            .arg(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", NAME])
            .env(INSIDE, "yes")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(ordinary_ignored(&status) & 3, 3, "HUP and INT");
    let scripts = [("show", "grep SigIgn /proc/self/status")];
    let worlds = [Some(World::new(&scripts).await), World::isolated(&scripts).await];
    for world in worlds.into_iter().flatten() {
        world.pod("p", "show", json!({}), json!({})).await;
        let (_, log) = world.outcome("p").await;
        assert_eq!(ordinary_ignored(&log), 0, "{log}");
    }
}
