//! Log lines of a container's code in the container's log, too: who looks for what a component warns of finds it with
//! `kubectl logs`, and in the process's own log as before.

use std::io::{self, Write};

/// Writes each line where it goes anyway, and to the log of the container whose code logs it.
pub(crate) struct Both<W>(pub(crate) W);

impl<W: Write> Write for Both<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(log) = cluster_node::current_log() {
            log.line(String::from_utf8_lossy(line));
        }
        self.0.write_all(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
