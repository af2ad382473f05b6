//! The HTTPS port of a process on which it answers webhooks. The certificate is read again when its files are replaced.

use std::path::PathBuf;

use api_config::Webhooks;
use api_meta::Fault;
use base_client::{HttpService, REVIEW_BYTES_MAX};
use base_clock::Clock;
use cluster_front::{ANY_NAME, CertificateError, Front, RegisteredServer};
use landscape_data_folder::followed;
use tokio_util::sync::CancellationToken;

use crate::ports;

/// The field that names the folder of the certificate.
const FOLDER: &str = "server.webhooks.tls.serverCertDir";

/// Serves the webhooks from tasks that end with the process.
///
/// # Errors
/// A certificate that cannot be read or used, a port that is taken.
pub(crate) async fn serve(settings: &Webhooks, webhooks: HttpService, clock: Clock) -> Result<(), Fault> {
    let folder = PathBuf::from(&settings.certificate_folder);
    let files = ["tls.crt", "tls.key"].map(|name| (FOLDER, folder.join(name)));
    let known = followed::read(&files.each_ref().map(|(field, path)| (*field, path.as_path()))).await?;
    let shown = settings.certificate_folder.clone();
    let unusable = move |error: CertificateError| {
        Fault::user(format!("the certificate in {shown} cannot be used: {}", error.chain())).hint(format!(
            "put a certificate and its key, both PEM, into tls.crt and tls.key of {FOLDER}"
        ))
    };
    let server = RegisteredServer::new(webhooks, &known[0], &known[1]).map_err(&unusable)?;
    let server = server.with_body_bytes_max(REVIEW_BYTES_MAX);
    let listener = ports::open(&settings.server, "server.webhooks.port").await?;
    let front = Front::new(clock);
    let registration = front.register([ANY_NAME], server);
    let registration = registration.map_err(|error| Fault::bug(error.to_string()))?;
    tokio::spawn(async move { front.serve(listener, CancellationToken::new()).await });
    tokio::spawn(async move {
        followed::follow(files, known, async |[certificate, key]| {
            registration.renew(&certificate, &key).map_err(&unusable)
        })
        .await;
    });
    Ok(())
}
