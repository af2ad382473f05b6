//! Every input that is kept, run through its property: the seeds of the fuzzers, and what they have found.

use std::fs;
use std::path::Path;

#[test]
fn what_is_kept_breaks_nothing() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (target, check) in tests_fuzz::TARGETS {
        for folder in ["seeds", "found"] {
            let folder = kept.join(folder).join(target);
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
