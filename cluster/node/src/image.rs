//! What an image is here: a value that runs a container as a future of this process, found in a catalogue by its name or
//! by a pattern over its reference. Nothing is ever pulled.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{ContainerContext, ReferencePattern};

/// The exit code of a container whose future panicked; the code that a crashed program is commonly given.
pub const EXIT_CRASHED: i32 = 255;

/// The exit code of a container that was killed (128 + SIGKILL), as a container runtime reports it.
pub const EXIT_KILLED: i32 = 137;

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 0 is success, everything else failure.
    pub code: i32,
    /// Stands in `state.terminated.message` of the container's status. Never holds secrets.
    pub message: String,
}

impl Exit {
    /// Code 0, without a message.
    pub fn done() -> Self {
        Exit {
            code: 0,
            message: String::new(),
        }
    }

    /// Code 1 and why.
    pub fn failed(message: impl Into<String>) -> Self {
        Exit {
            code: 1,
            message: message.into(),
        }
    }

    /// Code 1 and an error with everything that caused it.
    pub fn failed_by(error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Exit { code: 1, message }
    }
}

/// What runs when a container of this image starts.
///
/// The future is the container: its result is the exit, a panic in it is exit 255, and it is dropped when the grace
/// period ends. It must end soon after `context.stop` is cancelled, and own every task it starts, so that dropping it
/// ends them too. It reports itself when it is ready ([`ContainerContext::ready`]), unless [`Image::is_probed`].
pub trait Image: Send + Sync {
    /// Starts one container.
    fn run(&self, context: ContainerContext) -> BoxFuture<'static, Exit>;

    /// Whether the probes of its containers are run: `httpGet` and `tcpSocket` of what it listens on in the pod network.
    /// It is ready then when they succeed. Other probes it answers itself, by [`ContainerContext::ready`].
    fn is_probed(&self) -> bool {
        false
    }

    /// Whether its containers run commands for callers, by [`ContainerContext::commands`]: `exec` probes and hooks are
    /// run then. Such a container also gets the variables that lead a program to its API server.
    fn runs_commands(&self) -> bool {
        false
    }

    /// Whether a container of it could start now; checked before each start. An error is shown as the reason for which the
    /// container waits, and is looked at again after a while.
    fn check(&self) -> Result<(), CannotStart> {
        Ok(())
    }
}

/// Why a container of an image cannot start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotStart {
    /// As `state.waiting.reason` shows it, such as `CreateContainerError`.
    pub reason: &'static str,
    /// What is in the way, and what to do.
    pub message: String,
}

/// An image whose containers' probes are run.
struct Probed<I>(I);

impl<I: Image> Image for Probed<I> {
    fn run(&self, context: ContainerContext) -> BoxFuture<'static, Exit> {
        self.0.run(context)
    }

    fn is_probed(&self) -> bool {
        true
    }
}

impl<F, R> Image for F
where
    F: Fn(ContainerContext) -> R + Send + Sync,
    R: Future<Output = Exit> + Send + 'static,
{
    fn run(&self, context: ContainerContext) -> BoxFuture<'static, Exit> {
        Box::pin(self(context))
    }
}

/// The images that a node can run, by name without registry and tag, or by a pattern over the whole reference.
#[derive(Clone, Default)]
pub struct ImageCatalogue {
    images: BTreeMap<String, Arc<dyn Image>>,
    /// The first that matches counts.
    patterns: Vec<(ReferencePattern, Arc<dyn Image>)>,
    simulating: bool,
}

/// What a catalogue has for a reference.
#[derive(Clone)]
pub enum Found {
    /// An implementation.
    Known(Arc<dyn Image>),
    /// None, and the node simulates it: an idle task that is always ready, marked as simulated on the pod.
    Simulated,
    /// None: the container cannot start here.
    Missing,
}

impl ImageCatalogue {
    /// A catalogue without images. What it does not know does not start.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same images, and every other one runs as an idle, always ready task. Such pods are marked by an event
    /// `SimulatedImage` and the annotation `node.orangery.dev/simulated: "true"`.
    pub fn simulating(mut self) -> Self {
        self.simulating = true;
        self
    }

    /// Adds an image under its name without registry and tag; the last one of a name stays.
    pub fn with(mut self, name: impl Into<String>, image: impl Image + 'static) -> Self {
        self.images.insert(name.into(), Arc::new(image));
        self
    }

    /// As [`ImageCatalogue::with`], for an image whose containers' probes are run.
    pub fn with_probed(self, name: impl Into<String>, image: impl Image + 'static) -> Self {
        self.with(name, Probed(image))
    }

    /// Adds an image for all references that match a pattern, behind the patterns that were added before. A pattern that
    /// spells out an image's name wins over the image of that name, because its author means just this one; a pattern with
    /// a wildcard in the name does not, so that `example.org/acme/*` takes none of the node's own images away.
    pub fn with_pattern(mut self, pattern: ReferencePattern, image: Arc<dyn Image>) -> Self {
        self.patterns.push((pattern, image));
        self
    }

    /// What a full reference such as `orangery.dev/etcd:v0.1.0` stands for.
    pub fn find(&self, reference: &str) -> Found {
        let first = |spelled_out: bool| {
            let mut matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(reference));
            matching
                .find(|(pattern, _)| pattern.spells_name() || !spelled_out)
                .map(|(_, image)| image)
        };
        let named = || self.images.get(image_name(reference));
        match first(true).or_else(named).or_else(|| first(false)) {
            Some(image) => Found::Known(Arc::clone(image)),
            None if self.simulating => Found::Simulated,
            None => Found::Missing,
        }
    }

    /// Whether it simulates images that it does not know.
    pub fn is_simulating(&self) -> bool {
        self.simulating
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.images.keys().map(String::as_str)
    }
}

impl fmt::Debug for ImageCatalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageCatalogue")
            .field("images", &self.images.keys())
            .field(
                "patterns",
                &self.patterns.iter().map(|(pattern, _)| pattern).collect::<Vec<_>>(),
            )
            .field("simulating", &self.simulating)
            .finish()
    }
}

/// The name of a reference: its last path segment without tag and digest.
pub fn image_name(reference: &str) -> &str {
    split(reference).0
}

/// The tag of a reference, if it has one.
pub fn image_tag(reference: &str) -> Option<&str> {
    split(reference).1
}

fn split(reference: &str) -> (&str, Option<&str>) {
    let path = reference.split_once('@').map_or(reference, |(path, _digest)| path);
    // A colon before the last slash belongs to a registry's port.
    let last = path.rsplit('/').next().unwrap_or(path);
    match last.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (last, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_found_by_name_whatever_registry_tag_and_digest() {
        for (reference, name, tag) in [
            ("etcd", "etcd", None),
            ("orangery.dev/etcd:v0.1.0", "etcd", Some("v0.1.0")),
            ("localhost:5000/a/b/etcd", "etcd", None),
            ("localhost:5000/etcd:v1@sha256:00:11", "etcd", Some("v1")),
        ] {
            assert_eq!(
                (image_name(reference), image_tag(reference)),
                (name, tag),
                "{reference}"
            );
        }
    }

    #[test]
    fn an_unknown_image_is_simulated_only_by_a_simulating_catalogue() {
        let known = ImageCatalogue::new().with("etcd", |_: ContainerContext| async { Exit::done() });
        assert!(matches!(known.find("x/etcd:1"), Found::Known(_)));
        assert!(matches!(known.find("x/etcdx:1"), Found::Missing));
        assert!(matches!(known.simulating().find("x/etcdx:1"), Found::Simulated));
    }

    #[test]
    fn a_pattern_wins_over_a_name_only_when_it_spells_it_out() {
        let image = |code: i32| {
            move |_: ContainerContext| async move {
                Exit {
                    code,
                    message: String::new(),
                }
            }
        };
        let pattern = |text: &str| ReferencePattern::parse(text).unwrap();
        let (wide, exact): (Arc<dyn Image>, Arc<dyn Image>) = (Arc::new(image(1)), Arc::new(image(2)));
        let catalogue = ImageCatalogue::new()
            .with("etcd", image(0))
            .with_pattern(pattern("example.org/acme/*"), wide.clone())
            .with_pattern(pattern("example.org/other/etcd"), exact.clone());
        let found = |reference: &str| match catalogue.find(reference) {
            Found::Known(image) => Some(image),
            _ => None,
        };
        assert!(Arc::ptr_eq(&found("example.org/acme/x:1").unwrap(), &wide));
        assert!(Arc::ptr_eq(&found("example.org/other/etcd:1").unwrap(), &exact));
        let own = found("example.org/acme/etcd:1").unwrap();
        assert!(!Arc::ptr_eq(&own, &wide) && !Arc::ptr_eq(&own, &exact));
        assert!(found("example.org/other/x").is_none());
    }
}
