//! Capabilities of machine types and images in CloudProfiles: what a profile defines, and what its machine types and
//! image versions may declare (gardener/gardener v1.150 pkg/api/core/validation). Without definitions
//! only the fields `architecture` and `architectures` are allowed.

use std::collections::BTreeMap;

use api_core::v1beta1::{Capabilities, CapabilityDefinition, MachineImageVersion, MachineType};

use crate::checks::{distinct, known};
use crate::cloud_profile::ARCHITECTURES;
use crate::shoot_values::is_label_word;
use crate::{FieldError, Path};

/// The capability that stands for the fields `architecture` and `architectures`.
const ARCHITECTURE: &str = "architecture";
/// Names with it are Gardener's own.
const RESERVED_PREFIX: &str = "gardener-";

/// The values of each capability that a profile defines, by name; empty if it defines none.
pub(crate) type Defined<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Everything that is wrong with the definitions; gives them by name.
pub(crate) fn validate_definitions<'a>(
    errors: &mut Vec<FieldError>,
    path: &Path,
    definitions: &'a [CapabilityDefinition],
) -> Defined<'a> {
    let names = definitions.iter().map(|definition| definition.name.as_str());
    distinct(errors, names, |index| path.index(index).child("name"));
    for (index, CapabilityDefinition { name, values }) in definitions.iter().enumerate() {
        let path = path.index(index);
        validate_word(errors, &path.child("name"), name);
        if name.starts_with(RESERVED_PREFIX) {
            errors.push(path.child("name").forbidden(format!(
                "names that start with {RESERVED_PREFIX:?} are reserved; take another"
            )));
        }
        let path = path.child("values");
        if values.is_empty() {
            errors.push(path.required("must list the values that machines and images may have"));
        }
        for (index, value) in values.iter().enumerate() {
            let path = path.index(index);
            if name == ARCHITECTURE && !value.is_empty() {
                known(
                    errors,
                    &path,
                    ARCHITECTURES.contains(&value.as_str()),
                    value,
                    &ARCHITECTURES,
                );
            } else {
                validate_word(errors, &path, value);
            }
        }
    }
    let defined: Defined<'_> = definitions
        .iter()
        .map(|definition| (definition.name.as_str(), words(&definition.values)))
        .collect();
    if !defined.is_empty() && !defined.contains_key(ARCHITECTURE) {
        let words = "must define the capability \"architecture\" as well; add it";
        errors.push(path.child(ARCHITECTURE).required(words));
    }
    defined
}

/// Everything that is wrong with the architecture and the capabilities of a machine type.
pub(crate) fn validate_machine_type(
    errors: &mut Vec<FieldError>,
    path: &Path,
    machine_type: &MachineType,
    defined: &Defined<'_>,
) {
    let MachineType {
        architecture,
        capabilities,
        ..
    } = machine_type;
    let of_capabilities = capabilities.get(ARCHITECTURE).map_or(&[][..], Vec::as_slice);
    if defined.is_empty() {
        forbidden_without_definition(errors, &path.child("capabilities"), capabilities.is_empty());
    } else {
        validate_use(
            errors,
            &path.child("capabilities"),
            &path.child("capabilities"),
            capabilities,
            defined,
        );
        if of_capabilities.len() > 1 {
            let words = "a machine has one architecture; keep one";
            errors.push(path.child("capabilities.architecture").invalid(of_capabilities, words));
        }
    }
    let Some(architecture) = architecture.as_ref().filter(|word| !word.is_empty()) else {
        return;
    };
    if let [only] = of_capabilities
        && only != architecture
        && !defined.is_empty()
    {
        let words = format!("conflicts with the capability architecture, which is {only}; remove one");
        errors.push(path.child("architecture").invalid(architecture, words));
    }
    let is_known = ARCHITECTURES.contains(&architecture.as_str());
    known(
        errors,
        &path.child("architecture"),
        is_known,
        architecture,
        &ARCHITECTURES,
    );
}

/// Everything that is wrong with the architectures and the flavors of a version of an image.
pub(crate) fn validate_image_version(
    errors: &mut Vec<FieldError>,
    path: &Path,
    version: &MachineImageVersion,
    defined: &Defined<'_>,
) {
    let MachineImageVersion {
        architectures,
        capability_flavors: flavors,
        ..
    } = version;
    let path_of_flavors = path.child("capabilityFlavors");
    if defined.is_empty() {
        forbidden_without_definition(errors, &path_of_flavors, flavors.is_empty());
    }
    for (index, flavor) in flavors.iter().enumerate().filter(|_| !defined.is_empty()) {
        let path = path_of_flavors.index(index);
        validate_use(errors, &path, &path, flavor, defined);
    }
    let supported = match defined.get(ARCHITECTURE) {
        Some(supported) => supported.as_slice(),
        None if defined.is_empty() => &ARCHITECTURES[..],
        None => &[],
    };
    if !defined.is_empty() && !validate_flavors(errors, path, version, supported) {
        return;
    }
    for (index, architecture) in architectures.iter().enumerate() {
        let is_known = supported.contains(&architecture.as_str());
        known(
            errors,
            &path.child("architectures").index(index),
            is_known,
            architecture,
            supported,
        );
    }
}

/// Whether machines of an architecture can take the version; one that names no architecture runs on all.
pub(crate) fn runs_on(version: &MachineImageVersion, architecture: &str) -> bool {
    let MachineImageVersion {
        architectures,
        capability_flavors: flavors,
        ..
    } = version;
    let of_flavors = flavors.iter().filter_map(|flavor| flavor.get(ARCHITECTURE)).flatten();
    let mut named = architectures.iter().chain(of_flavors).peekable();
    named.peek().is_none() || named.any(|named| named == architecture)
}

/// Each flavor has one architecture, and `architectures` lists nothing that no flavor has; `false` if nothing more is
/// to be reported because flavors are missing.
fn validate_flavors(
    errors: &mut Vec<FieldError>,
    path: &Path,
    version: &MachineImageVersion,
    supported: &[&str],
) -> bool {
    let MachineImageVersion {
        architectures,
        capability_flavors: flavors,
        ..
    } = version;
    let path_of_flavors = path.child("capabilityFlavors");
    if supported.len() > 1 && flavors.is_empty() {
        let words = "must have a flavor for each architecture, as machineCapabilities defines more than one; add them";
        errors.push(path_of_flavors.required(words));
        return false;
    }
    let of_flavor = |flavor: &Capabilities| flavor.get(ARCHITECTURE).cloned().unwrap_or_default();
    for (index, flavor) in flavors.iter().enumerate() {
        let path = path_of_flavors.index(index).child(ARCHITECTURE);
        let own = of_flavor(flavor);
        if own.is_empty() && supported.len() > 1 {
            let words = "must name one architecture, as machineCapabilities defines more than one; add it";
            errors.push(path.required(words));
        } else if own.len() > 1 {
            errors.push(path.invalid(&own, "a flavor has one architecture; make one flavor for each"));
        }
    }
    let mut of_flavors: Vec<String> = flavors.iter().flat_map(of_flavor).collect();
    if let ([only], true) = (supported, of_flavors.is_empty()) {
        of_flavors.push((*only).to_owned());
    }
    if architectures
        .iter()
        .any(|architecture| !of_flavors.contains(architecture))
    {
        let words =
            format!("conflicts with the architectures of the flavors, which are {of_flavors:?}; remove the field");
        errors.push(path.child("architectures").invalid(architectures, words));
    }
    true
}

/// Names and values that the profile defines.
fn validate_use(
    errors: &mut Vec<FieldError>,
    path_of_names: &Path,
    path: &Path,
    used: &Capabilities,
    defined: &Defined<'_>,
) {
    for (name, values) in used {
        let Some(supported) = defined.get(name.as_str()) else {
            let names: Vec<&str> = defined.keys().copied().collect();
            errors.push(path_of_names.not_supported(name, &names));
            continue;
        };
        let path = path.child(name);
        for (index, value) in values.iter().enumerate() {
            known(
                errors,
                &path.index(index),
                supported.contains(&value.as_str()),
                value,
                supported,
            );
        }
    }
}

fn forbidden_without_definition(errors: &mut Vec<FieldError>, path: &Path, is_empty: bool) {
    if !is_empty {
        errors.push(path.forbidden("needs spec.machineCapabilities; define the capabilities there"));
    }
}

/// A name without prefix as labels have them (apimachinery v0.35 `IsQualifiedName`).
fn validate_word(errors: &mut Vec<FieldError>, path: &Path, word: &str) {
    if word.is_empty() {
        errors.push(path.required("must not be empty; set it"));
    } else if !is_label_word(word) {
        errors.push(path.invalid(
            word,
            "must be at most 63 letters, digits, '-', '_' and '.', and start and end with a letter or digit",
        ));
    }
}

fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use api_core::v1beta1::CloudProfile;
    use serde_json::{Value, json};

    use crate::{default_cloud_profile, validate_cloud_profile};

    fn profile(definitions: Value, machine_type: Value, version: Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "local"}, "spec": {
            "type": "local", "regions": [{"name": "local"}], "kubernetes": {"versions": [{"version": "1.35.0"}]},
            "machineCapabilities": definitions,
            "machineTypes": [{"name": "local", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
            "machineImages": [{"name": "local", "versions": [{"version": "1.0.0"}]}]}});
        for (pointer, more) in [
            ("/spec/machineTypes/0", machine_type),
            ("/spec/machineImages/0/versions/0", version),
        ] {
            let place = object.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap();
            place.extend(more.as_object().unwrap().clone());
        }
        let mut profile: CloudProfile = serde_json::from_value(object).unwrap();
        default_cloud_profile(&mut profile);
        let errors = validate_cloud_profile(&profile);
        errors.into_iter().map(|error| error.path).collect()
    }

    fn one_architecture() -> Value {
        json!([{"name": "architecture", "values": ["amd64"]}, {"name": "boot", "values": ["uefi", "bios"]}])
    }

    fn two_architectures() -> Value {
        json!([{"name": "architecture", "values": ["amd64", "arm64"]}])
    }

    #[test]
    fn definitions_have_names_and_values_and_an_architecture() {
        let cases = [
            (one_architecture(), ""),
            (json!([{"name": "boot", "values": ["uefi"]}]), "architecture"),
            (json!([{"name": "architecture", "values": ["mips"]}]), "[0].values[0]"),
            (
                json!([{"name": "architecture", "values": ["amd64"]}, {"name": "a/b", "values": ["x"]}]),
                "[1].name",
            ),
            (
                json!([{"name": "architecture", "values": ["amd64"]}, {"name": "boot"}]),
                "[1].values",
            ),
            (
                json!([{"name": "architecture", "values": ["amd64"]}, {"name": "boot", "values": [""]}]),
                "[1].values[0]",
            ),
            (
                json!([{"name": "architecture", "values": ["amd64"]}, {"name": "gardener-x", "values": ["y"]}]),
                "[1].name",
            ),
            (
                json!([{"name": "architecture", "values": ["amd64"]}, {"name": "architecture", "values": ["amd64"]}]),
                "[1].name",
            ),
        ];
        for (definitions, field) in cases {
            let found = profile(definitions.clone(), json!({}), json!({})).concat();
            let expected = match field {
                "" => String::new(),
                "architecture" => "spec.machineCapabilities.architecture".to_owned(),
                field => format!("spec.machineCapabilities{field}"),
            };
            assert_eq!(found, expected, "{definitions}");
        }
    }

    #[test]
    fn machine_types_use_what_is_defined() {
        let of = |definitions: Value, more: Value| profile(definitions, more, json!({})).concat();
        let capabilities = |capabilities: Value| of(one_architecture(), json!({"capabilities": capabilities}));
        assert_eq!(capabilities(json!({"boot": ["uefi"]})), "");
        assert_eq!(
            capabilities(json!({"gpu": ["yes"]})),
            "spec.machineTypes[0].capabilities"
        );
        assert_eq!(
            capabilities(json!({"boot": ["uefi", "coreboot"]})),
            "spec.machineTypes[0].capabilities.boot[1]"
        );
        let arm = json!({"architecture": "arm64", "capabilities": {"architecture": ["amd64"]}});
        assert_eq!(of(one_architecture(), arm), "spec.machineTypes[0].architecture");
        assert_eq!(
            of(json!([]), json!({"capabilities": {"boot": ["uefi"]}})),
            "spec.machineTypes[0].capabilities"
        );
        assert_eq!(
            of(json!([]), json!({"architecture": "mips"})),
            "spec.machineTypes[0].architecture"
        );
        let flavors = json!({"capabilityFlavors": [{"architecture": ["amd64"]}]});
        let both = json!({"capabilities": {"architecture": ["amd64", "arm64"]}});
        assert_eq!(
            profile(two_architectures(), both, flavors).concat(),
            "spec.machineTypes[0].capabilities.architecture"
        );
    }

    #[test]
    fn image_versions_have_flavors_with_one_architecture_each() {
        let of = |definitions: Value, more: Value| profile(definitions, json!({}), more).join(" ");
        let version = "spec.machineImages[0].versions[0]";
        let flavors = |flavors: Value| of(two_architectures(), json!({"capabilityFlavors": flavors}));
        assert_eq!(
            flavors(json!([{"architecture": ["amd64"]}, {"architecture": ["arm64"]}])),
            ""
        );
        assert_eq!(flavors(json!([])), format!("{version}.capabilityFlavors"));
        assert_eq!(
            flavors(json!([{}])),
            format!("{version}.capabilityFlavors[0].architecture")
        );
        assert_eq!(
            flavors(json!([{"architecture": ["amd64", "arm64"]}])),
            format!("{version}.capabilityFlavors[0].architecture")
        );
        assert_eq!(
            flavors(json!([{"architecture": ["amd64"], "boot": ["uefi"]}])),
            format!("{version}.capabilityFlavors[0]")
        );
        assert_eq!(
            of(
                one_architecture(),
                json!({"capabilityFlavors": [{"boot": ["coreboot"]}]})
            ),
            format!("{version}.capabilityFlavors[0].boot[0]")
        );
        assert_eq!(
            of(one_architecture(), json!({"architectures": ["amd64", "arm64"]})),
            format!("{version}.architectures {version}.architectures[1]")
        );
        assert_eq!(
            of(json!([]), json!({"capabilityFlavors": [{"boot": ["uefi"]}]})),
            format!("{version}.capabilityFlavors")
        );
        assert_eq!(
            of(json!([]), json!({"architectures": ["mips"]})),
            format!("{version}.architectures[0]")
        );
    }
}
