//! The kubeconfigs of a data folder: written, read, and that of a Shoot fetched from the garden. It never signs anything
//! itself.

use std::path::{Path, PathBuf};

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec};
use api_core::v1beta1::Shoot;
use api_meta::Fault;
use base_client::{Connector, Https, Target, fault_of, inline_files, is_missing, is_unanswered};
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;

use crate::folder;

/// Name of a landscape's first seed.
pub const SEED_FIRST: &str = "local";
/// What the names of seeds' kubeconfigs begin with.
const SEED: &str = "seed";

/// How long a Shoot's kubeconfig is valid: long enough for a session at the terminal.
const VALID_SECONDS: i64 = 3600;

/// Where a part of the landscape has its kubeconfig.
#[must_use]
pub fn path(data_dir: &Path, part: &str) -> PathBuf {
    data_dir.join(format!("{part}.kubeconfig"))
}

/// The part of the landscape that a seed is, as its file is named. The first seed's name is left out: it was the only one
/// once, and scripts know the file.
#[must_use]
pub fn seed_part(seed: &str) -> String {
    match seed {
        SEED_FIRST => SEED.to_owned(),
        other => format!("{SEED}-{other}"),
    }
}

/// The seeds that have a kubeconfig in the folder, in order.
fn seeds_in(data_dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data_dir).into_iter().flatten();
    let mut seeds: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            match name.strip_suffix(".kubeconfig")?.strip_prefix(SEED)? {
                "" => Some(SEED_FIRST.to_owned()),
                more => more.strip_prefix('-').map(str::to_owned),
            }
        })
        .collect();
    seeds.sort();
    seeds
}

/// Removes the kubeconfigs of seeds that are not among `present`: a landscape that ran here before had them.
///
/// # Errors
/// One cannot be removed.
pub fn remove_seeds_but(data_dir: &Path, present: &[&str]) -> Result<(), Fault> {
    let stale = seeds_in(data_dir)
        .into_iter()
        .filter(|seed| !present.contains(&seed.as_str()));
    for seed in stale {
        let path = path(data_dir, &seed_part(&seed));
        std::fs::remove_file(&path).map_err(|error| folder::unusable("remove", &path, &error))?;
    }
    Ok(())
}

/// Writes a kubeconfig that only its owner can read, whole or not at all.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, kubeconfig: &Kubeconfig) -> Result<(), Fault> {
    let text = base_secrets::to_yaml(kubeconfig).map_err(|error| Fault::bug(error.to_string()))?;
    folder::write(path, text.expose())
}

/// The garden's kubeconfig.
///
/// # Errors
/// A file that is missing or no kubeconfig, with one thing to do.
pub fn of_garden(data_dir: &Path) -> Result<String, Fault> {
    read(data_dir, "garden")
}

/// The kubeconfig of a seed.
///
/// # Errors
/// As [`of_garden`]; there is no such seed.
pub fn of_seed(data_dir: &Path, seed: &str) -> Result<String, Fault> {
    let there = seeds_in(data_dir);
    if there.is_empty() || there.iter().any(|one| one == seed) {
        return read(data_dir, &seed_part(seed));
    }
    Err(
        Fault::user(format!("there is no seed {seed:?} in {}", data_dir.display()))
            .hint(format!("name one that exists: {}", there.join(", "))),
    )
}

fn read(data_dir: &Path, part: &str) -> Result<String, Fault> {
    let (text, _) = read_file(
        &path(data_dir, part),
        "start `orangery up` first, or name its folder with --data-dir",
    )?;
    Ok(text)
}

/// The text of a kubeconfig that names an API server, and the kubeconfig. `hint`: what to do when it is none.
///
/// # Errors
/// A file that cannot be read, is empty, or is no complete kubeconfig; each names the file.
pub fn read_file(path: &Path, hint: &str) -> Result<(String, Kubeconfig), Fault> {
    let wrong = |why: String| Fault::user(why).hint(hint);
    let text = std::fs::read_to_string(path).map_err(|error| {
        let fault = |whose: &str| wrong(format!("cannot read the kubeconfig {}: {error}{whose}", path.display()));
        match folder::somebody_elses(path, &error) {
            Some(whose) => fault(&whose).hint("run this as that user"),
            None => fault(""),
        }
    })?;
    if text.trim().is_empty() {
        return Err(wrong(format!("the file {} is empty, not a kubeconfig", path.display())));
    }
    // The rest of a parser's text is a drawing of the place.
    let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
    let not_one = |why: String| wrong(format!("{} is not a kubeconfig: {}", path.display(), first_line(why)));
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| not_one(error.to_string()))?;
    Target::of(&kubeconfig).map_err(|fault| not_one(fault.to_string()))?;
    Ok((text, kubeconfig))
}

/// A kubeconfig with the content of the files that it names; a token file stays one, which a client reads again.
///
/// # Errors
/// As [`read_file`]; a named file cannot be read.
pub async fn read_with_files(path: &Path, hint: &str) -> Result<Kubeconfig, Fault> {
    let (_, kubeconfig) = read_file(path, hint)?;
    inline_files(kubeconfig, path.parent().unwrap_or(Path::new("."))).await
}

/// A client for the garden, with the kubeconfig that `up` left in its data folder.
///
/// # Errors
/// As [`of_garden`].
pub fn garden_client(data_dir: &Path) -> Result<kube::Client, Fault> {
    let (_, kubeconfig) = read_file(
        &path(data_dir, "garden"),
        "start `orangery up` first, or name its folder with --data-dir",
    )?;
    Https::new("orangery").client(&kubeconfig)
}

/// A fresh kubeconfig of an administrator of the Shoot, valid for an hour.
///
/// # Errors
/// As [`of_garden`]; a garden that does not answer or refuses, with what to do.
pub async fn of_shoot(data_dir: &Path, namespace: &str, name: &str) -> Result<String, Fault> {
    let shoots: Api<Shoot> = Api::namespaced(garden_client(data_dir)?, namespace);
    let doing = format!("ask for a kubeconfig of Shoot {namespace}/{name}");
    let request = AdminKubeconfigRequest {
        spec: KubeconfigRequestSpec {
            expiration_seconds: Some(VALID_SECONDS),
        },
        ..AdminKubeconfigRequest::default()
    };
    let answer: AdminKubeconfigRequest = shoots
        .create_subresource("adminkubeconfig", name, &PostParams::default(), &request)
        .await
        .map_err(|error| not_given(error, &doing, data_dir, &format!("{namespace}/{name}")))?;
    let kubeconfig = answer.status.map(|status| status.kubeconfig.0).unwrap_or_default();
    String::from_utf8(kubeconfig).map_err(|_| Fault::bug(format!("{doing}: the answer is not text")))
}

fn not_given(error: kube::Error, doing: &str, data_dir: &Path, shoot: &str) -> Fault {
    let garden = path(data_dir, "garden");
    let garden = garden.display();
    if is_missing(&error) {
        return Fault::user(format!("there is no Shoot {shoot}")).hint(format!(
            "`kubectl --kubeconfig {garden} get shoots --all-namespaces` lists those there are"
        ));
    }
    if lacks_address(&error) {
        return Fault::user(format!("Shoot {shoot} has no address of its API server yet")).hint(format!(
            "wait until its creation has succeeded; `orangery why --data-dir {} {shoot}` prints what it waits for",
            data_dir.display()
        ));
    }
    garden_failed(fault_of(error, doing), data_dir)
}

/// A fault of a call to the garden: where nothing has answered, with whose garden that was.
#[must_use]
pub fn garden_failed(fault: Fault, data_dir: &Path) -> Fault {
    if !is_unanswered(&fault) {
        return fault;
    }
    let garden = path(data_dir, "garden");
    fault.hint(format!(
        "the landscape that wrote {} has ended: start `orangery up` again, or name another folder with --data-dir",
        garden.display()
    ))
}

/// Whether the garden has refused because the Shoot's API server has no address yet.
fn lacks_address(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    // Gardener names this field, and no other refusal of a kubeconfig does.
    causes.any(|cause| cause.field == "status.status")
}
