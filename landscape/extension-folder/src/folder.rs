//! The folder of an extension, read before anything of it runs.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use tokio::task::spawn_blocking;

use crate::build::{Build, Built, Failed, build};
use crate::crate_folder;
use crate::manifests::Manifests;
use crate::settings::{FILE, Settings};

/// The folder of an extension.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Name of the extension: that of its ControllerRegistration.
    pub name: String,
    /// The folder, absolute.
    pub path: PathBuf,
    /// The program that is built, absolute. It need not be there yet.
    pub program: PathBuf,
    /// The image of the chart that the program stands for, with any tag: its own is left out.
    pub image: String,
    /// What the program is built from beside chart and registration; empty: all of the folder.
    pub(crate) watch: Vec<PathBuf>,
    /// Folders that the builder writes into: nothing is built from them.
    pub(crate) made: Vec<PathBuf>,
    pub(crate) build: Build,
}

impl Folder {
    /// Reads a folder.
    ///
    /// # Errors
    /// There is none, no extension is in it, or its chart could not be installed; each with one thing to do.
    pub async fn read(path: &Path) -> Result<Self, Fault> {
        let shown = path.display();
        let make = "make one with `orangery new extension NAME --kind KIND`, or name another folder";
        let absolute = std::fs::canonicalize(path)
            .map_err(|error| Fault::user(format!("--extension {shown}: {error}")).hint(make))?;
        if !absolute.is_dir() {
            return Err(Fault::user(format!("--extension {shown} is no folder")).hint(make));
        }
        let settings = Settings::read(&absolute)?;
        if settings.is_none() && !absolute.join("Cargo.toml").exists() {
            let why = format!("--extension {shown}: the folder has neither a Cargo.toml nor a file {FILE}");
            return Err(Fault::user(why).hint(make));
        }
        let manifests = Manifests::read(&absolute).await?;
        let named = settings.as_ref().and_then(|settings| settings.image.clone());
        let (program, build, watch, own, made) = match settings {
            Some(settings) => {
                let file = absolute.join(&settings.program);
                let own = file.file_name().map(|name| name.to_string_lossy().into_owned());
                let watch = settings.watch.iter().map(|path| absolute.join(path)).collect();
                let own = own.unwrap_or_default();
                (file, Build::Command(settings.build), watch, own, Vec::new())
            }
            None => {
                let folder = absolute.clone();
                let read = spawn_blocking(move || crate_folder::read(&folder)).await;
                let read = read.map_err(|error| Fault::bug(format!("reading a crate ended: {error}")))??;
                let build = Build::Cargo(read.program.clone());
                (read.file, build, Vec::new(), read.program, read.made)
            }
        };
        let image = image(named, &manifests.images, &own).map_err(|why| {
            Fault::user(format!("--extension {shown}: {why}")).hint(format!("name the image in {FILE}"))
        })?;
        Ok(Self {
            name: manifests.name,
            path: absolute,
            program,
            image: without_tag(&image).to_owned(),
            watch,
            made,
            build,
        })
    }

    /// Reads the folder again, for another way to build and other paths to watch.
    ///
    /// # Errors
    /// As of [`Folder::read`]; and name, program or image are others now, which only a start can change.
    pub(crate) async fn read_again(&self) -> Result<Self, Fault> {
        let now = Self::read(&self.path).await?;
        let text = |path: &Path| path.display().to_string();
        let fields = [
            ("the program", text(&self.program), text(&now.program)),
            ("the image", self.image.clone(), now.image.clone()),
            ("the name", self.name.clone(), now.name.clone()),
        ];
        match fields.into_iter().find(|(_, was, is)| was != is) {
            Some((what, was, is)) => Err(Fault::user(format!("{what} is {is} now, which was {was}"))
                .hint("start `up` again, or take the change back")),
            None => Ok(now),
        }
    }

    /// What installs it, as the files are now.
    ///
    /// # Errors
    /// As of [`Folder::read`].
    pub async fn manifests(&self) -> Result<Manifests, Fault> {
        let manifests = Manifests::read(&self.path).await?;
        if manifests.name != self.name {
            let why = format!(
                "registration.yaml names {} now, which was {}",
                manifests.name, self.name
            );
            return Err(Fault::user(why).hint("start `up` again to install it under another name"));
        }
        Ok(manifests)
    }

    /// Whether the program's image is among these, with whatever tag.
    pub(crate) fn is_in(&self, images: &[String]) -> bool {
        images.iter().any(|image| without_tag(image) == self.image)
    }

    /// Builds the program, and passes on each line that the builder prints. When this is dropped, the builder and all that it
    /// has started are killed.
    ///
    /// # Errors
    /// The builder cannot be started, or fails, or leaves no program.
    pub async fn build(&self, colour: bool, line: impl FnMut(&str)) -> Result<Built, Failed> {
        build(&self.build, &self.path, &self.program, colour, line).await
    }
}

/// An image's name without tag and digest. A colon before a slash is that of a port.
fn without_tag(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    match image[name..].find(':') {
        Some(colon) => &image[..name + colon],
        None => image,
    }
}

/// The image that the program stands for: the one that is named, the only one, or the one that is called as the program.
fn image(named: Option<String>, images: &[String], program: &str) -> Result<String, String> {
    let all = images.join(", ");
    if let Some(named) = named {
        return match images.iter().any(|image| without_tag(image) == without_tag(&named)) {
            true => Ok(named),
            false => Err(format!(
                "no container of the chart has the image {named}; the images are {all}"
            )),
        };
    }
    match images {
        [] => Err("no container of the chart has an image".to_owned()),
        [one] => Ok(one.clone()),
        several => {
            let is_own = |image: &&String| without_tag(image).rsplit('/').next() == Some(program);
            several
                .iter()
                .find(is_own)
                .cloned()
                .ok_or_else(|| format!("the chart has several images, and none is called {program}: {all}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{image, without_tag};

    #[test]
    fn a_port_is_no_tag() {
        for (image, name) in [
            ("a:1", "a"),
            ("h:5000/a/b:1@sha256:x", "h:5000/a/b"),
            ("h:5000/a", "h:5000/a"),
        ] {
            assert_eq!(without_tag(image), name);
        }
    }

    #[test]
    fn the_image_is_the_named_the_only_or_the_one_called_as_program() {
        let images = |list: &[&str]| list.iter().map(|image| (*image).to_owned()).collect::<Vec<_>>();
        let several = images(&["example.org:5000/proxy:1", "example.org:5000/moon:v1"]);
        assert_eq!(image(None, &several, "moon").unwrap(), "example.org:5000/moon:v1");
        assert_eq!(image(None, &images(&["a"]), "moon").unwrap(), "a");
        assert!(image(None, &several, "sun").unwrap_err().contains("none is called sun"));
        assert!(image(None, &[], "moon").is_err());
        assert_eq!(image(Some("a".to_owned()), &images(&["a", "b"]), "moon").unwrap(), "a");
        assert!(image(Some("c".to_owned()), &images(&["a", "b"]), "moon").is_err());
    }
}
