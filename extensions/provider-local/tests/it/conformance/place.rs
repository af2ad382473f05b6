//! A seed and a shoot in which this extension runs, and the kit.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::Fault;
use extensions_conformance::{Hook, Options as Kit, Report, Rule, Subject, Verdict, validate};
use extensions_provider_local::{Options, run};
use hickory_server::proto::op::{Message, MessageType, OpCode, Query};
use hickory_server::proto::rr::{Name, RecordType};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;
use tests_kit::Embedded;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::landscape::{Landscape, TYPE, ToShoot};

/// The type of its Extensions.
pub(super) const EXTENSION_TYPE: &str = "Zookeeper";
/// The extension's own namespace.
const NAMESPACE: &str = "extension-provider-local";
/// Pause of the kit's own writer: virtual time makes it free, its requests are not.
const WRITE_PAUSE: Duration = Duration::from_millis(60);

/// Everything that outlives a process of the extension.
pub(super) struct Place {
    landscape: Landscape,
    data_dir: TempDir,
    dns: Arc<Mutex<Option<SocketAddr>>>,
    pub(super) client: Client,
    pub(super) shoot: Client,
}

/// What a process of the extension is started with.
struct Start {
    seed: Embedded,
    shoot: Client,
    data_dir: PathBuf,
    /// Where the running process answers DNS queries.
    dns: Arc<Mutex<Option<SocketAddr>>>,
}

impl Start {
    /// Starts the extension; it ends with the token and the task.
    fn start(&self) -> (JoinHandle<Result<(), Fault>>, CancellationToken) {
        let (reported, bound) = oneshot::channel();
        let options = Options {
            dns_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            dns_bound: Some(reported),
            extension_type: EXTENSION_TYPE.to_owned(),
            ..Options::new(self.data_dir.clone()).named(TYPE)
        };
        let dns = self.dns.clone();
        tokio::spawn(async move { *dns.lock().unwrap() = bound.await.ok() });
        let stop = CancellationToken::new();
        let running = run(
            self.seed.admin(),
            Arc::new(ToShoot(self.shoot.clone())),
            Some(NAMESPACE.to_owned()),
            options,
            (self.seed.clock.clone(), self.seed.entropy.clone()),
            stop.clone(),
        );
        (tokio::spawn(running), stop)
    }
}

impl Place {
    pub(super) async fn new() -> Self {
        let landscape = Landscape::new().await;
        let (client, shoot) = (landscape.client.clone(), landscape.shoot.admin());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let managing = control_plane_resource_manager::run(
            client.clone(),
            shoot.clone(),
            control_plane_resource_manager::Options::default(),
            landscape.seed.clock.clone(),
            landscape.stop.clone(),
        );
        tokio::spawn(managing);
        Self {
            client,
            shoot,
            landscape,
            data_dir: tempfile::tempdir().unwrap(),
            dns: Arc::default(),
        }
    }

    /// Lets machines of any shoot join as nodes.
    pub(super) fn let_machines_join(&self) {
        self.landscape.let_machines_join();
    }

    pub(super) fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// Runs the extension and the kit, and no rule is broken. `skipped`: all rules that are, with their reasons.
    pub(super) async fn passes(&self, subject: Subject, inventory: Option<Hook>, skipped: &[(Rule, &str)]) {
        let report = self.validate(subject, inventory).await;
        assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
        let found: BTreeMap<Rule, &str> = report.skipped().collect();
        assert_eq!(found, skipped.iter().copied().collect(), "{}", report.text());
    }

    /// Runs the extension and the kit.
    pub(super) async fn validate(&self, subject: Subject, inventory: Option<Hook>) -> Report {
        let start = Start {
            seed: self.landscape.seed.clone(),
            shoot: self.shoot.clone(),
            data_dir: self.data_dir().to_owned(),
            dns: self.dns.clone(),
        };
        let (clock, entropy) = (start.seed.clock.clone(), start.seed.entropy.clone());
        let has_held = Arc::new(AtomicBool::new(inventory.is_none()));
        let noted = has_held.clone();
        let inventory = inventory.map(|inventory| {
            Hook::new(move || {
                let (found, noted) = (inventory.call(), noted.clone());
                async move {
                    let found = found.await?;
                    noted.fetch_or(!found.is_empty(), Ordering::Relaxed);
                    Ok(found)
                }
            })
        });
        let options = Kit {
            write_pause: WRITE_PAUSE,
            kill: Some(Hook::restarting(move || start.start())),
            cloud_check: inventory,
            namespace: Some(NAMESPACE.to_owned()),
            ..Kit::new(subject.kind, clock, entropy)
        };
        let report = validate(self.client.clone(), subject, options).await;
        assert_eq!(report.left_behind, Vec::<String>::new());
        assert!(
            has_held.load(Ordering::Relaxed),
            "an inventory that is always empty proves nothing"
        );
        report
    }

    /// The folders in this one of the data folder.
    pub(super) fn folders(&self, folder: &str) -> Hook {
        let path = self.data_dir().join(folder);
        Hook::new(move || {
            let found = match std::fs::read_dir(&path) {
                Ok(entries) => entries
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap() + "\n")
                    .collect(),
                Err(_) => String::new(),
            };
            async { Ok(found) }
        })
    }

    /// What DNS queries for the addresses of this name are answered with.
    pub(super) fn name(&self, name: &'static str) -> Hook {
        let dns = self.dns.clone();
        Hook::new(move || {
            let address = dns.lock().unwrap().unwrap();
            async move { Ok(query(address, name).await) }
        })
    }
}

/// What the name is answered with there.
pub(crate) async fn query(address: SocketAddr, name: &str) -> String {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_str(name).unwrap(), RecordType::A));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(&message.to_vec().unwrap(), address).await.unwrap();
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).await.unwrap();
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    answer.answers.iter().map(|record| format!("{record}\n")).collect()
}
