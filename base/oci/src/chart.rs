//! Which artefact a chart's reference and version mean, as Helm 4.1 reads them (`pkg/registry/client.go`, `ValidateReference`).

use base_version::{Constraint, Version};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, Kind};
use crate::manifest::Artefact;
use crate::pull::Pulled;
use crate::reference::{Reference, tag_of_version, version_of_tag};

impl Client {
    /// Pulls a chart whose archive has at most `bytes_max` bytes. `version` is a version or a constraint; where there is none, the
    /// reference's tag is. A constraint takes the highest version that it allows, nothing at all the highest release.
    ///
    /// A digest takes precedence; a version beside it must resolve to it, unless the registry does not know it. Unlike in Helm,
    /// a tag that is neither version nor constraint, such as `latest`, is taken as it is.
    ///
    /// # Errors
    /// As [`Client::pull`]; no version fits, or tag and version differ.
    pub async fn pull_chart(
        &self,
        reference: &Reference,
        version: Option<&str>,
        bytes_max: u64,
    ) -> Result<Pulled, Error> {
        let artefact = Artefact::helm_chart(bytes_max);
        let until = self.until();
        let version = version.filter(|version| !version.is_empty());
        let reference = self.resolved_reference(reference, version, until).await?;
        self.pull_until(&reference, &artefact, until).await
    }

    async fn resolved_reference(
        &self,
        reference: &Reference,
        version: Option<&str>,
        until: Instant,
    ) -> Result<Reference, Error> {
        let failed = |kind| Error {
            reference: reference.to_string(),
            host: String::new(),
            kind,
        };
        let tag = reference.tag();
        if let (Some(version), Some(tag)) = (version, tag)
            && tag_of_version(version) != tag
        {
            let (version, tag) = (version.to_owned(), tag.to_owned());
            return Err(failed(Kind::TagVersion { version, tag }));
        }
        let named = version.map(str::to_owned).or_else(|| tag.map(version_of_tag));
        if let Some(wanted) = reference.digest() {
            if let Some(tag) = named.map(|version| tag_of_version(&version))
                && let Ok(found) = self.resolve(reference, &tag, until).await
                && found != wanted
            {
                return Err(failed(Kind::TagDigest { tag, wanted, found }));
            }
            return Ok(reference.clone());
        }
        let text = named.unwrap_or_default();
        let tagged = |tag: &str| reference.with_tag(tag).map_err(Kind::Reference);
        if Version::read(&text).is_ok() {
            return tagged(&text).map_err(failed);
        }
        let constraint = match Constraint::read(if text.is_empty() { "*" } else { &text }) {
            Ok(constraint) => constraint,
            Err(_) if tag.is_some() => return Ok(reference.clone()),
            Err(why) => {
                let why = why.to_string();
                return Err(failed(Kind::Constraint { text, why }));
            }
        };
        let tags = self.tags_until(reference, until).await?;
        choose(&tags, &text, &constraint).and_then(tagged).map_err(failed)
    }
}

/// The tag of the highest version that fits.
fn choose<'t>(tags: &'t [String], text: &str, constraint: &Constraint) -> Result<&'t str, Kind> {
    let mut versions: Vec<(Version, &str)> = tags
        .iter()
        .filter_map(|tag| Some((strict(&version_of_tag(tag))?, tag.as_str())))
        .collect();
    // Versions may differ in their build metadata alone: always the same one is chosen.
    versions.sort_by(|(left, a), (right, b)| right.cmp(left).then_with(|| b.cmp(a)));
    let fits = |(version, _): &&(Version, &str)| constraint.allows(version);
    versions
        .iter()
        .find(fits)
        .map(|(_, tag)| *tag)
        .ok_or_else(|| Kind::NoVersion {
            constraint: if text.is_empty() {
                "*".to_owned()
            } else {
                text.to_owned()
            },
            versions: versions.len(),
            highest: versions.first().map(|(version, _)| version.to_string()),
        })
}

/// Helm lists only strict versions: three numbers, none with a leading zero, and no `v`.
fn strict(text: &str) -> Option<Version> {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| part == "0" || !part.is_empty() && !part.starts_with('0');
    let has_form = core.split('.').count() == 3 && core.split('.').all(is_number) && !text.starts_with('v');
    Version::read(text).ok().filter(|_| has_form)
}

#[cfg(test)]
mod tests {
    use super::{Constraint, Kind, choose};

    #[test]
    fn the_highest_version_that_is_allowed_is_chosen() {
        let tags = [
            "1.2.3",
            "latest",
            "1.10.0",
            "1.9.0",
            "2.0.0-rc.1",
            "v3.0.0",
            "4.0",
            "1.10.0_b.2",
            "05.0.0",
        ];
        let tags = tags.map(str::to_owned);
        let of = |text: &str| {
            let constraint = Constraint::read(if text.is_empty() { "*" } else { text }).unwrap();
            choose(&tags, text, &constraint).map(str::to_owned)
        };
        assert_eq!(of("").as_deref(), Ok("1.10.0_b.2"));
        assert_eq!(of("~1.9").as_deref(), Ok("1.9.0"));
        assert_eq!(of("<1.9 || >=2.0.0-0").as_deref(), Ok("2.0.0-rc.1"));
        let none = of(">2").unwrap_err();
        assert_eq!(
            none.to_string(),
            "none of the 5 versions there is allowed by \">2\"; the highest is 2.0.0-rc.1"
        );
        let none = choose(&[], "", &Constraint::read("*").unwrap()).unwrap_err();
        assert!(matches!(none, Kind::NoVersion { versions: 0, .. }));
    }
}
