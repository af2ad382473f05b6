//! One entry of an image vector: read, verified, compared, and turned into a reference.

use api_meta::Fault;
use api_meta::names::ARCHITECTURE_AMD64;
use base_version::Version;
use serde::Deserialize;

use super::{DIGEST, Image, constraint, is_exact};

/// What an entry without architectures is for.
const ARCHITECTURES: [&str; 2] = [ARCHITECTURE_AMD64, "arm64"];

/// An entry. Fields that only people and build systems read are left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Source {
    pub(super) name: String,
    runtime_version: Option<String>,
    target_version: Option<String>,
    architectures: Option<Vec<String>>,
    repository: Option<String>,
    tag: Option<String>,
    version: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Vector {
    images: Vec<Source>,
}

/// Reads the entries of a vector.
pub(super) fn read(text: &str) -> Result<Vec<Source>, Fault> {
    let vector: Vector = base_yaml::read_strict(text).map_err(|error| {
        Fault::user(format!("the text is no image vector: {error}"))
            .hint("write a list `images` of entries with name, repository and tag")
    })?;
    let problems: Vec<String> = vector
        .images
        .iter()
        .enumerate()
        .flat_map(|(at, source)| source.problems(&format!("images[{at}]")))
        .collect();
    if problems.is_empty() {
        return Ok(vector.images);
    }
    Err(Fault::user(format!("the image vector cannot be used: {}", problems.join("; "))).hint("correct these fields"))
}

/// How well a version fits: better for a constraint that names it alone; none if it does not.
fn fits(wanted: Option<&str>, version: Option<&Version>) -> Option<u32> {
    let (Some(wanted), Some(version)) = (wanted, version) else {
        return Some(0);
    };
    let allowed = constraint(wanted).is_ok_and(|constraint| constraint.allows(version));
    allowed.then(|| if is_exact(wanted) { 2 } else { 1 })
}

impl Source {
    fn problems(&self, path: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if self.name.is_empty() {
            problems.push(format!("{path}.name is missing"));
        }
        let parts = [("repository", &self.repository), ("tag", &self.tag)];
        match &self.reference {
            Some(reference) => {
                if reference.is_empty() {
                    problems.push(format!("{path}.ref is empty"));
                }
                let beside = parts.iter().filter(|(_, value)| value.is_some());
                problems.extend(beside.map(|(field, _)| format!("{path}.{field} may not be set beside ref")));
            }
            None => {
                if self.repository.is_none() {
                    problems.push(format!("{path}: ref or repository is needed"));
                }
                let empty = parts.iter().filter(|(_, value)| value.as_deref() == Some(""));
                problems.extend(empty.map(|(field, _)| format!("{path}.{field} is empty")));
            }
        }
        let versions = [
            ("targetVersion", &self.target_version),
            ("runtimeVersion", &self.runtime_version),
        ];
        for (field, text) in versions {
            if let Some(Err(why)) = text.as_deref().map(constraint) {
                problems.push(format!("{path}.{field}: {why}"));
            }
        }
        problems
    }

    /// Whether an overwrite with this entry's name and conditions is meant for it.
    pub(super) fn is_for_the_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.runtime_version == other.runtime_version
            && self.target_version == other.target_version
            && self.architectures == other.architectures
    }

    /// Takes over what `other` has set.
    pub(super) fn overwrite(&mut self, other: Self) {
        let version = other.version.or_else(|| self.version.take());
        let reference = match other.repository {
            None => other.reference.or_else(|| self.reference.take()),
            Some(_) => other.reference,
        };
        let former_tag = self.tag.take();
        // An image keeps its version while its tag becomes a mirror's digest.
        let version = version.or_else(|| former_tag.clone());
        (self.repository, self.tag) = match &reference {
            Some(_) => (None, None),
            None => (
                other.repository.or_else(|| self.repository.take()),
                other.tag.or(former_tag),
            ),
        };
        self.version = version;
        self.reference = reference;
    }

    /// How well it fits; none if it does not.
    pub(super) fn score(&self, runtime: Option<&Version>, target: Option<&Version>, architecture: &str) -> Option<u32> {
        let versions = fits(self.runtime_version.as_deref(), runtime)? + fits(self.target_version.as_deref(), target)?;
        let architectures: Vec<&str> = match &self.architectures {
            Some(named) => named.iter().map(String::as_str).collect(),
            None => ARCHITECTURES.to_vec(),
        };
        let fits = architectures.contains(&architecture);
        fits.then(|| versions + if architectures.len() == 1 { 2 } else { 1 })
    }

    /// The image; without a tag its tag is that of the target version.
    pub(super) fn image(&self, target: Option<&str>) -> Image {
        let name = self.name.clone();
        if let Some(reference) = &self.reference {
            return Image {
                name,
                reference: reference.clone(),
                version: self.version.clone(),
            };
        }
        let of_target = || target.map(|version| format!("v{}", version.trim_start_matches('v')));
        let tag = self.tag.clone().or_else(of_target);
        let repository = self.repository.clone().unwrap_or_default();
        let reference = match &tag {
            None => repository,
            Some(tag) if tag.starts_with(DIGEST) => format!("{repository}@{tag}"),
            Some(tag) => format!("{repository}:{tag}"),
        };
        Image {
            name,
            reference,
            version: self.version.clone().or(tag),
        }
    }
}
