//! What runs when a container has started and before it is stopped. A command can run only in a container whose image is a
//! program: an `exec` in another is left out, and an event reports it.
//! (kubernetes/kubernetes v1.35 pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/lifecycle/handlers.go)

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use tokio::time::{Instant, timeout};

use super::PodRunner;
use super::handler::Handler;
use crate::events::EventType;

/// How long a hook after the start may take: a kubelet waits for ever, and its container with it.
const POST_START_TIMEOUT: Duration = Duration::from_secs(300);

/// How the hook after the start of one run ended.
pub(super) struct PostStartEnded {
    slot: usize,
    run: u64,
    outcome: Result<(), String>,
}

impl PodRunner {
    /// The future of a hook, if it does anything. Its errors: no connection, or a failed command.
    pub(super) fn hook(
        &self,
        index: usize,
        handler: &LifecycleHandler,
    ) -> Option<impl Future<Output = Result<(), String>> + Send + use<>> {
        let pause = handler
            .sleep
            .as_ref()
            .map(|sleep| u64::try_from(sleep.seconds).unwrap_or(0));
        let http_get = handler.http_get.as_ref();
        let http_get = http_get
            .and_then(|http| Handler::http(http, &self.slots[index].container))
            .zip(self.ip());
        let run = self.slots[index].run.as_ref()?;
        let exec = handler.exec.as_ref().filter(|_| run.traits.commands);
        let command = exec.and_then(|exec| exec.command.clone());
        if pause.is_none() && http_get.is_none() && command.is_none() {
            return None;
        }
        let network = self.host.network.clone();
        let commands = run.commands.clone();
        Some(async move {
            if let Some(command) = command {
                commands.run(command).await?;
            }
            if let Some((get, ip)) = http_get {
                // Which code it answers changes nothing.
                get.reach(network, ip, commands).await?;
            }
            tokio::time::sleep(Duration::from_secs(pause.unwrap_or(0))).await;
            Ok(())
        })
    }

    /// Begins the hook after the start of a container that runs. Until it has ended, the container counts as one that is
    /// being created, and the next one waits.
    pub(super) async fn begin_post_start(&mut self, index: usize) {
        let container = &self.slots[index].container;
        let (name, handler) = (container.name.clone(), container.lifecycle.as_ref());
        let Some(handler) = handler.and_then(|lifecycle| lifecycle.post_start.clone()) else {
            return;
        };
        let hook = self.hook(index, &handler);
        let Some(run) = self.slots[index].run.as_mut() else {
            return;
        };
        let Some(hook) = hook else {
            let why = "the postStart hook was left out: containers of this node are tasks of its process, and no program \
                       runs in one";
            self.record(EventType::Warning, "PostStartHookLeftOut", Some(&name), why)
                .await;
            return;
        };
        run.in_post_start = true;
        let number = run.number;
        self.post_starts.spawn(async move {
            let outcome = timeout(POST_START_TIMEOUT, hook).await;
            PostStartEnded {
                slot: index,
                run: number,
                outcome: outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())),
            }
        });
    }

    /// Handles the end of a hook; one of a run that is over is ignored.
    pub(super) async fn post_start_ended(&mut self, ended: PostStartEnded) {
        let PostStartEnded { slot, run, outcome } = ended;
        let name = self.slots[slot].container.name.clone();
        let Some(run) = self.slots[slot].run.as_mut().filter(|own| own.number == run) else {
            return;
        };
        run.in_post_start = false;
        if let Err(why) = outcome {
            tracing::info!(pod = %self.id(), container = %name, %why, "a postStart hook failed");
            // Not what went wrong: it may name secrets.
            self.record(
                EventType::Warning,
                "FailedPostStartHook",
                Some(&name),
                "PostStartHook failed",
            )
            .await;
            let deadline = Instant::now() + self.grace();
            self.stop_run(slot, deadline, Some("FailedPostStartHook".to_owned()))
                .await;
        }
    }
}
