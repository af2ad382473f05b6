//! The flags that switch admission plug-ins, by the names that gardener-apiserver has for them.

use std::collections::BTreeSet;

use api_meta::Fault;
use clap::Args;
use control_plane_diagnosis::near::near;
use control_plane_garden_api::{AdmissionPlugin, AdmissionPlugins, Work};

/// Which admission plug-ins are on.
#[derive(Args, Clone, Debug)]
pub struct Plugins {
    /// Admission plug-ins to switch on beside those that are on by default, separated by commas, by the names that
    /// gardener-apiserver has for them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = plugin)]
    pub enable_admission_plugins: Vec<Plugin>,
    /// Admission plug-ins to switch off, separated by commas, by the same names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = plugin)]
    pub disable_admission_plugins: Vec<Plugin>,
}

impl Plugins {
    /// The admission plug-ins that are on. As with kube-apiserver, those that are named come to the default ones.
    ///
    /// # Errors
    /// A plug-in that both flags name.
    pub fn plugins(&self) -> Result<AdmissionPlugins, Fault> {
        let of = |names: &[Plugin]| names.iter().filter_map(|plugin| plugin.0).collect::<BTreeSet<_>>();
        let (on, off) = (of(&self.enable_admission_plugins), of(&self.disable_admission_plugins));
        let both: Vec<String> = on.intersection(&off).map(ToString::to_string).collect();
        if !both.is_empty() {
            let what = format!("{} cannot be both switched on and off", both.join(", "));
            return Err(Fault::user(what)
                .hint("leave them out of --enable-admission-plugins or of --disable-admission-plugins"));
        }
        let enabled = on.into_iter().fold(AdmissionPlugins::default(), AdmissionPlugins::with);
        Ok(off.into_iter().fold(enabled, AdmissionPlugins::without))
    }

    /// What a flag asks of a plug-in and does not get, each in a sentence.
    #[must_use]
    pub fn ineffective_plugins(&self) -> Vec<String> {
        let named = [
            (&self.enable_admission_plugins, true),
            (&self.disable_admission_plugins, false),
        ];
        let named = named
            .into_iter()
            .flat_map(|(names, on)| names.iter().filter_map(move |plugin| Some((plugin.0?, on))));
        let sentence = |(plugin, on): (AdmissionPlugin, bool)| match (plugin.work(), on) {
            (Work::Always, false) => Some(format!("admission plug-in {plugin} stays on: the API server needs it")),
            (Work::Nowhere(why), _) => Some(format!("admission plug-in {plugin} does nothing here: {why}")),
            _ => None,
        };
        named.filter_map(sentence).collect()
    }
}

/// A word of the flags that switch plug-ins; none for the empty word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugin(Option<AdmissionPlugin>);

fn plugin(text: &str) -> Result<Plugin, String> {
    if text.is_empty() {
        return Ok(Plugin(None));
    }
    text.parse().map(|plugin| Plugin(Some(plugin))).map_err(|error| {
        let all: Vec<String> = AdmissionPlugin::ALL.iter().map(ToString::to_string).collect();
        let meant = near(text, &all).first().map(|name| format!(" (did you mean {name}?)"));
        format!("{error}{}; there are {}", meant.unwrap_or_default(), all.join(", "))
    })
}
