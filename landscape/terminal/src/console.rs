//! Where a command prints: lines that stay, and below them, on a terminal, a picture that is redrawn in place.
//! It changes no mode of the terminal (no raw mode, no other screen, no hidden cursor): however the process ends,
//! there is nothing to restore, and the next prompt stands below the last picture.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::paint::Line;
use super::render::{Canvas, Letters};

/// The size that is assumed for a terminal that does not report its own.
const SIZE_UNKNOWN: (usize, usize) = (80, 24);

/// Lines of the screen that a picture leaves alone.
const LINES_FREE: usize = 5;

/// Tells the size of the terminal: columns and lines.
type Size = Box<dyn Fn() -> Option<(usize, usize)> + Send>;

/// That of the process's terminal.
fn terminal_size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size()?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// The console. Clones share it.
#[derive(Clone)]
pub struct Console {
    drawn: Arc<Mutex<Drawn>>,
    draws: bool,
    colour: bool,
    letters: Letters,
}

struct Drawn {
    out: Box<dyn Write + Send>,
    size: Size,
    /// The picture on the screen: its lines as written, with the columns that each takes.
    lines: Vec<(String, usize)>,
    /// Whether log lines go to the same screen.
    logs_here: bool,
}

/// What the environment reports of the terminal.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Whether standard output is a terminal.
    pub terminal: bool,
    /// Whether standard error is one, most probably the same.
    pub logs_here: bool,
    /// `TERM`.
    pub term: String,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_colour: bool,
    /// The first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set and not empty.
    pub locale: String,
}

impl Surroundings {
    fn of_process() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            terminal: io::stdout().is_terminal(),
            logs_here: io::stderr().is_terminal(),
            term: set("TERM").unwrap_or_default(),
            no_colour: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(set)
                .unwrap_or_default(),
        }
    }
}

impl Console {
    /// Standard output as it is.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(Surroundings::of_process(), io::stdout(), terminal_size)
    }

    /// Standard error as it is, for what is shown while a result is awaited that may go elsewhere.
    #[must_use]
    pub fn of_errors() -> Self {
        let around = Surroundings {
            terminal: io::stderr().is_terminal(),
            ..Surroundings::of_process()
        };
        Self::new(around, io::stderr(), terminal_size)
    }

    /// A console of any kind.
    pub fn new(
        around: Surroundings,
        out: impl Write + Send + 'static,
        size: impl Fn() -> Option<(usize, usize)> + Send + 'static,
    ) -> Self {
        let draws = around.terminal && !around.term.is_empty() && around.term != "dumb";
        let locale = around.locale.to_ascii_lowercase();
        Self {
            draws,
            colour: draws && !around.no_colour,
            letters: match locale.contains("utf-8") || locale.contains("utf8") {
                true => Letters::Unicode,
                false => Letters::Ascii,
            },
            drawn: Arc::new(Mutex::new(Drawn {
                out: Box::new(out),
                size: Box::new(size),
                lines: Vec::new(),
                logs_here: around.logs_here,
            })),
        }
    }

    /// Whether it can show a picture.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.draws
    }

    /// The room for lines that stay: a file has no end.
    #[must_use]
    pub fn paper(&self) -> Canvas {
        Canvas {
            width: if self.draws { self.lock().room().0 } else { usize::MAX },
            height: usize::MAX,
            letters: self.letters,
        }
    }

    /// The room for a picture. Some lines stay free: for the cursor, and for what was printed before.
    #[must_use]
    pub fn canvas(&self) -> Canvas {
        let (width, height) = self.lock().room();
        Canvas {
            width,
            height: height.saturating_sub(LINES_FREE).max(1),
            letters: self.letters,
        }
    }

    /// Writes lines that stay, above the picture.
    pub fn print(&self, text: &str) {
        self.lock().above(|out| writeln!(out, "{text}"));
    }

    /// The same with colour where there is any.
    pub fn print_lines(&self, lines: &[Line]) {
        let colour = self.colour;
        self.lock()
            .above(|out| lines.iter().try_for_each(|line| writeln!(out, "{}", line.ansi(colour))));
    }

    /// Draws the picture in place of the one before; the same picture is not drawn twice.
    pub fn draw(&self, lines: &[Line]) {
        let colour = self.colour;
        let lines: Vec<(String, usize)> = lines.iter().map(|line| (line.ansi(colour), line.columns())).collect();
        let mut drawn = self.lock();
        if drawn.lines == lines {
            return;
        }
        let mut text = drawn.erasing();
        for (line, _) in &lines {
            text.push_str(line);
            text.push_str("\r\n");
        }
        drawn.lines = lines;
        drawn.write(&text);
    }

    /// Takes the picture away.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Leaves the picture where it is and forgets it: what is written next stands below.
    pub fn leave(&self) {
        self.lock().lines.clear();
    }

    /// Clears the picture before a panic prints its message, and then prints it as before.
    pub fn give_way_to_panics(&self) {
        let console = self.clone();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Whoever panics may be the one who draws.
            if let Ok(mut drawn) = console.drawn.try_lock() {
                drawn.clear();
            }
            before(panic);
        }));
    }

    /// Standard error for logs: on the same screen, lines go above the picture.
    #[must_use]
    pub fn logs(&self) -> Logs {
        Logs(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drawn {
    fn room(&self) -> (usize, usize) {
        let (width, height) = (self.size)().unwrap_or(SIZE_UNKNOWN);
        // A terminal that reports 0 does not know.
        let or = |size: usize, unknown: usize| if size == 0 { unknown } else { size };
        (or(width, SIZE_UNKNOWN.0), or(height, SIZE_UNKNOWN.1))
    }

    /// What takes the picture off the screen. A terminal that has become narrower has broken long lines into several,
    /// as those that reflow do.
    fn erasing(&self) -> String {
        let (width, height) = self.room();
        let rows: usize = self
            .lines
            .iter()
            .map(|(_, columns)| columns.div_ceil(width).max(1))
            .sum();
        match rows.min(height.saturating_sub(1)) {
            0 => String::new(),
            // Line by line: some terminals keep in their history what is erased down to the end of the screen.
            rows => format!("\r\x1b[{rows}A{}\x1b[{rows}A", "\x1b[2K\r\n".repeat(rows)),
        }
    }

    fn clear(&mut self) {
        let text = self.erasing();
        self.lines.clear();
        self.write(&text);
    }

    /// Writes something that stays, and the picture again below it.
    fn above(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let erasing = self.erasing();
        self.write(&erasing);
        // Whoever read this has gone; the work goes on.
        let _ = write(&mut self.out);
        let picture: String = self
            .lines
            .iter()
            .flat_map(|(line, _)| [line.as_str(), "\r\n"])
            .collect();
        self.write(&picture);
    }

    fn write(&mut self, text: &str) {
        // In one piece, so that no half picture is ever seen.
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

/// Standard error, in agreement with the picture.
#[derive(Clone)]
pub struct Logs(Console);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut drawn = self.0.lock();
        if drawn.lines.is_empty() || !drawn.logs_here {
            drop(drawn);
            return io::stderr().write(bytes);
        }
        let mut written = Ok(0);
        drawn.above(|_| {
            written = io::stderr().write(bytes);
            Ok(())
        });
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
