//! Names that webhooks of an extension have in a cluster (gardener/gardener v1.150 extensions/pkg/webhook/registration.go and
//! certificates/add.go). It only makes them.

/// What extensions' objects begin with.
const PREFIX: &str = "gardener-extension-";
/// Behind the name of a configuration in shoots.
const SHOOT_SUFFIX: &str = "-shoot";

/// Name of an extension's configuration, of its Service and of what belongs to them: `gardener-extension-NAME`, or the name itself
/// where it begins with `gardener-`.
#[must_use]
pub fn configuration_name(extension: &str) -> String {
    match extension.starts_with("gardener-") {
        true => extension.to_owned(),
        false => format!("{PREFIX}{extension}"),
    }
}

/// Name of the configuration in shoots, and of the ManagedResource that leads there.
#[must_use]
pub fn shoot_configuration_name(extension: &str) -> String {
    format!("{}{SHOOT_SUFFIX}", configuration_name(extension))
}

/// Whole name of a webhook: `WEBHOOK.PROVIDER.extensions.gardener.cloud`, where the provider is the extension without
/// `provider-`.
#[must_use]
pub fn webhook_name(webhook: &str, extension: &str) -> String {
    let provider = extension.strip_prefix("provider-").unwrap_or(extension);
    format!("{webhook}.{provider}.extensions.gardener.cloud")
}

/// Name of the Secret with authority and certificate, and of the Lease of who renews them.
#[must_use]
pub fn certificate_secret_name(extension: &str) -> String {
    format!("{}-webhook", configuration_name(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_gardeners_library() {
        assert_eq!(configuration_name("provider-fake"), "gardener-extension-provider-fake");
        assert_eq!(configuration_name("gardener-x"), "gardener-x");
        assert_eq!(
            shoot_configuration_name("provider-fake"),
            "gardener-extension-provider-fake-shoot"
        );
        assert_eq!(
            webhook_name("controlplane", "provider-fake"),
            "controlplane.fake.extensions.gardener.cloud"
        );
        assert_eq!(
            webhook_name("shoot", "networking-x"),
            "shoot.networking-x.extensions.gardener.cloud"
        );
        assert_eq!(
            certificate_secret_name("provider-fake"),
            "gardener-extension-provider-fake-webhook"
        );
    }
}
