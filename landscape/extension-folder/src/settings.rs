//! The file `orangery-extension.yaml` of an extension that is no Rust crate, or is built in another way. Read strictly.

use std::path::Path;

use api_meta::Fault;
use serde::Deserialize;

/// Its name.
pub(crate) const FILE: &str = "orangery-extension.yaml";

/// What stands in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The command that builds the program, in the folder; none: there is nothing to build.
    #[serde(default)]
    pub(crate) build: Vec<String>,
    /// The program, relative to the folder.
    pub(crate) program: String,
    /// What is built from, relative to the folder; by default all but what is hidden or called target.
    #[serde(default)]
    pub(crate) watch: Vec<String>,
    /// The image of the chart that the program stands for; needed where the chart has several.
    pub(crate) image: Option<String>,
}

impl Settings {
    /// Reads the file of a folder; none if there is none.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Fault> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let why = format!("{} cannot be read: {error}", path.display());
                return Err(Fault::user(why).hint("make it readable, or remove it"));
            }
        };
        let wrong = |why: String| {
            Fault::user(format!("{} is wrong: {why}", path.display())).hint(
                "it has the fields build (a command as a list), program (a path), watch (a list of paths) and image; program is \
                 required",
            )
        };
        let settings: Self = base_yaml::read_strict(&text).map_err(|error| wrong(error.to_string()))?;
        if settings.program.is_empty() || settings.build.first().is_some_and(String::is_empty) {
            return Err(wrong("program, or the first word of build, is empty".to_owned()));
        }
        for (number, watched) in settings.watch.iter().enumerate() {
            if let Err(error) = std::fs::metadata(folder.join(watched)) {
                let why = format!("watch[{number}] is {watched:?}, which cannot be watched: {error}");
                let hint = format!(
                    "correct watch[{number}]: a file or folder that is there, relative to {}; or leave watch out to watch all of it",
                    folder.display()
                );
                return Err(Fault::user(format!("{} is wrong: {why}", path.display())).hint(hint));
            }
        }
        Ok(Some(settings))
    }
}
