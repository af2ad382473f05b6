//! Manifests: what an artefact is and which of its layers has its content. It sends no request.

use serde::Deserialize;

use crate::error::Kind;
use crate::reference::Digest;

/// The media types that are requested (OCI image specification 1.1, and Docker's of before).
pub(crate) const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
/// Most bytes of a manifest; registries accept no larger ones (OCI distribution specification 1.1, "Pushing manifests").
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Most characters of a media type of others in a message.
const TYPE_CHARS_MAX: usize = 100;

const CONTAINER_CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// The legacy type first: Helm takes whichever is last in the manifest.
const CHART_LAYERS: [&str; 2] = [
    "application/tar+gzip",
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
];

/// A kind of artefact.
#[derive(Clone, Copy, Debug)]
pub struct Artefact {
    /// What messages call it
    pub name: &'static str,
    /// The media type of its configuration, which identifies the kind
    pub config: &'static str,
    /// The media types of the layer that has its content
    pub layers: &'static [&'static str],
    /// Most bytes of that layer
    pub bytes_max: u64,
}

impl Artefact {
    /// A Helm chart (Helm 4.1, `pkg/registry/constants.go`) whose archive has at most so many bytes.
    #[must_use]
    pub const fn helm_chart(bytes_max: u64) -> Self {
        Self {
            name: "a Helm chart",
            config: "application/vnd.cncf.helm.config.v1+json",
            layers: &CHART_LAYERS,
            bytes_max,
        }
    }
}

/// Where the content of a manifest is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The layer with this digest and so many bytes
    Layer { digest: Digest, bytes: u64 },
    /// In another manifest
    Manifest { digest: Digest, bytes: u64 },
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "artifactType", default)]
    artefact: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
struct Descriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    #[serde(rename = "artifactType", default)]
    artefact: String,
    digest: String,
    size: u64,
}

/// Finds the artefact's content. `nested` is a manifest that an index has named: then it may be no index itself.
pub(crate) fn content(bytes: &[u8], wanted: &Artefact, nested: bool) -> Result<Content, Kind> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Kind::Protocol(format!("its manifest is none, at line {line}, column {column}"))
    })?;
    match &document.manifests {
        Some(_) if nested => Err(Kind::Protocol("an index names an index".to_owned())),
        Some(manifests) => manifest(manifests, wanted),
        None => layer(&document, wanted),
    }
}

fn manifest(manifests: &[Descriptor], wanted: &Artefact) -> Result<Content, Kind> {
    let fits = |one: &&Descriptor| one.artefact == wanted.config;
    let fitting: Vec<&Descriptor> = manifests.iter().filter(fits).collect();
    let one = match (fitting.as_slice(), manifests) {
        ([one], _) => one,
        // Nothing else can be meant; its type is validated when it is read.
        ([], [one]) if one.artefact.is_empty() => one,
        (fitting, manifests) => {
            return Err(Kind::Index {
                manifests: manifests.len(),
                fit: fitting.len(),
                wanted: wanted.name,
            });
        }
    };
    let digest = one.digest()?;
    let bytes = one.size;
    if bytes > MANIFEST_BYTES_MAX {
        return Err(Kind::TooLarge {
            what: "the manifest",
            bytes: Some(bytes),
            bytes_max: MANIFEST_BYTES_MAX,
        });
    }
    Ok(Content::Manifest { digest, bytes })
}

fn layer(document: &Document, wanted: &Artefact) -> Result<Content, Kind> {
    let is_wanted = |found: &str| found == wanted.config;
    let config = document.config.as_ref().map_or("", |config| config.media_type.as_str());
    if !is_wanted(config) {
        // A manifest without a configuration of its own has its type in another field.
        let found = if document.artefact.is_empty() {
            config
        } else {
            &document.artefact
        };
        return Err(Kind::MediaType {
            wanted: wanted.name,
            found: what_is(found),
        });
    }
    let fits = |one: &&Descriptor| wanted.layers.contains(&one.media_type.as_str());
    let Some(layer) = document.layers.iter().rfind(fits) else {
        let found: Vec<String> = document
            .layers
            .iter()
            .take(3)
            .map(|one| shown(&one.media_type))
            .collect();
        return Err(Kind::MediaType {
            wanted: wanted.name,
            found: format!(
                "{} by its configuration, but its layers are [{}]",
                wanted.name,
                found.join(", ")
            ),
        });
    };
    if layer.size > wanted.bytes_max {
        return Err(Kind::TooLarge {
            what: wanted.name,
            bytes: Some(layer.size),
            bytes_max: wanted.bytes_max,
        });
    }
    Ok(Content::Layer {
        digest: layer.digest()?,
        bytes: layer.size,
    })
}

impl Descriptor {
    fn digest(&self) -> Result<Digest, Kind> {
        Digest::parse(&self.digest)
            .ok_or_else(|| Kind::Protocol("its manifest names content by something else than a SHA-256".to_owned()))
    }
}

/// A media type of a configuration in words, where we know any.
fn what_is(media_type: &str) -> String {
    match media_type {
        "" => "an artefact that does not say what it is".to_owned(),
        known if CONTAINER_CONFIGS.contains(&known) => "a container image".to_owned(),
        other => format!("an artefact of type {}", shown(other)),
    }
}

/// A text of others in a message: short, and without control characters.
fn shown(text: &str) -> String {
    let printable = |c: &char| c.is_ascii_graphic();
    text.chars().filter(printable).take(TYPE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{Artefact, Content, content};
    use crate::error::Kind;
    use crate::reference::Digest;

    const CHART: Artefact = Artefact::helm_chart(1000);

    fn descriptor(media_type: &str, size: u64) -> String {
        let digest = Digest::of(media_type.as_bytes());
        format!(r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{size}}}"#)
    }

    fn of(config: &str, layers: &[String]) -> Result<Content, Kind> {
        let layers = layers.join(",");
        let json = format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{layers}]}}"#,
            descriptor(config, 2)
        );
        content(json.as_bytes(), &CHART, false)
    }

    #[test]
    fn a_charts_layer_is_found_beside_its_provenance_in_new_and_old_form() {
        let provenance = descriptor("application/vnd.cncf.helm.chart.provenance.v1.prov", 5);
        for form in CHART.layers {
            let (digest, bytes) = (Digest::of(form.as_bytes()), 1000);
            let layers = [provenance.clone(), descriptor(form, bytes), provenance.clone()];
            assert_eq!(of(CHART.config, &layers), Ok(Content::Layer { digest, bytes }));
        }
    }

    #[test]
    fn artefact_that_is_no_chart_is_refused_with_its_type() {
        let error = |outcome: Result<Content, Kind>| outcome.expect_err("it is none").to_string();
        let image = error(of("application/vnd.oci.image.config.v1+json", &[]));
        assert_eq!(image, "wrong media type: this is a container image, not a Helm chart");
        let other = error(of("application/vnd.wasm\\u001b[31m.config", &[]));
        assert!(
            other.contains("an artefact of type application/vnd.wasm[31m.config,"),
            "{other}"
        );
        let bare = error(of(CHART.config, &[descriptor("application/x", 1)]));
        assert!(bare.contains("its layers are [application/x]"), "{bare}");
        let large = error(of(CHART.config, &[descriptor(CHART.layers[1], 1001)]));
        assert_eq!(
            large,
            "too large: a Helm chart has 1001 bytes, and at most 1000 bytes are taken"
        );
        for json in [
            "",
            "[]",
            "{\"layers\":3}",
            "\u{1b}",
            r#"{"layers":[{"digest":"x","size":-1}]}"#,
        ] {
            let none = error(content(json.as_bytes(), &CHART, false));
            assert!(none.contains("its manifest is none, at line"), "{json}: {none}");
        }
        assert!(error(content(b"{}", &CHART, false)).contains("does not say what it is"));
    }

    #[test]
    fn an_index_is_taken_if_one_of_its_manifests_is_the_artefact() {
        let chart = format!(
            r#"{{"mediaType":"m","artifactType":"{}","digest":"{}","size":7}}"#,
            CHART.config,
            Digest::of(b"c")
        );
        let plain = descriptor("m", 7);
        let of = |manifests: &[&str], nested| {
            let json = format!(r#"{{"manifests":[{}]}}"#, manifests.join(","));
            content(json.as_bytes(), &CHART, nested)
        };
        let digest = Digest::of(b"c");
        assert_eq!(of(&[&plain, &chart], false), Ok(Content::Manifest { digest, bytes: 7 }));
        let digest = Digest::of(b"m");
        assert_eq!(of(&[&plain], false), Ok(Content::Manifest { digest, bytes: 7 }));
        assert!(matches!(
            of(&[&plain, &plain], false),
            Err(Kind::Index {
                manifests: 2,
                fit: 0,
                ..
            })
        ));
        assert!(matches!(
            of(&[&chart, &chart], false),
            Err(Kind::Index {
                manifests: 2,
                fit: 2,
                ..
            })
        ));
        assert!(matches!(of(&[], false), Err(Kind::Index { manifests: 0, .. })));
        assert!(matches!(of(&[&chart], true), Err(Kind::Protocol(_))));
    }
}
