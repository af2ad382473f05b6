//! What a shell and a manual want of the command line: completion scripts and pages, made from its definition.

use api_meta::Fault;
use clap::CommandFactory;

use crate::cli::{Cli, Shell};

/// The completion script of a shell.
///
/// # Errors
/// None that can be helped: it would be a bug.
pub(crate) fn completion(shell: Shell) -> Result<String, Fault> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "orangery", &mut script);
    text(script)
}

/// The manual page of a command, named by its words; without any, of the program.
///
/// # Errors
/// There is no such command.
pub(crate) fn manual(words: &[String]) -> Result<String, Fault> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in words {
        let subcommands = || command.get_subcommands().filter(|one| one.get_name() != "help");
        command = subcommands().find(|one| one.get_name() == word).ok_or_else(|| {
            let names: Vec<&str> = subcommands().map(clap::Command::get_name).collect();
            let whole = command.get_bin_name().unwrap_or("orangery");
            Fault::user(format!("`{whole}` has no command {word:?}")).hint(match names.as_slice() {
                [] => "leave it out: there are no commands below this one".to_owned(),
                names => format!("name one of {}", names.join(", ")),
            })
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(concat!("orangery ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(|error| Fault::bug(error.to_string()))?;
    text(page)
}

fn text(bytes: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|error| Fault::bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completion(shell).unwrap();
            for word in ["why", "kubeconfig", "data-dir"] {
                assert!(script.contains(word), "{shell:?} does not know {word}");
            }
        }
    }

    #[test]
    fn a_nested_command_has_a_page_and_an_unknown_one_lists_what_exists() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let page = manual(&words("kubeconfig shoot")).unwrap();
        assert!(page.contains(".TH") && page.contains("valid for an hour"), "{page}");
        assert!(manual(&[]).unwrap().contains("every cloud behind an extension"));
        let fault = manual(&words("kubeconfig moon")).unwrap_err();
        assert!(fault.to_string().contains("\"moon\""), "{fault}");
        assert_eq!(fault.hint, "name one of garden, seed, shoot");
    }
}
