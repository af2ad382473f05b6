//! Makes `cluster/builtin/data/go_internal.json.gz`: types by which kube-apiserver holds objects itself, as far as messages show
//! them, from their declarations in Go: fields in their order, with their types. Arguments: the folder that holds the modules
//! of `k8s.io` (`$GOMODCACHE/k8s.io`), the version that they have (`35.4`), and the file to write. It runs when the tables are
//! renewed, never as part of the product.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

/// What is printed, by the module and folder that declare it; what they do not lead to is left out.
const WANTED: [(&str, &str, &[&str]); 5] = [
    (
        "kubernetes@v1.",
        "pkg/apis/core",
        &["PersistentVolumeClaimSpec", "PodSpec", "Taint"],
    ),
    ("kubernetes@v1.", "pkg/apis/apps", &["RollingUpdateStatefulSetStrategy"]),
    ("kubernetes@v1.", "pkg/apis/policy", &["PodDisruptionBudgetSpec"]),
    ("kubernetes@v1.", "pkg/apis/rbac", &["RoleRef"]),
    (
        "apiextensions-apiserver@v0.",
        "pkg/apis/apiextensions",
        &["CustomResourceDefinitionVersion"],
    ),
];

type Struct = Vec<(String, String)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [modules, version, out] = arguments.as_slice() else {
        return Err("usage: go_internal MODULES VERSION OUT".into());
    };
    let (mut structs, mut others) = (BTreeMap::new(), BTreeMap::new());
    for (module, folder, wanted) in WANTED {
        let module = Path::new(modules).join(format!("{module}{version}"));
        let source = module.join(folder).join("types.go");
        let (declared, renamed) = read(&std::fs::read_to_string(source)?);
        let mut reached = BTreeSet::new();
        let mut next: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        while let Some(name) = next.pop() {
            if reached.insert(name.clone()) {
                let fields = declared
                    .get(&name)
                    .into_iter()
                    .flatten()
                    .map(|(_, type_name)| type_name);
                next.extend(
                    fields
                        .chain(renamed.get(&name))
                        .map(|type_name| bare(type_name).to_owned()),
                );
            }
        }
        structs.extend(declared.into_iter().filter(|(name, _)| reached.contains(name)));
        others.extend(renamed.into_iter().filter(|(name, _)| reached.contains(name)));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(&json!({"structs": structs, "others": others}))?)?;
    std::fs::write(out, encoder.finish()?)?;
    Ok(())
}

/// The type of what a pointer, list or map holds.
fn bare(type_name: &str) -> &str {
    type_name.rsplit(['*', ']']).next().unwrap_or_default()
}

fn read(text: &str) -> (BTreeMap<String, Struct>, BTreeMap<String, String>) {
    let (mut structs, mut others) = (BTreeMap::new(), BTreeMap::new());
    let mut open: Option<(String, Struct)> = None;
    for line in text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
    {
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('`'))
            .collect();
        match (words.as_slice(), &mut open) {
            (["type", name, "struct", "{"], None) => open = Some(((*name).to_owned(), Vec::new())),
            (["type", name, other], None) => drop(others.insert((*name).to_owned(), (*other).to_owned())),
            (["}"], Some(_)) => structs.extend(open.take()),
            ([embedded], Some((_, fields))) => fields.push((String::new(), (*embedded).to_owned())),
            ([name, type_name], Some((_, fields))) => fields.push(((*name).to_owned(), (*type_name).to_owned())),
            _ => {}
        }
    }
    (structs, others)
}
