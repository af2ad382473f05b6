//! An extension beside a bare Kubernetes: what it holds in memory and works while nothing is requested, and how long many objects
//! take that are requested at once. The same controller on our SDK and, as a peer, in Go with controller-runtime.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api_extensions::{Cluster, Extension, ExtensionKind, ExtensionObject};
use api_meta::LastOperationState;
use base_client::{Connector, Https};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::process::{megabytes, processor_seconds};
use crate::server::{Server, Start};

/// The extension's own namespace.
const NAMESPACE: &str = "extension-example";
/// Requests of the measurement that are under way at once.
const AT_ONCE: usize = 16;
/// Far beyond what any of them takes.
const GIVE_UP: Duration = Duration::from_secs(600);
/// After the last operation, before memory is read.
const REST: Duration = Duration::from_secs(5);
/// Where `cargo xtask` puts the program in Go, below the cache folder.
const GO_PROGRAM: &str = "real/clients/extension-go";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many objects, each in a namespace of its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    count: u32,
    /// How many times; each is printed
    #[arg(long, default_value_t = 1)]
    runs: u8,
    /// Seconds in which nothing is requested
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,
    /// The extension on our SDK, in place of the one that was built with this program
    #[arg(long, value_name = "PATH")]
    extension: Option<PathBuf>,
    /// Leave the peer in Go out
    #[arg(long)]
    alone: bool,
}

/// A program that is measured.
struct Subject {
    name: &'static str,
    type_: &'static str,
    program: PathBuf,
    words: Vec<String>,
}

/// What was found.
struct Figures {
    created: Duration,
    creating_writes: u64,
    idle_megabytes: f64,
    idle_processor: f64,
    reconciled: Duration,
    writes: u64,
    processor: f64,
    peak_megabytes: f64,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures all subjects, one after the other.
pub(crate) async fn run(arguments: &Arguments, program: &Path) -> Result<(), String> {
    let subjects = subjects(arguments)?;
    for run in 1..=arguments.runs {
        for subject in &subjects {
            let figures = measure(arguments, subject, program).await?;
            print(run, arguments.count, subject, &figures);
        }
    }
    Ok(())
}

fn subjects(arguments: &Arguments) -> Result<Vec<Subject>, String> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let namespace = format!("--namespace={NAMESPACE}");
    let mut all = vec![Subject {
        name: "ours",
        type_: "example-rust",
        program: arguments
            .extension
            .clone()
            .unwrap_or_else(|| here.with_file_name("bench-extension")),
        words: vec![
            namespace.clone(),
            "--health-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
        ],
    }];
    if !arguments.alone {
        let port = tests_parts::free_port()?;
        all.push(Subject {
            name: "Go",
            type_: "example-go",
            program: tests_parts::cache_folder()
                .ok_or("there is no cache folder: set ORANGERY_CACHE")?
                .join(GO_PROGRAM),
            words: vec![
                namespace,
                format!("--webhook-port={port}"),
                "--health-address=0".to_owned(),
                "--metrics-address=0".to_owned(),
            ],
        });
    }
    Ok(all)
}

async fn measure(arguments: &Arguments, subject: &Subject, program: &Path) -> Result<Figures, String> {
    let server = Server::start(&Start {
        program,
        arguments: &["apiserver", "--memory", "--port", "0"],
        kubeconfig: "admin.kubeconfig",
    })
    .await?;
    let kubeconfig = server.file("admin.kubeconfig");
    let read = Kubeconfig::read_from(&kubeconfig).map_err(|error| format!("cannot read the kubeconfig: {error}"))?;
    let client = Https::new("bench")
        .client(&read)
        .map_err(|fault| fault.text_with_hint())?;
    create_objects(&client, subject, arguments.count).await?;

    let before = version(&client).await?;
    let begun = Instant::now();
    let child = Command::new(&subject.program)
        .args(&subject.words)
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", subject.program.display()))?;
    let process = Running(child);
    let number = process.0.id();
    until_all(&client, arguments.count, None).await?;
    let (created, after) = (begun.elapsed(), version(&client).await?);

    tokio::time::sleep(REST).await;
    let (worked, idle) = (processor_seconds(number), Duration::from_secs(arguments.idle));
    tokio::time::sleep(idle).await;
    let idle_processor = (processor_seconds(number) - worked) * 60.0 / idle.as_secs_f64();
    let idle_megabytes = megabytes(number, "RssAnon").unwrap_or(f64::NAN);

    let (started, worked, begun) = (version(&client).await?, processor_seconds(number), Instant::now());
    let stamp = request_all(&client).await?;
    until_all(&client, arguments.count, Some(stamp)).await?;
    let reconciled = begun.elapsed();
    Ok(Figures {
        created,
        creating_writes: after - before,
        idle_megabytes,
        idle_processor,
        reconciled,
        writes: (version(&client).await? - started).saturating_sub(u64::from(arguments.count)),
        processor: processor_seconds(number) - worked,
        peak_megabytes: megabytes(number, "VmHWM").unwrap_or(f64::NAN),
    })
}

/// Definitions, a namespace with a Cluster for each object, and the objects, as gardenlet creates them.
async fn create_objects(client: &Client, subject: &Subject, count: u32) -> Result<(), String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let wanted = [ExtensionKind::Extension.plural(), "clusters", "operatingsystemconfigs"];
    for definition in api_extensions::crds() {
        if wanted.contains(&definition.spec.names.plural.as_str()) {
            let created = definitions.create(&PostParams::default(), &definition).await;
            created.map_err(|error| format!("cannot create a definition: {error}"))?;
        }
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": NAMESPACE}})).await?;
    let creations = (0..count).map(|number| async move {
        let namespace = format!("shoot--bench--{number}");
        create(
            &Api::<Namespace>::all(client.clone()),
            json!({"metadata": {"name": namespace}}),
        )
        .await?;
        let parts = json!({"cloudProfile": {}, "seed": {}, "shoot": {
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": number.to_string(), "namespace": "garden-bench"},
            "spec": {"provider": {"type": "local"}},
            "status": {"lastOperation": {"type": "Reconcile", "state": "Processing", "progress": 1,
                "description": "", "lastUpdateTime": "2026-01-01T00:00:00Z"}},
        }});
        let clusters: Api<Cluster> = Api::all(client.clone());
        create(&clusters, json!({"metadata": {"name": namespace}, "spec": parts})).await?;
        let object = json!({
            "metadata": {"name": subject.type_, "annotations": {"gardener.cloud/operation": "reconcile"}},
            "spec": {"type": subject.type_, "providerConfig": {"vpc": format!("vpc-{number}")}},
        });
        create(&Api::<Extension>::namespaced(client.clone(), &namespace), object).await
    });
    stream::iter(creations)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<(), String>
where
    K: kube::Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).map_err(|error| format!("an object of the measurement: {error}"))?;
    let created = api.create(&PostParams::default(), &object).await;
    created
        .map(drop)
        .map_err(|error| format!("cannot create an object: {error}"))
}

/// The version of the whole store: every write counts it up by one.
async fn version(client: &Client) -> Result<u64, String> {
    let extensions: Api<Extension> = Api::all(client.clone());
    let listed = extensions.list_metadata(&ListParams::default().limit(1)).await;
    let listed = listed.map_err(|error| format!("cannot list Extensions: {error}"))?;
    let version = listed
        .metadata
        .resource_version
        .and_then(|version| version.parse().ok());
    version.ok_or_else(|| "a list names no version".to_owned())
}

/// Requests a reconcile of every object; the time that the requests carry.
async fn request_all(client: &Client) -> Result<i64, String> {
    let extensions: Api<Extension> = Api::all(client.clone());
    let listed = extensions.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| format!("cannot list Extensions: {error}"))?;
    let now = base_clock::Clock::real().now();
    let patch = json!({"metadata": {"annotations": {
        "gardener.cloud/operation": "reconcile", "gardener.cloud/timestamp": now.to_string(),
    }}});
    let requests = listed.items.iter().map(|object| {
        let api: Api<Extension> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
        let patch = Patch::Merge(patch.clone());
        async move { api.patch(&object.name_any(), &PatchParams::default(), &patch).await }
    });
    let requested = stream::iter(requests).buffer_unordered(AT_ONCE).map_ok(drop);
    let requested: Result<(), kube::Error> = requested.try_collect().await;
    requested.map_err(|error| format!("cannot request a reconcile: {error}"))?;
    Ok(now.as_second())
}

/// Waits until so many objects have succeeded: no request is pending, and the answer is not older than the time, if there is
/// one.
async fn until_all(client: &Client, count: u32, since: Option<i64>) -> Result<(), String> {
    let mut events = watcher(Api::<Extension>::all(client.clone()), watcher::Config::default()).boxed();
    let mut done = BTreeSet::new();
    let all = async {
        while done.len() < count as usize {
            if let Some(Ok(Event::Apply(object) | Event::InitApply(object))) = events.next().await
                && is_answered(&object, since)
            {
                done.insert(object.namespace().unwrap_or_default());
            }
        }
    };
    let waited = tokio::time::timeout(GIVE_UP, all).await;
    waited.map_err(|_| format!("{} of {count} objects have succeeded after {GIVE_UP:?}", done.len()))
}

fn is_answered(object: &Extension, since: Option<i64>) -> bool {
    let is_pending = object.annotations().contains_key("gardener.cloud/operation");
    let succeeded = object.progress().0.is_some_and(|last| {
        let is_new = since.is_none_or(|since| last.last_update_time.0.as_second() >= since);
        is_new && last.state == LastOperationState::Succeeded
    });
    succeeded && !is_pending
}

fn print(run: u8, count: u32, subject: &Subject, figures: &Figures) {
    let Figures {
        created,
        creating_writes,
        idle_megabytes,
        idle_processor,
        reconciled,
        writes,
        processor,
        peak_megabytes,
    } = figures;
    let each = |writes: &u64| *writes as f64 / f64::from(count);
    println!("run {run}, {}, {count} objects:", subject.name);
    println!(
        "  from process start to all created  {:.2} s, {:.1} writes each",
        created.as_secs_f64(),
        each(creating_writes)
    );
    println!(
        "  idle                               {idle_megabytes:.1} MB anonymous, {idle_processor:.2} s of processor a minute"
    );
    println!(
        "  all reconciled at once             {:.2} s, {processor:.2} s of processor, {:.1} writes each",
        reconciled.as_secs_f64(),
        each(writes)
    );
    println!("  peak of resident memory            {peak_megabytes:.1} MB");
}
