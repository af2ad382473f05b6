//! Which image a container gets: an image vector, as Gardener's components and extensions have it (gardener/gardener v1.150
//! `pkg/utils/imagevector`), which an operator overwrites by a file that the environment variable `IMAGEVECTOR_OVERWRITE`
//! names. It pulls nothing and knows no registry.
//!
//! ```no_run
//! # use api_meta::Fault;
//! # use extensions_sdk::images::{Images, Query};
//! # fn main() -> Result<(), Fault> {
//! let images = Images::read_with_overwrites(
//!     "images:\n- name: csi-driver\n  repository: registry.example.org/csi-driver\n  tag: v1.4.0\n",
//! )?;
//! let image = images.find("csi-driver", &Query::new().target("1.33.2"))?;
//! println!("{image}");
//! # Ok(())
//! # }
//! ```

mod source;

use std::fmt;
use std::path::Path;

use api_meta::{Fault, labels::NODE_ARCHITECTURE, names::ARCHITECTURE_AMD64};
use base_version::{Constraint, Version};
use serde_json::{Map, Value};

use source::Source;

/// The environment variable that names a file with overwrites.
pub const OVERWRITE_VARIABLE: &str = "IMAGEVECTOR_OVERWRITE";
/// Bytes of a file with overwrites: far more than all images of a landscape have.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// What a tag that is a digest begins with.
const DIGEST: &str = "sha256:";

/// Images by name and by the versions that they are for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images {
    sources: Vec<Source>,
}

/// What an image is looked up for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'q> {
    runtime: Option<&'q str>,
    target: Option<&'q str>,
    architecture: Option<&'q str>,
}

impl<'q> Query<'q> {
    /// For any version of Kubernetes and for [`ARCHITECTURE_AMD64`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the cluster that the image runs in: the seed, for most.
    #[must_use]
    pub fn runtime(self, version: &'q str) -> Self {
        let runtime = Some(version);
        Self { runtime, ..self }
    }

    /// The version of the cluster that the image acts on: the shoot. It is also the tag of an image that has none.
    #[must_use]
    pub fn target(self, version: &'q str) -> Self {
        let target = Some(version);
        Self { target, ..self }
    }

    /// The CPU architecture, as nodes' label [`NODE_ARCHITECTURE`] has it.
    #[must_use]
    pub fn architecture(self, architecture: &'q str) -> Self {
        let architecture = Some(architecture);
        Self { architecture, ..self }
    }
}

impl fmt::Display for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = self.architecture.unwrap_or(ARCHITECTURE_AMD64);
        write!(f, "{NODE_ARCHITECTURE} {architecture}")?;
        for (of, version) in [("runtime", self.runtime), ("target", self.target)] {
            if let Some(version) = version {
                write!(f, ", {of} version {version}")?;
            }
        }
        Ok(())
    }
}

/// An image that was found. Prints as the reference that a container's `image` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name in the vector.
    pub name: String,
    /// The whole reference.
    pub reference: String,
    /// Its version: that of the vector, else the tag.
    pub version: Option<String>,
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reference)
    }
}

impl Images {
    /// Reads an image vector in YAML.
    ///
    /// # Errors
    /// A user fault with every wrong field by its path.
    pub fn read(text: &str) -> Result<Self, Fault> {
        source::read(text).map(|sources| Self { sources })
    }

    /// Reads an image vector in YAML and the overwrites in the file that [`OVERWRITE_VARIABLE`] names, if it is set.
    ///
    /// # Errors
    /// As [`Images::read`]; a file that cannot be read, or is larger than 4 MiB.
    pub fn read_with_overwrites(text: &str) -> Result<Self, Fault> {
        let images = Self::read(text)?;
        match std::env::var_os(OVERWRITE_VARIABLE).filter(|path| !path.is_empty()) {
            None => Ok(images),
            Some(path) => images.overwritten_by_file(Path::new(&path)),
        }
    }

    /// These images with those of a file in their place.
    ///
    /// # Errors
    /// As [`Images::read_with_overwrites`].
    pub fn overwritten_by_file(self, path: &Path) -> Result<Self, Fault> {
        let shown = path.display();
        let hint = format!("correct the file, or name another one in {OVERWRITE_VARIABLE}");
        let unreadable = |why: &dyn fmt::Display| {
            Fault::user(format!("cannot read the image vector {shown}: {why}")).hint(hint.clone())
        };
        let length = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(&format!(
                "it has {length} bytes, and at most {FILE_BYTES_MAX} are read"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
        let overwrites = Self::read(&text).map_err(|fault| fault.doing(&format!("read {shown}")).hint(hint.clone()))?;
        Ok(self.overwritten_by(overwrites))
    }

    /// These images with others in their place: an entry of the same name, versions and architectures takes over what the
    /// other has set, any other entry is added.
    #[must_use]
    pub fn overwritten_by(mut self, overwrites: Self) -> Self {
        for other in overwrites.sources {
            match self.sources.iter_mut().find(|known| known.is_for_the_same(&other)) {
                Some(known) => known.overwrite(other),
                None => self.sources.push(other),
            }
        }
        self
    }

    /// The image of this name that fits best: an entry for exactly that version or architecture comes before one for a range,
    /// and that before one for all. Of two that fit equally, the first.
    ///
    /// # Errors
    /// A bug of the extension when there is none; a user fault for a version that is none.
    pub fn find(&self, name: &str, query: &Query<'_>) -> Result<Image, Fault> {
        let (runtime, target) = (version(query.runtime)?, version(query.target)?);
        let architecture = query.architecture.unwrap_or(ARCHITECTURE_AMD64);
        let mut best: Option<(u32, &Source)> = None;
        for source in self.sources.iter().filter(|source| source.name == name) {
            let score = source.score(runtime.as_ref(), target.as_ref(), architecture);
            if let Some(score) = score
                && best.is_none_or(|(known, _)| score > known)
            {
                best = Some((score, source));
            }
        }
        let missing = || {
            Fault::bug(format!("there is no image {name:?} for {query}")).hint(format!(
                "add it to the extension's image vector, or to the file of {OVERWRITE_VARIABLE}"
            ))
        };
        best.map(|(_, source)| source.image(query.target)).ok_or_else(missing)
    }

    /// References by name, as values of a chart.
    ///
    /// # Errors
    /// As [`Images::find`].
    pub fn values(&self, names: &[&str], query: &Query<'_>) -> Result<Map<String, Value>, Fault> {
        let found = names.iter().map(|name| {
            let image = self.find(name, query)?;
            Ok(((*name).to_owned(), Value::String(image.reference)))
        });
        found.collect()
    }
}

/// A version without what follows its numbers: images are for the numbers alone (gardener/gardener v1.150
/// `pkg/utils/version`).
fn version(text: Option<&str>) -> Result<Option<Version>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    Version::read(numbers).map(Some).map_err(|error| {
        Fault::user(format!("{text:?} is no version of Kubernetes: {error}")).hint("write it as in 1.33.2")
    })
}

/// Whether a constraint names a single version.
fn is_exact(constraint: &str) -> bool {
    let numbers = constraint.strip_prefix('v').unwrap_or(constraint);
    let mut parts = numbers.split('.');
    let is_number =
        |part: Option<&str>| part.is_some_and(|part| part.starts_with(|first: char| first.is_ascii_digit()));
    constraint.starts_with('=') || (0..3).all(|_| is_number(parts.next()))
}

fn constraint(text: &str) -> Result<Constraint, String> {
    Constraint::read(text).map_err(|error| format!("{text:?} is no constraint such as \">= 1.32\": {error}"))
}

#[cfg(test)]
mod tests {
    use api_meta::FaultClass;

    use super::*;

    const VECTOR: &str = r#"
images:
- name: csi
  sourceRepository: example.org/csi
  repository: r.example.org/csi
  tag: v1
  targetVersion: "< 1.33"
- name: csi
  repository: r.example.org/csi
  tag: v2
  targetVersion: ">= 1.33"
- name: csi
  repository: r.example.org/csi
  tag: v2-exact
  targetVersion: 1.34.1
- name: kubelet
  repository: r.example.org/kubelet
- name: pinned
  repository: r.example.org/pinned
  tag: sha256:0123
  version: v9
- name: whole
  ref: r.example.org/whole:v3@sha256:0123
- name: arch
  repository: r.example.org/arch
  tag: both
- name: arch
  repository: r.example.org/arch
  tag: arm
  architectures: [arm64]
"#;

    fn images() -> Images {
        Images::read(VECTOR).unwrap()
    }

    fn found(images: &Images, name: &str, query: &Query<'_>) -> String {
        images.find(name, query).unwrap().to_string()
    }

    #[test]
    fn the_entry_that_fits_best_is_found() {
        let target = |version| found(&images(), "csi", &Query::new().target(version));
        assert_eq!(target("1.32.9"), "r.example.org/csi:v1");
        assert_eq!(target("v1.33.0-rc.1"), "r.example.org/csi:v2", "numbers alone count");
        assert_eq!(target("1.34.1"), "r.example.org/csi:v2-exact");
        assert_eq!(
            found(&images(), "csi", &Query::new()),
            "r.example.org/csi:v1",
            "the first"
        );
        assert_eq!(found(&images(), "arch", &Query::new()), "r.example.org/arch:both");
        let arm = Query::new().architecture("arm64");
        assert_eq!(found(&images(), "arch", &arm), "r.example.org/arch:arm");
    }

    #[test]
    fn digests_whole_references_and_missing_tags_are_written_as_containers_take_them() {
        let image = images().find("pinned", &Query::new()).unwrap();
        assert_eq!(image.reference, "r.example.org/pinned@sha256:0123");
        assert_eq!(image.version.as_deref(), Some("v9"));
        assert_eq!(
            found(&images(), "whole", &Query::new()),
            "r.example.org/whole:v3@sha256:0123"
        );
        let kubelet = |query: &Query<'_>| found(&images(), "kubelet", query);
        assert_eq!(kubelet(&Query::new().target("1.34.1")), "r.example.org/kubelet:v1.34.1");
        assert_eq!(kubelet(&Query::new()), "r.example.org/kubelet");
    }

    #[test]
    fn an_overwrite_replaces_its_entry_and_keeps_fields_it_leaves_out() {
        let overwrites = Images::read(
            "images:\n- name: csi\n  repository: mirror/csi\n  targetVersion: '>= 1.33'\n\
             - name: whole\n  repository: mirror/whole\n  tag: v4\n\
             - name: extra\n  ref: mirror/extra:v1\n\
             - name: pinned\n  ref: mirror/pinned:v1\n",
        );
        let images = images().overwritten_by(overwrites.unwrap());
        let target = |version| found(&images, "csi", &Query::new().target(version));
        assert_eq!(target("1.33.1"), "mirror/csi:v2");
        assert_eq!(target("1.32.1"), "r.example.org/csi:v1");
        let any = |name| found(&images, name, &Query::new());
        assert_eq!(any("whole"), "mirror/whole:v4");
        assert_eq!(any("extra"), "mirror/extra:v1");
        assert_eq!(any("pinned"), "mirror/pinned:v1");
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let text = "images:\n- repository: a\n- name: b\n- name: c\n  ref: r\n  repository: a\n  tag: t\n\
                    - name: d\n  repository: ''\n  tag: ''\n  targetVersion: newest\n  runtimeVersion: '>> 1'\n";
        let fault = Images::read(text).unwrap_err();
        assert_eq!(fault.class, FaultClass::User);
        let text = fault.to_string();
        for expected in [
            "images[0].name is missing",
            "images[1]: ref or repository is needed",
            "images[2].repository may not be set beside ref",
            "images[2].tag may not be set beside ref",
            "images[3].repository is empty",
            "images[3].tag is empty",
            "images[3].targetVersion: \"newest\" is no constraint",
            "images[3].runtimeVersion: \">> 1\" is no constraint",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(
            Images::read("images: 7")
                .unwrap_err()
                .to_string()
                .contains("is no image vector")
        );
    }

    #[test]
    fn a_missing_image_is_named_with_its_query() {
        let fault = images()
            .find("none", &Query::new().target("1.33.1").architecture("arm64"))
            .unwrap_err();
        assert_eq!(
            fault.to_string(),
            "there is no image \"none\" for kubernetes.io/arch arm64, target version 1.33.1"
        );
        let no_version = images().find("csi", &Query::new().target("newest")).unwrap_err();
        assert!(
            no_version.to_string().starts_with("\"newest\" is no version"),
            "{no_version}"
        );
    }

    #[test]
    fn a_file_of_overwrites_that_cannot_be_used_is_named() {
        let missing = images()
            .overwritten_by_file(Path::new("/nowhere/images.yaml"))
            .unwrap_err();
        assert!(missing.to_string().contains("/nowhere/images.yaml"), "{missing}");
        assert!(missing.hint.contains(OVERWRITE_VARIABLE), "{}", missing.hint);
    }

    #[test]
    fn chart_values_hold_references_by_name() {
        let values = images().values(&["pinned", "whole"], &Query::new()).unwrap();
        assert_eq!(values["pinned"], "r.example.org/pinned@sha256:0123");
        assert_eq!(values.len(), 2);
    }
}
