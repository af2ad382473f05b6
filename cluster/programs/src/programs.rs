//! The programs of one node: the mappings of its image file, and what all its pods share.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use api_meta::Fault;
use cluster_node::ImageCatalogue;

use crate::plain::Guardian;
use crate::pod::remove;
use crate::ports::Ports;
use crate::program::Program;
use crate::{ApiServers, ImageFile};

/// What programs run with.
#[derive(Clone)]
pub struct Options {
    /// The folder for what pods need on disk while they run, for these programs alone. It is emptied at the beginning.
    pub folder: PathBuf,
    /// Folders that pods with namespaces see empty: those with secrets of this process.
    pub hidden: Vec<PathBuf>,
    /// What keeps pods apart.
    pub isolation: Isolation,
    /// The API servers that stand behind Services of the node's cluster.
    pub servers: Arc<dyn ApiServers>,
}

/// What keeps the pods of programs apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Namespaces: each pod has a network of its own, each container the files that it mounts.
    Namespaces {
        /// A program whose `main` begins with `cluster_sandbox::run_if_helper`, such as `/proc/self/exe`.
        helper: PathBuf,
    },
    /// Nothing but process groups.
    None,
}

/// What all pods of a node share.
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) isolation: Isolation,
    pub(crate) servers: Arc<dyn ApiServers>,
    pub(crate) guardian: Arc<Guardian>,
    pub(crate) ports: Ports,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("folder", &self.folder)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

/// The images of a node that are programs on disk.
#[derive(Clone, Debug)]
pub struct Programs {
    programs: Vec<Program>,
}

impl Programs {
    /// The programs of an image file.
    ///
    /// # Errors
    /// The folder cannot be used, or no process can be started.
    pub fn new(file: &ImageFile, options: Options) -> Result<Self, Fault> {
        let Options {
            folder,
            hidden,
            isolation,
            servers,
        } = options;
        let unusable = |error: io::Error| {
            Fault::user(format!(
                "the folder {} for programs cannot be used: {error}",
                folder.display()
            ))
            .hint("name another data folder with --data-dir")
        };
        // What an earlier process left there belongs to pods that are started again.
        remove(&folder);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(unusable)?;
        let folder = std::path::absolute(&folder).map_err(unusable)?;
        let guardian = Guardian::start().map_err(|error| {
            Fault::user(format!(
                "/bin/sh cannot be started, which ends programs with this process: {error}"
            ))
            .hint("install a shell, or leave --images out")
        })?;
        let shared = Arc::new(Shared {
            folder,
            hidden: hidden
                .iter()
                .filter_map(|folder| std::path::absolute(folder).ok())
                .collect(),
            isolation,
            servers,
            guardian,
            ports: Ports::of_process(),
        });
        let programs = file.mappings.iter();
        let programs = programs.map(|mapping| Program::new(mapping.clone(), &file.path, shared.clone()));
        Ok(Programs {
            programs: programs.collect(),
        })
    }

    /// The catalogue with these images.
    #[must_use]
    pub fn add_to(&self, catalogue: ImageCatalogue) -> ImageCatalogue {
        self.programs.iter().fold(catalogue, |catalogue, program| {
            catalogue.with_pattern(program.pattern().clone(), Arc::new(program.clone()))
        })
    }
}
