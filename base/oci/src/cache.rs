//! Content on disk, named by its digest. Content is verified when it is read, so that nothing here has to be trusted: a damaged
//! entry is removed. A cache that cannot be read or written makes a pull slower, and never fails it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base_clock::{Clock, Entropy};
use bytes::Bytes;

use crate::reference::Digest;

/// Default size of the cache: some thousand charts, and no burden for a laptop or a seed's volume.
pub const CACHE_BYTES_MAX: u64 = 1 << 30;
/// An older incoming file is of a process that was killed: no write takes so long.
const INCOMING_AGE_MAX: Duration = Duration::from_secs(3600);
/// Random characters in the name of an incoming file: no two writers of a folder draw the same.
const NAME_CHARS: usize = 20;

/// A folder of content, which several processes may share. Each entry is written to an incoming file and renamed, so that a
/// crash leaves none half written; one that a power cut has damaged is found when it is read.
#[derive(Clone, Debug)]
pub struct Cache {
    whole: PathBuf,
    incoming: PathBuf,
    bytes_max: u64,
    clock: Clock,
    entropy: Entropy,
}

impl Cache {
    /// Opens a folder, and creates it, readable by its owner alone, where there is none. It has at most `bytes_max` bytes: the
    /// entries that were read or written longest ago are removed.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(folder: &Path, bytes_max: u64, clock: Clock, entropy: Entropy) -> io::Result<Self> {
        let cache = Self {
            whole: folder.join("sha256"),
            incoming: folder.join("incoming"),
            bytes_max,
            clock,
            entropy,
        };
        for folder in [&cache.whole, &cache.incoming] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(cache)
    }

    /// The content with this digest, if it is cached, undamaged and not larger than `bytes_max`.
    pub(crate) async fn read(&self, digest: Digest, bytes_max: u64) -> Option<Bytes> {
        let cache = self.clone();
        let read = tokio::task::spawn_blocking(move || cache.read_now(digest, bytes_max)).await;
        match read.ok()? {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%digest, %error, "a cached artefact cannot be read, it is fetched again");
                None
            }
        }
    }

    /// Caches this content.
    pub(crate) async fn write(&self, digest: Digest, bytes: Bytes) {
        let cache = self.clone();
        let written = tokio::task::spawn_blocking(move || cache.write_now(digest, &bytes)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%digest, %error, "an artefact cannot be cached, it will be fetched again");
        }
    }

    fn read_now(&self, digest: Digest, bytes_max: u64) -> io::Result<Option<Bytes>> {
        let path = self.whole.join(digest.hex());
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let mut bytes = Vec::new();
        if metadata.is_file() {
            let file = match File::open(&path) {
                // Another process made room.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
            // Larger than requested is not damaged: its declared size is known before the request.
            if bytes.len() as u64 > bytes_max {
                return Ok(None);
            }
            if Digest::of(&bytes) == digest {
                // A process that may only read leaves the time as it is: the entry then looks older, and that is all.
                let _ = File::options()
                    .write(true)
                    .open(&path)
                    .and_then(|file| file.set_modified(self.now()));
                return Ok(Some(Bytes::from(bytes)));
            }
        }
        tracing::warn!(%digest, "a cached artefact is damaged, it is thrown away");
        remove(&path)?;
        Ok(None)
    }

    fn write_now(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.bytes_max {
            return Ok(());
        }
        let incoming = self.incoming.join(self.entropy.suffix(NAME_CHARS));
        let written = File::create_new(&incoming).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_modified(self.now())
        });
        let renamed = written.and_then(|()| fs::rename(&incoming, self.whole.join(digest.hex())));
        if renamed.is_err() {
            remove(&incoming)?;
        }
        renamed?;
        self.make_room(digest)
    }

    /// Removes the least recently used entries until the rest fits, but never the newest.
    fn make_room(&self, newest: Digest) -> io::Result<()> {
        let now = self.now();
        for (path, _, used) in entries(&self.incoming)? {
            if now.duration_since(used).is_ok_and(|age| age > INCOMING_AGE_MAX) {
                remove(&path)?;
            }
        }
        let mut all = entries(&self.whole)?;
        let mut bytes: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        all.sort_by_key(|(_, _, used)| *used);
        let newest = self.whole.join(newest.hex());
        for (path, size, _) in all.iter().filter(|(path, _, _)| *path != newest) {
            if bytes <= self.bytes_max {
                break;
            }
            remove(path)?;
            bytes -= size;
        }
        Ok(())
    }

    fn now(&self) -> SystemTime {
        SystemTime::from(self.clock.now())
    }
}

/// Files of a folder with their sizes and when they were used.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => all.push((entry.path(), metadata.len(), metadata.modified()?)),
            Ok(_) => {}
            // Another process made room.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use base_clock::{Clock, Entropy};
    use bytes::Bytes;
    use jiff::{SignedDuration, Timestamp};

    use super::Cache;
    use crate::reference::Digest;

    fn contents() -> [Bytes; 4] {
        ["one", "two", "tre", "fou"].map(|text| Bytes::from(text.repeat(10)))
    }

    #[tokio::test]
    async fn least_recently_used_entry_is_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let (clock, hand) = Clock::settable(Timestamp::UNIX_EPOCH);
        let cache = Cache::open(folder.path(), 90, clock, Entropy::seeded(1)).unwrap();
        let contents = contents();
        let digests = contents.clone().map(|content| Digest::of(&content));
        for at in 0..3 {
            cache.write(digests[at], contents[at].clone()).await;
            hand.jump(SignedDuration::from_secs(1));
        }
        assert_eq!(cache.read(digests[0], 30).await.as_ref(), Some(&contents[0]));
        hand.jump(SignedDuration::from_secs(1));
        cache.write(digests[3], contents[3].clone()).await;
        let mut is_cached = Vec::new();
        for digest in digests {
            is_cached.push(cache.read(digest, 30).await.is_some());
        }
        assert_eq!(is_cached, [true, false, true, true]);
        let large = Bytes::from(vec![0; 91]);
        cache.write(Digest::of(&large), large.clone()).await;
        assert_eq!(
            cache.read(Digest::of(&large), 91).await,
            None,
            "larger than all the cache"
        );
        assert!(cache.read(digests[0], 30).await.is_some(), "nothing was dropped for it");
    }

    #[tokio::test]
    async fn damaged_entry_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 90, Clock::real(), Entropy::seeded(1)).unwrap();
        let [content, ..] = contents();
        let digest = Digest::of(&content);
        let path = folder.path().join("sha256").join(digest.hex());
        cache.write(digest, content.clone()).await;
        fs::write(&path, "one").unwrap();
        assert_eq!(cache.read(digest, 30).await, None);
        assert!(!path.exists());
        cache.write(digest, content.clone()).await;
        assert_eq!(cache.read(digest, 29).await, None, "larger than is wanted");
        assert_eq!(cache.read(digest, 30).await, Some(content));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(cache.read(digest, 30).await, None, "a link is no entry");
        assert!(elsewhere.exists());
    }

    #[tokio::test]
    async fn incoming_file_of_a_killed_process_is_removed_when_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let (clock, hand) = Clock::settable(Timestamp::UNIX_EPOCH);
        let cache = Cache::open(folder.path(), 90, clock, Entropy::seeded(1)).unwrap();
        let [content, ..] = contents();
        let left = folder.path().join("incoming/left");
        fs::write(&left, "half").unwrap();
        let written = fs::metadata(&left).unwrap().modified().unwrap();
        let age = written.duration_since(std::time::UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        hand.jump(SignedDuration::try_from(age).unwrap());
        cache.write(Digest::of(&content), content.clone()).await;
        assert!(left.exists(), "it may be of a process that still writes");
        hand.jump(SignedDuration::from_secs(3600));
        cache.write(Digest::of(&content), content).await;
        assert!(!left.exists());
    }

    #[tokio::test]
    async fn a_cache_that_cannot_be_written_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 90, Clock::real(), Entropy::seeded(1)).unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        let [content, ..] = contents();
        cache.write(Digest::of(&content), content.clone()).await;
        assert_eq!(cache.read(Digest::of(&content), 30).await, None);
    }
}
