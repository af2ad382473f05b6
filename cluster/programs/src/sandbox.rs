//! Pods with namespaces: each a network of its own, whose connections in and out go through the pod network of the cluster.
//! What may be reached is decided there.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use base_client::{Connection, Dialer};
use cluster_node::{AllPorts, CommandStreams, ContainerContext, RunCommand, RunningCommand};
use cluster_sandbox::{Container, ContainerOptions, Exec, ExecOptions, Limits, Mount, PodOptions, Signal};
use futures::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

use crate::commands::{failure, printed_by};
use crate::memory::Processes;
use crate::process::{Ended, Output, Process, Run};
use crate::{names, outgoing};

/// Where a pod's programs find their name server: as the cache of Kubernetes' own node-local DNS, a link-local address.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 20, 10);
/// The loopback of this machine as a pod's programs reach it: their own 127.0.0.1 is the pod's.
pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(169, 254, 20, 1);

/// The namespaces of one pod, and the tasks for its connections and names.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pod: Arc<cluster_sandbox::Pod>,
    _ports: AllPorts,
    _outgoing: AbortOnDropHandle<()>,
    _names: AbortOnDropHandle<()>,
}

impl Sandbox {
    /// Makes the namespaces for a pod. `helper`: the program that becomes their first process.
    pub(crate) async fn start(
        helper: &Path,
        context: &ContainerContext,
        hostname: String,
        servers: Arc<dyn outgoing::ApiServers>,
    ) -> io::Result<Arc<Self>> {
        let IpAddr::V4(address) = context.network.pod_ip() else {
            return Err(io::Error::other("pods with IPv6 addresses have no namespaces here"));
        };
        let options = PodOptions {
            hostname,
            address,
            dns: Some(NAME_SERVER),
            redirected_loopback_port: servers.port(),
        };
        let pod = Arc::new(cluster_sandbox::Pod::start(helper, options).await?);
        let dialled = pod.clone();
        let ports = context.network.bind_all(move |port| {
            let pod = dialled.clone();
            Dialer::new(move || {
                let pod = pod.clone();
                Box::pin(async move {
                    let stream = pod.connect(port).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Connection)
                })
            })
        });
        let proxying = outgoing::proxy(pod.clone(), context.network.clone(), servers);
        let naming = names::answer(pod.clone(), context.network.clone());
        Ok(Arc::new(Sandbox {
            pod,
            _ports: ports,
            _outgoing: AbortOnDropHandle::new(tokio::spawn(proxying)),
            _names: AbortOnDropHandle::new(tokio::spawn(naming)),
        }))
    }

    /// Starts a program in a container of the pod.
    pub(crate) async fn run(
        self: &Arc<Self>,
        run: Run,
        mounts: Vec<Mount>,
        hidden: Vec<PathBuf>,
    ) -> io::Result<Sandboxed> {
        let words = std::iter::once(run.program.into_os_string()).chain(run.args.into_iter().map(Into::into));
        let env = run.env.into_iter().map(|(name, value)| (name.into(), value.into()));
        let options = ContainerOptions {
            command: words.collect(),
            env: env.collect(),
            working_dir: run.working_dir,
            mounts,
            hidden,
            // As of this process: a user's own limits hold.
            limits: Limits::default(),
        };
        let mut container = self.pod.start_container(options).await?;
        let outputs = container.output();
        let outputs = outputs.map(|(out, err)| vec![Box::new(out) as Output, Box::new(err) as Output]);
        Ok(Sandboxed {
            container: Arc::new(container),
            outputs: outputs.unwrap_or_default(),
            _pod: self.clone(),
        })
    }
}

/// A program in a container with namespaces.
pub(crate) struct Sandboxed {
    container: Arc<Container>,
    outputs: Vec<Output>,
    _pod: Arc<Sandbox>,
}

impl Sandboxed {
    /// Runs commands in the container.
    pub(crate) fn commands(&self) -> Arc<dyn RunCommand> {
        Arc::new(Commands(self.container.clone()))
    }
}

#[async_trait]
impl Process for Sandboxed {
    fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn processes(&self) -> Processes {
        Processes::Below(self.container.first_process())
    }

    fn terminate(&self) {
        // A failure means that it has ended already.
        let _ = self.container.signal(Signal::TERM);
    }

    fn kill(&self) {
        self.container.kill();
    }

    async fn wait(&mut self) -> io::Result<Ended> {
        Ok(ended(self.container.wait().await))
    }
}

impl Drop for Sandboxed {
    fn drop(&mut self) {
        self.container.kill();
    }
}

fn ended(ended: cluster_sandbox::Ended) -> Ended {
    match ended {
        cluster_sandbox::Ended::Exited(code) => Ended::Exited(code),
        cluster_sandbox::Ended::Signaled(signal) => Ended::Signaled(signal),
    }
}

#[derive(Clone)]
struct Commands(Arc<Container>);

impl Commands {
    /// Starts a command. Errors: a text that names it.
    async fn exec(&self, command: Vec<String>, terminal: bool) -> Result<Exec, String> {
        let Some(first) = command.first().cloned() else {
            return Err("an empty command".to_owned());
        };
        let options = ExecOptions {
            command: command.into_iter().map(Into::into).collect(),
            terminal,
            ..ExecOptions::default()
        };
        let started = self.0.exec(options).await;
        started.map_err(|error| format!("cannot run {first}: {error}"))
    }
}

impl RunCommand for Commands {
    fn run(&self, command: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let commands = self.clone();
        Box::pin(async move {
            let first = command.first().cloned().unwrap_or_default();
            let mut exec = commands.exec(command, false).await?;
            let outputs = exec.output();
            let outputs = outputs.map(|(out, err)| vec![Box::new(out) as Output, Box::new(err) as Output]);
            let (printed, code) = tokio::join!(printed_by(outputs.unwrap_or_default()), exec.wait());
            match ended(code) {
                Ended::Exited(0) => Ok(()),
                ended => Err(failure(Path::new(&first), ended, &printed)),
            }
        })
    }

    fn start(
        &self,
        command: Vec<String>,
        streams: CommandStreams,
    ) -> BoxFuture<'static, Result<RunningCommand, String>> {
        let commands = self.clone();
        Box::pin(async move {
            let mut exec = commands.exec(command, streams.terminal).await?;
            let (input, output) = (exec.input(), exec.output());
            let lost = || "its streams are not there".to_owned();
            if streams.terminal {
                let terminal = exec.terminal().ok_or_else(lost)?;
                let size = terminal.size;
                return Ok(RunningCommand {
                    stdin: streams.stdin.then(|| Box::new(terminal.keyboard) as _),
                    stdout: Box::new(terminal.screen),
                    stderr: None,
                    // It has no terminal any more: nothing is to be set.
                    resize: Some(Box::new(move |wanted| drop(size.set(wanted.width, wanted.height)))),
                    ended: Box::pin(async move { Ok(exec.wait().await.code()) }),
                });
            }
            let (stdout, stderr) = output.ok_or_else(lost)?;
            Ok(RunningCommand {
                stdin: input.filter(|_| streams.stdin).map(|input| Box::new(input) as _),
                stdout: Box::new(stdout),
                stderr: Some(Box::new(stderr)),
                resize: None,
                ended: Box::pin(async move { Ok(exec.wait().await.code()) }),
            })
        })
    }
}
