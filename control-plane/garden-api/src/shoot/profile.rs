//! The cloud profile and the Seed that a Shoot names. It reads and decides nothing.

use api_core::v1beta1::{CloudProfileSpec, Seed, Shoot};
use cluster_apiserver::Status;
use cluster_apiserver::fields::{FieldError, FieldErrorKind};
use cluster_apiserver::kind::Objects;

use crate::admission::some_of;
use crate::convert::{CORE, decode_stored, text};

/// The merged profile that the shoot names; none where it is missing.
pub(super) async fn profile(shoot: &Shoot, objects: &dyn Objects) -> Result<Option<CloudProfileSpec>, Status> {
    let Some((kind, name)) = api_rules::cloud_profile_name(shoot) else {
        return Ok(None);
    };
    if !matches!(kind, "" | "CloudProfile" | "NamespacedCloudProfile") {
        return Ok(None);
    }
    let (found, pointer) = if kind == "NamespacedCloudProfile" {
        let namespace = shoot.metadata.namespace.as_deref();
        (
            objects.get(CORE, "namespacedcloudprofiles", namespace, name).await?,
            "/status/cloudProfileSpec",
        )
    } else {
        (objects.get(CORE, "cloudprofiles", None, name).await?, "/spec")
    };
    let Some(found) = found else { return Ok(None) };
    // The profile of a project is empty until it is merged with its parent.
    let merged = found.pointer(pointer).filter(|spec| !text(spec, "/type").is_empty());
    merged.map(|spec| decode_stored(kind, spec)).transpose()
}

/// Why there is no profile, with the choice.
pub(super) async fn profile_missing(shoot: &Shoot, objects: &dyn Objects) -> Result<FieldError, Status> {
    let (kind, name) = api_rules::cloud_profile_name(shoot).unwrap_or_default();
    let profiles = objects.list(CORE, "cloudprofiles", None).await?;
    let names: Vec<&str> = profiles.iter().map(|profile| text(profile, "/metadata/name")).collect();
    let words = if names.is_empty() {
        "there is no CloudProfile yet; create one".to_owned()
    } else {
        format!("name one of: {}", some_of(&names))
    };
    if kind == "NamespacedCloudProfile" {
        let namespace = shoot.metadata.namespace.as_deref();
        let there = objects.get(CORE, "namespacedcloudprofiles", namespace, name).await?;
        let what = if there.is_some() {
            format!("NamespacedCloudProfile {name:?} exists, but is not merged with its parent yet")
        } else {
            format!("there is no NamespacedCloudProfile {name:?}, and these are not merged with their parents yet")
        };
        let words = format!("{what}; name a CloudProfile instead, {words}");
        return Ok(FieldError::invalid("spec.cloudProfile", kind, words));
    }
    if !matches!(kind, "" | "CloudProfile") {
        let words = "take CloudProfile or NamespacedCloudProfile";
        return Ok(FieldError::invalid("spec.cloudProfile.kind", kind, words));
    }
    Ok(FieldError::new(
        "spec.cloudProfile.name",
        FieldErrorKind::NotFound,
        Some(name.into()),
        words,
    ))
}

/// The Seed that the shoot names; none where it is missing.
pub(super) async fn seed(shoot: &Shoot, objects: &dyn Objects) -> Result<Option<Seed>, Status> {
    let Some(name) = shoot.spec.seed_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let found = objects.get(CORE, "seeds", None, name).await?;
    found.map(|found| decode_stored("Seed", &found)).transpose()
}
