//! Compaction of etcd's history, as kube-apiserver does it and in step with it: of all servers on an etcd one compacts per
//! interval, to etcd's revision at the interval before. So history is retained for one to two intervals.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go)
//!
//! The version of a key that all servers share counts the compactions. A server that finds it unchanged since the last
//! interval has won the turn and writes it. The key's value is the revision that was compacted to.

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;

use crate::client::{Client, Failure};
use crate::wire::{
    CompactionRequest, Compare, PutRequest, RangeRequest, Request, RequestOp, Response, TARGET_VERSION, Target,
    TxnRequest, revision_of, to_wire,
};

/// The key that all servers share.
pub(crate) const COMPACT_KEY: &str = "compact_rev_key";

/// What was seen at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// How many compactions there have been, by any server.
    times: i64,
    /// Etcd's revision at the time; 0: not read yet.
    revision: u64,
}

/// Compacts for ever.
pub(crate) async fn run(client: Arc<Client>, every: Duration) {
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep(every).await;
        match once(&client, seen).await {
            Ok(now) => seen = now,
            Err(failure) => tracing::debug!(%failure, "etcd is not compacted this time"),
        }
    }
}

/// One interval's work; returns what the next one has to know.
pub(crate) async fn once(client: &Client, seen: Seen) -> Result<Seen, Failure> {
    let key = Bytes::from_static(COMPACT_KEY.as_bytes());
    let op = |request| RequestOp { request: Some(request) };
    let answer = client
        .transact(TxnRequest {
            compare: vec![Compare {
                target: TARGET_VERSION,
                key: key.clone(),
                value: Some(Target::Version(seen.times)),
            }],
            success: vec![op(Request::Put(PutRequest {
                key: key.clone(),
                value: seen.revision.to_string().into(),
                lease: 0,
            }))],
            failure: vec![op(Request::Range(RangeRequest {
                key,
                ..RangeRequest::default()
            }))],
        })
        .await?;
    let revision = revision_of(answer.header.as_ref());
    if !answer.succeeded {
        let found = answer.responses.into_iter().find_map(|op| match op.response {
            Some(Response::Range(range)) => range.kvs.into_iter().next(),
            _ => None,
        });
        let times = found.map_or(0, |kv| kv.version);
        return Ok(Seen { times, revision });
    }
    let now = Seen {
        times: seen.times + 1,
        revision,
    };
    // Nothing is known yet of what others may still need.
    if seen.revision == 0 {
        return Ok(now);
    }
    let request = CompactionRequest {
        revision: to_wire(seen.revision),
    };
    match client.compact(request).await {
        Ok(()) => tracing::debug!(revision = seen.revision, "etcd's history is compacted"),
        // Another client compacted, outside the protocol of this key.
        Err(Failure::Refused { text, .. }) => tracing::debug!(%text, "etcd's history was compacted already"),
        Err(failure) => return Err(failure),
    }
    Ok(now)
}
