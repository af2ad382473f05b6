//! Printing as Go's `fmt` of Go 1.26 does: `Sprint`, `Sprintln`, `Sprintf` with every verb, flag, width, precision and
//! argument index, and its messages about formats and arguments that do not fit.

mod float;
mod format;
mod number;
mod value;

pub(crate) use float::plain_float;

use crate::environment::error::PrintError;
use crate::text::rune_count;
use crate::value::Value;

/// What prints where there is no value.
pub(crate) const NO_VALUE: &[u8] = b"<no value>";

/// Writes values to the end of a buffer.
pub(crate) struct Printer<'a> {
    out: &'a mut Vec<u8>,
    /// How long the buffer may get.
    end_max: usize,
    bytes_max: usize,
    flags: Flags,
    width: Option<usize>,
    precision: Option<usize>,
    is_erroring: bool,
    failed: Option<PrintError>,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`, which sets no plus
    plus_v: bool,
    /// `%#v`, which sets no sharp
    sharp_v: bool,
}

impl<'a> Printer<'a> {
    /// A printer that adds at most so many bytes to a buffer.
    pub(crate) fn new(out: &'a mut Vec<u8>, bytes_max: usize) -> Self {
        let end_max = out.len().saturating_add(bytes_max);
        Self {
            out,
            end_max,
            bytes_max,
            flags: Flags::default(),
            width: None,
            precision: None,
            is_erroring: false,
            failed: None,
        }
    }

    /// `Sprint`: a space between two that are no strings.
    pub(crate) fn print(mut self, values: &[Value]) -> Result<(), PrintError> {
        let mut is_first = true;
        let mut was_string = false;
        for value in values {
            let is_string = matches!(value, Value::Str(_));
            if !is_first && !is_string && !was_string {
                self.out.push(b' ');
            }
            self.argument(value, 'v');
            is_first = false;
            was_string = is_string;
        }
        self.done()
    }

    /// `Sprintln`: a space between all, and a line feed.
    pub(crate) fn println(mut self, values: &[Value]) -> Result<(), PrintError> {
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.out.push(b' ');
            }
            self.argument(value, 'v');
        }
        self.out.push(b'\n');
        self.done()
    }

    fn done(&mut self) -> Result<(), PrintError> {
        self.is_full();
        match self.failed {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Whether there is no room for more.
    fn is_full(&mut self) -> bool {
        if self.failed.is_none() && self.out.len() > self.end_max {
            self.failed = Some(PrintError::TooLong {
                bytes_max: self.bytes_max,
            });
        }
        self.failed.is_some()
    }

    fn clear(&mut self) {
        self.flags = Flags::default();
        self.width = None;
        self.precision = None;
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn padding(&mut self, count: usize) {
        let byte = if self.flags.zero && !self.flags.minus {
            b'0'
        } else {
            b' '
        };
        let end = self.out.len().saturating_add(count);
        self.out.resize(end, byte);
    }

    /// Writes bytes, padded to the width.
    fn pad(&mut self, bytes: &[u8]) {
        let missing = self.width.map_or(0, |width| width.saturating_sub(rune_count(bytes)));
        if !self.flags.minus {
            self.padding(missing);
        }
        self.out.extend_from_slice(bytes);
        if self.flags.minus {
            self.padding(missing);
        }
    }

    /// Writes bytes, padded to the width with spaces whatever the flags say.
    fn pad_with_spaces(&mut self, bytes: &[u8]) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(bytes);
        self.flags.zero = zero;
    }
}

/// What `fmt.Sprint` prints for one value.
///
/// # Errors
/// The value is nested too deep or its text is longer than the limit.
pub(crate) fn sprint(values: &[Value], bytes_max: usize) -> Result<Vec<u8>, PrintError> {
    let mut out = Vec::new();
    Printer::new(&mut out, bytes_max).print(values)?;
    Ok(out)
}
