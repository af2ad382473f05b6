//! Starting a container: its files, its command line and environment, its place in the network, its process. With
//! namespaces it finds what a container finds; without, paths are translated to where that is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cluster_node::{Binding, ContainerContext, Endpoint, RunCommand, SERVICE_ACCOUNT_FOLDER};
use cluster_sandbox::Mount;

use crate::command_line::{arguments, environment, without_in_cluster};
use crate::commands::PlainCommands;
use crate::layout::{Found, Layout};
use crate::plain::{Input, Plain};
use crate::pod::Pod;
use crate::ports::{Held, declared, loopback};
use crate::process::{Process, Run};
use crate::program::Inner;
use crate::programs::Isolation;
use crate::reload::Watched;
use crate::sandbox::{NAME_SERVER, Sandbox};
use crate::volume_folder::make_folder;
use crate::{dispositions, etc, kubeconfig, termination};

/// Where the program of a container without a mount namespace finds its mounts.
const ROOT_VARIABLE: &str = "ORANGERY_ROOT";
/// Folders that a container with namespaces has for itself: of the machine's, it sees only what its program needs.
const FRESH: [&str; 3] = ["/tmp", "/run", "/dev"];
/// The PATH of programs when this process has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A container that runs.
pub(crate) struct Launched {
    pub(crate) process: Box<dyn Process>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) watched: Watched,
    pub(crate) _listening: Listening,
    /// What the API servers hold while it runs.
    pub(crate) _served: Option<Box<dyn Send + Sync>>,
}

/// Ports of the machine, and their bindings in the pod network.
pub(crate) type Listening = Vec<(Held, Binding)>;

impl Inner {
    /// Starts a container.
    pub(crate) async fn launch(&self, context: &ContainerContext) -> io::Result<Launched> {
        dispositions::reset_for_programs();
        let uid = context.pod.metadata.uid.clone().unwrap_or_default();
        let pod = context.values.get_or_init(|| Pod::new(self.shared.folder.join(uid)));
        let helper = match &self.shared.isolation {
            Isolation::Namespaces { helper } if !is_on_host(context) => Some(helper.as_path()),
            _ => None,
        };
        let found = if helper.is_some() {
            Found::Mounted {
                shared_port: self.shared.servers.port(),
            }
        } else {
            Found::Linked
        };
        let layout = Arc::new(Layout::new(
            pod.clone(),
            context.pod.clone(),
            &context.container,
            context.files.clone(),
            found,
        ));
        termination::make(&layout.own(&context.container.name))?;
        write(&layout, &context.container.name).await?;
        let program = self.program().map_err(io::Error::other)?;
        let watched = self.watched(&program);
        let (process, listening) = match helper {
            Some(helper) => (
                self.with_namespaces(context, program, &layout, (&pod, helper)).await?,
                Vec::new(),
            ),
            None => self.without_namespaces(context, program, &layout)?,
        };
        Ok(Launched {
            process,
            layout,
            watched,
            _listening: listening,
            _served: self.shared.servers.started(context),
        })
    }

    /// The program, and what else of its command is a file: a script that an interpreter runs.
    fn watched(&self, program: &Path) -> Watched {
        let more = self.mapping.command[1..].iter().map(PathBuf::from);
        let more = more.filter(|path| path.is_absolute() && path.is_file());
        Watched::new(std::iter::once(program.to_owned()).chain(more), &self.mapping.built)
    }

    async fn with_namespaces(
        &self,
        context: &ContainerContext,
        program: PathBuf,
        layout: &Layout,
        (pod, helper): (&Pod, &Path),
    ) -> io::Result<Box<dyn Process>> {
        let hostname = etc::hostname(&context.pod);
        let machine = [("HOSTNAME", hostname.as_str()), ("HOME", "/tmp")];
        let env = environment(machine_variables(&machine), &self.mapping, &context.env);
        let run = self.run_of(context, program, layout, env);
        let mut mounts = self.exposed(&run);
        mounts.extend(etc_files(context, pod)?);
        let placed = layout.placed().iter();
        mounts.extend(placed.map(|placed| Mount {
            source: placed.root.clone(),
            sub_path: placed.sub_path.clone(),
            path: PathBuf::from(&placed.path),
            writable: placed.writable,
        }));
        let mut made = pod.sandbox.lock().await;
        let sandbox = match made.as_ref() {
            Some(sandbox) => sandbox.clone(),
            None => {
                let sandbox = Sandbox::start(helper, context, hostname, self.shared.servers.clone()).await?;
                made.insert(sandbox).clone()
            }
        };
        let started = sandbox.run(run, mounts, self.shared.hidden.clone()).await;
        if started.is_err() {
            // If its namespaces are gone, the next attempt makes others.
            *made = None;
        }
        let process = started?;
        context.commands.offer(process.commands());
        Ok(Box::new(process))
    }

    /// What the program needs from folders of this machine that a container has for itself or sees empty.
    fn exposed(&self, run: &Run) -> Vec<Mount> {
        let covered = |path: &Path| {
            let hidden = self.shared.hidden.iter().any(|hidden| path.starts_with(hidden));
            hidden || FRESH.iter().any(|fresh| path.starts_with(fresh))
        };
        let folders = run
            .program
            .parent()
            .into_iter()
            .chain([self.home.as_path(), run.working_dir.as_path()]);
        let is_fresh = |path: &Path| FRESH.iter().any(|fresh| path == Path::new(fresh));
        let mut folders: Vec<&Path> = folders
            // The folder itself stays the container's own, to write in; of its files only the program is shown.
            .map(|folder| {
                if is_fresh(folder) {
                    run.program.as_path()
                } else {
                    folder
                }
            })
            .filter(|path| covered(path) && path.exists())
            .collect();
        folders.sort_unstable();
        folders.dedup();
        let mounts = folders.into_iter().map(|folder| Mount {
            source: folder.to_owned(),
            sub_path: PathBuf::new(),
            path: folder.to_owned(),
            writable: false,
        });
        mounts.collect()
    }

    fn without_namespaces(
        &self,
        context: &ContainerContext,
        program: PathBuf,
        layout: &Arc<Layout>,
    ) -> io::Result<(Box<dyn Process>, Listening)> {
        let own = layout.own(&context.container.name);
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let (hostname, tmp, root) = (
            etc::hostname(&context.pod),
            text(own.join("tmp")),
            text(own.join("root")),
        );
        let machine = [
            ("HOSTNAME", hostname.as_str()),
            ("HOME", tmp.as_str()),
            ("TMPDIR", tmp.as_str()),
            (ROOT_VARIABLE, root.as_str()),
        ];
        let mut env = environment(machine_variables(&machine), &self.mapping, &context.env);
        without_in_cluster(&mut env, &context.container);
        let token = layout.translation().path(&format!("{SERVICE_ACCOUNT_FOLDER}/token"));
        if let (Some(token), Ok(kubeconfig), false) = (token, context.kubeconfig(), env.contains_key("KUBECONFIG"))
            && let Some(content) = kubeconfig::own(kubeconfig, token)
        {
            let path = own.join("kubeconfig");
            fs::write(&path, content)?;
            env.insert("KUBECONFIG".to_owned(), text(path));
        }
        let run = self.run_of(context, program, layout, env);
        let listening = self.listen(context);
        let guardian = &self.shared.guardian;
        let process = Plain::start(&run, guardian.clone(), Input::Empty)?;
        let commands = PlainCommands::new(run, layout.clone(), guardian.clone());
        context.commands.offer(Arc::new(commands) as Arc<dyn RunCommand>);
        Ok((Box::new(process), listening))
    }

    fn run_of(
        &self,
        context: &ContainerContext,
        program: PathBuf,
        layout: &Layout,
        env: BTreeMap<String, String>,
    ) -> Run {
        let translation = layout.translation();
        let mapped = self.mapping.command[1..].iter().cloned();
        let own = arguments(&self.mapping, &context.container, &context.args);
        let own = own.iter().map(|word| translation.word(word));
        let wanted = context.container.working_dir.as_deref();
        let mounted = wanted.filter(|wanted| {
            let within = |mount: &str| Path::new(wanted).starts_with(mount);
            layout.placed().iter().any(|placed| within(&placed.path))
        });
        let mounted = mounted.map(|folder| PathBuf::from(translation.word(folder)));
        let working_dir = self.mapping.working_dir.clone().or(mounted);
        Run {
            program,
            args: mapped.chain(own).collect(),
            env: env
                .into_iter()
                .map(|(name, value)| (name, translation.word(&value)))
                .collect(),
            working_dir: working_dir.unwrap_or_else(|| self.home.clone()),
        }
    }

    /// Binds the container's ports to those of loopback, where its program will listen.
    fn listen(&self, context: &ContainerContext) -> Listening {
        let meta = &context.pod.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let container = &context.container.name;
        let who = format!(
            "container {container} of pod {}/{}",
            text(&meta.namespace),
            text(&meta.name)
        );
        let mut listening = Vec::new();
        for port in declared(&context.container) {
            match self.shared.ports.take(port, &who) {
                Ok(held) => {
                    // A container of the pod in this process may listen there.
                    if let Ok(binding) = context.network.bind(port, Endpoint::Bytes(loopback(port))) {
                        listening.push((held, binding));
                    }
                }
                Err(holder) => context.warn(
                    "PortTaken",
                    format!(
                        "port {port} is taken by {holder}: programs share the ports of this machine, because it gives pods \
                         no network of their own; let one of the two listen elsewhere"
                    ),
                ),
            }
        }
        listening
    }
}

/// Writes the mounts of a container, on a thread for blocking work.
pub(crate) async fn write(layout: &Arc<Layout>, container: &str) -> io::Result<()> {
    let (layout, own) = (layout.clone(), layout.own(container));
    let written = tokio::task::spawn_blocking(move || {
        layout.write()?;
        if layout.found() == Found::Linked {
            make_folder(&own.join("tmp"))?;
            layout.link_below(&own.join("root"))?;
        }
        Ok(())
    });
    written.await.map_err(io::Error::other)?
}

/// The files of /etc (see `etc`), except those at whose paths the pod mounts something itself.
fn etc_files(context: &ContainerContext, pod: &Pod) -> io::Result<Vec<Mount>> {
    let folder = pod.etc();
    make_folder(&folder)?;
    let object = &context.pod;
    let files = [
        ("hosts", etc::hosts(object, context.network.pod_ip())),
        ("resolv.conf", etc::resolv_conf(object, NAME_SERVER)),
        ("hostname", format!("{}\n", etc::hostname(object))),
    ];
    let mut mounts = Vec::new();
    for (name, text) in files {
        let (source, path) = (folder.join(name), Path::new("/etc").join(name));
        if context
            .files
            .mounts()
            .iter()
            .any(|mount| Path::new(mount.path()) == path)
        {
            continue;
        }
        // In place: a file that is mounted alone stays the file it was.
        fs::write(&source, text)?;
        mounts.push(Mount {
            source,
            sub_path: PathBuf::new(),
            path,
            writable: false,
        });
    }
    Ok(mounts)
}

/// Whether a pod requests the network of its node, which is this machine's.
fn is_on_host(context: &ContainerContext) -> bool {
    let spec = context.pod.spec.as_ref();
    spec.and_then(|spec| spec.host_network) == Some(true)
}

/// The variables that every program here has, and these.
fn machine_variables(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned());
    let more = more
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    std::iter::once(("PATH".to_owned(), path)).chain(more).collect()
}
