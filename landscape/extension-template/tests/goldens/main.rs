//! The goldens as modules: the compiler reads each, their tests run, and rustfmt holds them to our form. They stand apart from
//! the test that writes them: `cargo test -p landscape-extension-template --test extension-template` writes them also where
//! those that are there do not compile. The functions `main` and what only they need are never called.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(unreachable_pub, reason = "an extension is a program of its own")]
#![expect(
    clippy::duplicate_mod,
    reason = "a generated test reads the file that its program reads"
)]

#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/all/src/main.rs"]
mod all_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/backupbucket/src/main.rs"]
mod backupbucket_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/backupentry/src/main.rs"]
mod backupentry_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/bastion/src/main.rs"]
mod bastion_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/containerruntime/src/main.rs"]
mod containerruntime_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/controlplane/src/main.rs"]
mod controlplane_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/dnsrecord/src/main.rs"]
mod dnsrecord_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/extension/src/main.rs"]
mod extension_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/infrastructure/src/main.rs"]
mod infrastructure_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/network/src/main.rs"]
mod network_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/operatingsystemconfig/src/main.rs"]
mod operatingsystemconfig_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/selfhostedshootexposure/src/main.rs"]
mod selfhostedshootexposure_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/webhook-backup/src/main.rs"]
mod webhook_backup_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/webhook-extension/src/main.rs"]
mod webhook_extension_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/webhook-network/src/main.rs"]
mod webhook_network_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/webhook-provider/src/main.rs"]
mod webhook_provider_program;
#[expect(dead_code, reason = "main is not called")]
#[path = "../golden/worker/src/main.rs"]
mod worker_program;

#[path = "../golden/backupbucket/tests/backup_bucket.rs"]
mod backupbucket_test;
#[path = "../golden/backupentry/tests/backup_entry.rs"]
mod backupentry_test;
#[path = "../golden/bastion/tests/bastion.rs"]
mod bastion_test;
#[path = "../golden/containerruntime/tests/container_runtime.rs"]
mod containerruntime_test;
#[path = "../golden/controlplane/tests/control_plane.rs"]
mod controlplane_test;
#[path = "../golden/dnsrecord/tests/dns_record.rs"]
mod dnsrecord_test;
#[path = "../golden/extension/tests/extension.rs"]
mod extension_test;
#[path = "../golden/infrastructure/tests/infrastructure.rs"]
mod infrastructure_test;
#[path = "../golden/network/tests/network.rs"]
mod network_test;
#[path = "../golden/operatingsystemconfig/tests/operating_system_config.rs"]
mod operatingsystemconfig_test;
#[path = "../golden/selfhostedshootexposure/tests/self_hosted_shoot_exposure.rs"]
mod selfhostedshootexposure_test;
#[path = "../golden/worker/tests/worker.rs"]
mod worker_test;
