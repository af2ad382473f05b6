//! `orangery why`: finds what blocks a Shoot or a ControllerInstallation and prints it. What is found and how it is
//! worded is the crate `control-plane-diagnosis`; here are its arguments, the kubeconfigs and the exit code.

use std::io::{IsTerminal, Write};
use std::path::Path;

use api_meta::Fault;
use base_client::{Connector, Https};
use base_clock::Clock;
use control_plane_diagnosis::observe::{self, Access};
use control_plane_diagnosis::plan::{self, Answer, State};
use control_plane_diagnosis::report::{self, Page};
use kube::config::Kubeconfig;

use crate::cli::{self, OutputForm, Subject};
use crate::kubeconfig;

/// The exit code when something blocks the Shoot, or its state is unknown.
pub const EXIT_BLOCKED: u8 = 3;

/// Runs the command; returns the exit code.
///
/// # Errors
/// A Shoot that does not exist, a garden that does not answer: each error has a hint.
pub async fn run(arguments: &cli::Why, out: &mut impl Write) -> Result<u8, Fault> {
    let access = access(&arguments.data_dir)?;
    let now = Clock::real().now();
    let answer = match &arguments.subject {
        Subject::Shoot(shoot) => {
            let seen = Box::pin(observe::observe(&access, &shoot.namespace, &shoot.name, now)).await;
            seen.map(|facts| plan::plan(&facts))
        }
        Subject::ControllerInstallation => {
            let name = arguments.name.as_deref().unwrap_or_default();
            let seen = Box::pin(observe::observe_installation(&access, name, now)).await;
            seen.map(|facts| plan::installation::plan(&facts))
        }
    };
    let answer = answer.map_err(|fault| kubeconfig::garden_failed(fault, &arguments.data_dir))?;
    let text = match arguments.output {
        OutputForm::Text => report::text(&answer, &page()),
        OutputForm::Json => {
            serde_json::to_string_pretty(&answer).map_err(|error| Fault::bug(error.to_string()))? + "\n"
        }
    };
    // The reader may have closed the pipe.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(exit_code(&answer))
}

/// The ways to the API servers, from the kubeconfigs in a data folder.
///
/// # Errors
/// The garden's kubeconfig is missing or none. Those of seeds may be missing.
fn access(data_dir: &Path) -> Result<Access, Fault> {
    let garden = kubeconfig::garden_client(data_dir)?;
    let data_dir = data_dir.to_owned();
    let seeds = move |name: &str| {
        let path = kubeconfig::path(&data_dir, &kubeconfig::seed_part(name));
        let config =
            Kubeconfig::read_from(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Https::new("orangery").client(&config).map_err(|fault| fault.chain())
    };
    Ok(Access {
        garden,
        seeds: Box::new(seeds),
    })
}

/// 0 while the object is healthy or progressing.
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
