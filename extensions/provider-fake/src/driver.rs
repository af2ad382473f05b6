//! Machines are instances of the cloud, made with a token that is the machine's name: a second call makes no second one. Nothing
//! is remembered between calls, so the process may end at any of them.

use std::sync::Arc;
use std::time::Duration;

use api_machine::{Machine, MachinePhase};
use api_meta::Fault;
use async_trait::async_trait;
use base_client::get;
use base_clock::Clock;
use extensions_machines::{Created, Driver, DriverState, MachineRequest, Standing, USER_DATA_KEY};
use extensions_sdk::{CodeTable, credentials_of};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::cloud::{CloudApi, CloudConnector, InstanceSpec, Item, Keys, Kind, Spec, State, Tags, UserData};
use crate::resource::{CLUSTER_TAG, SLOT_TAG};
use crate::worker::InstanceClass;

/// Before a machine's name, in the tag of its instance.
const SLOT_PREFIX: &str = "machine/";
/// After this long lists and looks show what was made, in this cloud.
const LAG: Duration = Duration::from_secs(60);
/// The pause between two deletions while an instance goes.
const DELETE_PAUSE: Duration = Duration::from_secs(2);
/// How long an instance may take to go.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The driver of machines that are instances.
pub(crate) struct InstanceDriver {
    client: Client,
    cloud: Arc<dyn CloudConnector>,
    codes: CodeTable,
    clock: Clock,
    provider: String,
}

/// Tags of one machine's instance.
fn tags_of(namespace: &str, machine: &str) -> Tags {
    let slot = format!("{SLOT_PREFIX}{machine}");
    Tags::from([
        (CLUSTER_TAG.to_owned(), namespace.to_owned()),
        (SLOT_TAG.to_owned(), slot),
    ])
}

impl InstanceDriver {
    pub(crate) fn new(
        client: Client,
        cloud: Arc<dyn CloudConnector>,
        codes: CodeTable,
        clock: Clock,
        provider: &str,
    ) -> Self {
        Self {
            client,
            cloud,
            codes,
            clock,
            provider: provider.to_owned(),
        }
    }

    /// The cloud of a machine's class. Credentials are read at each call, since they are rotated.
    async fn api(&self, request: MachineRequest<'_>) -> Result<Arc<dyn CloudApi>, Fault> {
        let reference = request.class.credentials_secret_ref.as_ref();
        let name = reference.and_then(|reference| reference.name.as_deref());
        let secret = self.secret(request, name, "credentialsSecretRef").await?;
        let keys: Keys = credentials_of(&secret)?;
        let template = request.class.node_template.as_ref();
        let region = template.map(|template| template.region.as_str());
        Ok(self.cloud.connect(&keys, region.unwrap_or_default()))
    }

    /// A Secret that the class names.
    async fn secret(&self, request: MachineRequest<'_>, name: Option<&str>, field: &str) -> Result<Secret, Fault> {
        let missing = || {
            let class = request.class.metadata.name.as_deref().unwrap_or_default();
            let name = name.unwrap_or("without a name");
            Fault::dependency(format!(
                "the Secret {name} in {field} of MachineClass {class} does not exist"
            ))
            .hint("have the Shoot reconciled: it writes both again")
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), request.namespace());
        get(&api, name.ok_or_else(missing)?).await?.ok_or_else(missing)
    }

    async fn user_data(&self, request: MachineRequest<'_>) -> Result<UserData, Fault> {
        let reference = request.class.secret_ref.as_ref();
        let name = reference.and_then(|reference| reference.name.as_deref());
        let secret = self.secret(request, name, "secretRef").await?;
        let data = secret.data.and_then(|mut data| data.remove(USER_DATA_KEY));
        let text = String::from_utf8(data.unwrap_or_default().0);
        Ok(UserData(text.map_err(|_| Fault::bug("the user data are no text"))?))
    }

    fn provider_id(&self, id: &str) -> String {
        format!("{}:///{id}", self.provider)
    }

    /// The instance of a machine that was made, by its provider ID.
    fn instance_of<'a>(&self, machine: &'a Machine) -> Option<&'a str> {
        let id = machine.spec.provider_id.as_deref()?;
        id.strip_prefix(self.provider.as_str())?.strip_prefix(":///")
    }

    /// The instances of a machine whose ID is not recorded. One may have been made a moment ago, and lists are late: so it
    /// looks twice.
    async fn find(&self, api: &dyn CloudApi, request: MachineRequest<'_>) -> Result<Vec<String>, Fault> {
        let tags = tags_of(request.namespace(), request.name());
        let mut found = self.list_existing(api, &tags).await?;
        if found.is_empty() {
            tokio::time::sleep(LAG).await;
            found = self.list_existing(api, &tags).await?;
        }
        Ok(found.into_iter().map(|item| item.id).collect())
    }

    async fn list_existing(&self, api: &dyn CloudApi, tags: &Tags) -> Result<Vec<Item>, Fault> {
        let mut items = api
            .list(Kind::Instance, tags)
            .await
            .map_err(|error| self.codes.classify(error.into()))?;
        items.retain(|item| item.state != State::Gone);
        Ok(items)
    }

    /// Deletes an instance until the cloud knows none of this ID: a look may be late, a deletion is not.
    async fn remove(&self, api: &dyn CloudApi, id: &str) -> Result<(), Fault> {
        let gone = async {
            loop {
                match api.delete(Kind::Instance, id).await {
                    Ok(()) => tokio::time::sleep(DELETE_PAUSE).await,
                    Err(error) if error.is_missing() => return Ok(()),
                    Err(error) => return Err(self.codes.classify(error.into())),
                }
            }
        };
        let late = |_| {
            let minutes = DELETE_TIMEOUT.as_secs() / 60;
            Fault::dependency(format!(
                "the instance {id} is still there {minutes} minutes after its deletion"
            ))
            .hint("look at the instance in the cloud; its deletion is tried again")
        };
        tokio::time::timeout(DELETE_TIMEOUT, gone).await.map_err(late)?
    }

    /// Whether the cloud may not show the machine's instance yet: lists and looks are late for a while after its creation, and its
    /// phase is at first that of before.
    fn is_new(&self, machine: &Machine) -> bool {
        let current = machine
            .status
            .as_ref()
            .and_then(|status| status.current_status.as_ref());
        let phase = current.and_then(|current| current.phase.as_ref());
        let was_looked_at = matches!(
            phase,
            Some(MachinePhase::Pending | MachinePhase::Running | MachinePhase::Unknown | MachinePhase::Failed)
        );
        let since = current
            .and_then(|current| current.last_update_time.as_ref())
            .map(|time| time.0);
        let is_recent = since.is_none_or(|since| {
            let passed = self.clock.now().duration_since(since);
            Duration::try_from(passed).unwrap_or_default() < LAG
        });
        !was_looked_at || is_recent
    }
}

#[async_trait]
impl Driver for InstanceDriver {
    fn provider(&self) -> &str {
        &self.provider
    }

    async fn create(&self, request: MachineRequest<'_>) -> Result<Created, Fault> {
        let class: InstanceClass = request.class.provider_spec.decode().map_err(Fault::bug)?;
        let api = self.api(request).await?;
        let spec = InstanceSpec {
            subnet: class.subnet,
            security_groups: vec![class.security_group],
            key_pair: class.key_pair,
            image: class.image,
            machine_type: class.machine_type,
            user_data: self.user_data(request).await?,
            client_token: Some(format!("{}/{}", request.namespace(), request.name())),
        };
        let tags = tags_of(request.namespace(), request.name());
        let made = api.create(Spec::Instance(spec), tags).await;
        let item = made.map_err(|error| self.codes.classify(error.into()))?;
        Ok(Created {
            provider_id: self.provider_id(&item.id),
            node_name: request.name().to_owned(),
        })
    }

    async fn status(&self, request: MachineRequest<'_>) -> Result<DriverState, Fault> {
        let Some(id) = self.instance_of(request.machine) else {
            return Ok(DriverState::Gone);
        };
        let item = self.api(request).await?.get(Kind::Instance, id).await;
        let item = item.map_err(|error| self.codes.classify(error.into()))?;
        let standing = |text: &str| {
            DriverState::Exists(Some(Standing {
                text: text.to_owned(),
                token_refused: false,
            }))
        };
        Ok(match item.map(|item| item.state) {
            Some(State::Running) => DriverState::Exists(None),
            Some(State::Pending) => standing("its instance is pending"),
            Some(State::Stopping) => standing("its instance is being deleted"),
            // What is shown as gone has been shown as there; what is not shown may be too new.
            Some(State::Gone) => DriverState::Gone,
            None if self.is_new(request.machine) => standing("the cloud does not show its instance"),
            None => DriverState::Gone,
        })
    }

    async fn delete(&self, request: MachineRequest<'_>) -> Result<(), Fault> {
        let api = self.api(request).await?;
        let ids = match self.instance_of(request.machine) {
            Some(id) => vec![id.to_owned()],
            None => self.find(&*api, request).await?,
        };
        for id in ids {
            self.remove(&*api, &id).await?;
        }
        Ok(())
    }
}
