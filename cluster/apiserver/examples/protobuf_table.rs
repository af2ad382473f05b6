//! Makes `data/protobuf.json.gz`, the field numbers of Kubernetes' built-in kinds, from the Go modules `k8s.io/api`,
//! `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver` and `k8s.io/kube-aggregator`: types and numbers from their
//! `generated.proto`; JSON names, embedding, pointers and what is written though it is zero from their `types.go`. Run with
//! the four folders as arguments (`go mod download -json k8s.io/api@v0.35.4` names one).
#![expect(clippy::expect_used, clippy::print_stdout, reason = "a developer's program")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Group folders of `k8s.io/api` whose kinds are served; the newest stable versions alone.
const GROUPS: [&str; 19] = [
    "admissionregistration/v1",
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates/v1",
    "coordination/v1",
    "core/v1",
    "discovery/v1",
    "events/v1",
    "networking/v1",
    "node/v1",
    "policy/v1",
    "rbac/v1",
    "scheduling/v1",
    "storage/v1",
    "storage/v1beta1",
];

/// What a Go struct says about a protobuf field.
struct Tag {
    json: String,
    inline: bool,
    pointer: bool,
    omitted: bool,
}

fn main() {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let [api, machinery, extensions, aggregator] = folders.as_slice() else {
        println!("usage: protobuf_table FOLDER_OF_{{API,APIMACHINERY,APIEXTENSIONS_APISERVER,KUBE_AGGREGATOR}}");
        return;
    };
    let mut messages = BTreeMap::new();
    for group in GROUPS {
        let package = format!("api.{}", group.replace('/', "."));
        read(&Path::new(api).join(group), &package, &mut messages);
    }
    read(
        &Path::new(machinery).join("pkg/apis/meta/v1"),
        "apimachinery.pkg.apis.meta.v1",
        &mut messages,
    );
    // Under the names that their kinds would have in `k8s.io/api`, so that a kind's group and version name its message.
    let extensions = Path::new(extensions).join("pkg/apis/apiextensions/v1");
    read(&extensions, "api.apiextensions.v1", &mut messages);
    let aggregator = Path::new(aggregator).join("pkg/apis/apiregistration/v1");
    read(&aggregator, "api.apiregistration.v1", &mut messages);
    let text = serde_json::to_vec(&messages).expect("a map of texts prints");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/protobuf.json.gz");
    let file = std::fs::File::create(path).expect("the data folder is there");
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    packed.write_all(&text).expect("the file can be written");
    packed.finish().expect("the file can be written");
    println!("{} messages, {} bytes", messages.len(), text.len());
}

type Messages = BTreeMap<String, BTreeMap<u32, String>>;

fn read(folder: &Path, package: &str, messages: &mut Messages) {
    let tags = tags(folder);
    let proto = std::fs::read_to_string(folder.join("generated.proto")).expect("the folder has a generated.proto");
    let mut message: Option<String> = None;
    for line in proto.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), &message) {
            (["message", name, "{"], _) => {
                message = Some((*name).to_owned());
                messages.entry(format!("{package}.{name}")).or_default();
            }
            (["}"], _) => message = None,
            (["optional" | "repeated" | "map<string,", ..], Some(name)) => {
                if let Some((number, field)) = field(&words, package, name, &tags) {
                    messages
                        .entry(format!("{package}.{name}"))
                        .or_default()
                        .insert(number, field);
                }
            }
            _ => {}
        }
    }
}

/// `[` list, `{` map, `_` embedded, `*` zero is a value, `!` printed by Go even when no one set it; then the JSON name and
/// the type.
fn field(words: &[&str], package: &str, message: &str, tags: &BTreeMap<(String, u32), Tag>) -> Option<(u32, String)> {
    let [label, type_, name, "=", number] = words else {
        return None;
    };
    let number: u32 = number.trim_end_matches(';').parse().ok()?;
    let type_ = type_.trim_end_matches('>');
    let scalar = matches!(
        type_,
        "string" | "bytes" | "bool" | "int32" | "int64" | "uint32" | "uint64" | "double"
    );
    let type_ = match type_.strip_prefix(".k8s.io.") {
        Some(absolute) => absolute.to_owned(),
        None if scalar => type_.to_owned(),
        None => format!("{package}.{type_}"),
    };
    let tag = tags.get(&(message.to_owned(), number));
    let mark = match (*label, tag) {
        ("repeated", _) => "[",
        ("map<string,", _) => "{",
        (_, Some(tag)) if tag.inline => "_",
        (_, Some(tag)) if tag.pointer => "*",
        (_, Some(tag)) if scalar && !tag.omitted => "!",
        _ => "",
    };
    let json = tag.map_or(*name, |tag| if tag.json.is_empty() { *name } else { &tag.json });
    Some((number, format!("{mark}{json} {type_}")))
}

fn tags(folder: &Path) -> BTreeMap<(String, u32), Tag> {
    let mut tags = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.starts_with("types") || !name.ends_with(".go") {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).expect("the file can be read");
        let mut message = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["type", name, "struct", "{"] = words.as_slice() {
                (*name).clone_into(&mut message);
            }
            let (Some(json), Some(proto)) = (quoted(line, "json:\""), quoted(line, "protobuf:\"")) else {
                continue;
            };
            let Some(number) = proto.split(',').nth(1).and_then(|number| number.parse().ok()) else {
                continue;
            };
            let pointer = words.get(1).is_some_and(|type_| type_.starts_with('*'));
            let inline = json.contains(",inline");
            let omitted = json.contains(",omitempty") || json.contains(",omitzero");
            let json = json.split(',').next().unwrap_or_default().to_owned();
            let tag = Tag {
                json,
                inline,
                pointer,
                omitted,
            };
            tags.insert((message.clone(), number), tag);
        }
    }
    tags
}

fn quoted<'a>(line: &'a str, open: &str) -> Option<&'a str> {
    line.split_once(open)?.1.split('"').next()
}
