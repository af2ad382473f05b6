//! The keys of the cloud in a Secret `cloudprovider`.

use std::sync::Arc;

use api_meta::{Fault, SecretReference};
use extensions_sdk::{Context, Credentials, FieldProblem, SecretData};

use crate::cloud::{CloudApi, CloudConnector, Keys};

/// Key of the Secret: the name of the pair.
const ACCESS_KEY_ID: &str = "accessKeyID";
/// Key of the Secret: the secret.
const SECRET_ACCESS_KEY: &str = "secretAccessKey";

impl Credentials for Keys {
    fn read(data: &SecretData<'_>) -> Result<Self, FieldProblem> {
        let (id, secret) = (data.text(ACCESS_KEY_ID), data.text(SECRET_ACCESS_KEY));
        Ok(Self {
            access_key_id: id?.to_owned(),
            secret_access_key: secret?.to_owned(),
        })
    }
}

/// The cloud in a region, for the keys that an object refers to.
///
/// # Errors
/// The Secret is missing, or holds no keys.
pub(crate) async fn connect(
    context: &Context,
    cloud: &dyn CloudConnector,
    reference: &SecretReference,
    region: &str,
) -> Result<Arc<dyn CloudApi>, Fault> {
    let keys: Keys = context.credentials(reference).await?;
    Ok(cloud.connect(&keys, region))
}
