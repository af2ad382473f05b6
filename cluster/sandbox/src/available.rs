//! Whether pods may have namespaces here, found out by making one.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::helper::{self, Role, TRIAL_CODE};
use crate::{ContainerOptions, Ended, Missing, Mount, Pod, PodOptions};

/// Settings of distributions that forbid ordinary users to make namespaces, and the value that allows it.
const SWITCHES: [(&str, &str); 2] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ("kernel.unprivileged_userns_clone", "1"),
];

/// Whether pods may have namespaces here; tried once per process, with this program as the helper.
///
/// # Errors
/// What is missing, and one thing to do.
pub fn available() -> Result<(), Missing> {
    static KNOWN: OnceLock<Result<(), Missing>> = OnceLock::new();
    KNOWN
        .get_or_init(|| available_with(Path::new("/proc/self/exe")))
        .clone()
}

/// As [`available`], with another program as the helper, and tried each time.
///
/// # Errors
/// What is missing, and one thing to do.
pub fn available_with(program: &Path) -> Result<(), Missing> {
    let program = program.to_owned();
    // A thread of its own: the caller may be inside a runtime or not.
    let tried = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(try_once(&program))
    })
    .join()
    .unwrap_or_else(|_| Err(io::Error::other("the attempt panicked")));
    tried.map_err(|error| {
        Missing(explain(&error, &|name| {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
        }))
    })
}

async fn try_once(program: &Path) -> io::Result<()> {
    let options = PodOptions {
        hostname: "trial".to_owned(),
        address: Ipv4Addr::new(10, 0, 0, 1),
        dns: Some(Ipv4Addr::new(10, 0, 0, 2)),
        redirected_loopback_port: Some(6443),
    };
    let pod = Pod::start(program, options).await?;
    let path = PathBuf::from("/.trial");
    let container = pod
        .start_container(ContainerOptions {
            command: helper::arguments(&path, Role::Trial),
            mounts: vec![Mount {
                source: std::fs::canonicalize(program)?,
                sub_path: PathBuf::new(),
                path,
                writable: false,
            }],
            ..ContainerOptions::default()
        })
        .await?;
    match container.wait().await {
        Ended::Exited(TRIAL_CODE) => Ok(()),
        other => Err(io::Error::other(format!("a first program ended with {}", other.code()))),
    }
}

/// One sentence with one thing to do.
fn explain(error: &io::Error, switch: &dyn Fn(&str) -> Option<String>) -> String {
    for (name, wanted) in SWITCHES {
        if switch(name).is_some_and(|value| value != wanted) {
            return format!("pods cannot have namespaces ({error}): run `sudo sysctl -w {name}={wanted}`");
        }
    }
    let todo = if switch("user.max_user_namespaces").as_deref() == Some("0") {
        "run `sudo sysctl -w user.max_user_namespaces=10000`"
    } else if error.to_string().contains("nf_tables") {
        "load the kernel module nft_redir, or use a kernel that has it"
    } else {
        "run outside of a container, or in one that may make user namespaces and mounts"
    };
    format!("pods cannot have namespaces ({error}): {todo}")
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn the_reason_names_the_switch_of_the_distribution() {
        let error = std::io::Error::other("cannot mount a volume: refused");
        let ubuntu = |name: &str| name.starts_with("kernel.apparmor").then(|| "1".to_owned());
        assert_eq!(
            explain(&error, &ubuntu),
            "pods cannot have namespaces (cannot mount a volume: refused): \
             run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
        );
        assert!(explain(&error, &|_| None).ends_with("user namespaces and mounts"));
        let none = |name: &str| (name == "user.max_user_namespaces").then(|| "0".to_owned());
        assert!(explain(&error, &none).contains("max_user_namespaces=10000"));
    }
}
