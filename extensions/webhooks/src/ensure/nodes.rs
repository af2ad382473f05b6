//! The parts of an OperatingSystemConfig that have a method each: a unit, files with a known form, all units and files.

use api_extensions::{File, FileContent, OperatingSystemConfig, Unit};
use api_meta::Fault;
use serde_json::{Map, Value};

use super::context::{Context, Pool};
use super::control_plane::ControlPlane;
use crate::edit::files::{BASE64, ensure_file, inline, text_of};
use crate::edit::units::{UnitError, UnitFile};
use crate::refusal::Refusal;

/// Names and paths of gardener/gardener v1.150 pkg/apis/core/v1beta1/constants/types_constants.go.
const KUBELET_UNIT: &str = "kubelet.service";
const KUBELET_CONFIGURATION: &str = "/var/lib/kubelet/config/kubelet";
const KERNEL_SETTINGS: &str = "/etc/sysctl.d/99-k8s-general.conf";
/// From gardener/gardener v1.150 extensions/pkg/webhook/controlplane/genericmutator/mutator.go.
const CLOUD_PROVIDER_CONFIG: &str = "/var/lib/kubelet/cloudprovider.conf";
const CLOUD_PROVIDER_CONFIG_MODE: u32 = 0o644;

type Osc = OperatingSystemConfig;

/// Changes what provisions new machines.
pub(super) async fn provision(
    it: &dyn ControlPlane,
    context: &Context<'_>,
    pool: &Pool<'_>,
    new: &mut Osc,
    old: Option<&Osc>,
) -> Result<(), Refusal> {
    let (files, units) = of_old(old);
    it.provision_files(context, pool, &mut new.spec.files, files).await?;
    it.provision_units(context, pool, &mut new.spec.units, units).await
}

/// Changes what running nodes reconcile.
pub(super) async fn reconcile(
    it: &dyn ControlPlane,
    context: &Context<'_>,
    pool: &Pool<'_>,
    new: &mut Osc,
    old: Option<&Osc>,
) -> Result<(), Refusal> {
    kubelet_unit(it, context, pool, new, old).await?;
    kubelet_configuration(it, context, pool, new, old).await?;
    kernel_settings(it, context, new, old).await?;
    let cloud_provider_config = it.kubelet_cloud_provider_config(context, pool).await?;
    // An empty file is not valid there.
    if let Some(text) = cloud_provider_config.filter(|text| !text.is_empty()) {
        let file = File {
            path: CLOUD_PROVIDER_CONFIG.to_owned(),
            permissions: Some(CLOUD_PROVIDER_CONFIG_MODE),
            content: FileContent {
                inline: Some(inline(&text, BASE64)),
                ..FileContent::default()
            },
            ..File::default()
        };
        ensure_file(&mut new.spec.files, file);
    }
    let (files, units) = of_old(old);
    it.files(context, pool, &mut new.spec.files, files).await?;
    it.units(context, pool, &mut new.spec.units, units).await?;
    match &mut new.spec.cri_config {
        Some(config) => {
            let old = old.and_then(|old| old.spec.cri_config.as_ref());
            it.container_runtime(context, config, old).await
        }
        None => Ok(()),
    }
}

fn of_old(old: Option<&Osc>) -> (Option<&[File]>, Option<&[Unit]>) {
    let spec = old.map(|old| &old.spec);
    (spec.map(|spec| &*spec.files), spec.map(|spec| &*spec.units))
}

async fn kubelet_unit(
    it: &dyn ControlPlane,
    context: &Context<'_>,
    pool: &Pool<'_>,
    new: &mut Osc,
    old: Option<&Osc>,
) -> Result<(), Refusal> {
    let is_it = |unit: &&Unit| unit.name == KUBELET_UNIT;
    let before = old.and_then(|old| old.spec.units.iter().find(is_it)?.content.as_deref());
    // One that cannot be read is as good as none: only the new one counts.
    let before = before.and_then(|text| UnitFile::parse(text).ok());
    let found = new.spec.units.iter_mut().find(|unit| unit.name == KUBELET_UNIT);
    let Some(content) = found.and_then(|unit| unit.content.as_mut()) else {
        return Ok(());
    };
    let mut unit = UnitFile::parse(content).map_err(not_a_unit)?;
    it.kubelet_unit(context, pool, &mut unit, before.as_ref()).await?;
    *content = unit.to_string();
    Ok(())
}

fn not_a_unit(error: UnitError) -> Refusal {
    Fault::dependency(error)
        .doing("read kubelet.service")
        .hint("correct what writes spec.units of the OperatingSystemConfig")
        .into()
}

async fn kubelet_configuration(
    it: &dyn ControlPlane,
    context: &Context<'_>,
    pool: &Pool<'_>,
    new: &mut Osc,
    old: Option<&Osc>,
) -> Result<(), Refusal> {
    let Some(text) = text_at(new, KUBELET_CONFIGURATION)? else {
        return Ok(());
    };
    let before = old.and_then(|old| text_at(old, KUBELET_CONFIGURATION).ok()?);
    let before = before.and_then(|text| Configuration::read(&text).ok());
    let mut configuration = Configuration::read(&text)?;
    let unchanged = configuration.fields.clone();
    let before = before.map(|before| before.fields);
    it.kubelet_configuration(context, pool, &mut configuration.fields, before.as_ref())
        .await?;
    // Another order of fields would be another file, and nodes would be replaced for nothing.
    if configuration.fields != unchanged {
        set_text(new, KUBELET_CONFIGURATION, &configuration.write()?);
    }
    Ok(())
}

async fn kernel_settings(
    it: &dyn ControlPlane,
    context: &Context<'_>,
    new: &mut Osc,
    old: Option<&Osc>,
) -> Result<(), Refusal> {
    let Some(unchanged) = text_at(new, KERNEL_SETTINGS)? else {
        return Ok(());
    };
    let before = old.and_then(|old| text_at(old, KERNEL_SETTINGS).ok()?);
    let mut text = unchanged.clone();
    it.kernel_settings(context, &mut text, before.as_deref()).await?;
    // An empty file is not valid there.
    if !text.is_empty() && text != unchanged {
        set_text(new, KERNEL_SETTINGS, &text);
    }
    Ok(())
}

/// The text of the file at a path; none where there is no such file, or its content is elsewhere.
fn text_at(osc: &Osc, path: &str) -> Result<Option<String>, Refusal> {
    let file = osc.spec.files.iter().find(|file| file.path == path);
    let content = file.and_then(|file| file.content.inline.as_ref());
    content.map(text_of).transpose()
}

/// Puts a text into the file at a path, in the encoding that it has.
fn set_text(osc: &mut Osc, path: &str, text: &str) {
    let file = osc.spec.files.iter_mut().find(|file| file.path == path);
    if let Some(content) = file.and_then(|file| file.content.inline.as_mut()) {
        *content = inline(text, &content.encoding);
    }
}

/// A configuration file, in JSON or YAML.
struct Configuration {
    fields: Map<String, Value>,
    is_json: bool,
}

impl Configuration {
    fn read(text: &str) -> Result<Self, Refusal> {
        if let Ok(fields) = serde_json::from_str(text) {
            return Ok(Self { fields, is_json: true });
        }
        match base_yaml::read_strict(text) {
            Ok(fields) => Ok(Self { fields, is_json: false }),
            Err(error) => Err(Fault::dependency(error)
                .doing("read the kubelet's configuration")
                .hint("correct what writes spec.files of the OperatingSystemConfig")
                .into()),
        }
    }

    fn write(&self) -> Result<String, Refusal> {
        let written = match self.is_json {
            true => serde_json::to_string(&self.fields).map_err(|error| error.to_string()),
            false => base_yaml::go::write(&self.fields).map_err(|error| error.to_string()),
        };
        written.map_err(|error| {
            let fault = Fault::bug(error).doing("write the kubelet's configuration");
            fault
                .hint("report it: the extension has made something of it that is no JSON")
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_written_in_the_form_in_which_it_was_read() {
        for (text, expected) in [
            (r#"{"b": 1, "a": {"x": [true]}}"#, r#"{"a":{"x":[true]},"b":1,"c":"d"}"#),
            ("b: 1\na:\n  x: [true]\n", "a:\n  x:\n  - true\nb: 1\nc: d\n"),
        ] {
            let mut configuration = Configuration::read(text).unwrap();
            configuration.fields.insert("c".to_owned(), "d".into());
            assert_eq!(configuration.write().unwrap(), expected);
        }
        let refusal = Configuration::read("- a").err().unwrap();
        assert!(
            refusal.to_string().starts_with("read the kubelet's configuration: "),
            "{refusal}"
        );
    }
}
