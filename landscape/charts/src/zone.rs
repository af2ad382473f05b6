//! Which zone is local: what Go 1.26 makes of the variable TZ and of this machine (`time/zoneinfo_unix.go`), and so Helm.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::read_at_most;

/// The machine's own zone.
const LOCAL_TIME: &str = "/etc/localtime";
/// How Go calls it.
const LOCAL: &str = "Local";
/// Where systems keep zones.
const FOLDERS: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/lib/locale/TZ",
    "/etc/zoneinfo",
];
/// Go reads no larger files of zones (`maxFileSize`).
const TABLE_BYTES_MAX: u64 = 10 << 20;

/// The zone, UTC where there is none. It is called as Go calls it.
pub(super) fn local() -> TimeZone {
    named(env::var_os("TZ").as_deref()).unwrap_or(TimeZone::UTC)
}

/// The zone that a value of TZ means: the name or the path of a table, behind a colon or not. POSIX' rules are none.
fn named(tz: Option<&OsStr>) -> Option<TimeZone> {
    let Some(tz) = tz else {
        return read(LOCAL_TIME.as_ref(), LOCAL);
    };
    // Names of zones are ASCII.
    let tz = tz.to_str()?;
    let tz = tz.strip_prefix(':').unwrap_or(tz);
    match tz {
        "" | "UTC" => None,
        LOCAL_TIME => read(LOCAL_TIME.as_ref(), LOCAL),
        path if path.starts_with('/') => read(path.as_ref(), path),
        name => {
            let paths = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name));
            let found = paths.into_iter().find_map(|path| read(&path, name));
            found.or_else(|| TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name)))
        }
    }
}

fn read(path: &Path, name: &str) -> Option<TimeZone> {
    let table = read_at_most(path, TABLE_BYTES_MAX).ok()?;
    TimeZone::tzif(name, &table).ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::named;

    fn name_of(tz: &str) -> Option<String> {
        let zone = named(Some(OsStr::new(tz)))?;
        Some(zone.iana_name().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_zone_is_a_name_as_it_stands_or_a_path() {
        // Go 1.26's answer with each in TZ.
        for (tz, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            (":Europe/Berlin", "Europe/Berlin"),
            ("EST5EDT", "EST5EDT"),
        ] {
            assert_eq!(name_of(tz).as_deref(), Some(name), "{tz}");
        }
        for tz in [
            "",
            ":",
            "UTC",
            "europe/berlin",
            "Mars/Phobos",
            "EST5EDT,M3.2.0,M11.1.0",
            "<+03>-3",
            "/none",
            "/dev/zero",
        ] {
            assert_eq!(name_of(tz), None, "{tz}");
        }
    }

    #[test]
    fn a_file_with_a_table_is_a_zone_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone").display().to_string();
        // Version 1, no transitions, one kind of time: an hour east, called A.
        let counts = [0, 0, 0, 0, 1, 2].map(u32::to_be_bytes).concat();
        let table = [
            b"TZif".as_slice(),
            &[0; 16],
            &counts,
            &3600_i32.to_be_bytes(),
            &[0, 0],
            b"A\0",
        ]
        .concat();
        std::fs::write(&path, &table).unwrap();
        assert_eq!(name_of(&path).as_deref(), Some(path.as_str()));
        std::fs::write(&path, &table[..20]).unwrap();
        assert_eq!(name_of(&path), None);
    }
}
