//! Functions of Sprig 3.3 as Helm exposes them: on strings, lists, dictionaries, numbers, defaults, types, paths, JSON,
//! versions, URLs, regular expressions, random texts, dates, lengths of time, passwords, keys, certificates and addresses.

mod args;
mod cases;
mod crypto;
pub(crate) mod dates;
mod decimal;
mod defaults;
mod dicts;
mod durations;
mod encoding;
mod equal;
mod json;
mod json_read;
mod lists;
mod merge;
mod names;
mod numbers;
mod paths;
mod random;
mod regex;
mod semver;
mod serialize;
mod strings;
mod url;
mod words;

pub(crate) use dates::{DURATION, duration};
pub(crate) use json_read::{Read, read as read_json};
pub use paths::base as path_base;

use crate::value::function::{Function, Functions};

impl Functions {
    /// Adds Sprig's functions. Some replace Go's own of the same name, as in Helm: `slice`, for one.
    #[must_use]
    pub fn with_sprig(mut self) -> Self {
        let groups: [fn() -> Vec<Function>; 21] = [
            cases::functions,
            crypto::functions,
            dates::functions,
            decimal::functions,
            defaults::functions,
            dicts::functions,
            durations::functions,
            encoding::functions,
            json::functions,
            json_read::functions,
            lists::functions,
            names::functions,
            numbers::functions,
            paths::functions,
            random::functions,
            regex::functions,
            semver::functions,
            strings::functions,
            url::functions,
            words::functions,
            merge::functions,
        ];
        for function in groups.into_iter().flat_map(|functions| functions()) {
            self.add(function);
        }
        self
    }
}
