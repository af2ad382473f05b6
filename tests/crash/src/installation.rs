//! What the user does with an extension that has a Helm chart: registers it, gives it other values and then another chart,
//! deletes the registration. Each step can be repeated by a user who does not know how far it came.

use std::collections::{BTreeMap, BTreeSet};

use api_core::v1::ControllerDeployment;
use api_core::v1beta1::{ControllerInstallation, ControllerRegistration};
use api_meta::{Condition, ConditionStatus, conditions::installation as condition, labels, names};
use base_client::{delete_and_wait, get, list};
use base_helm::chart::{File, archive_of_files};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::{Api, Resource, ResourceExt};
use landscape_local::{SEED_FIRST, apply_all};
use serde_json::{Value, json};

use crate::script::PATIENCE;
use crate::view::View;

/// The registration and its deployment. The names of all objects that come of them contain it, or their namespace does.
pub const NAME: &str = "crash-ext";
/// The Secret of the garden that the chart's values refer to.
const REFERENCED: &str = "crash-ext-login";
/// What stands in that Secret.
const PASSWORD: &str = "sesame";
/// The ConfigMap that both charts have.
const KEPT: &str = "kept";

const CHART: &str = "apiVersion: v2\nname: crash-ext\nversion: 1.0.0\n";
/// In both charts. The Deployment has no pods: what they run is not installed but run.
const TEMPLATE: &str = include_str!("installation.yaml");

/// The two charts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chart {
    First,
    Second,
}

impl Chart {
    /// The ConfigMap that the other chart does not have.
    fn own(self) -> &'static str {
        match self {
            Self::First => "old",
            Self::Second => "new",
        }
    }

    fn archive(self) -> Vec<u8> {
        let own = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: {{{{ .Release.Namespace }}}}\n",
            self.own()
        );
        let files = [
            ("Chart.yaml", CHART),
            ("templates/both.yaml", TEMPLATE),
            ("templates/own.yaml", &own),
        ];
        let files = files.map(|(name, text)| File {
            name: name.to_owned(),
            data: text.as_bytes().into(),
        });
        archive_of_files(NAME, &files)
    }
}

/// Registers the extension with the first chart, and waits until it is installed.
///
/// # Errors
/// What did not come true.
pub(crate) async fn install(view: &View) -> Result<(), String> {
    let referenced = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": REFERENCED, "namespace": names::GARDEN_NAMESPACE,
            "labels": {labels::ROLE: "resource-reference"}},
        "stringData": {"password": PASSWORD}});
    let registration = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
        "metadata": {"name": NAME},
        "spec": {"deployment": {"policy": "Always", "deploymentRefs": [{"name": NAME}]},
            "resources": [{"kind": "Extension", "type": NAME, "primary": true}]}});
    apply(view, vec![referenced, deployment(Chart::First, "one"), registration]).await?;
    installed(view, Chart::First, "one").await
}

/// Changes the values and then the chart, and waits after each.
///
/// # Errors
/// What did not come true.
pub(crate) async fn upgrade(view: &View) -> Result<(), String> {
    let deployments: Api<ControllerDeployment> = Api::all(view.garden.clone());
    let known = get(&deployments, NAME).await.map_err(text)?;
    let raw = known.and_then(|known| known.helm?.raw_chart);
    // A user who comes back does not return to the first chart.
    if raw.is_none_or(|ByteString(raw)| raw != Chart::Second.archive()) {
        apply(view, vec![deployment(Chart::First, "two")]).await?;
        installed(view, Chart::First, "two").await?;
    }
    apply(view, vec![deployment(Chart::Second, "two")]).await?;
    installed(view, Chart::Second, "two").await
}

/// Deletes everything that the user has made, and waits until it is gone.
///
/// # Errors
/// What did not come true.
pub(crate) async fn remove(view: &View) -> Result<(), String> {
    async fn gone<K>(api: Api<K>, name: &str) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        delete_and_wait(&api, name, PATIENCE).await.map_err(text)
    }
    let garden = &view.garden;
    gone(Api::<ControllerRegistration>::all(garden.clone()), NAME).await?;
    gone(Api::<ControllerDeployment>::all(garden.clone()), NAME).await?;
    let secrets: Api<Secret> = Api::namespaced(garden.clone(), names::GARDEN_NAMESPACE);
    gone(secrets, REFERENCED).await
}

/// The uids of what must not be made a second time.
///
/// # Errors
/// A server's refusal.
pub(crate) async fn lasting(view: &View) -> Result<BTreeSet<String>, String> {
    let Some(installation) = find(view).await? else {
        return Ok(BTreeSet::new());
    };
    let name = installation.name_any();
    let inside = names::extension_namespace(&name);
    let namespaces: Api<Namespace> = Api::all(view.seed.clone());
    let maps: Api<ConfigMap> = Api::namespaced(view.seed.clone(), &inside);
    let accounts: Api<ServiceAccount> = Api::namespaced(view.garden.clone(), &names::seed_namespace(SEED_FIRST));
    let account = format!("{}{name}", names::EXTENSION_SERVICE_ACCOUNT_PREFIX);
    let uids = [
        installation.uid(),
        get(&namespaces, &inside).await.map_err(text)?.and_then(|one| one.uid()),
        get(&maps, KEPT).await.map_err(text)?.and_then(|one| one.uid()),
        get(&accounts, &account).await.map_err(text)?.and_then(|one| one.uid()),
    ];
    Ok(uids.into_iter().flatten().collect())
}

fn deployment(chart: Chart, greeting: &str) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment",
        "metadata": {"name": NAME},
        "helm": {"rawChart": ByteString(chart.archive()),
            "values": {"greeting": greeting, "password": "{{ .resources.login.data.password }}"}},
        "injectGardenKubeconfig": true,
        "resources": [{"name": "login",
            "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": REFERENCED}}]})
}

async fn apply(view: &View, objects: Vec<Value>) -> Result<(), String> {
    apply_all(&view.garden, objects).await.map_err(text)
}

async fn find(view: &View) -> Result<Option<ControllerInstallation>, String> {
    let installations: Api<ControllerInstallation> = Api::all(view.garden.clone());
    let all = list(&installations, "").await.map_err(text)?;
    let is_ours = |one: &ControllerInstallation| one.spec.registration_ref.name.as_deref() == Some(NAME);
    Ok(all.into_iter().find(is_ours))
}

/// Waits until the seed has what the chart renders with these values, and the installation reports that.
async fn installed(view: &View, chart: Chart, greeting: &str) -> Result<(), String> {
    let check = async || {
        let installation = find(view).await?.ok_or("there is no ControllerInstallation")?;
        let conditions = installation
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.conditions);
        let data = data(view, &names::extension_namespace(&installation.name_any())).await?;
        let is = |type_| Condition::find(conditions, type_).is_some_and(|one| one.status == ConditionStatus::True);
        let has_data = data == rendered(chart, greeting);
        if has_data && [condition::VALID, condition::INSTALLED, condition::HEALTHY].map(is) == [true; 3] {
            return Ok(());
        }
        Err(format!("its conditions are {conditions:?}, its ConfigMaps {data:?}"))
    };
    let waited = view.eventually(PATIENCE, check).await;
    waited.map_err(|why| format!("the extension is not installed: {why}"))
}

type Data = BTreeMap<String, BTreeMap<String, String>>;

/// What the chart's ConfigMaps hold.
async fn data(view: &View, namespace: &str) -> Result<Data, String> {
    let maps: Api<ConfigMap> = Api::namespaced(view.seed.clone(), namespace);
    let all = list(&maps, "").await.map_err(text)?;
    let of_chart = all.into_iter().filter(|map| map.name_any() != "kube-root-ca.crt");
    Ok(of_chart
        .map(|map| (map.name_any(), map.data.unwrap_or_default()))
        .collect())
}

/// What they are to hold.
fn rendered(chart: Chart, greeting: &str) -> Data {
    let both = [("greeting", greeting), ("password", PASSWORD)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    BTreeMap::from([
        (KEPT.to_owned(), BTreeMap::from(both)),
        (chart.own().to_owned(), BTreeMap::new()),
    ])
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
