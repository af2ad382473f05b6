//! `orangery apiserver --envtest-assets`: a folder with links to this program under the names that envtest looks for. It
//! starts nothing.

use std::io;
use std::path::Path;

use api_meta::Fault;
use landscape_data_folder::folder::make;
use landscape_images::envtest::Program;
use landscape_terminal::Console;

/// What to do when one cannot be written to.
const ANOTHER: &str = "name a folder that you may write to with --envtest-assets";

/// Writes the programs into a folder: links to this one.
pub(crate) fn write(folder: &Path, console: &Console) -> Result<(), Fault> {
    make("the folder", folder).map_err(|fault| fault.hint(ANOTHER))?;
    let failed = |doing: &str, path: &Path, error: &io::Error| {
        Fault::user(format!("cannot {doing} {}: {error}", path.display())).hint(ANOTHER)
    };
    let ours = std::env::current_exe().map_err(|error| Fault::bug(format!("this program has no path: {error}")))?;
    for name in Program::ALL.map(Program::name) {
        let path = folder.join(name);
        match std::fs::symlink_metadata(&path) {
            // A foreign program is not ours to replace.
            Ok(found) if !found.is_symlink() => {
                return Err(
                    Fault::user(format!("there is a file {name} in {} already", folder.display()))
                        .hint("name a folder of its own with --envtest-assets"),
                );
            }
            Ok(_) => std::fs::remove_file(&path).map_err(|error| failed("replace", &path, &error))?,
            Err(_) => {}
        }
        std::os::unix::fs::symlink(&ours, &path).map_err(|error| failed("write", &path, &error))?;
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    console.print(&format!(
        "export KUBEBUILDER_ASSETS={}; each suite of envtest gets a Kubernetes of its own, in memory",
        folder.display()
    ));
    Ok(())
}
