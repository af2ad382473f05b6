//! Connections into pods and out of them.

use std::net::{Ipv4Addr, SocketAddrV4};

use cluster_sandbox::{Ended, Pod};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{REDIRECTED, finish, line, pod, python, run};

/// Listens on a port and answers with its name and the address of the caller.
fn server(address: &str, port: u16) -> String {
    format!(
        "import socket\ns = socket.create_server(('{address}', {port}))\nprint('ready', flush=True)\n\
         while True:\n  c, a = s.accept()\n  c.sendall((socket.gethostname() + ' ' + a[0]).encode())\n  c.close()\n"
    )
}

async fn answer(pod: &Pod, source: Option<Ipv4Addr>, port: u16) -> String {
    let mut text = String::new();
    let mut stream = pod.connect_from(source, port).await.unwrap();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn two_pods_listen_on_one_low_port_and_both_are_reached() {
    let pods = [pod(1).await, pod(2).await];
    let mut running = Vec::new();
    for pod in &pods {
        let mut container = pod.start_container(python(&server("0.0.0.0", 443))).await.unwrap();
        let (mut output, errors) = container.output().unwrap();
        assert_eq!(line(&mut output).await, "ready");
        running.push((container, output, errors));
    }
    assert_eq!(answer(&pods[0], None, 443).await, "pod-1 10.1.0.1");
    assert_eq!(answer(&pods[1], None, 443).await, "pod-2 10.1.0.2");
    let other = Ipv4Addr::new(10, 1, 0, 77);
    assert_eq!(answer(&pods[0], Some(other), 443).await, "pod-1 10.1.0.77");
    assert_eq!(pods[0].listening().unwrap(), [443]);
    let error = pods[0].connect(80).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_port_of_localhost_alone_is_reached_too() {
    let pod = pod(1).await;
    let mut container = pod.start_container(python(&server("127.0.0.1", 8080))).await.unwrap();
    let (mut output, _errors) = container.output().unwrap();
    assert_eq!(line(&mut output).await, "ready");
    assert_eq!(answer(&pod, None, 8080).await, "pod-1 127.0.0.1");
}

#[tokio::test]
async fn what_a_program_dials_arrives_with_its_original_destination() {
    let pod = pod(1).await;
    // It listens on the port that it dials elsewhere: the two must not be confused.
    let script = "import socket\nl = socket.create_server(('0.0.0.0', 443))\n\
                  for a in ('10.96.0.1', '8.8.8.8'):\n  s = socket.create_connection((a, 443))\n  s.sendall(b'ping')\n  print(s.recv(9), s.getpeername()[0])\n\
                  s = socket.create_connection(('10.1.0.1', 443))\nprint(l.accept()[1][0])\n";
    let container = pod.start_container(python(script)).await.unwrap();
    for address in [Ipv4Addr::new(10, 96, 0, 1), Ipv4Addr::new(8, 8, 8, 8)] {
        let (mut stream, dialled) = pod.accept().await.unwrap();
        assert_eq!(dialled, SocketAddrV4::new(address, 443));
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        stream.write_all(b"pong").await.unwrap();
    }
    let expected = "b'pong' 10.96.0.1\nb'pong' 8.8.8.8\n10.1.0.1\n";
    assert_eq!(finish(container).await, (expected.to_owned(), Ended::Exited(0)));
}

#[tokio::test]
async fn a_redirected_port_of_loopback_leads_out_of_the_pod() {
    let pod = pod(1).await;
    let script = format!(
        "import socket\nfor a in ('127.0.0.1', 'localhost'):\n  s = socket.create_connection((a, {REDIRECTED}))\n  s.sendall(b'ping')\n\
         \x20 print(s.recv(9), s.getpeername())\n"
    );
    let container = pod.start_container(python(&script)).await.unwrap();
    for _ in 0..2 {
        let (mut stream, dialled) = pod.accept().await.unwrap();
        assert_eq!(dialled, SocketAddrV4::new(Ipv4Addr::LOCALHOST, REDIRECTED));
        let error = pod.connect_loopback(REDIRECTED).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
    let answer = format!("b'ping' ('127.0.0.1', {REDIRECTED})\n");
    assert_eq!(finish(container).await, (answer.repeat(2), Ended::Exited(0)));
}

#[tokio::test]
async fn a_program_that_listens_on_a_redirected_port_is_reached_from_outside() {
    for address in ["127.0.0.1", "0.0.0.0"] {
        let pod = pod(1).await;
        let mut container = pod.start_container(python(&server(address, REDIRECTED))).await.unwrap();
        let (mut output, _errors) = container.output().unwrap();
        assert_eq!(line(&mut output).await, "ready");
        assert_eq!(answer(&pod, None, REDIRECTED).await, "pod-1 10.1.0.1");
        let mut text = String::new();
        let mut stream = pod.connect_loopback(REDIRECTED).await.unwrap();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "pod-1 10.1.0.1");
    }
}

#[tokio::test]
async fn a_connection_to_the_listener_itself_is_dropped() {
    let pod = pod(1).await;
    let script = "import socket\ns = socket.create_connection(('127.0.0.1', 1))\nprint(s.recv(9))\nsocket.create_connection(('10.9.9.9', 99))\n";
    let container = pod.start_container(python(script)).await.unwrap();
    let (_, dialled) = pod.accept().await.unwrap();
    assert_eq!(dialled.port(), 99);
    assert_eq!(finish(container).await.0, "b''\n");
}

#[tokio::test]
async fn query_to_the_dns_address_arrives_and_is_answered_from_there() {
    let pod = pod(1).await;
    let script = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('10.96.0.10', 53))\n\
                  s.send(b'question')\nprint(s.recv(99))\n";
    let container = pod.start_container(python(script)).await.unwrap();
    let mut buffer = [0; 512];
    let dns = pod.dns().unwrap();
    let (length, from) = dns.recv_from(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], b"question");
    dns.send_to(b"answer", from).await.unwrap();
    assert_eq!(finish(container).await, ("b'answer'\n".to_owned(), Ended::Exited(0)));
}

#[tokio::test]
async fn other_datagrams_and_ipv6_fail_immediately_and_the_host_is_unreachable() {
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let script = format!(
        "import socket\n\
         def attempt(f):\n  try:\n    f()\n    print('done')\n  except OSError as e: print(e.errno)\n\
         u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nu.settimeout(5)\nu.connect(('9.9.9.9', 123))\nu.send(b'x')\n\
         attempt(lambda: u.recv(9))\n\
         attempt(lambda: socket.create_connection(('2001:db8::1', 80)))\n\
         attempt(lambda: socket.create_connection(('127.0.0.1', {port})))\n"
    );
    let (text, _) = run(python(&script)).await;
    assert_eq!(text, "111\n101\n111\n");
}
