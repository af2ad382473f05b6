//! One command from its start to the answer of how it ended. It ends when its client goes away.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use base_client::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::client::{Answers, Channel, Client, Sent, Transport};
use super::outcome;
use crate::{CommandStreams, Commands, RunningCommand, TerminalSize};

/// Frames that wait for the client, or pieces that wait for the command.
const QUEUE_MAX: usize = 32;
/// What is read from a command at once.
const PIECE_BYTES: usize = 32 << 10;
/// How often the client is sent a ping, as often as client-go sends its own: where the command takes no more input, a client that is
/// gone is noticed by that alone.
const PING_EVERY: Duration = Duration::from_secs(5);
/// How long output is waited for once the command has ended: what it has started may hold its streams open.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How long the client may take to read what is left when the command has ended.
const LAST_READ: Duration = Duration::from_secs(30);
/// Longest text of the size of a terminal.
const RESIZE_BYTES_MAX: usize = 1 << 10;

/// A requested command.
pub(super) struct Command {
    /// As messages name it.
    pub(super) pod: String,
    pub(super) words: Vec<String>,
    pub(super) streams: CommandStreams,
    pub(super) output: Output,
    pub(super) commands: Commands,
}

/// Which output of a command its client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) stdout: bool,
    pub(super) stderr: bool,
}

impl Command {
    /// The streams that a client opens.
    fn channels(&self) -> Vec<Channel> {
        let all = [
            (Channel::Error, true),
            (Channel::Stdin, self.streams.stdin),
            (Channel::Stdout, self.output.stdout),
            (Channel::Stderr, self.output.stderr),
            (Channel::Resize, self.streams.terminal),
        ];
        all.into_iter()
            .filter(|(_, wanted)| *wanted)
            .map(|(channel, _)| channel)
            .collect()
    }
}

/// Runs a command for a client.
pub(super) async fn run(connection: Connection, transport: Transport, command: Command) {
    let (from, to) = split(connection);
    let (frames, outgoing) = mpsc::channel(QUEUE_MAX);
    let mut writing = std::pin::pin!(write(to, outgoing, transport));
    let pod = command.pod.clone();
    // The frames' sender goes with it, and so writing ends after it.
    let serving = serve(from, frames, transport, command);
    let ended = tokio::select! {
        ended = serving => match ended {
            Ok(()) => timeout(LAST_READ, &mut writing).await.unwrap_or(Ok(())),
            Err(error) => Err(error),
        },
        ended = &mut writing => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, pod, "the client of a command went away");
    }
}

async fn serve(
    from: impl AsyncRead + Unpin + Send,
    frames: mpsc::Sender<Vec<u8>>,
    transport: Transport,
    command: Command,
) -> io::Result<()> {
    let (client, answers) = Client::begin(transport, from, frames, &command.channels()).await?;
    let (sent, received) = mpsc::channel(QUEUE_MAX);
    let outcome = tokio::select! {
        read = client.read(sent) => return read.and(Err(io::ErrorKind::UnexpectedEof.into())),
        outcome = execute(&command, &answers, received) => outcome,
    };
    let status = match outcome {
        Ok(code) => outcome::exited(&command.words, code),
        Err(why) => outcome::failed(&why),
    };
    answers.send(Channel::Error, status.to_string().as_bytes()).await;
    answers.end().await;
    Ok(())
}

/// Writes frames until there are no more, and pings.
async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Vec<u8>>,
    transport: Transport,
) -> io::Result<()> {
    let mut pings = interval(PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.reset();
    let mut pinged: u32 = 0;
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => frame,
                None => return to.shutdown().await,
            },
            _ = pings.tick() => match transport {
                Transport::WebSocket { .. } => cluster_streams::websocket::ping(),
                Transport::Spdy => {
                    // A server's have even numbers.
                    pinged = pinged.wrapping_add(2);
                    cluster_streams::spdy::ping(pinged)
                }
            },
        };
        to.write_all(&frame).await?;
        to.flush().await?;
    }
}

/// Runs the command to its end. Errors: it was not run, or its end was not seen.
async fn execute(command: &Command, answers: &Answers, sent: mpsc::Receiver<Sent>) -> Result<i32, String> {
    let run = command.commands.offered().await.ok_or("the container is gone")?;
    let started = run.start(command.words.clone(), command.streams).await?;
    let RunningCommand {
        stdin,
        stdout,
        stderr,
        resize,
        ended,
    } = started;
    let printed = async {
        let stderr = async {
            if let Some(stderr) = stderr {
                pump(stderr, Channel::Stderr, answers).await;
            }
        };
        tokio::join!(pump(stdout, Channel::Stdout, answers), stderr);
    };
    let ending = async {
        let mut printed = std::pin::pin!(printed);
        let mut ended = ended;
        tokio::select! {
            code = &mut ended => {
                let _ = timeout(LAST_OUTPUT, printed).await;
                code
            }
            () = &mut printed => ended.await,
        }
    };
    tokio::select! {
        code = ending => code,
        never = feed(sent, stdin, resize) => match never {},
    }
}

/// Passes a stream of the command on to its end. One that the client does not want is read all the same.
async fn pump(mut from: impl AsyncRead + Unpin, channel: Channel, answers: &Answers) {
    let mut piece = vec![0; PIECE_BYTES];
    // A stream that breaks has ended; that of a terminal does.
    while let Ok(size @ 1..) = from.read(&mut piece).await {
        answers.send(channel, &piece[..size]).await;
    }
}

/// Passes on what the client sends, for as long as the command runs.
async fn feed(
    mut sent: mpsc::Receiver<Sent>,
    mut stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    resize: Option<Box<dyn Fn(TerminalSize) + Send + Sync>>,
) -> Infallible {
    let mut text = Vec::new();
    while let Some(what) = sent.recv().await {
        match what {
            Sent::Stdin(bytes) => {
                if let Some(to) = &mut stdin
                    && to.write_all(&bytes).await.is_err()
                {
                    // The command reads no more.
                    stdin = None;
                }
            }
            Sent::StdinEnded => stdin = None,
            Sent::Resize(bytes) => {
                text.extend_from_slice(&bytes);
                if let (Some(size), Some(resize)) = (last_size(&mut text), &resize) {
                    resize(size);
                }
            }
        }
    }
    std::future::pending().await
}

/// The last whole size in a text; what is behind it is left.
fn last_size(text: &mut Vec<u8>) -> Option<TerminalSize> {
    let mut sizes = serde_json::Deserializer::from_slice(text).into_iter();
    let (mut last, mut read) = (None, 0);
    while let Some(Ok(size)) = sizes.next() {
        (last, read) = (Some(size), sizes.byte_offset());
    }
    text.drain(..read);
    if text.len() > RESIZE_BYTES_MAX {
        text.clear();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_terminal_are_read_from_pieces() {
        let mut text = br#"{"Width":80,"Height":24}{"Width":100,"#.to_vec();
        let size = |width, height| Some(TerminalSize { width, height });
        assert_eq!(last_size(&mut text), size(80, 24));
        assert_eq!(last_size(&mut text), None);
        text.extend_from_slice(b"\"Height\":40}\n");
        assert_eq!(last_size(&mut text), size(100, 40));
        text.extend_from_slice(&[b'x'; RESIZE_BYTES_MAX + 1]);
        assert_eq!(last_size(&mut text), None);
        assert!(text.is_empty());
    }
}
