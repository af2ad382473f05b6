//! Starting: volumes first, then one container's surroundings and its future. It never decides whether a container
//! should run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api_meta::panic_text;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::environment::{EnvironmentError, arguments, environment, service_variables};
use super::mounts::mounts;
use super::slot::{Doing, ImageTraits, Run};
use super::volumes::{Rendered, VolumeError, render};
use super::{Mounted, PodRunner};
use crate::directory::Directory;
use crate::events::EventType;
use crate::files::{Content, Mount};
use crate::log::logging;
use crate::{
    CannotStart, ContainerContext, EXIT_CRASHED, Exit, Files, Found, Image, LogWriter, PodNetwork, ReadySwitch,
};

/// How long a container that could not be created waits for the next attempt: what a kubelet does about it when its
/// pod has not changed (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet.go, backOffPeriod).
const CREATE_AGAIN: Duration = Duration::from_secs(10);
/// Marks pods of which at least one container is only simulated.
const SIMULATED_ANNOTATION: &str = "node.orangery.dev/simulated";

impl PodRunner {
    /// Makes the volumes, or records why it cannot. True once all are there.
    pub(super) async fn mount(&mut self) -> bool {
        if self.mounted {
            return true;
        }
        if self.lacks_address() {
            self.address = self.host.range.allocate(super::reported_address(&self.pod));
            if let Some(address) = &self.address {
                address.belongs_to(&self.pod);
                // Another address may be free, of which no waiting pod was notified.
                self.freed.notify_one();
            }
        }
        let why = match self.refresh() {
            _ if self.ip().is_none() => "no free pod address is left on this node".to_owned(),
            None => {
                self.mounted = true;
                return true;
            }
            Some(VolumeError::NotRead { .. }) => return false,
            Some(error) => error.to_string(),
        };
        if self.mount_failure != why {
            self.record(EventType::Warning, "FailedMount", None, &why).await;
            self.mount_failure = why;
        }
        false
    }

    /// Brings the volumes' files up to date with their sources. Returns the first that cannot be made; one that
    /// could once keeps its files.
    pub(super) fn refresh(&mut self) -> Option<VolumeError> {
        let ip = self.ip().unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let lenient = self.host.catalogue.is_simulating();
        let mut failed = None;
        let mut changed = false;
        let mut made = Vec::new();
        for volume in self
            .effective
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten())
        {
            match render(&self.pod, volume, &self.sources.found, self.facts(ip), lenient) {
                Ok(rendered) => made.push((volume.name.clone(), rendered)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        for (name, rendered) in made {
            match rendered {
                Rendered::Claim(claim) => {
                    if let Some(Some(volume)) = self.sources.found.claim(&claim) {
                        let content = Content::Claim(volume.clone());
                        self.volumes.entry(name).or_insert(Mounted {
                            content,
                            writable: true,
                        });
                    }
                }
                Rendered::Scratch => {
                    if self.volumes.contains_key(&name) {
                        continue;
                    }
                    let pod = self.pod.metadata.uid.as_deref().unwrap_or_default();
                    match self.host.volumes.scratch(&self.host.name, pod, &name) {
                        Ok(directory) => {
                            let content = Content::Files(directory);
                            let writable = true;
                            self.volumes.insert(name, Mounted { content, writable });
                        }
                        Err(error) => {
                            let (volume, why) = (name, error.to_string());
                            failed = failed.or(Some(VolumeError::Unreadable { volume, why }));
                        }
                    }
                }
                Rendered::Files(files) => {
                    let fresh = || Mounted {
                        content: Content::Files(Directory::default()),
                        writable: false,
                    };
                    if let Content::Files(directory) = &self.volumes.entry(name).or_insert_with(fresh).content {
                        changed |= directory.replace(files);
                    }
                }
            }
        }
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        failed
    }

    /// What a container is started from; notes why it cannot start where it cannot.
    async fn image(&mut self, index: usize, reference: &str) -> Option<Found> {
        let name = self.slots[index].container.name.clone();
        let found = self.host.catalogue.find(reference);
        match &found {
            Found::Missing => {
                let node = &self.host.name;
                let why = format!("image \"{reference}\" is not in the catalogue of node {node}");
                if self.slots[index].hold("ImageNotInCatalogue", why.clone()) {
                    let message = format!("{why}; {}", how_to_map(reference));
                    self.record(EventType::Warning, "ImageNotInCatalogue", Some(&name), &message)
                        .await;
                }
                return None;
            }
            Found::Simulated => {}
            Found::Known(image) => {
                if let Err(CannotStart { reason, message }) = image.check() {
                    let again = Instant::now() + CREATE_AGAIN;
                    if self.slots[index].hold_until(reason, message.clone(), Some(again)) {
                        let message = format!("Error: {message}");
                        self.record(EventType::Warning, "Failed", Some(&name), &message).await;
                    }
                    return None;
                }
            }
        }
        Some(found)
    }

    /// Starts one container, or notes why it cannot start.
    pub(super) async fn start(&mut self, index: usize) {
        let Some(ip) = self.ip() else { return };
        let container = self.slots[index].container.clone();
        let reference = container.image.clone().unwrap_or_default();
        let image = match self.image(index, &reference).await {
            Some(Found::Known(image)) => Some(image),
            Some(_) => None,
            None => return,
        };
        let traits = ImageTraits {
            probed: image.as_ref().is_some_and(|image| image.is_probed()),
            commands: image.as_ref().is_some_and(|image| image.runs_commands()),
        };
        let services = if traits.commands {
            self.services().await
        } else {
            BTreeMap::new()
        };
        let env = match environment(&self.pod, &container, services, &self.sources.found, self.facts(ip)) {
            // The environment of a simulated container is never read.
            Err(EnvironmentError::Unsupported(_)) if image.is_none() => BTreeMap::new(),
            Err(error) => return self.not_configured(index, &error.to_string()).await,
            Ok(env) => env,
        };
        let mounts = match mounts(&container, &env, &self.volumes) {
            Err(error) => return self.not_configured(index, &error.to_string()).await,
            Ok(mounts) => mounts,
        };
        let message = format!("Started container {}", container.name);
        let name = container.name.clone();
        let ready = ReadySwitch::new(Arc::clone(&self.ready_changed));
        self.runs += 1;
        let mut run = Run::new(&container, traits, ready.clone(), self.runs);
        let simulated = image.is_none();
        let log = self.slots[index].new_log(&self.host.clock);
        match image {
            Some(image) => self.spawn(index, image, (env, mounts), ip, log, &mut run),
            None => {
                ready.set(true);
                log.line(format!(
                    "simulated: this node has no implementation of the image {reference} and only shows it as running"
                ));
                self.report_simulated(&name).await;
            }
        }
        self.slots[index].doing = Doing::Running(self.host.clock.now());
        self.slots[index].run = Some(run);
        self.record(EventType::Normal, "Started", Some(&name), &message).await;
        if !simulated {
            self.begin_post_start(index).await;
        } else if self.slots[index].init && !self.slots[index].sidecar {
            // It has nothing to do, and the containers behind it wait for its end.
            self.note_end(index, Exit::done()).await;
        }
    }

    /// Notes why a container cannot be configured.
    async fn not_configured(&mut self, index: usize, why: &str) {
        let name = self.slots[index].container.name.clone();
        if self.slots[index].hold("CreateContainerConfigError", why.to_owned()) {
            let message = format!("Error: {why}");
            self.record(EventType::Warning, "Failed", Some(&name), &message).await;
        }
    }

    /// Variables that name the API server, as far as its Service is there.
    async fn services(&self) -> BTreeMap<String, String> {
        let services: Api<Service> = Api::namespaced(self.host.client.clone(), "default");
        let service = services.get_opt("kubernetes").await.unwrap_or_else(|error| {
            tracing::warn!(pod = %self.id(), %error, "the service of the API server cannot be read");
            None
        });
        let spec = service.and_then(|service| service.spec);
        let address = spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
        let port = spec.as_ref().and_then(|spec| spec.ports.as_ref()?.first());
        match address.zip(port) {
            Some((address, port)) => service_variables(address, port.port),
            None => BTreeMap::new(),
        }
    }

    fn spawn(
        &mut self,
        index: usize,
        image: Arc<dyn Image>,
        (env, mounts): (BTreeMap<String, String>, Vec<Mount>),
        ip: IpAddr,
        log: LogWriter,
        run: &mut Run,
    ) {
        let container = self.slots[index].container.clone();
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        let network = PodNetwork::new(self.host.network.clone(), self.host.client.clone(), namespace, ip)
            .reporting(&container.name, self.events.0.clone());
        run.network = Some(network.clone());
        let context = ContainerContext {
            pod: Arc::clone(&self.pod),
            args: arguments(&container, &env),
            files: Files::new(mounts, self.changes.subscribe()),
            env,
            container,
            network,
            ready: run.ready.clone(),
            log: log.clone(),
            stop: run.stop.clone(),
            clock: self.host.clock.clone(),
            entropy: self.host.entropy.clone(),
            values: self.values.clone(),
            commands: run.commands.clone(),
            ending: run.ending.clone(),
            events: self.events.0.clone(),
            api: self.host.api.clone(),
        };
        // The image's own code may panic before its future exists, so it is called inside.
        let running = AssertUnwindSafe(logging(log, async move { image.run(context).await })).catch_unwind();
        let task = self.tasks.spawn(async move {
            let exit = running.await.unwrap_or_else(|panic| Exit {
                code: EXIT_CRASHED,
                message: format!("crashed: {}", panic_text(panic.as_ref())),
            });
            (index, exit)
        });
        run.task = Some(task);
    }

    /// Reports once per pod that it is simulated.
    async fn report_simulated(&mut self, container: &str) {
        if std::mem::replace(&mut self.reported_simulated, true) {
            return;
        }
        let pods: Api<Pod> = Api::namespaced(
            self.host.client.clone(),
            self.pod.metadata.namespace.as_deref().unwrap_or_default(),
        );
        let name = self.pod.metadata.name.clone().unwrap_or_default();
        let mark = json!({"metadata": {
            "uid": self.pod.metadata.uid, "annotations": {SIMULATED_ANNOTATION: "true"},
        }});
        match pods.patch(&name, &PatchParams::default(), &Patch::Merge(mark)).await {
            Ok(_) => {}
            // Where NodeRestriction is on, a node writes no metadata of pods; the event below reports it as well.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::debug!(pod = %self.id(), %status, "simulated pod may not be marked");
            }
            Err(error) => tracing::warn!(pod = %self.id(), %error, "simulated pod was not marked"),
        }
        let message = "Nothing runs: this node has no implementation of the image and only shows the pod as running";
        self.record(EventType::Normal, "SimulatedImage", Some(container), message)
            .await;
    }
}

/// How to let the node run an image: the lines to add to the file that maps images to programs.
fn how_to_map(reference: &str) -> String {
    let path = reference.split_once('@').map_or(reference, |(path, _digest)| path);
    let name = crate::image_name(path);
    let untagged = &path[..path.rfind('/').map_or(0, |slash| slash + 1) + name.len()];
    format!(
        "to run it as a program of this machine, add to the file that --images names:\n\
         images:\n- image: \"{untagged}\"\n  command: [\"./{name}\"]"
    )
}

#[cfg(test)]
mod tests {
    use super::how_to_map;

    #[test]
    fn the_lines_to_add_name_the_image_without_its_tag() {
        for (reference, untagged) in [
            (
                "localhost:5000/acme/manager:v1@sha256:00",
                "localhost:5000/acme/manager",
            ),
            ("manager:v1", "manager"),
        ] {
            let lines = how_to_map(reference);
            let lines: Vec<&str> = lines.lines().skip(1).collect();
            let image = format!("- image: \"{untagged}\"");
            assert_eq!(lines, ["images:", image.as_str(), "  command: [\"./manager\"]"]);
        }
    }
}
