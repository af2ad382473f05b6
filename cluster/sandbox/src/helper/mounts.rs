//! What is mounted where, as the kernel reports it, and which mounts no path leads to. Pure, but for reading the table.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

/// All mounts of a mount namespace, in the order of the kernel's list.
pub(super) struct MountTable {
    mounts: Vec<Mounted>,
    /// Places in the list by number.
    places: BTreeMap<u64, usize>,
}

impl MountTable {
    /// Reads the table of this process from a mounted /proc.
    pub(super) fn read(proc: &Path) -> io::Result<Self> {
        Ok(Self::parse(&fs::read(proc.join("self/mountinfo"))?))
    }

    fn parse(text: &[u8]) -> Self {
        let mounts: Vec<Mounted> = text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect();
        let places = mounts.iter().enumerate();
        let places = places.map(|(place, mount)| (mount.number, place)).collect();
        Self { mounts, places }
    }

    pub(super) fn mounts(&self) -> &[Mounted] {
        &self.mounts
    }

    /// The mount itself, the one that it is mounted in, and so on up to the root.
    pub(super) fn chain<'t>(&'t self, mounted: &'t Mounted) -> impl Iterator<Item = &'t Mounted> {
        std::iter::successors(Some(mounted), |mount| {
            let above = *self.places.get(&mount.above)?;
            Some(&self.mounts[above]).filter(|above| above.number != mount.number)
        })
    }

    /// Whether no path leads to the mount: another one stands at its root, or on the way to it.
    pub(super) fn is_covered(&self, mounted: &Mounted) -> bool {
        let chain: Vec<&Mounted> = self.chain(mounted).collect();
        let leads_to_it = |other: &Mounted| chain.iter().any(|mount| mount.number == other.number);
        let stands_at_root = |other: &Mounted| other.above == mounted.number && other.path == mounted.path;
        let stands_on_the_way = |other: &Mounted| {
            chain.iter().any(|mount| {
                mount.above == other.above && mount.path != other.path && mount.path.starts_with(&other.path)
            })
        };
        self.mounts
            .iter()
            .any(|other| !leads_to_it(other) && (stands_at_root(other) || stands_on_the_way(other)))
    }
}

/// A line of `mountinfo`.
pub(super) struct Mounted {
    pub(super) number: u64,
    /// The number of the mount that it is mounted in.
    above: u64,
    pub(super) path: PathBuf,
    pub(super) options: MountFlags,
}

fn parse_mount(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (number, above) = (number()?, number()?);
    let mut fields = fields.skip(2);
    let path = unescape(fields.next()?);
    let mut flags = MountFlags::empty();
    for option in fields.next()?.split(|byte| *byte == b',') {
        flags |= match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            _ => MountFlags::empty(),
        };
    }
    Some(Mounted {
        number,
        above,
        path,
        options: flags,
    })
}

/// Blanks and the like are written as a backslash and three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, mount above, path.
    fn table(mounts: &[(u64, u64, &str)]) -> MountTable {
        let line =
            |(number, above, path): &(u64, u64, &str)| format!("{number} {above} 0:1 / {path} rw - tmpfs a rw\n");
        MountTable::parse(mounts.iter().map(line).collect::<String>().as_bytes())
    }

    #[test]
    fn a_mount_is_covered_by_one_at_its_path_or_above_it() {
        let covered = |mounts: &[(u64, u64, &str)]| -> Vec<u64> {
            let table = table(mounts);
            let covered = table.mounts().iter().filter(|mount| table.is_covered(mount));
            covered.map(|mount| mount.number).collect()
        };
        let volume = [(1, 1, "/"), (2, 1, "/vol"), (3, 2, "/vol/a")];
        let with = |more: &[(u64, u64, &'static str)]| [&volume[..], more].concat();
        assert_eq!(covered(&volume), [] as [u64; 0]);
        assert_eq!(covered(&with(&[(4, 3, "/vol/a")])), [3], "at its root");
        assert_eq!(covered(&with(&[(4, 3, "/vol/a/b")])), [] as [u64; 0], "below it");
        assert_eq!(covered(&with(&[(4, 2, "/vol")])), [2, 3], "on the way");
        assert_eq!(covered(&with(&[(4, 2, "/vol/ab")])), [] as [u64; 0], "beside it");
        // What was mounted before a volume hides it is hidden itself, and hides nothing in the volume.
        assert_eq!(covered(&with(&[(4, 1, "/vol/a")])), [4]);
    }

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_blanks_and_flags() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c rw,nosuid,noatime master:1 - ext3 /dev/root rw";
        let mount = parse_mount(line).unwrap();
        assert_eq!((mount.number, mount.above), (36, 35));
        assert_eq!(mount.path, Path::new(r"/a b\c"));
        assert_eq!(mount.options, MountFlags::NOSUID);
        assert!(parse_mount(b"").is_none());
    }
}
