//! A cloud in memory: resources with a tag.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// Clones share one cloud.
#[derive(Clone, Default)]
pub(crate) struct Cloud(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    made: u64,
    /// Tags by id.
    resources: BTreeMap<String, String>,
}

impl Cloud {
    pub(crate) fn create(&self, tag: &str) -> String {
        let mut state = self.0.lock().unwrap();
        state.made += 1;
        let id = format!("net-{}", state.made);
        state.resources.insert(id.clone(), tag.to_owned());
        id
    }

    pub(crate) fn find(&self, tag: &str) -> Option<String> {
        let state = self.0.lock().unwrap();
        let found = state.resources.iter().find(|(_, other)| *other == tag);
        found.map(|(id, _)| id.clone())
    }

    pub(crate) fn delete(&self, tag: &str) {
        self.0.lock().unwrap().resources.retain(|_, other| other != tag);
    }

    /// A line for each resource.
    pub(crate) fn list(&self) -> String {
        let state = self.0.lock().unwrap();
        state.resources.iter().fold(String::new(), |mut text, (id, tag)| {
            writeln!(text, "{id} {tag}").unwrap();
            text
        })
    }
}
