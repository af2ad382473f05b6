//! The name server of a pod: names of its cluster from its Services, all others from the machine's resolver. It answers over
//! datagrams alone.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster_node::{PodNetwork, Resolved};
use cluster_sandbox::Pod;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use tokio::task::JoinSet;

/// How long an answer may be cached, in seconds: as CoreDNS does by default for a cluster's names.
const TTL_SECONDS: u32 = 5;
/// The longest question; longer ones do not exist over datagrams without extensions that no resolver uses to ask.
const QUESTION_BYTES_MAX: usize = 4096;
/// Addresses in one answer: what fits into a datagram that every resolver takes.
const ANSWERS_MAX: usize = 16;
/// Questions answered at once; a program that asks more waits.
const QUESTIONS_MAX: usize = 256;
/// The pause after a question could not be read.
const READ_AGAIN: Duration = Duration::from_millis(100);

/// Answers the questions of a pod until it is dropped.
pub(crate) async fn answer(pod: Arc<Pod>, network: PodNetwork) {
    let Some(socket) = pod.dns() else { return };
    let mut answering = JoinSet::new();
    let mut question = vec![0; QUESTION_BYTES_MAX];
    loop {
        tokio::select! {
            read = socket.recv_from(&mut question), if answering.len() < QUESTIONS_MAX => match read {
                Ok((length, from)) => {
                    let (question, network) = (question[..length].to_vec(), network.clone());
                    answering.spawn(async move { (reply(&question, &network).await, from) });
                }
                Err(error) => {
                    tracing::debug!(%error, "a question of a pod was not read");
                    tokio::time::sleep(READ_AGAIN).await;
                }
            },
            Some(answered) = answering.join_next() => {
                if let Ok((Some(answer), to)) = answered
                    && let Err(error) = socket.send_to(&answer, to).await
                {
                    tracing::debug!(%error, "an answer was not sent to a pod");
                }
            }
        }
    }
}

/// The answer to a question; none to what is no question.
async fn reply(question: &[u8], network: &PodNetwork) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    if question.metadata.message_type != MessageType::Query || question.metadata.op_code != OpCode::Query {
        return None;
    }
    let [query] = question.queries.as_slice() else {
        return None;
    };
    let name = query.name().to_ascii();
    let name = name.trim_end_matches('.');
    let resolved = match network.resolve(name).await {
        Resolved::Elsewhere => by_machine(name).await,
        resolved => resolved,
    };
    message(&question, query, resolved).to_vec().ok()
}

/// What the machine's own resolver knows.
async fn by_machine(name: &str) -> Resolved {
    match tokio::net::lookup_host((name, 0)).await {
        Ok(addresses) => Resolved::Addresses(addresses.map(|address| address.ip()).collect()),
        // The error does not show whether the name is missing or no resolver answered.
        Err(_) => Resolved::Missing,
    }
}

fn message(question: &Message, query: &Query, resolved: Resolved) -> Message {
    let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    match resolved {
        Resolved::Missing | Resolved::Elsewhere => answer.metadata.response_code = ResponseCode::NXDomain,
        Resolved::Addresses(mut addresses) => {
            addresses.sort_unstable();
            addresses.dedup();
            let data = addresses.into_iter().filter_map(|ip| match (ip, query.query_type()) {
                (IpAddr::V4(ip), RecordType::A | RecordType::ANY) => Some(RData::A(A(ip))),
                (IpAddr::V6(ip), RecordType::AAAA | RecordType::ANY) => Some(RData::AAAA(AAAA(ip))),
                _ => None,
            });
            let records = data.map(|data| Record::from_rdata(query.name().clone(), TTL_SECONDS, data));
            answer.add_answers(records.take(ANSWERS_MAX));
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::str::FromStr;

    use hickory_proto::rr::Name;

    use super::*;

    fn answer_to(kind: RecordType, resolved: Resolved) -> Message {
        let query = Query::query(Name::from_str("a.ns.svc.cluster.local.").unwrap(), kind);
        let mut question = Message::query();
        question.add_query(query.clone());
        let answer = message(&question, &query, resolved);
        let read = Message::from_vec(&answer.to_vec().unwrap()).unwrap();
        assert_eq!(read.metadata.id, question.metadata.id);
        read
    }

    #[test]
    fn answer_has_addresses_of_the_requested_kind() {
        let (four, six) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V6(Ipv6Addr::LOCALHOST));
        for (kind, count) in [(RecordType::A, 1), (RecordType::AAAA, 1), (RecordType::SRV, 0)] {
            let answer = answer_to(kind, Resolved::Addresses(vec![four, six, four]));
            assert_eq!(
                (answer.metadata.response_code, answer.answers.len()),
                (ResponseCode::NoError, count)
            );
        }
        let missing = answer_to(RecordType::A, Resolved::Missing);
        assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
        let many = (0..100).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        let many = answer_to(RecordType::A, Resolved::Addresses(many));
        assert_eq!(many.answers.len(), ANSWERS_MAX);
        assert!(many.to_vec().unwrap().len() <= 512);
    }
}
