//! Arguments of `orangery garden`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use clap::Args;
use control_plane_controller_manager::Name;

use super::{Etcd, Plugins};

/// Where `garden` keeps state and kubeconfig when the user names no folder, below the working directory.
pub const GARDEN_DATA_DIR: &str = ".orangery-garden";

/// Arguments of `orangery garden`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery garden --memory --port 0
    A garden for one session on a free port; nothing of it is left but its kubeconfig.
  export KUBECONFIG=.orangery-garden/garden.kubeconfig
    For kubectl, and for every program that reads or writes Shoots, Projects, Seeds.
  orangery garden --controllers '*,-scheduler'
    Nothing gives Shoots a seed but the test itself.
  orangery garden --controllers=
    Requests are answered, and nothing else writes.
  orangery garden --disable-admission-plugins ExtensionValidator,DeletionConfirmation
    Types need no registration, and Shoots are deleted without a confirmation.")]
pub struct Garden {
    /// Folder for the state and for garden.kubeconfig
    #[arg(long, value_name = "FOLDER", default_value = GARDEN_DATA_DIR)]
    pub data_dir: PathBuf,
    /// Keep all state in memory: nothing is left when the process ends, and what the folder holds is left alone
    #[arg(long)]
    pub memory: bool,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 6443, value_parser = super::port)]
    pub port: u16,
    /// Controllers that run: * for all, NAME for one, -NAME for all but that one, separated by commas; none where it is
    /// empty
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "*", allow_hyphen_values = true,
        value_parser = switch)]
    pub controllers: Vec<Switch>,
    /// Admission plug-ins
    #[command(flatten)]
    pub admission: Plugins,
    /// Keep objects in an etcd instead of the data folder
    #[command(flatten)]
    pub etcd: Etcd,
}

impl Garden {
    /// The controllers that run. As with kube-controller-manager, what is named counts before `*`.
    #[must_use]
    pub fn controllers(&self) -> BTreeSet<GardenController> {
        let is_on = |controller: &GardenController| {
            let named = |on: bool| self.controllers.contains(&Switch::One { on, of: *controller });
            named(true) || (self.controllers.contains(&Switch::All) && !named(false))
        };
        GardenController::all().filter(is_on).collect()
    }
}

/// What runs beside the garden's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GardenController {
    /// Those of Kubernetes: namespaces, garbage collection, service accounts, quotas.
    Kubernetes,
    /// One of Gardener's controller-manager.
    OfGardener(Name),
    /// Gardener's scheduler.
    Scheduler,
}

impl GardenController {
    fn all() -> impl Iterator<Item = Self> {
        let of_gardener = Name::ALL.into_iter().map(Self::OfGardener);
        [Self::Kubernetes, Self::Scheduler].into_iter().chain(of_gardener)
    }
}

impl fmt::Display for GardenController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubernetes => f.write_str("kubernetes"),
            Self::Scheduler => f.write_str("scheduler"),
            Self::OfGardener(name) => name.fmt(f),
        }
    }
}

/// A word of `--controllers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// None, when nothing else is given.
    Nothing,
    /// All that are not named.
    All,
    /// One.
    One {
        /// Whether it runs.
        on: bool,
        /// Which.
        of: GardenController,
    },
}

fn switch(text: &str) -> Result<Switch, String> {
    match text {
        "" => return Ok(Switch::Nothing),
        "*" => return Ok(Switch::All),
        _ => {}
    }
    let (on, name) = text.strip_prefix('-').map_or((true, text), |name| (false, name));
    let found = GardenController::all().find(|controller| controller.to_string() == name);
    found.map(|of| Switch::One { on, of }).ok_or_else(|| {
        let names: Vec<String> = GardenController::all().map(|one| one.to_string()).collect();
        format!("the controllers are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use control_plane_garden_api::{AdmissionPlugin, AdmissionPlugins};

    use super::super::{Cli, Command};

    fn running(words: &[&str]) -> Result<Vec<String>, String> {
        let words = ["orangery", "garden"].iter().chain(words);
        let parsed = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Garden(arguments) = parsed.command else {
            panic!("another command")
        };
        Ok(arguments.controllers().iter().map(ToString::to_string).collect())
    }

    fn garden(words: &[&str]) -> Result<super::Garden, String> {
        let words = ["orangery", "garden"].iter().chain(words);
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Garden(arguments) => Ok(*arguments),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn plugins_are_switched_by_name() {
        let default = garden(&[]).unwrap().admission.plugins().unwrap();
        assert_eq!(default, AdmissionPlugins::default());
        let words = [
            "--enable-admission-plugins=ShootNodeLocalDNSEnabledByDefault,ShootDNS",
            "--disable-admission-plugins=ExtensionValidator,ManagedSeed,ResourceQuota",
        ];
        let switched = garden(&words).unwrap();
        let expected = AdmissionPlugins::default()
            .with(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault)
            .without(AdmissionPlugin::ExtensionValidator)
            .without(AdmissionPlugin::ManagedSeed)
            .without(AdmissionPlugin::ResourceQuota);
        assert_eq!(switched.admission.plugins().unwrap(), expected);
        let sentences = switched.admission.ineffective_plugins();
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[1].contains("ResourceQuota stays on"), "{sentences:?}");
        assert_eq!(
            garden(&["--disable-admission-plugins="])
                .unwrap()
                .admission
                .plugins()
                .unwrap(),
            default
        );
    }

    #[test]
    fn an_unknown_plugin_is_refused_with_the_nearest_name() {
        let refusal = garden(&["--disable-admission-plugins=ShootDns"]).unwrap_err();
        assert!(
            refusal.contains("(did you mean ShootDNS?); there are NamespaceLifecycle, "),
            "{refusal}"
        );
        let words = [
            "--enable-admission-plugins=ShootDNS",
            "--disable-admission-plugins=ShootDNS",
        ];
        let both = garden(&words).unwrap().admission.plugins().unwrap_err().to_string();
        assert!(both.contains("ShootDNS cannot be both"), "{both}");
    }

    #[test]
    fn controllers_are_switched_by_name() {
        let all = running(&[]).unwrap();
        assert_eq!(all.len(), 11, "{all:?}");
        let without = running(&["--controllers", "*,-scheduler"]).unwrap();
        assert_eq!(without.len(), 10);
        assert!(!without.contains(&"scheduler".to_owned()));
        assert_eq!(
            running(&["--controllers=project,kubernetes"]).unwrap(),
            ["kubernetes", "project"]
        );
        assert!(
            running(&["--controllers", "-scheduler"]).unwrap().is_empty(),
            "as kube-controller-manager"
        );
        assert!(running(&["--controllers="]).unwrap().is_empty());
        let refusal = running(&["--controllers=shoots"]).unwrap_err();
        assert!(
            refusal.contains("the controllers are kubernetes, scheduler, controllerregistration"),
            "{refusal}"
        );
    }
}
