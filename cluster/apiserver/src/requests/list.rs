//! Lists: one page at one version, filtered, in the requested shape.

use std::num::NonZeroUsize;

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{DecodeError, Engine};
use cluster_schema::json_problem;
use cluster_store::{Entry, Key, Listing, Page, Revision, StoreError};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::kinds::conversion;
use crate::kinds::filter::Filter;
use crate::kinds::registry::Role;
use crate::kinds::rendering::{self, ListMeta, ListWriter};
use crate::requests::tables;
use crate::state::context::Context;
use crate::storage::errors::{store_status, too_large_version};
use crate::wire::answer::Answer;
use crate::wire::negotiation::{Expected, Shape};
use crate::wire::query::{ListOptions, Purpose, ReadVersion};
use crate::wire::status::Status;

/// Entries requested from the store at a time when a filter may drop most of them.
const FILTERED_PAGE: usize = 500;
/// About how many bytes an item of a list has beside its stored ones: its version and a comma.
const BESIDE_BYTES: usize = 40;

pub(crate) async fn list(context: &Context) -> Result<Answer, Status> {
    let shape = context.shape(Expected::List)?;
    let options = ListOptions::parse(&context.query, Purpose::List)?;
    let filter = Filter::new(&context.served, context.version(), &options)?;
    let found = collect(context, &options, &filter).await?;
    write(context, &found, shape)
}

/// What a list found.
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    pub(crate) meta: ListMeta,
}

/// How Go reads base64 in a URL: trailing bits of the last letter are ignored.
const TOKEN: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Where the next page begins.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Continue {
    v: String,
    rv: u64,
    start: String,
}

/// Reads a page.
pub(crate) async fn collect(context: &Context, options: &ListOptions, filter: &Filter) -> Result<Found, Status> {
    let mut page = Page {
        limit: None,
        after: None,
        at: None,
    };
    match options.version {
        ReadVersion::Exact(revision) => page.at = Some(Revision(revision)),
        ReadVersion::NotOlderThan(revision) => not_older_than(context, revision).await?,
        ReadVersion::Newest | ReadVersion::Any => {}
    }
    if let Some(token) = &options.continue_token {
        let next = parse_continue(token)?;
        page.at = Some(Revision(next.rv));
        page.after = Some(continue_key(context, &next.start)?);
    }
    // A list of any version ignores the limit, as in kube-apiserver, which answers it from its cache.
    let limit = match options.version {
        ReadVersion::Any if options.continue_token.is_none() => None,
        _ => options.limit,
    };
    let wanted = limit.unwrap_or(usize::MAX);
    let (mut entries, mut remaining, mut revision) = (Vec::new(), 0, Revision(0));
    while entries.len() < wanted {
        let missing = wanted.saturating_sub(entries.len());
        let size = if filter.is_open() {
            missing
        } else {
            missing.max(FILTERED_PAGE)
        };
        page.limit = limit.and_then(|_| NonZeroUsize::new(size));
        let listing = context.server.store.list(&context.range(), page.clone()).await;
        let mut listing = listing.map_err(|error| page_status(error, options.continue_token.is_some()))?;
        listing.entries = conversion::convert_entries(
            &context.server.network,
            &context.served,
            context.version(),
            listing.entries,
        )
        .await?;
        revision = listing.revision;
        page.at = Some(revision);
        page.after = listing.entries.last().map(|entry| entry.key.clone());
        remaining = listing.remaining;
        let more = listing.more();
        take(listing, filter, wanted, &mut entries, &mut remaining);
        if !more {
            break;
        }
    }
    let mut meta = ListMeta {
        resource_version: revision.to_string(),
        ..ListMeta::default()
    };
    if let (true, Some(last)) = (remaining > 0, entries.last()) {
        meta.continue_token = Some(print_continue(revision, &last.key));
        meta.remaining_item_count = filter.is_open().then_some(remaining);
    }
    Ok(Found { entries, meta })
}

/// Moves what passes into `entries` up to `wanted`; what is left over of the page counts as remaining.
fn take(listing: Listing, filter: &Filter, wanted: usize, entries: &mut Vec<Entry>, remaining: &mut usize) {
    let total = listing.entries.len();
    for (position, entry) in listing.entries.into_iter().enumerate() {
        if entries.len() == wanted {
            *remaining += total - position;
            return;
        }
        if filter.passes(&entry.key, &entry.object) {
            entries.push(entry);
        }
    }
}

pub(crate) async fn not_older_than(context: &Context, revision: u64) -> Result<(), Status> {
    let resource = &context.served.store_name;
    let current = context.server.store.revision(resource).await.map_err(store_status)?;
    if revision > current.0 {
        Err(too_large_version(revision, current.0))
    } else {
        Ok(())
    }
}

fn page_status(error: StoreError, continued: bool) -> Status {
    match error {
        StoreError::Expired { .. } if continued => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter.",
        ),
        error => store_status(error),
    }
}

fn parse_continue(token: &str) -> Result<Continue, Status> {
    let bad = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = TOKEN.decode(token).map_err(|error| bad(&corrupt(token, &error)))?;
    let next: Continue = serde_json::from_slice(&bytes)
        .map_err(|error| bad(&json_problem(&bytes).unwrap_or_else(|| error.to_string())))?;
    if next.v != "meta.k8s.io/v1" {
        let why = format!("server does not recognize this encoded version {}", next.v);
        return Err(bad(&why));
    }
    if next.rv == 0 {
        return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    if next.start.is_empty() {
        return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
    }
    Ok(next)
}

/// As Go reports it: the place of the first invalid byte.
fn corrupt(token: &str, error: &DecodeError) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) => token.len().saturating_sub(1),
        DecodeError::InvalidPadding => token.find('=').unwrap_or_default(),
    };
    format!("illegal base64 data at input byte {at}")
}

fn print_continue(revision: Revision, last: &Key) -> String {
    let start = match &last.namespace {
        Some(namespace) => format!("{namespace}/{}", last.name),
        None => last.name.to_string(),
    };
    let next = Continue {
        v: "meta.k8s.io/v1".to_owned(),
        rv: revision.0,
        start,
    };
    TOKEN.encode(serde_json::to_vec(&next).unwrap_or_default())
}

/// The key, which must be in the range of the request: another would return too little or the whole list again.
fn continue_key(context: &Context, start: &str) -> Result<Key, Status> {
    let (namespace, name) = match start.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, start),
    };
    let fits = match context.namespace() {
        Some(requested) => namespace == Some(requested),
        None => namespace.is_some() == context.served.info().namespaced,
    };
    if !fits {
        return Err(Status::bad_request(
            "continue key is not valid: it belongs to a list of another path; repeat the list without it",
        ));
    }
    Ok(Key::new(context.served.store_name.clone(), namespace, name))
}

/// A list in the requested shape.
pub(crate) fn write(context: &Context, found: &Found, shape: Shape) -> Result<Answer, Status> {
    let (served, version) = (&context.served, context.version());
    if let Shape::Table(meta) = shape {
        return Ok(Answer::json(
            StatusCode::OK,
            tables::list(context, &found.entries, &found.meta, meta)?,
        ));
    }
    let typed = served.role != Role::Custom;
    let mut writer = match shape {
        Shape::Metadata(meta) | Shape::MetadataList(meta) => {
            ListWriter::new(meta.api_version(), "PartialObjectMetadataList", &found.meta, 0)
        }
        _ => {
            let (api_version, kind) = rendering::list_kind(served, version);
            // Lists of custom resources have `continue` even if it is empty.
            let each = |entry: &Entry| entry.object.bytes().len() + BESIDE_BYTES;
            let room = found.entries.iter().map(each).sum();
            ListWriter::new(&api_version, kind, &found.meta.with_continue(!typed), room)
        }
    };
    for entry in &found.entries {
        match shape {
            Shape::Metadata(meta) | Shape::MetadataList(meta) => {
                let bytes = rendering::object(served, version, &entry.object, entry.revision)?;
                writer.push(&rendering::metadata(&bytes, meta)?);
            }
            _ => writer.push_object((served, version), entry, typed)?,
        }
    }
    if found.entries.is_empty() && matches!(shape, Shape::Metadata(_) | Shape::MetadataList(_)) {
        return Ok(Answer::json(StatusCode::OK, writer.finish_with_null()));
    }
    Ok(Answer::json(StatusCode::OK, writer.finish()))
}
