//! Which kubeconfig counts, and the client of it: a flag or its environment variable, then the configuration's client
//! connection, then the pod's service account.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use base_client::{Connector, Https, in_cluster_kubeconfig};
use kube::Client;
use kube::config::Kubeconfig;
use landscape_data_folder::kubeconfig::read_with_files;

/// The kubeconfigs of flags and environment variables; each comes before the configuration's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubeconfigs {
    /// `--kubeconfig`, `KUBECONFIG`: the only one, or that of the seed, or of the source.
    pub kubeconfig: Option<PathBuf>,
    /// `--garden-kubeconfig`, `GARDEN_KUBECONFIG`.
    pub garden: Option<PathBuf>,
    /// `--target-kubeconfig`, `TARGET_KUBECONFIG`.
    pub target: Option<PathBuf>,
}

/// Where a kubeconfig may be named.
pub(crate) struct Wanted<'a> {
    /// Whose it is, as in `the garden`.
    pub(crate) of: &'a str,
    /// The flag.
    pub(crate) flag: &'static str,
    /// The flag's value.
    pub(crate) given: Option<&'a Path>,
    /// The field of the configuration.
    pub(crate) field: &'static str,
    /// The field's value.
    pub(crate) configured: Option<&'a str>,
}

/// A way to an API server.
pub(crate) struct Access {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) client: Client,
}

/// Makes the client.
///
/// # Errors
/// There is no kubeconfig, or it cannot be used; the error names the flag or field.
pub(crate) async fn access(program: &str, wanted: &Wanted<'_>) -> Result<Access, Fault> {
    let kubeconfig = kubeconfig(wanted).await?;
    let client = Https::new(program).with_token_files().client(&kubeconfig)?;
    Ok(Access { kubeconfig, client })
}

async fn kubeconfig(wanted: &Wanted<'_>) -> Result<Kubeconfig, Fault> {
    let Wanted {
        of,
        flag,
        given,
        field,
        configured,
    } = *wanted;
    let path = given.or(configured.map(Path::new));
    let Some(path) = path else {
        return in_cluster_kubeconfig().map_err(|fault| {
            Fault::user(format!("there is no kubeconfig of {of}, and {fault}"))
                .hint(format!("name one with {flag}, or in {field} of the configuration"))
        });
    };
    let named = match given {
        Some(_) => flag,
        None => field,
    };
    read_with_files(path, &format!("name a kubeconfig of {of} with {named}")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted<'a>(given: Option<&'a Path>, configured: Option<&'a str>) -> Wanted<'a> {
        Wanted {
            of: "the garden",
            flag: "--kubeconfig",
            given,
            field: "clientConnection.kubeconfig",
            configured,
        }
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named_with_the_place_that_named_it() {
        let none = kubeconfig(&wanted(None, None)).await.unwrap_err();
        assert_eq!(
            none.to_string(),
            "there is no kubeconfig of the garden, and this is no pod: KUBERNETES_SERVICE_HOST and \
             KUBERNETES_SERVICE_PORT are not set"
        );
        assert_eq!(
            none.hint,
            "name one with --kubeconfig, or in clientConnection.kubeconfig of the configuration"
        );
        let configured = kubeconfig(&wanted(None, Some("/nowhere"))).await.unwrap_err();
        assert!(configured.to_string().contains("/nowhere"), "{configured}");
        assert!(
            configured.hint.contains("clientConnection.kubeconfig"),
            "{}",
            configured.hint
        );
        let given = kubeconfig(&wanted(Some(Path::new("/flag")), Some("/nowhere")))
            .await
            .unwrap_err();
        assert!(
            given.to_string().contains("/flag") && given.hint.ends_with("--kubeconfig"),
            "{given}"
        );
    }
}
