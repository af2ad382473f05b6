//! The names of Shoots, asked of the DNS server that runs in the process, on whatever port it is.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use api_extensions::DNSRecord;
use kube::Api;
use kube::api::ListParams;

use crate::user::User;

/// How long an answer on loopback may take; the machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Largest answer without EDNS.
const ANSWER_BYTES: usize = 512;
/// The response code of a name that is there.
const NOERROR: u8 = 0;
/// The codes of a name that is not there while others of its zone are, and of one in a zone that the server has nothing of.
const UNKNOWN: [u8; 2] = [3, 5];

/// All names that Shoots have at the moment, by their DNSRecords.
///
/// # Errors
/// The seed's refusal.
pub async fn names(user: &User) -> Result<BTreeSet<String>, String> {
    let records: Api<DNSRecord> = Api::all(user.seed.clone());
    let listed = records.list(&ListParams::default()).await;
    let listed = listed.map_err(|error| format!("list DNSRecords: {error}"))?;
    let addresses = listed
        .items
        .into_iter()
        .filter(|record| record.spec.record_type == api_extensions::DNSRecordType::A);
    Ok(addresses.map(|record| record.spec.name).collect())
}

/// Queries the process for each name: all are answered with an address, or none is.
///
/// # Errors
/// The names that are answered otherwise.
pub async fn check(process: u32, names: &BTreeSet<String>, there: bool) -> Result<(), String> {
    let names = names.clone();
    let lookup = tokio::task::spawn_blocking(move || {
        let ports = ports(process)?;
        let [port] = ports[..] else {
            return Err(format!(
                "the process has {} UDP ports instead of one: {ports:?}",
                ports.len()
            ));
        };
        let mut wrong = Vec::new();
        for name in &names {
            let (code, answers) = query(port, name)?;
            let well = if there {
                code == NOERROR && answers > 0
            } else {
                UNKNOWN.contains(&code)
            };
            if !well {
                wrong.push(format!("{name}: response code {code} with {answers} answers"));
            }
        }
        match wrong.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} of {} names are answered as if they were {}there; the first: {first}",
                wrong.len(),
                names.len(),
                if there { "not " } else { "" }
            )),
        }
    });
    lookup.await.map_err(|error| error.to_string())?
}

/// The UDP ports that a process has on 127.0.0.1.
fn ports(process: u32) -> Result<Vec<u16>, String> {
    let wrong = |error: std::io::Error| format!("cannot look at the sockets of process {process}: {error}");
    let files = fs::read_dir(format!("/proc/{process}/fd")).map_err(wrong)?;
    let sockets: BTreeSet<String> = files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_str()?;
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{process}/net/udp")).map_err(wrong)?;
    Ok(table.lines().skip(1).filter_map(|line| port(line, &sockets)).collect())
}

/// The local port of a line of `/proc/net/udp`, if its socket is one of these: the second field is address and port in
/// hexadecimal digits, the tenth the socket.
fn port(line: &str, sockets: &BTreeSet<String>) -> Option<u16> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.split_once(':')?;
    sockets
        .contains(*fields.get(9)?)
        .then(|| u16::from_str_radix(port, 16).ok())?
}

/// Asks for the A records of a name: the response code and the number of answers.
fn query(port: u16, name: &str) -> Result<(u8, u16), String> {
    let wrong = |error: std::io::Error| format!("ask for {name}: {error}");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
    socket.set_read_timeout(Some(ANSWER_MAX)).map_err(wrong)?;
    socket.connect((Ipv4Addr::LOCALHOST, port)).map_err(wrong)?;
    socket.send(&question(name)).map_err(wrong)?;
    let mut answer = [0; ANSWER_BYTES];
    let length = socket.recv(&mut answer).map_err(wrong)?;
    match answer.get(..length) {
        Some([_, _, _, flags, _, _, high, low, ..]) => Ok((flags & 0x0f, u16::from_be_bytes([*high, *low]))),
        _ => Err(format!("ask for {name}: the answer has {length} bytes")),
    }
}

fn question(name: &str) -> Vec<u8> {
    const ID: [u8; 2] = [0, 7];
    const RECURSION_DESIRED_ONE_QUESTION: [u8; 10] = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const A_IN: [u8; 4] = [0, 1, 0, 1];
    let mut bytes = [ID.as_slice(), &RECURSION_DESIRED_ONE_QUESTION].concat();
    for label in name.trim_end_matches('.').split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&A_IN);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_this_process_is_found_by_its_socket() {
        let before = ports(std::process::id()).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = ports(std::process::id()).unwrap();
        assert!(found.contains(&port) && !before.contains(&port), "{before:?} {found:?}");
    }
}
