//! Rules of SecretBindings and CredentialsBindings (gardener/gardener v1.150 pkg/api/core/validation/secretbinding.go,
//! pkg/api/security/validation/credentialsbinding.go).

use api_core::security::CredentialsBinding;
use api_core::v1beta1::SecretBinding;

use crate::checks::{credentials_ref, dns_name, not_empty};
use crate::{FieldError, Path};

/// Writes today's defaults into a secret binding: references without a namespace stay in its own.
pub fn default_secret_binding(binding: &mut SecretBinding) {
    let namespace = binding.metadata.namespace.clone();
    let quotas = binding.quotas.iter_mut();
    for place in quotas
        .map(|quota| &mut quota.namespace)
        .chain([&mut binding.secret_ref.namespace])
    {
        in_own_namespace(place, namespace.as_ref());
    }
}

/// Writes today's defaults into a credentials binding: references without a namespace stay in its own.
pub fn default_credentials_binding(binding: &mut CredentialsBinding) {
    let namespace = binding.metadata.namespace.clone();
    let quotas = binding.quotas.iter_mut();
    for place in quotas
        .map(|quota| &mut quota.namespace)
        .chain([&mut binding.credentials_ref.namespace])
    {
        in_own_namespace(place, namespace.as_ref());
    }
}

fn in_own_namespace(place: &mut Option<String>, own: Option<&String>) {
    if place.as_ref().is_none_or(String::is_empty) {
        *place = own.cloned();
    }
}

/// Everything that is wrong with a secret binding by itself.
pub fn validate_secret_binding(binding: &SecretBinding) -> Vec<FieldError> {
    let mut errors = Vec::new();
    dns_name(
        &mut errors,
        &Path::new("secretRef.name"),
        binding.secret_ref.name.as_deref().unwrap_or_default(),
    );
    match &binding.provider {
        None => errors.push(Path::new("provider").required("must specify a provider")),
        Some(provider) => not_empty(&mut errors, &Path::new("provider.type"), &provider.type_),
    }
    errors
}

/// Everything that is wrong with a change of a secret binding.
pub fn validate_secret_binding_update(new: &SecretBinding, old: &SecretBinding) -> Vec<FieldError> {
    let mut errors = validate_secret_binding(new);
    errors.extend(Path::new("secretRef").immutable(&new.secret_ref, &old.secret_ref));
    errors.extend(Path::new("quotas").immutable(&new.quotas, &old.quotas));
    if old.provider.is_some() {
        errors.extend(Path::new("provider").immutable(&new.provider, &old.provider));
    }
    errors
}

/// Everything that is wrong with a credentials binding by itself.
pub fn validate_credentials_binding(binding: &CredentialsBinding) -> Vec<FieldError> {
    let mut errors = Vec::new();
    not_empty(&mut errors, &Path::new("provider.type"), &binding.provider.type_);
    credentials_ref(&mut errors, &Path::new("credentialsRef"), &binding.credentials_ref);
    errors
}

/// Everything that is wrong with a change of a credentials binding.
pub fn validate_credentials_binding_update(new: &CredentialsBinding, old: &CredentialsBinding) -> Vec<FieldError> {
    let mut errors = validate_credentials_binding(new);
    errors.extend(Path::new("provider").immutable(&new.provider, &old.provider));
    errors.extend(Path::new("credentialsRef").immutable(&new.credentials_ref, &old.credentials_ref));
    errors.extend(Path::new("quotas").immutable(&new.quotas, &old.quotas));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_names_its_credentials_for_good() {
        let binding = |kind: &str, name: &str| -> CredentialsBinding {
            serde_json::from_value(json!({"provider": {"type": "local"},
                "credentialsRef": {"apiVersion": "v1", "kind": kind, "name": name, "namespace": "garden-dev"}}))
            .unwrap()
        };
        assert_eq!(validate_credentials_binding(&binding("Secret", "a")), []);
        assert_eq!(
            validate_credentials_binding(&binding("ConfigMap", "a"))[0].path,
            "credentialsRef"
        );
        let found = validate_credentials_binding_update(&binding("Secret", "b"), &binding("Secret", "a"));
        assert_eq!(found[0].detail, "field is immutable; keep it as it is");
        assert_eq!(validate_secret_binding(&SecretBinding::default()).len(), 2);
    }
}
