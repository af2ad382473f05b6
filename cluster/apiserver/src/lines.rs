//! Lines of watches that many read: the line of a change is made once while a crowd watches a version of a kind, whoever
//! comes to it later copies it. It keeps a line for a moment only; a reader who lags makes his own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use cluster_store::{Object, Revision};

use crate::status::Status;

/// From so many watches on sharing pays for what is kept. The servers of a landscape's clusters, of which one process has
/// hundreds, have fewer of any kind.
const CROWD_MIN: usize = 8;
/// Lines kept: what a thousand writes a second make while the slowest of a thousand readers has its turn.
const LINES: usize = 256;
/// Longer lines are made by each reader, so that a crowd costs at most four megabytes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// What is shared by those who watch a kind as it is served at one time.
#[derive(Default)]
pub(crate) struct Lines {
    /// By version.
    crowds: Mutex<BTreeMap<String, Weak<Crowd>>>,
}

impl Lines {
    /// Takes part in a version's lines, until what it gives is dropped.
    pub(crate) fn join(&self, version: &str) -> Arc<Crowd> {
        let mut crowds = self.crowds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(crowd) = crowds.get(version).and_then(Weak::upgrade) {
            return crowd;
        }
        let crowd = Arc::default();
        crowds.insert(version.to_owned(), Arc::downgrade(&crowd));
        crowd
    }
}

/// Those who watch one version of a kind; each of them holds it.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Empty until there are enough who read.
    slots: OnceLock<Box<[Mutex<Option<Line>>]>>,
}

struct Line {
    event: &'static str,
    object: Arc<Object>,
    revision: Revision,
    bytes: Bytes,
}

impl Crowd {
    /// The line of what happened, made by `make` if no other reader has made it a moment ago.
    pub(crate) fn line(
        self: &Arc<Self>,
        event: &'static str,
        object: &Arc<Object>,
        revision: Revision,
        make: impl FnOnce() -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        if Arc::strong_count(self) < CROWD_MIN {
            return make();
        }
        let slots = self
            .slots
            .get_or_init(|| (0..LINES).map(|_| Mutex::default()).collect());
        let place = usize::try_from(revision.0 % LINES as u64).unwrap_or_default();
        // Held while the line is made: others want the same one.
        let mut slot = slots[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = slot.as_ref()
            && line.revision == revision
            && line.event == event
            && Arc::ptr_eq(&line.object, object)
        {
            return Ok(line.bytes.clone());
        }
        let bytes = make()?;
        if bytes.len() <= LINE_BYTES_MAX {
            *slot = Some(Line {
                event,
                object: object.clone(),
                revision,
                bytes: bytes.clone(),
            });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn object(name: &str) -> Arc<Object> {
        let object = Object::from_value(serde_json::json!({"metadata": {"name": name}}));
        Arc::new(object.unwrap())
    }

    /// How many of the calls, one for each member, made a line of their own.
    fn made(crowd: &[Arc<Crowd>], event: &'static str, object: &Arc<Object>, length: usize) -> usize {
        let made = Cell::new(0);
        for member in crowd {
            let line = member.line(event, object, Revision(7), || {
                made.set(made.get() + 1);
                Ok(Bytes::from(vec![b'x'; length]))
            });
            assert_eq!(line.unwrap().len(), length);
        }
        made.get()
    }

    #[test]
    fn a_crowd_makes_each_line_once_and_few_make_their_own() {
        let lines = Lines::default();
        let mut crowd: Vec<_> = (1..CROWD_MIN).map(|_| lines.join("v1")).collect();
        let one = object("one");
        assert_eq!(made(&crowd, "ADDED", &one, 10), CROWD_MIN - 1);
        assert!(crowd[0].slots.get().is_none(), "nothing is kept for few");

        crowd.push(lines.join("v1"));
        assert_eq!(made(&crowd, "ADDED", &one, 10), 1);
        assert_eq!(made(&crowd, "ADDED", &one, 10), 0);
        assert_eq!(made(&crowd, "MODIFIED", &one, 10), 1);
        assert_eq!(
            made(&crowd, "MODIFIED", &object("one"), 10),
            1,
            "another object of the revision"
        );
        assert_eq!(
            made(&crowd, "ADDED", &one, LINE_BYTES_MAX + 1),
            CROWD_MIN,
            "too long to be kept"
        );

        let other = lines.join("v1beta1");
        assert!(!Arc::ptr_eq(&other, &crowd[0]));
    }

    #[test]
    fn who_comes_after_the_last_has_gone_begins_anew() {
        let lines = Lines::default();
        let first = lines.join("v1");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert_eq!(Arc::strong_count(&lines.join("v1")), 1);
    }
}
