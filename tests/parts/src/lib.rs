//! Real programs for tests: where `cargo xtask real` keeps them, a keeper that never lets one outlive its owner, an
//! etcd to write to, a registry with a Helm that pushes to it, and a proxy before it. It needs nothing of the product.

mod answering;
mod comparing;
mod etcd;
mod folder;
mod machine;
mod program;
mod proxy;
mod registry;

pub use answering::Answering;
pub use comparing::{Comparing, ended};
pub use etcd::{Etcd, Secured, flags as etcd_flags};
pub use folder::Folder;
pub use machine::{CACHE_VARIABLE, cache_folder, folder_of_programs, free_port, memory_kib};
pub use program::{Program, fed};
pub use proxy::Proxy;
pub use registry::{Helm, Registry};

/// What cannot be done is a sentence for the person who runs the tests.
pub type Outcome<T = ()> = Result<T, String>;
