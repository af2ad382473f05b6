//! Every stored input, run through its property: the seeds of the fuzzers, and what they have found.

use std::fs;
use std::path::Path;

#[test]
fn stored_inputs_hold_their_properties() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (target, check) in tests_fuzz::TARGETS {
        for folder in ["seeds", "found"] {
            let folder = root.join(folder).join(target);
            let mut files: Vec<_> = fs::read_dir(&folder)
                .map(|files| files.map(|file| file.expect("a file").path()).collect())
                .unwrap_or_default();
            files.sort();
            assert!(
                !files.is_empty() || folder.ends_with(format!("found/{target}")),
                "no seeds of {target}"
            );
            for file in files {
                println!("{}", file.display());
                check(&fs::read(&file).expect("a file that can be read"));
            }
        }
    }
}
