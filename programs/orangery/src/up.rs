//! `orangery up`: a landscape for a person. Writes kubeconfigs, prints what to type next, follows the example Shoot,
//! and runs until it is stopped.

mod extensions;

use std::path::Path;
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::Fault;
use cluster_programs::ImageFile;
use kube::{Api, Client};
use landscape_data_folder::server_state::{self, OF_LANDSCAPE, Owner};
use landscape_data_folder::{folder, kubeconfig};
use landscape_images::programs;
use landscape_local::example::{self, NAME as EXAMPLE_NAME, NAMESPACE as EXAMPLE_NAMESPACE};
use landscape_local::{Landscape, NotHealthy, SEEDS_MAX, Settings, State};
use landscape_terminal::{Console, Ended};

use crate::cli;
use extensions::Extensions;

/// How long the landscape may take until a Shoot can be taken, and the example until it has ended: many times what
/// a slow machine needs, so that something is wrong when it is reached.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long parts may take to end: twice what a node gives its pods.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command until `stop` is done. An example that fails leaves the landscape running too, so that one can look.
///
/// # Errors
/// A data folder that cannot be written, a port that is taken; at the end, an example that has failed.
pub(crate) async fn run(arguments: &cli::Up, stop: impl Future<Output = ()>, console: &Console) -> Result<(), Fault> {
    let extensions = Extensions::read(&arguments.extensions).await?;
    // An existing folder shows which process holds it. Where there is none, none is made for a port that is taken.
    let fresh = !arguments.data_dir.exists();
    if fresh {
        server_state::vacant(arguments.port).await?;
    }
    folder::make("the data folder", &arguments.data_dir)?;
    let _owned = folder::take(&arguments.data_dir, "up")?;
    Owner::Landscape.refuse_others(&arguments.data_dir)?;
    if !fresh {
        server_state::vacant(arguments.port).await?;
    }
    let folder = arguments.data_dir.join(OF_LANDSCAPE);
    let mut settings = settings(arguments, &folder)?;
    settings.images = extensions.images(settings.images)?;
    if settings.images.is_some()
        && let Some(shared) = programs::shared_with_machine().await
    {
        console.print(&shared);
    }
    let state = if arguments.memory {
        State::memory(&settings)?
    } else {
        State::open(&folder, &settings).await?
    };
    let ended = run_on(&state, &settings, arguments, (&extensions, stop), console).await;
    state.close().await;
    ended
}

/// The landscape of these arguments. Without a count of seeds, it has as many as the state in the folder.
fn settings(arguments: &cli::Up, folder: &Path) -> Result<Settings, Fault> {
    let retained = match arguments.memory {
        true => 0,
        false => u8::try_from(State::seeds_in(folder)).unwrap_or(SEEDS_MAX),
    };
    let count = arguments.seeds.unwrap_or(retained.clamp(1, SEEDS_MAX));
    let mut settings = Settings::real(arguments.data_dir.clone(), arguments.port).with_seeds(count);
    settings.images = arguments.images.as_deref().map(ImageFile::read).transpose()?;
    for cli::SeedLabels { seed: name, labels } in &arguments.seed_labels {
        let there: Vec<String> = settings.seeds.iter().map(|seed| seed.name.clone()).collect();
        let Some(seed) = settings.seeds.iter_mut().find(|seed| seed.name == *name) else {
            let message = format!("--seed-labels names seed {name:?}; the seeds are {}", there.join(", "));
            return Err(Fault::user(message).hint("name one of them, or ask for more with --seeds"));
        };
        for (key, value) in labels {
            if seed.labels.insert(key.clone(), value.clone()).is_some() {
                return Err(
                    Fault::user(format!("--seed-labels gives seed {name} label {key} twice"))
                        .hint("leave one of them out"),
                );
            }
        }
    }
    Ok(settings)
}

async fn run_on(
    state: &State,
    settings: &Settings,
    arguments: &cli::Up,
    (extensions, stop): (&Extensions, impl Future<Output = ()>),
    console: &Console,
) -> Result<(), Fault> {
    let landscape = Landscape::start(settings, state).await?;
    let mut example = Ok(());
    let showing = async {
        example = show(arguments, settings, &landscape, console).await?;
        // The landscape runs on, and so do its extensions, until the stop.
        std::future::pending::<Result<(), Fault>>().await
    };
    let ended = tokio::select! {
        ended = showing => ended,
        Err(fault) = extensions.develop(&landscape, console) => Err(fault),
        () = stop => Ok(()),
    };
    landscape.stop(STOP_PATIENCE).await;
    ended.and(example)
}

/// Writes the kubeconfigs; returns a client for the garden.
fn hand_out(arguments: &cli::Up, landscape: &Landscape) -> Result<Client, Fault> {
    let garden = landscape.garden_kubeconfig()?;
    kubeconfig::write(&kubeconfig::path(&arguments.data_dir, "garden"), &garden)?;
    let seeds: Vec<&str> = landscape.seeds.iter().map(|seed| seed.name.as_str()).collect();
    kubeconfig::remove_seeds_but(&arguments.data_dir, &seeds)?;
    for seed in &landscape.seeds {
        let path = kubeconfig::path(&arguments.data_dir, &kubeconfig::seed_part(&seed.name));
        kubeconfig::write(&path, &seed.kubeconfig()?)?;
    }
    landscape.connector().client(&garden)
}

/// Shows the landscape as it comes up; returns what became of it and of the example, neither of which ends it.
async fn show(
    arguments: &cli::Up,
    settings: &Settings,
    landscape: &Landscape,
    console: &Console,
) -> Result<Result<(), Fault>, Fault> {
    let client = hand_out(arguments, landscape)?;
    console.print(&format!(
        // With the scheme, the line would not fit into 80 columns.
        "garden and {} listen at {} ({})",
        match landscape.seeds.len() {
            1 => "seed".to_owned(),
            count => format!("{count} seeds"),
        },
        landscape.address().trim_start_matches("https://"),
        describe_storage(arguments)
    ));
    match landscape.ready(PATIENCE).await {
        Ok(broken) => {
            console.print("ready: a Shoot can be taken");
            broken.iter().for_each(|one| console.print(&not_healthy(one)));
        }
        Err(fault) => {
            // Diagnosis needs the landscape.
            console.print(&format!("not ready, and goes on trying: {fault}"));
            return Ok(Err(fault));
        }
    }
    let mut example = Ok(());
    if arguments.example {
        // From here on, so that nothing of the flow is missed.
        let listener = settings.feed.listen();
        if let Err(fault) = example::apply(&client).await {
            console.print(&format!("the example was not applied: {fault}"));
            return Ok(Err(fault));
        }
        console.print(&format!("example Shoot {EXAMPLE_NAMESPACE}/{EXAMPLE_NAME}:"));
        let shoots: Api<Shoot> = Api::namespaced(client, EXAMPLE_NAMESPACE);
        let name = (EXAMPLE_NAMESPACE, EXAMPLE_NAME);
        example = match landscape_terminal::follow(&shoots, name, listener, PATIENCE, &settings.clock, console).await {
            Ok(Ended::Succeeded) => Ok(()),
            Ok(Ended::Failed(errors)) => Err(Fault::user(format!("the example Shoot failed: {}", errors.join("; ")))
                .hint("its lastErrors say which task failed and why")),
            Err(fault) => Err(fault),
        };
    }
    let followed = arguments.example.then_some(example.is_ok());
    console.print(&next_commands(&arguments.data_dir, followed));
    Ok(example)
}

/// An extension of the user's that does not work, in one line.
fn not_healthy(broken: &NotHealthy) -> String {
    let NotHealthy { installation, why } = broken;
    let why = why.replace('\n', " ");
    format!(
        "ControllerInstallation {installation} is not healthy: {why}; see `orangery why controllerinstallation {installation}`"
    )
}

/// Where the state is, and how long it is there.
fn describe_storage(arguments: &cli::Up) -> String {
    let folder = arguments.data_dir.join(OF_LANDSCAPE);
    match (arguments.memory, State::is_in(&folder)) {
        (false, _) => format!("state is kept in {}", folder.display()),
        (true, false) => "state is in memory: it ends with this process".to_owned(),
        (true, true) => format!(
            "state is in memory: it ends with this process; what is kept in {} is left alone",
            folder.display()
        ),
    }
}

/// What a person would type next. `example`: whether it came up, if it was requested.
fn next_commands(data_dir: &Path, example: Option<bool>) -> String {
    let data_dir = folder::absolute(data_dir);
    let garden = kubeconfig::path(&data_dir, "garden");
    let mut text = format!(
        "\nnext, in another terminal:\n  export KUBECONFIG={}\n",
        garden.display()
    );
    let (folder, shoot) = (data_dir.display(), format!("{EXAMPLE_NAMESPACE}/{EXAMPLE_NAME}"));
    match example {
        Some(true) => {
            text += "  kubectl get shoots --all-namespaces\n";
            text += &format!("  orangery kubeconfig --data-dir {folder} shoot {shoot} > shoot.kubeconfig\n");
            text += "  kubectl --kubeconfig shoot.kubeconfig get nodes\n";
        }
        Some(false) => {
            text += &format!("  orangery why --data-dir {folder} {shoot}\n");
            text += &format!("  kubectl -n {EXAMPLE_NAMESPACE} describe shoot {EXAMPLE_NAME}\n");
        }
        None => text += "  kubectl get seeds\n  kubectl apply -f examples/\n",
    }
    text + "Ctrl-C ends everything"
}
