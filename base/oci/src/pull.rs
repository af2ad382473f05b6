//! From a reference to an artefact's content: the manifest, then the layer that it names; what is on disk is not requested.

use bytes::Bytes;
use http::HeaderMap;
use http::header::LINK;
use serde::Deserialize;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, Kind, Missing};
use crate::exchange::{Answer, Want};
use crate::manifest::{Artefact, Content, MANIFEST_BYTES_MAX, MANIFEST_TYPES, content};
use crate::reference::{Digest, Reference, is_tag};

/// The header in which a registry returns the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// Tags that are requested at a time.
const PAGE: usize = 1000;
/// Most pages of tags: a repository with more versions than a hundred thousand is not looked through.
const PAGES_MAX: usize = 100;

/// An artefact's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The digest of the manifest that the reference led to: with it the same content is pulled again.
    pub digest: Digest,
    /// The content, as its manifest declares it.
    pub bytes: Bytes,
}

#[derive(Deserialize)]
struct Tags {
    // A repository whose last tag is gone may return null.
    tags: Option<Vec<String>>,
}

impl Client {
    /// Pulls the content of an artefact. By digest there is no request for what is in the cache; by tag, one for the manifest
    /// alone. A digest takes precedence over a tag beside it.
    ///
    /// # Errors
    /// What [`Kind`] lists.
    pub async fn pull(&self, reference: &Reference, artefact: &Artefact) -> Result<Pulled, Error> {
        self.pull_until(reference, artefact, self.until()).await
    }

    pub(crate) async fn pull_until(
        &self,
        reference: &Reference,
        artefact: &Artefact,
        until: Instant,
    ) -> Result<Pulled, Error> {
        let failed = |kind| Error {
            reference: reference.to_string(),
            host: String::new(),
            kind,
        };
        let (digest, mut manifest) = match (reference.digest(), reference.tag()) {
            (Some(digest), _) => (digest, self.manifest(reference, digest, None, until).await?),
            (None, Some(tag)) => self.tagged(reference, tag, true, until).await?,
            (None, None) => return Err(failed(Kind::Unnamed)),
        };
        let mut found = content(&manifest, artefact, false).map_err(failed)?;
        if let Content::Manifest { digest, bytes } = found {
            manifest = self.manifest(reference, digest, Some(bytes), until).await?;
            found = content(&manifest, artefact, true).map_err(failed)?;
        }
        let Content::Layer { digest: layer, bytes } = found else {
            return Err(failed(Kind::Unnamed));
        };
        let want = Want {
            path: format!("blobs/{layer}"),
            accept: "*/*",
            what: artefact.name,
            bytes_max: artefact.bytes_max,
            missing: Missing::Content(layer),
            digest: Some(layer),
            bytes: Some(bytes),
            is_watched: true,
            is_retried: true,
        };
        let bytes = self.cached_or_fetched(reference, layer, &want, until).await?;
        Ok(Pulled { digest, bytes })
    }

    /// The digest that a tag resolves to now; a host that does not answer at once is not tried again.
    pub(crate) async fn resolve(&self, reference: &Reference, tag: &str, until: Instant) -> Result<Digest, Error> {
        let (digest, _) = self.tagged(reference, tag, false, until).await?;
        Ok(digest)
    }

    /// All tags of the reference's repository, in no order.
    ///
    /// # Errors
    /// As [`Client::pull`].
    pub async fn tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        self.tags_until(reference, self.until()).await
    }

    pub(crate) async fn tags_until(&self, reference: &Reference, until: Instant) -> Result<Vec<String>, Error> {
        let protocol = |why: &str| Error {
            reference: reference.to_string(),
            host: String::new(),
            kind: Kind::Protocol(why.to_owned()),
        };
        let mut all = Vec::new();
        let mut path = format!("tags/list?n={PAGE}");
        for _ in 0..PAGES_MAX {
            let want = Want {
                path: path.clone(),
                accept: "application/json",
                what: "its list of tags",
                bytes_max: MANIFEST_BYTES_MAX,
                missing: Missing::Repository,
                digest: None,
                bytes: None,
                is_watched: false,
                is_retried: true,
            };
            let answer = self.fetch(reference, &want, until).await?;
            let page: Tags = serde_json::from_slice(&answer.bytes).map_err(|_| protocol("its list of tags is none"))?;
            let tags = page.tags.unwrap_or_default();
            all.extend(tags.into_iter().filter(|tag| is_tag(tag)));
            match next_page(&answer.headers) {
                None => return Ok(all),
                Some(query) => path = format!("tags/list?{query}"),
            }
        }
        Err(protocol("its list of tags has no end"))
    }

    /// The manifest that a tag resolves to now, and its digest.
    async fn tagged(
        &self,
        reference: &Reference,
        tag: &str,
        is_retried: bool,
        until: Instant,
    ) -> Result<(Digest, Bytes), Error> {
        let mut want = manifest_wanted(tag, Missing::Tag(tag.to_owned()));
        want.is_retried = is_retried;
        let Answer { bytes, headers, digest } = self.fetch(reference, &want, until).await?;
        let stated = headers.get(CONTENT_DIGEST).and_then(|value| value.to_str().ok());
        // Digests of other algorithms cannot be compared.
        if let Some(wanted) = stated.and_then(Digest::parse).filter(|stated| *stated != digest) {
            return Err(Error {
                reference: reference.to_string(),
                host: String::new(),
                kind: Kind::Digest { wanted, found: digest },
            });
        }
        if let Some(cache) = &self.cache {
            cache.write(digest, bytes.clone()).await;
        }
        Ok((digest, bytes))
    }

    async fn manifest(
        &self,
        reference: &Reference,
        digest: Digest,
        bytes: Option<u64>,
        until: Instant,
    ) -> Result<Bytes, Error> {
        let name = digest.to_string();
        let mut want = manifest_wanted(&name, Missing::Content(digest));
        want.digest = Some(digest);
        want.bytes = bytes;
        self.cached_or_fetched(reference, digest, &want, until).await
    }

    /// Content from the cache, else from a registry, and cached then.
    async fn cached_or_fetched(
        &self,
        reference: &Reference,
        digest: Digest,
        want: &Want,
        until: Instant,
    ) -> Result<Bytes, Error> {
        let Some(cache) = &self.cache else {
            return Ok(self.fetch(reference, want, until).await?.bytes);
        };
        let lock = self.download_lock(digest);
        let _held = lock.lock().await;
        if let Some(bytes) = cache.read(digest, want.bytes_max).await {
            return Ok(bytes);
        }
        let bytes = self.fetch(reference, want, until).await?.bytes;
        cache.write(digest, bytes.clone()).await;
        Ok(bytes)
    }
}

fn manifest_wanted(name: &str, missing: Missing) -> Want {
    Want {
        path: format!("manifests/{name}"),
        accept: MANIFEST_TYPES,
        what: "the manifest",
        bytes_max: MANIFEST_BYTES_MAX,
        missing,
        digest: None,
        bytes: None,
        is_watched: false,
        is_retried: true,
    }
}

/// The query of the next page: `Link: <...>; rel="next"` (OCI distribution specification 1.1, "Listing tags"). Host and path are
/// ignored: the request goes to the same repository.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(LINK)?.to_str().ok()?;
    let (target, rest) = link.strip_prefix('<')?.split_once('>')?;
    let is_next = rest.replace(' ', "").contains("rel=\"next\"") || rest.replace(' ', "").contains("rel=next");
    let (_, query) = target.split_once('?')?;
    let is_plain = query.bytes().all(|byte| byte.is_ascii_graphic());
    (is_next && is_plain).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::next_page;
    use http::HeaderMap;
    use http::header::LINK;

    #[test]
    fn the_next_page_is_named_by_a_link() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LINK, text.parse().unwrap());
            next_page(&headers)
        };
        assert_eq!(
            of("</v2/a/tags/list?last=b&n=2>; rel=\"next\"").as_deref(),
            Some("last=b&n=2")
        );
        assert_eq!(
            of("<https://evil.example/x?last=b>; rel=next").as_deref(),
            Some("last=b")
        );
        assert_eq!(of("</v2/a/tags/list?last=b>; rel=\"prev\""), None);
        assert_eq!(of("</v2/a/tags/list>; rel=\"next\""), None);
        assert_eq!(of("nonsense"), None);
    }
}
