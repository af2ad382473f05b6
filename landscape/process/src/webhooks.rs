//! The HTTPS port of a process on which it answers webhooks. The certificate is read again when its files are replaced.

use std::path::PathBuf;

use api_config::Webhooks;
use api_meta::Fault;
use base_client::HttpService;
use base_serve::{CertificateError, HttpsServer, ServerCertificate};
use landscape_data_folder::followed;
use tokio_util::sync::CancellationToken;

use crate::ports::open;

/// The field that names the folder of the certificate.
const FOLDER: &str = "server.webhooks.tls.serverCertDir";

/// Serves the webhooks from tasks that end with the process.
///
/// # Errors
/// A certificate that cannot be read or used, a port that is taken.
pub(crate) async fn serve(settings: &Webhooks, webhooks: HttpService) -> Result<(), Fault> {
    let folder = PathBuf::from(&settings.certificate_folder);
    let files = ["tls.crt", "tls.key"].map(|name| (FOLDER, folder.join(name)));
    let known = followed::read(&files.each_ref().map(|(field, path)| (*field, path.as_path()))).await?;
    let shown = settings.certificate_folder.clone();
    let unusable = move |error: CertificateError| {
        Fault::user(format!("the certificate in {shown} cannot be used: {}", error.chain())).hint(format!(
            "put a certificate and its key, both PEM, into tls.crt and tls.key of {FOLDER}"
        ))
    };
    let certificate = ServerCertificate::new(&known[0], &known[1]).map_err(&unusable)?;
    let listener = open(&settings.server, "server.webhooks.port").await?;
    let server = HttpsServer::new(webhooks, certificate.clone());
    tokio::spawn(server.serve(listener, CancellationToken::new()));
    tokio::spawn(async move {
        followed::follow(files, known, async |[chain, key]| {
            certificate.replace(&chain, &key).map_err(&unusable)
        })
        .await;
    });
    Ok(())
}
