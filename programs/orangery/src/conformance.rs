//! `orangery conformance`: validates an extension. What is validated and how is the crate `extensions-conformance`; here
//! are its arguments, its files and the exit code.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Https};
use base_clock::{Clock, Entropy};
use extensions_conformance::{Fragments, Hook, Options, Report, Subject, credentials, validate};
use landscape_data_folder::kubeconfig::read_with_files;

use crate::cli::{self, ReportForm};

/// The exit code when nothing could be validated.
const EXIT_UNDECIDED: u8 = 2;

/// Runs the command until it is done or `stop` is. Steps are printed on standard error, the report on `out`.
///
/// # Errors
/// A file for the report that cannot be written. What keeps a run from beginning is printed, and has an exit code of its own.
pub(crate) async fn run(
    arguments: &cli::Conformance,
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<ExitCode, Fault> {
    let (subject, options, client) = match prepared(arguments).await {
        Ok(prepared) => prepared,
        Err(fault) => {
            eprintln!("{}", crate::describe(&fault));
            return Ok(ExitCode::from(EXIT_UNDECIDED));
        }
    };
    let stopping = options.stop.clone();
    let validating = validate(client, subject, options);
    tokio::pin!(validating, stop);
    let report = tokio::select! {
        report = &mut validating => report,
        () = &mut stop => {
            stopping.cancel();
            validating.await
        }
    };
    if let Some(path) = &arguments.junit {
        write(path, &report.junit()).await?;
    }
    print(&report, arguments.output, out);
    Ok(ExitCode::from(report.exit_code()))
}

async fn prepared(arguments: &cli::Conformance) -> Result<(Subject, Options, kube::Client), Fault> {
    let kubeconfig = read_with_files(
        &arguments.kubeconfig,
        "name the kubeconfig of the seed with --kubeconfig",
    )
    .await?;
    let client = Https::new("orangery-conformance")
        .with_token_files()
        .client(&kubeconfig)?;
    let mut subject = Subject {
        class: arguments.class.clone(),
        other_classes: arguments.also_class.clone(),
        secondary: arguments.secondary.clone().map(|one| (one.kind, one.type_)),
        ..Subject::new(arguments.kind, arguments.type_.as_str())
    };
    if let Some(path) = &arguments.config {
        subject.fragments = Fragments::parse(&read(path).await?).map_err(|fault| in_file(fault, path))?;
    }
    if let Some(path) = &arguments.credentials {
        subject.credentials = credentials(&read(path).await?).map_err(|fault| in_file(fault, path))?;
    }
    let defaults = Options::new(arguments.kind, Clock::real(), Entropy::os());
    let options = Options {
        timeout: arguments.timeout.map_or(defaults.timeout, Duration::from_secs),
        patience: Duration::from_secs(arguments.patience),
        kill: arguments.kill.as_deref().map(Hook::command),
        cloud_check: arguments.cloud_check.as_deref().map(Hook::command),
        namespace: arguments.heartbeat.clone(),
        on_step: Arc::new(|step| eprintln!("{step} ...")),
        ..defaults
    };
    Ok((subject, options, client))
}

fn print(report: &Report, form: ReportForm, out: &mut impl Write) {
    let text = match form {
        ReportForm::Text => report.text(),
        ReportForm::Json => report.json() + "\n",
        ReportForm::Junit => report.junit(),
    };
    // The reader may have closed the pipe.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

async fn read(path: &Path) -> Result<String, Fault> {
    tokio::fs::read_to_string(path).await.map_err(|error| {
        Fault::user(format!("cannot read {}: {error}", path.display())).hint("name a file that exists and may be read")
    })
}

async fn write(path: &Path, text: &str) -> Result<(), Fault> {
    tokio::fs::write(path, text).await.map_err(|error| {
        Fault::user(format!("cannot write {}: {error}", path.display())).hint("name a file in a folder that exists")
    })
}

fn in_file(fault: Fault, path: &Path) -> Fault {
    Fault::user(format!("{}: {}", path.display(), fault.chain())).hint(fault.hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_cause() {
        for (text, cause) in [("spec: [", "expected mapping start"), ("specs: {}", "line 1, column 1")] {
            let fault = Fragments::parse(text).map_err(|fault| in_file(fault, Path::new("moon.yaml")));
            let text = crate::describe(&fault.unwrap_err());
            assert!(text.starts_with("error: moon.yaml: ") && text.contains(cause), "{text}");
            assert!(
                text.contains("\nhint: the file has the fields spec, changedSpec"),
                "{text}"
            );
        }
    }
}
