//! Answers DNS questions by UDP and TCP. It queries no other server: what is none of its names is refused.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use api_meta::Fault;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Header, HeaderCounts, Metadata, OpCode, ResponseCode};
use hickory_server::proto::rr::rdata::{A, AAAA, CNAME, TXT};
use hickory_server::proto::rr::{Name, RData, Record, RecordType as WireType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::zones::{Answer, Answered, RecordType, Value, Zones};

/// A TCP client that sends nothing for this long is disconnected.
const TCP_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers waiting for a slow TCP client.
const TCP_ANSWERS_MAX: usize = 32;
/// How often another port is tried when UDP has one free that TCP has not.
const BIND_ATTEMPTS_MAX: usize = 16;

/// Binds `address` by UDP and TCP, passes the address to `bound`, and returns the future that answers until `stop`.
pub(crate) async fn serve(
    address: SocketAddr,
    zones: Zones,
    bound: Option<oneshot::Sender<SocketAddr>>,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + 'static, Fault> {
    let (socket, listener, address) = bind(address).await.map_err(|error| {
        Fault::user(format!("DNS cannot be answered on {address}: {error}"))
            .hint("choose another DNS address, or port 0 for a free one")
    })?;
    if let Some(bound) = bound {
        // The client may have gone.
        let _ = bound.send(address);
    }
    tracing::info!(%address, "answering DNS");
    let mut server = Server::new(Handler { zones });
    server.register_socket(socket);
    server.register_listener(listener, TCP_TIMEOUT, TCP_ANSWERS_MAX);
    Ok(async move {
        stop.cancelled().await;
        if let Err(error) = server.shutdown_gracefully().await {
            tracing::debug!("DNS server: {error}");
        }
    })
}

/// Both sockets on one port.
async fn bind(address: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener, SocketAddr)> {
    let mut attempt = 1;
    loop {
        let socket = UdpSocket::bind(address).await?;
        let taken = socket.local_addr()?;
        match TcpListener::bind(taken).await {
            Ok(listener) => return Ok((socket, listener, taken)),
            Err(_) if address.port() == 0 && attempt < BIND_ATTEMPTS_MAX => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

struct Handler {
    zones: Zones,
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut handle: R) -> ResponseInfo {
        let (code, records) = match request.request_info() {
            Ok(_) if request.metadata.op_code != OpCode::Query => (ResponseCode::NotImp, Vec::new()),
            Ok(info) => self.answer(&info.query.name().to_string(), info.query.query_type()),
            Err(_) => (ResponseCode::FormErr, Vec::new()),
        };
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.response_code = code;
        metadata.authoritative = matches!(code, ResponseCode::NoError | ResponseCode::NXDomain);
        let response = MessageResponseBuilder::from_message_request(request).build(metadata, &records, [], [], []);
        match handle.send_response(response).await {
            Ok(sent) => sent,
            Err(error) => {
                tracing::debug!("DNS answer not sent: {error}");
                Header {
                    metadata,
                    counts: HeaderCounts::default(),
                }
                .into()
            }
        }
    }
}

impl Handler {
    fn answer(&self, name: &str, type_: WireType) -> (ResponseCode, Vec<Record>) {
        if !self.zones.is_authority_for(name) {
            return (ResponseCode::Refused, Vec::new());
        }
        let type_ = match type_ {
            WireType::A => RecordType::A,
            WireType::AAAA => RecordType::Aaaa,
            WireType::CNAME => RecordType::Cname,
            WireType::TXT => RecordType::Txt,
            // No such records here; whether the name exists is still answered.
            _ => {
                return (
                    if self.exists(name) {
                        ResponseCode::NoError
                    } else {
                        ResponseCode::NXDomain
                    },
                    Vec::new(),
                );
            }
        };
        match self.zones.answer(name, type_) {
            Answer::Records(records) => (ResponseCode::NoError, records.iter().filter_map(wire_of).collect()),
            Answer::NoData => (ResponseCode::NoError, Vec::new()),
            Answer::NoName => (ResponseCode::NXDomain, Vec::new()),
        }
    }

    fn exists(&self, name: &str) -> bool {
        !matches!(self.zones.answer(name, RecordType::A), Answer::NoName)
    }
}

fn wire_of(record: &Answered) -> Option<Record> {
    let data = match &record.value {
        Value::A(address) => RData::A(A(*address)),
        Value::Aaaa(address) => RData::AAAA(AAAA(*address)),
        Value::Cname(name) => RData::CNAME(CNAME(absolute(name)?)),
        Value::Txt(text) => RData::TXT(TXT::new(vec![text.clone()])),
    };
    Some(Record::from_rdata(absolute(&record.name)?, record.ttl_seconds, data))
}

fn absolute(name: &str) -> Option<Name> {
    let mut name = Name::from_str(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

#[cfg(test)]
mod tests {
    use base_controller::ObjectKey;
    use hickory_server::proto::op::{Message, MessageType, Query};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::dns::zones::Entry;

    fn question(name: &str, type_: WireType) -> Vec<u8> {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(absolute(name).unwrap(), type_));
        message.to_vec().unwrap()
    }

    fn decoded(bytes: &[u8]) -> String {
        let message = Message::from_vec(bytes).unwrap();
        let answers: Vec<String> = message.answers.iter().map(|record| record.to_string()).collect();
        format!("{:?} {}", message.metadata.response_code, answers.join("; "))
    }

    async fn by_udp(address: SocketAddr, name: &str, type_: WireType) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&question(name, type_), address).await.unwrap();
        let mut buffer = [0; 2048];
        let length = socket.recv(&mut buffer).await.unwrap();
        decoded(&buffer[..length])
    }

    async fn by_tcp(address: SocketAddr, name: &str, type_: WireType) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let question = question(name, type_);
        stream.write_u16(question.len().try_into().unwrap()).await.unwrap();
        stream.write_all(&question).await.unwrap();
        let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
        stream.read_exact(&mut answer).await.unwrap();
        decoded(&answer)
    }

    #[tokio::test]
    async fn questions_are_answered_by_udp_and_tcp_until_stopped() {
        let (zones, stop) = (Zones::default(), CancellationToken::new());
        let owner = ObjectKey::namespaced("ns", "o");
        let values = ["10.0.0.1".to_owned()];
        zones
            .put(
                Entry::new(owner, "api.x.example", RecordType::A, &values, 60).unwrap(),
                |_| true,
            )
            .unwrap();
        let (reported, bound) = oneshot::channel();
        let server = serve("127.0.0.1:0".parse().unwrap(), zones, Some(reported), stop.clone())
            .await
            .unwrap();
        let server = tokio::spawn(server);
        let address = bound.await.unwrap();
        for answer in [
            by_udp(address, "api.x.example", WireType::A).await,
            by_tcp(address, "API.x.example", WireType::A).await,
        ] {
            assert_eq!(answer, "NoError api.x.example. 60 IN A 10.0.0.1");
        }
        assert_eq!(by_udp(address, "no.x.example", WireType::A).await, "NXDomain ");
        assert_eq!(by_udp(address, "api.x.example", WireType::MX).await, "NoError ");
        assert_eq!(by_udp(address, "example.org", WireType::A).await, "Refused ");
        stop.cancel();
        server.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
