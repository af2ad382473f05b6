//! The extensions of `orangery up --extension`: their folders are read before anything starts, their images are programs of
//! this machine, and what they print goes to the console. How they are built and followed is `landscape-extension-folder`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use api_meta::Fault;
use cluster_node::ReferencePattern;
use cluster_programs::{BuildSignal, ImageFile, Mapping};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, try_join_all};
use kube::Client;
use landscape_extension_folder::{Folder, Host, Runs, develop, follow};
use landscape_local::{Landscape, apply_all};
use landscape_terminal::Console;
use serde_json::Value;
use tokio::sync::watch;

/// The extensions that are developed.
pub(super) struct Extensions(Vec<Extension>);

/// One of them.
struct Extension {
    folder: Folder,
    /// Restarts what runs of it.
    built: BuildSignal,
}

impl Extensions {
    /// Reads their folders.
    ///
    /// # Errors
    /// One is no extension's, or two have one name or one image.
    pub(super) async fn read(paths: &[PathBuf]) -> Result<Self, Fault> {
        let mut extensions: Vec<Extension> = Vec::new();
        for path in paths {
            let folder = Folder::read(path).await?;
            for Extension { folder: other, .. } in &extensions {
                refuse_twins(other, &folder)?;
            }
            let built = BuildSignal::default();
            extensions.push(Extension { folder, built });
        }
        Ok(Self(extensions))
    }

    /// The images that are programs: those of the extensions before those of the file.
    ///
    /// # Errors
    /// The image of a chart is none, or the file maps it too.
    pub(super) fn images(&self, file: Option<ImageFile>) -> Result<Option<ImageFile>, Fault> {
        let Some(Extension { folder: first, .. }) = self.0.first() else {
            return Ok(file);
        };
        let mappings = self.0.iter().map(mapping).collect::<Result<Vec<_>, _>>()?;
        let file = file.unwrap_or_else(|| ImageFile {
            path: first.path.join("registration.yaml"),
            mappings: Vec::new(),
        });
        file.with_first(mappings).map(Some)
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
        let each = self.0.iter().map(|Extension { folder, built }| {
            let at = AtConsole {
                name: folder.name.clone(),
                built: built.clone(),
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
                    let line = move |text: &str| to.console.print(&format!("{}{place} | {text}", to.name));
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

/// Refuses two extensions of which one would take the place of the other.
fn refuse_twins(one: &Folder, two: &Folder) -> Result<(), Fault> {
    let folders = || {
        let [one, two] = [one, two].map(|folder| folder.path.display());
        format!("{one} and {two}")
    };
    if one.name == two.name {
        let (name, folders) = (&one.name, folders());
        let why = format!("--extension is given twice for the extension {name}: {folders}");
        return Err(Fault::user(why).hint("leave one out, or give it another name in its registration.yaml"));
    }
    if one.image == two.image {
        let (image, folders) = (&one.image, folders());
        let why = format!(
            "the charts of --extension {folders} have the same image {image} in spec.containers[].image: the program of one would \
             run in the pods of both"
        );
        return Err(Fault::user(why).hint("name another image in chart/values.yaml of one of them"));
    }
    Ok(())
}

/// The image of an extension's chart as its program.
fn mapping(Extension { folder, built }: &Extension) -> Result<Mapping, Fault> {
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
        built: built.clone(),
    })
}

/// An extension's lines on the console.
#[derive(Clone)]
struct AtConsole {
    name: String,
    built: BuildSignal,
    garden: Client,
    console: Console,
}

impl Host for AtConsole {
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>> {
        apply_all(&self.garden, objects).boxed()
    }

    fn program_built(&self) {
        self.built.send();
    }

    fn line(&self, text: &str) {
        self.console.print(&format!("{} | {text}", self.name));
    }

    fn report(&self, text: &str) {
        for line in text.lines() {
            self.console.print(&format!("{}: {line}", self.name));
        }
    }

    fn colour(&self) -> bool {
        self.console.draws()
    }
}
