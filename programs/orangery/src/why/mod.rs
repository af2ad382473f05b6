//! `orangery why`: says what blocks a Shoot or a ControllerInstallation, who is to act, and one thing to do. It asks the garden and the seed,
//! decides from what they answer, and changes nothing.
//!
//! `observe` reads, `plan` is a plain function from what was seen to blockers in their order, `report` prints.

pub mod facts;
pub mod near;
pub mod observe;
pub mod plan;
pub mod report;

use std::io::{IsTerminal, Write};

use api_meta::Fault;
use base_clock::Clock;

use crate::cli::{self, OutputForm, Subject};
use observe::Access;
use plan::{Answer, State};
use report::Page;

/// The exit code when something blocks the Shoot, or nobody can tell.
pub const EXIT_BLOCKED: u8 = 3;

/// Runs the command; gives the exit code.
///
/// # Errors
/// A Shoot that does not exist, a garden that cannot be asked: each says what to do.
pub async fn run(arguments: &cli::Why, out: &mut impl Write) -> Result<u8, Fault> {
    let access = Access::of(&arguments.data_dir)?;
    let now = Clock::real().now();
    let answer = match (&arguments.subject, &arguments.name) {
        (Subject::Shoot(shoot), None) => plan::plan(&Box::pin(observe::observe(&access, shoot, now)).await?),
        (Subject::Shoot(_), Some(extra)) => {
            let fault = Fault::user(format!("there is one word too many: {extra}"));
            return Err(fault.hint("name one Shoot, or the word controllerinstallation and a name"));
        }
        (Subject::ControllerInstallation, name) => {
            let name = name.as_deref().unwrap_or_default();
            plan::installation::plan(&Box::pin(observe::observe_installation(&access, name, now)).await?)
        }
    };
    let text = match arguments.output {
        OutputForm::Text => report::text(&answer, &page()),
        OutputForm::Json => {
            serde_json::to_string_pretty(&answer).map_err(|error| Fault::bug(error.to_string()))? + "\n"
        }
    };
    // Whoever read this may have gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(exit_code(&answer))
}

/// 0 while what was asked about is as it should be or is on its way.
#[must_use]
pub fn exit_code(answer: &Answer) -> u8 {
    match answer.state {
        State::Healthy | State::Working => 0,
        State::Blocked | State::Unknown => EXIT_BLOCKED,
    }
}

/// The terminal's width and whether it shows colours; neither of a pipe.
fn page() -> Page {
    let terminal = std::io::stdout().is_terminal();
    let size = terminal_size::terminal_size().filter(|_| terminal);
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Page {
        width: size.map_or(Page::default().width, |(width, _)| usize::from(width.0)),
        colour: terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}
