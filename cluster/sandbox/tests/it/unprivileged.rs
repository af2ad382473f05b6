//! All of this again as an ordinary user, where the tests run as root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::kit::program;

const UNPRIVILEGED: u32 = 65534;

#[test]
fn everything_holds_for_an_ordinary_user() {
    const AGAIN: &str = "SANDBOX_AGAIN";
    let own = std::fs::metadata("/proc/self").unwrap();
    if std::env::var_os(AGAIN).is_some() || std::os::unix::fs::MetadataExt::uid(&own) != 0 {
        return;
    }
    // The build folder may lie where others cannot go.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let (tests, helper) = (folder.path().join("tests"), folder.path().join("helper"));
    std::fs::copy("/proc/self/exe", &tests).unwrap();
    std::fs::copy(program(), &helper).unwrap();
    let output = Command::new(&tests)
        .env("SANDBOX_HELPER", &helper)
        .env("TMPDIR", folder.path())
        .env(AGAIN, "1")
        .current_dir("/")
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
