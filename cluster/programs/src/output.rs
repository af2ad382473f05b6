//! What a program writes to its standard streams, line by line into its container's log. It holds no more than a line, and
//! a program that floods waits for it.

use std::time::Duration;

use cluster_node::LogWriter;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// The longest line that is waited for; a longer one goes on in the next, as in the log.
const LINE_BYTES_MAX: usize = 16 << 10;
/// What one stream may print in a second: hundreds of times what a verbose program prints, and a small part of what a core
/// can process.
const BYTES_PER_SECOND: usize = 8 << 20;

/// Reads a stream to its end.
pub(crate) async fn pump(stream: impl AsyncRead + Send, log: LogWriter) {
    let mut stream = std::pin::pin!(stream);
    let mut lines = Lines::default();
    let mut buffer = vec![0; LINE_BYTES_MAX];
    let (mut second, mut read) = (Instant::now(), 0);
    // A stream that breaks has ended, like one at its end.
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        lines.take(&buffer[..count], |text| log.line(text));
        read += count;
        if read < BYTES_PER_SECOND {
            continue;
        }
        tokio::time::sleep_until(second + Duration::from_secs(1)).await;
        (second, read) = (Instant::now(), 0);
    }
    lines.end(|text| log.line(text));
}

/// Bytes that are no whole line yet.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn take(&mut self, bytes: &[u8], print: impl Fn(&str)) {
        self.0.extend_from_slice(bytes);
        let whole = match self.0.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.0.len() >= LINE_BYTES_MAX => self.0.len(),
            None => return,
        };
        let rest = self.0.split_off(whole);
        print(&String::from_utf8_lossy(&self.0));
        self.0 = rest;
    }

    fn end(self, print: impl Fn(&str)) {
        if !self.0.is_empty() {
            print(&String::from_utf8_lossy(&self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_are_whole_and_bounded() {
        let printed = RefCell::new(Vec::new());
        let print = |text: &str| printed.borrow_mut().push(text.to_owned());
        let mut lines = Lines::default();
        lines.take(b"one\ntw", print);
        lines.take(b"o\n\nthree", print);
        lines.take(&vec![b'x'; LINE_BYTES_MAX], print);
        assert_eq!(lines.0.len(), 0);
        lines.take(b"\xffend", print);
        lines.end(print);
        let printed = printed.into_inner();
        assert_eq!(printed[..2], ["one\n", "two\n\n"]);
        assert!(printed[2].starts_with("threexxx") && printed[2].len() < 2 * LINE_BYTES_MAX);
        assert_eq!(printed[3], "\u{fffd}end");
    }
}
