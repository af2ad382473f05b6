//! The extension put together. Which types it answers to is an option: nothing else in it names one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api_extensions as ext;
use api_extensions::ExtensionKind;
use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_controller::Terms;
use extensions_machines::{Machines, Surroundings, Workers};
use extensions_sdk::run::{BindAddress, Place, run_in};
use extensions_sdk::{About, Actuator, Extension, Flags, Registration, Setup};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backup::Backups;
use crate::control_plane::ControlPlanes;
use crate::dns::{DnsRecords, Zones, serve};
use crate::driver::PodDriver;
use crate::infrastructure::Infrastructures;
use crate::local_extension::LocalExtensions;
use crate::network::Networks;
use crate::operating_system::OperatingSystemConfigs;
use crate::worker::PodClasses;

/// The kinds that it acts on, which is its own choice; what makes it known to a garden names these.
pub const KINDS: [ExtensionKind; 9] = [
    ExtensionKind::BackupBucket,
    ExtensionKind::BackupEntry,
    ExtensionKind::ControlPlane,
    ExtensionKind::DNSRecord,
    ExtensionKind::Infrastructure,
    ExtensionKind::Network,
    ExtensionKind::OperatingSystemConfig,
    ExtensionKind::Worker,
    ExtensionKind::Extension,
];
/// Its name in Leases, events and field managers.
pub const EXTENSION_NAME: &str = "provider-local";
/// The program.
pub const ABOUT: About = About::new(EXTENSION_NAME, env!("CARGO_PKG_VERSION"));
/// Its type by default, as in Gardener's local setup.
const DEFAULT_TYPE: &str = "local";
/// The type of its Extension kind by default.
const DEFAULT_EXTENSION_TYPE: &str = "local-ext";
/// The image that machines run by default.
const DEFAULT_MACHINE_IMAGE: &str = concat!("orangery.dev/local-machine:v", env!("CARGO_PKG_VERSION"));

/// How it is run.
pub struct Options {
    /// Kinds that it acts on, of [`KINDS`]: fewer where it stands in for what another extension does not do yet.
    pub kinds: Vec<ExtensionKind>,
    /// Type of Infrastructure, ControlPlane, Worker, BackupBucket and BackupEntry.
    pub provider_type: String,
    /// Type of Network.
    pub network_type: String,
    /// Type of OperatingSystemConfig: the name of the machine image.
    pub operating_system_type: String,
    /// Type of DNSRecord.
    pub dns_type: String,
    /// Type of Extension.
    pub extension_type: String,
    /// The image that machines' pods run.
    pub machine_image: String,
    /// Where DNS queries are answered, by UDP and TCP; port 0 takes a free one. None: names are stored and no client
    /// can query them.
    pub dns_address: Option<SocketAddr>,
    /// Receives the address on which DNS queries are answered, once they are.
    pub dns_bound: Option<oneshot::Sender<SocketAddr>>,
    /// The folder that backup buckets are folders of.
    pub data_dir: PathBuf,
}

impl Options {
    /// Everything is called `local`, backups lie under `data_dir`, DNS is not served.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            kinds: KINDS.to_vec(),
            provider_type: DEFAULT_TYPE.to_owned(),
            network_type: DEFAULT_TYPE.to_owned(),
            operating_system_type: DEFAULT_TYPE.to_owned(),
            dns_type: DEFAULT_TYPE.to_owned(),
            extension_type: DEFAULT_EXTENSION_TYPE.to_owned(),
            machine_image: DEFAULT_MACHINE_IMAGE.to_owned(),
            dns_address: None,
            dns_bound: None,
            data_dir,
        }
    }

    /// The same under another name: provider, network, operating system and DNS, and the Extension with `-ext` behind it.
    #[must_use]
    pub fn named(mut self, type_: &str) -> Self {
        for slot in [
            &mut self.provider_type,
            &mut self.network_type,
            &mut self.operating_system_type,
            &mut self.dns_type,
        ] {
            type_.clone_into(slot);
        }
        self.extension_type = format!("{type_}-ext");
        self
    }
}

/// Puts the extension together in a program of the SDK.
///
/// # Errors
/// None of its own. A DNS address that is taken ends the program.
pub fn extend(setup: &mut Setup, options: Options) -> Result<Extension, Fault> {
    let (client, stop) = (setup.client.clone(), setup.stop.clone());
    let zones = Zones::default();
    let serves_names = options.dns_address.is_some();
    if let Some(address) = options.dns_address {
        let server = serve(address, zones.clone(), options.dns_bound, stop.clone());
        setup.everywhere(async move {
            server.await?.await;
            Ok(())
        });
    }
    let driver = PodDriver::new(client, &options.provider_type, &options.machine_image, stop.clone());
    let machines = Machines::new(Arc::new(driver), Surroundings::of(setup));
    let workers = Workers::new(PodClasses, &machines);
    let of_workers = workers.registration(&options.provider_type);
    let backups = Arc::new(Backups::new(options.data_dir));
    let provider = &options.provider_type;
    let type_ = &options.extension_type;
    let extensions = |class: ext::ExtensionClass| of(type_).class(class).finalizer_suffix(type_);
    let mut extension = setup.extension();
    let infrastructures = Infrastructures::new(extension.cache::<ext::Infrastructure>());
    let dns = Arc::new(DnsRecords::new(
        zones,
        extension.cache::<ext::DNSRecord>(),
        &options.dns_type,
    ));
    let (following, known) = (dns.clone(), dns.clone());
    setup.everywhere(async move {
        stop.run_until_cancelled(following.follow()).await;
        Ok(())
    });
    if serves_names {
        setup.ready_when(move || known.is_ready());
    }
    let kinds = Kinds(options.kinds);
    extension = kinds.add::<ext::Infrastructure>(extension, of(provider), Arc::new(infrastructures));
    extension = kinds.add::<ext::ControlPlane>(extension, of(provider), Arc::new(ControlPlanes));
    extension = kinds.add::<ext::Worker>(extension, of_workers, Arc::new(workers));
    extension = kinds.add::<ext::BackupBucket>(extension, of(provider), backups.clone());
    extension = kinds.add::<ext::BackupEntry>(extension, of(provider), backups);
    extension = kinds.add::<ext::Network>(extension, of(&options.network_type), Arc::new(Networks));
    let system = of(&options.operating_system_type);
    extension = kinds.add::<ext::OperatingSystemConfig>(extension, system, Arc::new(OperatingSystemConfigs));
    for class in [ext::ExtensionClass::Shoot, ext::ExtensionClass::Seed] {
        extension = kinds.add::<ext::Extension>(extension, extensions(class), Arc::new(LocalExtensions));
    }
    let extension = kinds
        .add::<ext::DNSRecord>(extension, of(&options.dns_type), dns)
        .task(machines.run());
    Ok(extension)
}

/// Runs the extension in the seed of `client` until `stop`, as the only one of its type there, without ports of its own. Connects
/// to shoots by `connector`. `namespace` is its own, for the heartbeat; none without one.
///
/// # Errors
/// A DNS address that is taken.
pub async fn run(
    client: kube::Client,
    connector: Arc<dyn Connector>,
    namespace: Option<String>,
    options: Options,
    (clock, entropy): (Clock, Entropy),
    stop: CancellationToken,
) -> Result<(), Fault> {
    let place = Place {
        client,
        connector,
        clock,
        entropy,
        terms: Terms::default(),
        stop: Box::pin(stop.cancelled_owned()),
    };
    let flags = Flags {
        leader_election: false,
        heartbeat: Some(namespace.is_some()),
        namespace,
        metrics_bind_address: BindAddress::off(),
        health_bind_address: BindAddress::off(),
        ..Flags::default()
    };
    Box::pin(run_in(ABOUT, place, &flags, |setup| extend(setup, options))).await
}

/// The kinds that it acts on.
struct Kinds(Vec<ExtensionKind>);

impl Kinds {
    /// The extension with an actuator, if its kind is among them.
    fn add<K: ext::ExtensionObject>(
        &self,
        extension: Extension,
        registration: Registration<K>,
        actuator: Arc<dyn Actuator<K>>,
    ) -> Extension {
        match self.0.contains(&K::ROW) {
            true => extension.actuator(registration, actuator),
            false => extension,
        }
    }
}

fn of<K: ext::ExtensionObject>(type_: &str) -> Registration<K> {
    Registration::of_type(type_)
}
