//! The extensions of `orangery up --extension`: their folders are read before anything starts, their images are programs of
//! this machine, and what they print goes to the console. How they are built and followed is `landscape-extension-folder`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use api_meta::Fault;
use cluster_node::ReferencePattern;
use cluster_programs::{ImageFile, Mapping};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, try_join_all};
use kube::Client;
use landscape_extension_folder::{Folder, Host, Runs, develop, follow};
use landscape_local::{Landscape, apply_all};
use landscape_terminal::Console;
use serde_json::Value;
use tokio::sync::watch;

/// The extensions that are developed.
pub(super) struct Extensions(Vec<Folder>);

impl Extensions {
    /// Reads their folders.
    ///
    /// # Errors
    /// One is no extension's, or two are called alike.
    pub(super) async fn read(paths: &[PathBuf]) -> Result<Self, Fault> {
        let mut folders: Vec<Folder> = Vec::new();
        for path in paths {
            let folder = Folder::read(path).await?;
            if let Some(other) = folders.iter().find(|other| other.name == folder.name) {
                let (name, [one, two]) = (&folder.name, [&other.path, &folder.path].map(|path| path.display()));
                let why = format!("--extension is given twice for the extension {name}: {one} and {two}");
                return Err(Fault::user(why).hint("leave one out, or give it another name in its registration.yaml"));
            }
            folders.push(folder);
        }
        Ok(Self(folders))
    }

    /// The images that are programs: those of the extensions before those of the file.
    ///
    /// # Errors
    /// The image of a chart is none.
    pub(super) fn images(&self, file: Option<ImageFile>) -> Result<Option<ImageFile>, Fault> {
        let Some(first) = self.0.first() else { return Ok(file) };
        let mut mappings = self.0.iter().map(mapping).collect::<Result<Vec<_>, _>>()?;
        let path = match file {
            Some(file) => {
                mappings.extend(file.mappings);
                file.path
            }
            None => first.path.join("registration.yaml"),
        };
        Ok(Some(ImageFile { path, mappings }))
    }

    /// Builds, installs and follows them for ever.
    ///
    /// # Errors
    /// A folder cannot be watched.
    pub(super) async fn develop(&self, landscape: &Landscape, console: &Console) -> Result<Infallible, Fault> {
        let connector = landscape.connector();
        let garden = connector.client(&landscape.garden_kubeconfig()?)?;
        let seeds = landscape.seeds.iter();
        let seeds: Result<Vec<(&str, Client)>, Fault> = seeds
            .map(|seed| Ok((seed.name.as_str(), connector.client(&seed.kubeconfig()?)?)))
            .collect();
        let seeds = seeds?;
        let each = self.0.iter().map(|folder| {
            let at = AtConsole {
                name: folder.name.clone(),
                garden: garden.clone(),
                console: console.clone(),
            };
            let seeds = &seeds;
            async move {
                let (runs, seen) = watch::channel(Runs::default());
                let printing = join_all(seeds.iter().map(|(seed, client)| {
                    let to = at.clone();
                    let place = if seeds.len() > 1 {
                        format!(" in {seed}")
                    } else {
                        String::new()
                    };
                    let line = move |text: &str| to.console.say(&format!("{}{place} | {text}", to.name));
                    follow(seed, client.clone(), &folder.name, &runs, Arc::new(line))
                }));
                tokio::select! {
                    ended = develop(folder, &at, seen) => ended,
                    _ = printing => std::future::pending().await,
                }
            }
        });
        try_join_all(each).await?;
        std::future::pending().await
    }
}

/// The image of an extension's chart as its program.
fn mapping(folder: &Folder) -> Result<Mapping, Fault> {
    let pattern = ReferencePattern::parse(&folder.image).map_err(|error| {
        Fault::user(format!(
            "the image {:?} of {}'s chart: {error}",
            folder.image, folder.name
        ))
        .hint("correct image in chart/values.yaml")
    })?;
    Ok(Mapping {
        place: format!("--extension {}", folder.name),
        pattern,
        command: vec![folder.program.display().to_string()],
        args: Vec::new(),
        env: Default::default(),
        working_dir: None,
    })
}

/// An extension's lines on the console.
#[derive(Clone)]
struct AtConsole {
    name: String,
    garden: Client,
    console: Console,
}

impl Host for AtConsole {
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>> {
        apply_all(&self.garden, objects).boxed()
    }

    fn line(&self, text: &str) {
        self.console.say(&format!("{} | {text}", self.name));
    }

    fn say(&self, text: &str) {
        for line in text.lines() {
            self.console.say(&format!("{}: {line}", self.name));
        }
    }

    fn colour(&self) -> bool {
        self.console.draws()
    }
}
