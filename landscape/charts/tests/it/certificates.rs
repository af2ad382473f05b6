//! Certificates that the chart makes: who they are for, who has signed them, who is led to believe them.

use base_secrets::Certificate;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::own;

/// The text of a key of a Secret.
fn text(objects: &[Value], secret: &str, key: &str) -> String {
    let data = &own::object(objects, "Secret", secret)["data"][key];
    String::from_utf8(STANDARD.decode(data.as_str().unwrap()).unwrap()).unwrap()
}

#[test]
fn generated_certificates_are_for_their_services_and_of_one_authority() {
    let objects = own::objects("garden", "generated");
    let authority = text(&objects, "garden-ca", "ca.crt");
    let issuer = Certificate::from_pem(&authority).unwrap();
    assert!(issuer.is_authority());
    let now = own::NOW.parse().unwrap();
    for (secret, service) in [
        ("garden-apiserver-tls", "garden-apiserver"),
        ("gardener-admission-controller-tls", "gardener-admission-controller"),
        ("garden-etcd-tls", "garden-etcd"),
        ("garden-etcd-client-tls", "garden-apiserver"),
    ] {
        let certificate = Certificate::from_pem(&text(&objects, secret, "tls.crt")).unwrap();
        assert!(
            certificate
                .dns_names()
                .contains(&format!("{service}.orangery-system.svc")),
            "{secret}"
        );
        assert!(
            certificate.names_as_issuer(&issuer) && certificate.is_for_clients(),
            "{secret}"
        );
        assert!(certificate.is_valid_at(now), "{secret}");
        assert_eq!(text(&objects, secret, "ca.crt"), authority, "{secret}");
        assert!(
            text(&objects, secret, "tls.key").starts_with("-----BEGIN EC PRIVATE KEY-----"),
            "{secret}"
        );
        let annotations = &own::object(&objects, "Secret", secret)["metadata"]["annotations"];
        // 365 days, less 60.
        assert_eq!(annotations["orangery.dev/renew-after"], "2026-11-02", "{secret}");
    }
}

#[test]
fn whoever_calls_a_server_is_led_to_its_authority() {
    let objects = own::objects("garden", "generated");
    let bundle = &own::object(&objects, "Secret", "garden-ca")["data"]["ca.crt"];
    let services: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "APIService").collect();
    assert_eq!(services.len(), 5);
    for service in services {
        assert_eq!(service["spec"]["caBundle"], *bundle, "{}", service["metadata"]["name"]);
    }
    let webhooks = own::object(
        &objects,
        "ValidatingWebhookConfiguration",
        "gardener-admission-controller",
    );
    assert_eq!(webhooks["webhooks"][0]["clientConfig"]["caBundle"], *bundle);
    let given = own::objects("garden", "given");
    let service = own::object(&given, "APIService", "v1beta1.core.gardener.cloud");
    let decoded = STANDARD.decode(service["spec"]["caBundle"].as_str().unwrap()).unwrap();
    assert!(decoded.starts_with(b"-----BEGIN CERTIFICATE-----"));
    assert!(
        !given.iter().any(|object| object["kind"] == "Secret"),
        "given ones are not repeated"
    );
    let by_manager = own::objects("garden", "full");
    let service = own::object(&by_manager, "APIService", "v1beta1.core.gardener.cloud");
    let annotation = &service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(*annotation, json!("orangery-system/garden-apiserver-tls"));
    assert!(service["spec"]["caBundle"].is_null());
}
