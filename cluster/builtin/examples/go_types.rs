//! Makes `cluster/builtin/data/go_types.json.gz`: what the OpenAPI documents leave out of Kubernetes' types, taken from
//! their declarations in Go: the order of fields, how Go calls their types, and which are left out when they are empty.
//! Arguments: the folder that holds the modules of `k8s.io` (`$GOMODCACHE/k8s.io`), the version that they have
//! (`0.35.4`), and the file to write. It runs when the tables are renewed, never as part of the product.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Modules with the folder of their types, and how the names of definitions begin that are made from them.
const PACKAGES: [(&str, &str, &str); 20] = [
    (
        "apimachinery",
        "pkg/apis/meta/v1",
        "io.k8s.apimachinery.pkg.apis.meta.v1",
    ),
    (
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
    (
        "kube-aggregator",
        "pkg/apis/apiregistration/v1",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
    ),
    ("api", "core/v1", "io.k8s.api.core.v1"),
    ("api", "admissionregistration/v1", "io.k8s.api.admissionregistration.v1"),
    ("api", "apps/v1", "io.k8s.api.apps.v1"),
    ("api", "authentication/v1", "io.k8s.api.authentication.v1"),
    ("api", "authorization/v1", "io.k8s.api.authorization.v1"),
    ("api", "autoscaling/v1", "io.k8s.api.autoscaling.v1"),
    ("api", "autoscaling/v2", "io.k8s.api.autoscaling.v2"),
    ("api", "batch/v1", "io.k8s.api.batch.v1"),
    ("api", "certificates/v1", "io.k8s.api.certificates.v1"),
    ("api", "coordination/v1", "io.k8s.api.coordination.v1"),
    ("api", "discovery/v1", "io.k8s.api.discovery.v1"),
    ("api", "events/v1", "io.k8s.api.events.v1"),
    ("api", "networking/v1", "io.k8s.api.networking.v1"),
    ("api", "node/v1", "io.k8s.api.node.v1"),
    ("api", "policy/v1", "io.k8s.api.policy.v1"),
    ("api", "rbac/v1", "io.k8s.api.rbac.v1"),
    ("api", "scheduling/v1", "io.k8s.api.scheduling.v1"),
];
/// As above, for one more.
const STORAGE: (&str, &str, &str) = ("api", "storage/v1", "io.k8s.api.storage.v1");

/// A struct: its fields in order.
type Struct = Vec<Field>;

enum Field {
    /// Name in JSON, Go's name of the type, and what stands behind the name in the tag.
    Named(String, String, String),
    /// All fields of this type.
    Inline(String),
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [modules, version, out] = arguments.as_slice() else {
        return Err("usage: go_types MODULES VERSION OUT".into());
    };
    // By package and name, as Go prints them: `v1.ServicePort` is distinguished from others of that name by its definition.
    let mut structs: BTreeMap<String, Struct> = BTreeMap::new();
    for (module, folder, prefix) in PACKAGES.into_iter().chain([STORAGE]) {
        let folder = PathBuf::from(modules).join(format!("{module}@v{version}")).join(folder);
        read_package(&folder, prefix, &mut structs)?;
    }
    let table: serde_json::Map<String, Value> = structs
        .iter()
        .map(|(name, fields)| (name.clone(), flat(name, fields, &structs).into()))
        .collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(&table)?)?;
    std::fs::write(out, encoder.finish()?)?;
    Ok(())
}

/// The fields with those of inlined types in their place.
fn flat(of: &str, fields: &Struct, structs: &BTreeMap<String, Struct>) -> Vec<Value> {
    let mut all = Vec::new();
    for field in fields {
        match field {
            Field::Named(name, go, tag) => all.push(json!([name, go, tag])),
            Field::Inline(name) => {
                let own = of.rsplit_once('.').map_or("", |(package, _)| package);
                let meta = PACKAGES[0].2;
                let found = [own, meta].into_iter().find_map(|package| {
                    let name = format!("{package}.{}", name.rsplit('.').next().unwrap_or_default());
                    structs.get(&name).map(|fields| (name, fields))
                });
                if let Some((name, fields)) = found {
                    all.extend(flat(&name, fields, structs));
                }
            }
        }
    }
    all
}

fn read_package(folder: &Path, prefix: &str, structs: &mut BTreeMap<String, Struct>) -> Outcome {
    let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_types = name.starts_with("types") && name.ends_with(".go");
        if of_types && !name.contains("swagger") && !name.ends_with("_test.go") {
            read_file(&std::fs::read_to_string(&path)?, &package, prefix, structs);
        }
    }
    Ok(())
}

fn read_file(text: &str, package: &str, prefix: &str, structs: &mut BTreeMap<String, Struct>) {
    let mut imports = BTreeMap::new();
    let mut open: Option<(String, Struct)> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some((alias, path)) = import(line) {
            imports.insert(alias.to_owned(), path.rsplit('/').next().unwrap_or_default().to_owned());
        }
        if let Some(name) = line
            .strip_prefix("type ")
            .and_then(|rest| rest.strip_suffix(" struct {"))
        {
            open = Some((format!("{prefix}.{name}"), Vec::new()));
        } else if line == "}" {
            structs.extend(open.take());
        } else if let Some((_, fields)) = &mut open {
            fields.extend(field(line, package, &imports));
        }
    }
}

/// `alias "path"` or `"path"` between the parentheses of an import.
fn import(line: &str) -> Option<(&str, &str)> {
    let (alias, path) = line.strip_suffix('"')?.split_once('"')?;
    let alias = alias.trim().trim_start_matches("import").trim();
    let plain = path.contains('/') && !path.contains(' ');
    plain.then(|| {
        (
            if alias.is_empty() {
                path.rsplit('/').next().unwrap_or_default()
            } else {
                alias
            },
            path,
        )
    })
}

fn field(line: &str, package: &str, imports: &BTreeMap<String, String>) -> Option<Field> {
    let (declared, tags) = line.split_once('`')?;
    let tag = tags.split_once("json:\"")?.1.split('"').next()?;
    let mut words = declared.split_whitespace();
    let (first, second) = (words.next()?, words.next());
    let (name, options) = tag.split_once(',').unwrap_or((tag, ""));
    if name.is_empty() {
        return Some(Field::Inline(second.unwrap_or(first).to_owned()));
    }
    let go = printed(second.unwrap_or(first), package, imports);
    Some(Field::Named(name.to_owned(), go, options.to_owned()))
}

/// A type as Go's reflection prints it.
fn printed(declared: &str, package: &str, imports: &BTreeMap<String, String>) -> String {
    if let Some(inner) = declared.strip_prefix('*') {
        return format!("*{}", printed(inner, package, imports));
    }
    if let Some(inner) = declared.strip_prefix("[]") {
        return format!("[]{}", printed(inner, package, imports));
    }
    if let Some((key, inner)) = declared.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let (key, inner) = (printed(key, package, imports), printed(inner, package, imports));
        return format!("map[{key}]{inner}");
    }
    match declared.split_once('.') {
        Some((alias, name)) => format!("{}.{name}", imports.get(alias).map_or(alias, String::as_str)),
        None if declared == "byte" => "uint8".to_owned(),
        None if declared.starts_with(char::is_lowercase) => declared.to_owned(),
        None => format!("{package}.{declared}"),
    }
}
