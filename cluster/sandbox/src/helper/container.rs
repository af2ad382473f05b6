//! The helper of a container: joins the pod's namespaces, builds the root, starts the first process and waits for its
//! end. It reads one message; the next one is for the first process.

use std::os::fd::OwnedFd;
use std::process::Child;

use nix::sched::CloneFlags;

use super::{Done, Role, namespaces, next_stage, root};
use crate::wire::{BuildRoot, During, FromContainer, Step, receive_blocking, send_blocking};

pub(super) fn run(socket: &OwnedFd) -> i32 {
    let options = match receive_blocking::<BuildRoot>(socket) {
        Ok(Some((options, _))) => options,
        Ok(None) => return 0,
        Err(_) => return 2,
    };
    let mut init = match start_init(socket, &options) {
        Ok(init) => init,
        Err(error) => {
            send_blocking(socket, &FromContainer::Failed(error.into()), &[]).ok();
            return 1;
        }
    };
    send_blocking(socket, &FromContainer::Init(init.id()), &[]).ok();
    // The kernel ends all processes of the namespace before the first one is reported as ended.
    let ended = init.wait();
    i32::from(ended.is_err())
}

fn start_init(socket: &OwnedFd, options: &BuildRoot) -> Done<Child> {
    // What belongs to the host is looked up while the host's mounts are all there is.
    let plan = root::plan(options)?;
    namespaces::join(options.pod, namespaces::OF_POD).during(Step::Join)?;
    namespaces::leave_for(CloneFlags::CLONE_NEWNS).during(Step::MountNamespace)?;
    root::build(&plan)?;
    namespaces::leave_for(CloneFlags::CLONE_NEWPID).during(Step::PidNamespace)?;
    // The new root has no /proc yet.
    let own = format!("{}/proc/self/exe", root::OLD);
    next_stage(&own, Role::Init, socket)
        .and_then(|mut command| command.spawn())
        .during(Step::PidNamespace)
}
