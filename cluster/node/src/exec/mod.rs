//! `kubectl exec` as a kubelet answers it: a command in a container, its streams over SPDY or WebSocket. The image runs the
//! command; callers are not authenticated here.
//! (k8s.io/kubelet v0.35 pkg/cri/streaming/remotecommand, pkg/kubelet/server/server.go getExec)

mod client;
mod outcome;
mod session;

use base_client::{ResponseBody, Upgrade};
use cluster_streams::upgrade::{self, Wanted};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use percent_encoding::percent_decode_str;

use crate::CommandStreams;
use crate::shown::{NoCommand, Shown};
use client::Transport;
use session::{Command, Output};

/// The protocol within SPDY: the version with exit codes. Older ones, of kubectl before 1.4, are not offered.
const SPDY_PROTOCOL: &str = "v4.channel.k8s.io";
/// The protocols in messages of WebSocket, the best first; the first one can end standard input.
const WEBSOCKET_PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", SPDY_PROTOCOL];

type Refused = (StatusCode, String);

/// Answers a request to run a command in a container (namespace, pod, container), and runs it until it or the client ends.
pub(crate) fn answer(
    shown: &Shown,
    request: &Request<Body>,
    (namespace, pod, container): (&str, &str, &str),
) -> Result<Response<ResponseBody>, Refused> {
    let (command, streams, output) = parse_query(request.uri().query().unwrap_or_default())?;
    let commands = shown.commands(namespace, pod, container);
    let commands = commands.map_err(|why| refusal(&why, container))?;
    if command.is_empty() {
        let why = "you must specify at least one command for the container";
        return Err((StatusCode::BAD_REQUEST, why.to_owned()));
    }
    let (transport, response) = negotiate(request)?;
    let upgrade = request.extensions().get::<Upgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| {
        let why = "request connection cannot be hijacked: it is not HTTP/1.1 of its own";
        (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned())
    })?;
    let command = Command {
        pod: format!("{namespace}/{pod}"),
        words: command,
        streams,
        output,
        commands,
    };
    // It ends with the command, whose container ends with the node, or with the client.
    tokio::spawn(async move {
        if let Some(connection) = upgrade.accepted().await {
            session::run(connection, transport, command).await;
        }
    });
    Ok(response)
}

/// The command and its streams, by the names of a kubelet's parameters.
fn parse_query(query: &str) -> Result<(Vec<String>, CommandStreams, Output), Refused> {
    let mut words = Vec::new();
    let (mut stdin, mut terminal, mut output) = (false, false, Output::default());
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8_lossy();
        match key {
            "command" => words.push(value.into_owned()),
            "input" => stdin = value == "1",
            "output" => output.stdout = value == "1",
            "error" => output.stderr = value == "1",
            "tty" => terminal = value == "1",
            _ => {}
        }
    }
    // A terminal has one stream for both.
    output.stderr &= !terminal;
    if !stdin && !output.stdout && !output.stderr {
        let why = "you must specify at least 1 of stdin, stdout, stderr";
        return Err((StatusCode::BAD_REQUEST, why.to_owned()));
    }
    Ok((words, CommandStreams { stdin, terminal }, output))
}

fn refusal(why: &NoCommand, container: &str) -> Refused {
    match why {
        NoCommand::NoPod => (StatusCode::NOT_FOUND, "pod does not exist".to_owned()),
        NoCommand::NotRunning => {
            let why = format!("container not found (\"{container}\")");
            (StatusCode::INTERNAL_SERVER_ERROR, why)
        }
        NoCommand::NoProgram => {
            // Without a colon, see `serve`.
            let why = format!(
                "container {container} is part of this node's process, and there is no program to run in one. Its log is all there \
                 is to see (kubectl logs). To run it as a program of this machine, map its image in the file that --images names"
            );
            (StatusCode::NOT_IMPLEMENTED, why)
        }
    }
}

/// The transport that both sides support, and the response that confirms it.
fn negotiate(request: &Request<Body>) -> Result<(Transport, Response<ResponseBody>), Refused> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let headers = request.headers();
    match Wanted::by(headers) {
        None => Err(bad("Upgrade request required".to_owned())),
        Some(Wanted::Spdy) => {
            if !upgrade::spdy_protocols(headers).contains(&SPDY_PROTOCOL) {
                let why = format!("unable to negotiate protocol: the server supports [{SPDY_PROTOCOL}]");
                return Err((StatusCode::FORBIDDEN, why));
            }
            Ok((Transport::Spdy, upgrade::to_spdy(SPDY_PROTOCOL)))
        }
        Some(Wanted::WebSocket) => {
            let key = upgrade::websocket_key(request.method(), headers);
            let key = key.ok_or_else(|| bad("not a WebSocket handshake of version 13".to_owned()))?;
            let offers = upgrade::websocket_protocols(headers);
            // The client's order counts, as in golang.org/x/net/websocket.
            let mut offers = offers.iter();
            let protocol = offers.find_map(|offer| WEBSOCKET_PROTOCOLS.into_iter().find(|known| known == offer));
            let protocol = protocol.ok_or_else(|| {
                bad(format!(
                    "requested protocol(s) are not supported: the server supports {WEBSOCKET_PROTOCOLS:?}"
                ))
            })?;
            let has_close = protocol == WEBSOCKET_PROTOCOLS[0];
            Ok((Transport::WebSocket { has_close }, upgrade::to_websocket(key, protocol)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_and_streams_are_read_from_the_query() {
        let (words, streams, output) =
            parse_query("command=sh&command=-c&command=a%26b+c%2B&input=1&output=1&error=1").unwrap();
        assert_eq!(words, ["sh", "-c", "a&b c+"]);
        assert_eq!((streams.stdin, streams.terminal), (true, false));
        assert_eq!((output.stdout, output.stderr), (true, true));
        let (_, streams, output) = parse_query("command=sh&output=1&error=1&tty=1").unwrap();
        assert!(streams.terminal && !output.stderr);
        let (code, why) = parse_query("command=sh&tty=1&error=1").unwrap_err();
        assert_eq!(
            (code, why.as_str()),
            (
                StatusCode::BAD_REQUEST,
                "you must specify at least 1 of stdin, stdout, stderr"
            )
        );
    }
}
