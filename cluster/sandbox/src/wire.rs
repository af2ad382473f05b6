//! Messages between this process and its helpers: JSON in frames with a length, over a socket that is a helper's
//! standard input; open files travel beside a frame. Never reads beyond the frame that it returns, because the next
//! one may be for the process that a helper starts.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;

use crate::{Ended, Limits};

/// Larger than any environment that Linux passes to a program (2 MiB of arguments, as JSON numbers).
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// At most this many open files travel with a frame.
const FILES_MAX: usize = 4;

/// The first message to a pod's helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartPod {
    pub(crate) hostname: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) dns: Option<Ipv4Addr>,
    pub(crate) redirected_loopback_port: Option<u16>,
}

/// A request for one socket of the pod's network.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NeedSocket {
    pub(crate) id: u64,
}

/// What a pod's helper answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromPod {
    /// With the listener of redirected connections and, if DNS was requested, a datagram socket.
    Ready,
    Failed(Failure),
    /// With the socket.
    Socket {
        id: u64,
    },
    NoSocket {
        id: u64,
        errno: i32,
    },
}

/// The first message to a container's helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BuildRoot {
    /// The process id of the pod's helper.
    pub(crate) pod: u32,
    pub(crate) mounts: Vec<MountAt>,
    pub(crate) hidden: Vec<OsString>,
}

/// A mount with paths that need not be UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountAt {
    pub(crate) source: OsString,
    pub(crate) sub_path: OsString,
    pub(crate) path: OsString,
    pub(crate) writable: bool,
}

/// The second message, read by the container's first process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StartProgram {
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) working_dir: OsString,
    pub(crate) limits: Limits,
}

/// What the container's first process is to do with the program.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    Signal(i32),
    /// End everything in the container at once.
    Kill,
}

/// What a container's helper and first process report.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromContainer {
    /// The process id of the container's first process, as the host sees it.
    Init(u32),
    Running,
    Failed(Failure),
    Ended(Ended),
}

/// The only message to an exec helper, with the command's standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartExec {
    /// The process id of the container's first process.
    pub(crate) init: u32,
    pub(crate) program: StartProgram,
    /// Whether it gets a terminal: [`FromContainer::Running`] comes with its other end.
    pub(crate) terminal: bool,
}

/// What went wrong in a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    /// What it was about: a path, a command.
    pub(crate) subject: String,
    pub(crate) errno: Option<i32>,
    pub(crate) text: String,
}

/// What a helper was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    UserNamespace,
    NetworkNamespace,
    Loopback,
    Redirect,
    Listen,
    Join,
    MountNamespace,
    Root,
    Volume,
    PidNamespace,
    Proc,
    Terminal,
    Lock,
    Limits,
    WorkingDir,
    Program,
    Message,
}

impl Step {
    fn verb(self) -> &'static str {
        match self {
            Self::UserNamespace => "make a user namespace",
            Self::NetworkNamespace => "make a network namespace",
            Self::Loopback => "set up the loopback device",
            Self::Redirect => "redirect connections with nf_tables",
            Self::Listen => "listen for redirected connections",
            Self::Join => "join the namespaces",
            Self::MountNamespace => "make a mount namespace",
            Self::Root => "build the root folder",
            Self::Volume => "mount a volume",
            Self::PidNamespace => "make a PID namespace",
            Self::Proc => "mount /proc",
            Self::Terminal => "open a terminal",
            Self::Lock => "lock the mounts in a second user namespace",
            Self::Limits => "set the limits",
            Self::WorkingDir => "enter the working folder",
            Self::Program => "start the program",
            Self::Message => "read a message",
        }
    }
}

/// A step of a helper that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {}{}", .step.verb(), Self::about(.subject))]
pub(crate) struct StepError {
    pub(crate) step: Step,
    pub(crate) subject: String,
    pub(crate) source: io::Error,
}

impl StepError {
    fn about(subject: &str) -> String {
        if subject.is_empty() {
            String::new()
        } else {
            format!(" {subject}")
        }
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Self {
            step: error.step,
            subject: error.subject,
            errno: error.source.raw_os_error(),
            text: error.source.to_string(),
        }
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        let source = failure
            .errno
            .map_or_else(|| io::Error::other(failure.text), io::Error::from_raw_os_error);
        Self {
            step: failure.step,
            subject: failure.subject,
            source,
        }
    }
}

impl From<StepError> for io::Error {
    fn from(error: StepError) -> Self {
        // The message of an `io::Error` is read without its source more often than with it.
        let kind = error.source.kind();
        Self::new(kind, format!("{error}: {}", error.source))
    }
}

/// Names the step that an error belongs to.
pub(crate) trait During<T> {
    fn during(self, step: Step) -> Result<T, StepError>;
    fn about(self, step: Step, subject: impl std::fmt::Display) -> Result<T, StepError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, step: Step) -> Result<T, StepError> {
        self.about(step, "")
    }

    fn about(self, step: Step, subject: impl std::fmt::Display) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            step,
            subject: subject.to_string(),
            source: error.into(),
        })
    }
}

/// A message on its way in: survives an interrupted read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    header: [u8; 4],
    header_bytes: usize,
    body: Vec<u8>,
    body_bytes: usize,
    files: Vec<OwnedFd>,
}

/// A frame's bytes and the open files that came with it.
type Frame = (Vec<u8>, Vec<OwnedFd>);

enum Progress {
    More,
    Done(Frame),
    /// The other side is gone.
    Closed,
}

impl Reader {
    /// One read of the socket.
    fn step(&mut self, socket: impl AsFd) -> io::Result<Progress> {
        let in_header = self.header_bytes < self.header.len();
        let rest = if in_header {
            &mut self.header[self.header_bytes..]
        } else {
            &mut self.body[self.body_bytes..]
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &socket,
                &mut [IoSliceMut::new(rest)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        if received.bytes == 0 {
            return Ok(Progress::Closed);
        }
        if in_header {
            self.header_bytes += received.bytes;
            if self.header_bytes == self.header.len() {
                let length = u32::from_le_bytes(self.header) as usize;
                if length == 0 || length > FRAME_BYTES_MAX {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("frame of {length} bytes"),
                    ));
                }
                self.body = vec![0; length];
            }
            return Ok(Progress::More);
        }
        self.body_bytes += received.bytes;
        if self.body_bytes < self.body.len() {
            return Ok(Progress::More);
        }
        let done = std::mem::take(self);
        Ok(Progress::Done((done.body, done.files)))
    }
}

fn decode<T: DeserializeOwned>((body, files): Frame) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    Ok(Some((serde_json::from_slice(&body)?, files)))
}

/// The next message, in a helper. `None`: the other side is gone.
pub(crate) fn receive_blocking<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut reader = Reader::default();
    loop {
        match reader.step(&socket)? {
            Progress::More => {}
            Progress::Done(frame) => return decode(frame),
            Progress::Closed => return Ok(None),
        }
    }
}

/// The next message. `None`: the helper is gone. May be dropped and called again with the same reader.
pub(crate) async fn receive<T: DeserializeOwned>(
    socket: &tokio::net::UnixStream,
    reader: &mut Reader,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    loop {
        let progress = socket.async_io(Interest::READABLE, || reader.step(socket)).await?;
        match progress {
            Progress::More => {}
            Progress::Done(frame) => return decode(frame),
            Progress::Closed => return Ok(None),
        }
    }
}

fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4)
        .ok()
        .filter(|length| *length as usize <= FRAME_BYTES_MAX)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "message too long"))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

fn send_some(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    })
    .map_err(Into::into)
}

/// Sends a message from a helper.
pub(crate) fn send_blocking(socket: impl AsFd, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(message)?;
    let mut sent = 0;
    while sent < bytes.len() {
        sent += send_some(&socket, &bytes[sent..], if sent == 0 { files } else { &[] })?;
    }
    Ok(())
}

/// Sends a message to a helper. Must not be dropped half-way if more is to be sent.
pub(crate) async fn send(
    socket: &tokio::net::UnixStream,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = encode(message)?;
    let mut sent = 0;
    while sent < bytes.len() {
        sent += socket
            .async_io(Interest::WRITABLE, || {
                send_some(socket, &bytes[sent..], if sent == 0 { files } else { &[] })
            })
            .await?;
    }
    Ok(())
}

/// Sends a small message at once or not at all.
pub(crate) fn send_now(socket: &tokio::net::UnixStream, message: &impl Serialize) -> io::Result<()> {
    let bytes = encode(message)?;
    // The peer reads at once, so the buffer has room; a frame this small is never split.
    send_some(socket, &bytes, &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_frame_carries_bytes_that_are_no_text_and_an_open_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let sent = MountAt {
            source: OsString::from_vec(vec![0xff, b'a']),
            sub_path: OsString::new(),
            path: "/x".into(),
            writable: true,
        };
        send_blocking(&ours, &sent, &[write.as_fd()]).unwrap();
        send_blocking(&ours, &NeedSocket { id: 7 }, &[]).unwrap();
        drop(write);
        let (got, files) = receive_blocking::<MountAt>(&theirs).unwrap().unwrap();
        assert_eq!((got.source, got.path), (sent.source, sent.path));
        assert_eq!(files.len(), 1);
        std::io::Write::write_all(&mut std::fs::File::from(files.into_iter().next().unwrap()), b"hello").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert_eq!(receive_blocking::<NeedSocket>(&theirs).unwrap().unwrap().0.id, 7);
        drop(ours);
        assert!(receive_blocking::<NeedSocket>(&theirs).unwrap().is_none());
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut &ours, &u32::MAX.to_le_bytes()).unwrap();
        assert!(receive_blocking::<NeedSocket>(&theirs).is_err());
    }
}
