//! The rules of a pod's network: connections to other addresses arrive at one listener, queries to the DNS address at
//! one socket. Written as netlink messages, so that no `nft` program is needed.
//!
//! In the words of `nft`, for the pod 10.1.0.5 with the DNS server 10.96.0.10 and the redirected loopback port 6443:
//! ```text
//! table ip sandbox {
//!   chain output {
//!     type nat hook output priority -100
//!     ip saddr 127.0.0.1 ip daddr 127.0.0.1 tcp dport 6443 redirect to :1
//!     ip daddr 127.0.0.0/8 accept
//!     ip daddr 10.1.0.5 accept
//!     ip daddr 10.96.0.10 udp dport 53 redirect to :1
//!     meta l4proto tcp redirect to :1
//!   }
//! }
//! ```
//! A connection to 127.0.0.1 has that as its source, unless its socket was bound to another address: as the parent does it to
//! reach a program that listens on the redirected port itself.
//!
//! Numbers are those of `linux/netfilter/nf_tables.h`.

use std::io;
use std::net::Ipv4Addr;

use super::netlink::{ACKNOWLEDGE, APPEND, CREATE, Message, request};
use crate::wire::StartPod;

const TABLE: &str = "sandbox";
const CHAIN: &str = "output";

/// `NFNL_SUBSYS_NFTABLES`
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

const FAMILY_NONE: u8 = 0;
const FAMILY_IPV4: u8 = 2;
const HOOK_OUTPUT: u32 = 3;
/// `NF_IP_PRI_NAT_DST`, the place of destination rewriting.
const PRIORITY: i32 = -100;

const BASE_NETWORK: u32 = 1;
const BASE_TRANSPORT: u32 = 2;
const REGISTER_VERDICT: u32 = 0;
const REGISTER_1: u32 = 1;
const META_L4PROTO: u32 = 16;
const VERDICT_ACCEPT: u32 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where the source stands in an IPv4 header; the destination follows.
const SOURCE_OFFSET: u32 = 12;
/// Where the destination stands in an IPv4 header.
const DESTINATION_OFFSET: u32 = 16;
/// Where the destination stands in a header of TCP or UDP.
const PORT_OFFSET: u32 = 2;
const DNS_PORT: u16 = 53;

/// Sends what programs dial to the local port `port`, except what is for the pod itself.
pub(super) fn redirect(start: &StartPod, port: u16) -> io::Result<()> {
    let messages = ruleset(start.address, start.dns, start.redirected_loopback_port, port);
    let acknowledged = messages.len() - 2;
    request(Some(rustix::net::netlink::NETFILTER), messages, acknowledged)
}

fn ruleset(pod: Ipv4Addr, dns: Option<Ipv4Addr>, loopback_port: Option<u16>, port: u16) -> Vec<Message> {
    let mut messages = vec![batch(BATCH_BEGIN), table(), chain()];
    if let Some(loopback_port) = loopback_port {
        let ends = [Ipv4Addr::LOCALHOST.octets(), Ipv4Addr::LOCALHOST.octets()].concat();
        messages.push(rule(|list| {
            let list = equals(payload(list, BASE_NETWORK, SOURCE_OFFSET, 8), &ends);
            let list = equals(protocol(list), &[TCP]);
            redirect_to(destination_port(list, loopback_port), port)
        }));
    }
    messages.push(rule(|list| accept(equals(destination(list, 1), &[127]))));
    messages.push(rule(|list| accept(equals(destination(list, 4), &pod.octets()))));
    if let Some(dns) = dns {
        messages.push(rule(|list| {
            let list = equals(destination(list, 4), &dns.octets());
            let list = equals(protocol(list), &[UDP]);
            redirect_to(destination_port(list, DNS_PORT), port)
        }));
    }
    messages.push(rule(|list| redirect_to(equals(protocol(list), &[TCP]), port)));
    messages.push(batch(BATCH_END));
    messages
}

/// `struct nfgenmsg`: family, version, and a number in network order.
fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn batch(kind: u16) -> Message {
    Message::new(kind, 0, &header(FAMILY_NONE, SUBSYSTEM))
}

fn message(kind: u16, flags: u16) -> Message {
    Message::new(
        SUBSYSTEM << 8 | kind,
        flags | ACKNOWLEDGE | CREATE,
        &header(FAMILY_IPV4, 0),
    )
}

fn table() -> Message {
    message(NEW_TABLE, 0).text(1, TABLE)
}

fn chain() -> Message {
    message(NEW_CHAIN, 0)
        .text(1, TABLE)
        .text(3, CHAIN)
        .nested(4, |hook| {
            hook.number(1, HOOK_OUTPUT).attribute(2, &PRIORITY.to_be_bytes())
        })
        .text(7, "nat")
}

fn rule(expressions: impl FnOnce(Message) -> Message) -> Message {
    message(NEW_RULE, APPEND)
        .text(1, TABLE)
        .text(2, CHAIN)
        .nested(4, expressions)
}

fn expression(list: Message, name: &str, data: impl FnOnce(Message) -> Message) -> Message {
    list.nested(1, |element| element.text(1, name).nested(2, data))
}

/// Loads bytes of a packet into the register.
fn payload(list: Message, base: u32, offset: u32, length: u32) -> Message {
    expression(list, "payload", |data| {
        data.number(1, REGISTER_1)
            .number(2, base)
            .number(3, offset)
            .number(4, length)
    })
}

fn destination(list: Message, length: u32) -> Message {
    payload(list, BASE_NETWORK, DESTINATION_OFFSET, length)
}

fn destination_port(list: Message, port: u16) -> Message {
    equals(payload(list, BASE_TRANSPORT, PORT_OFFSET, 2), &port.to_be_bytes())
}

fn protocol(list: Message) -> Message {
    expression(list, "meta", |data| data.number(1, REGISTER_1).number(2, META_L4PROTO))
}

/// Continues only if the register holds these bytes.
fn equals(list: Message, value: &[u8]) -> Message {
    expression(list, "cmp", |data| {
        data.number(1, REGISTER_1)
            .number(2, 0)
            .nested(3, |operand| operand.attribute(1, value))
    })
}

fn accept(list: Message) -> Message {
    expression(list, "immediate", |data| {
        data.number(1, REGISTER_VERDICT)
            .nested(2, |value| value.nested(2, |verdict| verdict.number(1, VERDICT_ACCEPT)))
    })
}

fn redirect_to(list: Message, port: u16) -> Message {
    let list = expression(list, "immediate", |data| {
        data.number(1, REGISTER_1)
            .nested(2, |value| value.attribute(1, &port.to_be_bytes()))
    });
    expression(list, "redir", |data| data.number(1, REGISTER_1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_dns_and_of_a_loopback_port_are_added_only_if_requested() {
        let pod = Ipv4Addr::new(10, 1, 0, 5);
        let dns = Some(Ipv4Addr::new(10, 96, 0, 10));
        assert_eq!(ruleset(pod, None, None, 1).len(), 7);
        assert_eq!(ruleset(pod, dns, None, 1).len(), 8);
        assert_eq!(ruleset(pod, dns, Some(6443), 1).len(), 9);
    }

    #[test]
    fn a_comparison_is_encoded_as_the_kernel_reads_it() {
        let bytes = equals(Message::new(0, 0, &[]), &[127]).finish(0);
        let nested = |kind: u16, length: u16| [length.to_ne_bytes(), (kind | 0x8000).to_ne_bytes()].concat();
        let plain = |kind: u16, length: u16| [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        let expected = [
            nested(1, 44),
            plain(1, 8),
            b"cmp\0".to_vec(),
            nested(2, 32),
            plain(1, 8),
            vec![0, 0, 0, 1],
            plain(2, 8),
            vec![0, 0, 0, 0],
            nested(3, 12),
            plain(1, 5),
            vec![127, 0, 0, 0],
        ]
        .concat();
        assert_eq!(&bytes[16..], expected);
    }
}
