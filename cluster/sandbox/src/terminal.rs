//! The terminal of a command as this process holds it: what it shows, what is typed, its size. Dropped, the terminal hangs up.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;

/// A terminal. Its parts are used apart.
#[derive(Debug)]
pub struct Terminal {
    /// What it shows. When the last program has closed it, reading fails.
    pub screen: pipe::Receiver,
    /// What is typed.
    pub keyboard: pipe::Sender,
    /// How large it is.
    pub size: TerminalSize,
}

/// Sets the size of a terminal. Clones set the same one.
#[derive(Clone, Debug)]
pub struct TerminalSize(Arc<OwnedFd>);

impl TerminalSize {
    /// In characters.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn set(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.0, size)?)
    }
}

impl Terminal {
    /// From this process' end of a terminal.
    pub(crate) fn new(end: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&end, true)?;
        Ok(Self {
            screen: pipe::Receiver::from_file_unchecked(File::from(end.try_clone()?))?,
            keyboard: pipe::Sender::from_file_unchecked(File::from(end.try_clone()?))?,
            size: TerminalSize(Arc::new(end)),
        })
    }
}
