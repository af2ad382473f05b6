//! Ports of loopback that stay the same from one start of a landscape to the next: they stand in kubeconfigs and objects.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use tests_parts::Outcome;

/// Below the range from which Linux takes the ports of connections (32768 to 60999): a server that is started again finds its port
/// free.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// The ports of a landscape by what listens there.
pub(super) struct Ports {
    file: PathBuf,
    /// Where the search for free ones begins; landscapes in different folders begin at different ports.
    first: u16,
    known: BTreeMap<String, u16>,
}

impl Ports {
    /// Those of a folder.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(super) fn of_folder(folder: &Path) -> Outcome<Self> {
        let file = folder.join("ports.json");
        let known = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?,
            Err(_) => BTreeMap::new(),
        };
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        let first = u16::try_from(hasher.finish() % u64::from(RANGE.end - RANGE.start)).unwrap_or_default();
        Ok(Self { file, first, known })
    }

    /// The port of this name; a free one the first time.
    ///
    /// # Errors
    /// None is free, or the file cannot be written.
    pub(super) fn of(&mut self, name: &str) -> Outcome<u16> {
        if let Some(port) = self.known.get(name) {
            return Ok(*port);
        }
        let count = RANGE.end - RANGE.start;
        let mut candidates = (0..count).map(|step| RANGE.start + (self.first + step) % count);
        let is_free = |port: &u16| {
            !self.known.values().any(|known| known == port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
        };
        let port = candidates.find(is_free);
        let port = port.ok_or_else(|| format!("no port of loopback from {} to {} is free", RANGE.start, RANGE.end))?;
        self.known.insert(name.to_owned(), port);
        let text = serde_json::to_string_pretty(&self.known).map_err(|error| error.to_string())?;
        std::fs::write(&self.file, text).map_err(|error| format!("cannot write {}: {error}", self.file.display()))?;
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_the_same_when_a_folder_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ports = Ports::of_folder(folder.path()).unwrap();
        let (one, other) = (ports.of("one").unwrap(), ports.of("other").unwrap());
        assert_ne!(one, other);
        assert!(RANGE.contains(&one) && RANGE.contains(&other));
        let mut again = Ports::of_folder(folder.path()).unwrap();
        assert_eq!((again.of("one").unwrap(), again.of("other").unwrap()), (one, other));
    }
}
