//! Requests to the kernel's network configuration, as bytes: the loopback device, addresses and routes.
//! Knows what a pod needs and nothing else; rules are in `nftables`.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

const ALIGNMENT: usize = 4;
const HEADER_BYTES: usize = 16;

/// `NLMSG_ERROR`: an answer with an error number, 0 for success.
const ERROR: u16 = 2;
pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACKNOWLEDGE: u16 = 0x4;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;
/// `NLA_F_NESTED`
const NESTED: u16 = 0x8000;

const AF_INET: u8 = 2;
/// The index of the loopback device: the first of every network namespace.
const LOOPBACK: u32 = 1;

/// One message under construction. Lengths are filled in as parts are closed.
#[derive(Debug, Clone)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message with the fixed header of its family of requests.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        let mut message = Self { bytes };
        message.align();
        message
    }

    /// Adds an attribute.
    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).expect("attributes here have a few bytes");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.align();
        self
    }

    /// Adds a text with its closing zero.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds a number in network order, as netfilter expects them.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Adds an attribute that consists of attributes.
    pub(super) fn nested(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        let mut this = inner(self);
        let length = u16::try_from(this.bytes.len() - start).expect("attributes here have a few bytes");
        this.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        this
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// The finished bytes.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("messages here have a few hundred bytes");
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Sends messages in one datagram and waits for the first error or for all acknowledgements.
pub(super) fn request(protocol: Option<Protocol>, messages: Vec<Message>, acknowledged: usize) -> io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let bytes: Vec<u8> = messages
        .into_iter()
        .zip(1..)
        .flat_map(|(message, sequence)| message.finish(sequence))
        .collect();
    rustix::net::sendto(&socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    await_answers(&socket, acknowledged)
}

/// Both families of requests are carried out within `sendto`, so that all answers are there already.
fn await_answers(socket: &OwnedFd, acknowledged: usize) -> io::Result<()> {
    let mut seen = 0;
    let mut buffer = vec![0; 16 * 1024];
    while seen < acknowledged {
        let (_, length) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT).map_err(|error| {
            if error == rustix::io::Errno::AGAIN {
                io::Error::other(format!("{seen} of {acknowledged} requests acknowledged"))
            } else {
                error.into()
            }
        })?;
        let mut rest = &buffer[..length.min(buffer.len())];
        while let Some((kind, body, next)) = split(rest) {
            if kind == ERROR {
                let code = body
                    .get(..4)
                    .map_or(0, |code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
                if code != 0 {
                    return Err(io::Error::from_raw_os_error(-code));
                }
                seen += 1;
            }
            rest = next;
        }
    }
    Ok(())
}

/// The first message of `bytes`: its kind, its body, and what follows.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let header = bytes.get(..HEADER_BYTES)?;
    let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let body = bytes.get(HEADER_BYTES..length)?;
    let next = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    Some((u16::from_ne_bytes([header[4], header[5]]), body, next))
}

/// Makes the loopback device a whole network: it is up, has the pod's address, and every other address is local to it,
/// so that nothing is unreachable, anything can be bound, and no packet can leave.
pub(super) fn set_up_loopback(address: Ipv4Addr) -> io::Result<()> {
    // NETLINK_ROUTE is the protocol 0, which is what a socket without one speaks.
    request(None, loopback_messages(address), 3)
}

fn loopback_messages(address: Ipv4Addr) -> Vec<Message> {
    const NEW_LINK: u16 = 16;
    const NEW_ADDRESS: u16 = 20;
    const NEW_ROUTE: u16 = 24;
    const UP: u32 = 1;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_STATIC: u8 = 4;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;

    let mut link = vec![0; 16]; // struct ifinfomsg
    link[4..8].copy_from_slice(&LOOPBACK.to_ne_bytes());
    link[8..12].copy_from_slice(&UP.to_ne_bytes());
    link[12..16].copy_from_slice(&UP.to_ne_bytes());
    let mut of_address = vec![AF_INET, 32, 0, 0]; // struct ifaddrmsg: family, prefix, flags, scope, index
    of_address.extend_from_slice(&LOOPBACK.to_ne_bytes());
    // struct rtmsg: family, prefixes of destination and source, tos, table, protocol, scope, type, flags
    let route = [
        AF_INET,
        0,
        0,
        0,
        TABLE_LOCAL,
        PROTOCOL_STATIC,
        SCOPE_HOST,
        TYPE_LOCAL,
        0,
        0,
        0,
        0,
    ];
    vec![
        Message::new(NEW_LINK, ACKNOWLEDGE, &link),
        Message::new(NEW_ADDRESS, ACKNOWLEDGE | CREATE, &of_address)
            .attribute(2, &address.octets()) // IFA_LOCAL
            .attribute(1, &address.octets()), // IFA_ADDRESS
        Message::new(NEW_ROUTE, ACKNOWLEDGE | CREATE, &route)
            .attribute(4, &LOOPBACK.to_ne_bytes()) // RTA_OIF
            .attribute(7, &address.octets()), // RTA_PREFSRC
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_lengths_count_what_they_contain() {
        let message = Message::new(0x10, CREATE, &[1, 2])
            .nested(5, |inner| inner.attribute(1, &[9]))
            .finish(3);
        let expected: Vec<u8> = [
            &32_u32.to_ne_bytes()[..],
            &0x10_u16.to_ne_bytes(),
            &0x401_u16.to_ne_bytes(),
            &3_u32.to_ne_bytes(),
            &[0; 4],
            &[1, 2, 0, 0],
            &12_u16.to_ne_bytes(),
            &0x8005_u16.to_ne_bytes(),
            &5_u16.to_ne_bytes(),
            &1_u16.to_ne_bytes(),
            &[9, 0, 0, 0],
        ]
        .concat();
        assert_eq!(message, expected);
    }

    #[test]
    fn a_truncated_answer_is_no_message() {
        assert!(split(&[0; 15]).is_none());
        let mut bytes = vec![0; 20];
        bytes[..4].copy_from_slice(&24_u32.to_ne_bytes());
        assert!(split(&bytes).is_none());
    }
}
