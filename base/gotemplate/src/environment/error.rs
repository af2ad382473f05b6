//! What goes wrong: Go's own messages, and limits that Go does not have.

/// How deep lists and maps may be nested to be printed: printing calls itself for each level, and a map can hold itself,
/// where Go runs out of stack.
pub(crate) const PRINT_DEPTH_MAX: usize = 200;

/// Why a template was not read or not executed. The texts are Go's, but for the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is no template.
    #[error("{0}")]
    Parse(String),
    /// The template could not be executed.
    #[error("{0}")]
    Exec(ExecError),
    /// Executing the template took more than was allowed.
    #[error("template: {place}: {limit}")]
    Limit {
        /// Name of the template that was executed
        place: String,
        /// The limit
        limit: LimitError,
    },
}

/// Why a template could not be executed: an error that may hold others, each of them the end of the one around it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ExecError {
    text: String,
    /// How many bytes each error in it has, the outermost first
    causes: Vec<usize>,
}

impl ExecError {
    pub(crate) fn new(text: String, causes: Vec<usize>) -> Self {
        Self { text, causes }
    }

    /// The whole text, then the errors in it, from the outermost on: what Go's `errors.Unwrap` finds.
    pub fn chain(&self) -> impl Iterator<Item = &str> {
        let causes = self.causes.iter();
        let causes = causes.filter_map(|bytes| self.text.get(self.text.len().checked_sub(*bytes)?..));
        std::iter::once(self.text.as_str()).chain(causes)
    }
}

/// A limit that was met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many steps
    #[error("execution takes more than {0} steps, at most these are made")]
    Steps(u64),
    /// Too much text
    #[error("output is longer than {0} bytes, at most these are made")]
    Output(usize),
    /// Templates that functions have executed inside each other
    #[error("functions have templates executed more than {0} levels deep, at most these are")]
    Depth(usize),
    /// A regular expression, or what it takes to search a text for it
    #[error("regular expression is too large, or too large for so long a text")]
    Regex,
    /// A single value
    #[error("{0}")]
    Value(#[from] PrintError),
}

/// Why something was not printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrintError {
    /// The value is nested too deep, or holds itself.
    #[error("value is nested more than {PRINT_DEPTH_MAX} levels deep, at most that is printed")]
    TooDeep,
    /// The text would be longer than the limit.
    #[error("text is longer than {bytes_max} bytes, at most that is made at once")]
    TooLong {
        /// The limit
        bytes_max: usize,
    },
}

/// Why a function has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The error of Go's function
    Message(String),
    /// A limit was met
    Limit(LimitError),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Message(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Message(text.to_owned())
    }
}

impl From<PrintError> for Fault {
    fn from(why: PrintError) -> Self {
        Self::Limit(LimitError::Value(why))
    }
}
