//! What programs share that hold ours against a real one: what they are asked, and how they end.

use std::process::ExitCode;

use clap::Args;

use crate::Outcome;

/// What is compared.
#[derive(Args, Debug)]
pub struct Comparing {
    /// Only cases that contain this text
    pub filter: Option<String>,
    /// Write the real answers into the files of cases
    #[arg(long)]
    pub update: bool,
    /// So many cases drawn from a seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub drawn: u64,
    /// Where all that is drawn begins
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Comparing {
    /// Whether something of that name is meant.
    pub fn is_meant(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter))
    }
}

/// Ends a program: whether all agreed, or why that is not known.
#[expect(clippy::print_stderr, reason = "a command line tool speaks on its standard streams")]
pub fn ended(compared: &Outcome<bool>) -> ExitCode {
    if let Err(why) = compared {
        eprintln!("error: {why}");
    }
    match compared {
        Ok(true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
