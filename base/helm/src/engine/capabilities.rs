//! What a cluster can do, as far as templates read it: `.Capabilities`. `pkg/chart/common/capabilities.go` of Helm 4.1.

use std::sync::Arc;

use base_gotemplate::{Fault, Function, List, Object, Type, Value};
use base_yaml::go;

/// The version of Kubernetes that Helm 4.1.4 assumes without a cluster.
const KUBE_VERSION: &str = "v1.35.0";
/// The version that Helm 4.1.4 reports.
const HELM_VERSION: &str = "v4.1";
const KUBE_CLIENT_VERSION: &str = "v1.35";
/// The longest version, far longer than any real one.
const VERSION_BYTES_MAX: usize = 256;
/// How many numbers a version has at least.
const NUMBERS_MIN: usize = 2;

/// The versions of APIs that Helm 4.1.4 assumes without a cluster: those of client-go 0.35 and of apiextensions.
#[rustfmt::skip]
pub const API_VERSIONS: [&str; 57] = [
    "v1", "admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1", "internal.apiserver.k8s.io/v1alpha1", "apps/v1", "apps/v1beta1",
    "apps/v1beta2", "authentication.k8s.io/v1", "authentication.k8s.io/v1alpha1", "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1", "authorization.k8s.io/v1beta1", "autoscaling/v1", "autoscaling/v2",
    "autoscaling/v2beta1", "autoscaling/v2beta2", "batch/v1", "batch/v1beta1", "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1", "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1", "events.k8s.io/v1beta1", "extensions/v1beta1", "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1", "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3", "networking.k8s.io/v1", "networking.k8s.io/v1beta1", "node.k8s.io/v1",
    "node.k8s.io/v1alpha1", "node.k8s.io/v1beta1", "policy/v1", "policy/v1beta1", "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1", "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha1",
    "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1", "storage.k8s.io/v1beta1", "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1", "storagemigration.k8s.io/v1beta1", "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// A text that is no version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid kube version '{version}': {why}")]
pub struct KubeVersionError {
    version: String,
    why: String,
}

/// A version of Kubernetes: `.Capabilities.KubeVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// As the cluster reports it, with a `v`: `v1.33.4-gke.1245000`
    version: String,
    /// Its numbers alone, which charts compare: `v1.33.4`
    numbers: String,
    major: String,
    minor: String,
}

impl KubeVersion {
    /// From what a cluster reports or a person gives: at least two numbers, whatever comes behind them.
    /// `ParseKubeVersion` of Helm.
    ///
    /// # Errors
    /// There are no two numbers.
    pub fn read(version: &str) -> Result<Self, KubeVersionError> {
        let refused = |why: String| {
            let version = version.chars().take(VERSION_BYTES_MAX).collect();
            KubeVersionError { version, why }
        };
        if version.len() > VERSION_BYTES_MAX {
            return Err(refused(format!("it is longer than {VERSION_BYTES_MAX} bytes")));
        }
        let shown = go::quoted(version);
        let blanks = ['\t', '\n', '\x0C', '\r', ' '];
        let text = version.trim_start_matches(blanks);
        let text = text.strip_prefix('v').unwrap_or(text);
        if !text.starts_with(|first: char| first.is_ascii_digit()) || text.contains('\n') {
            return Err(refused(format!("could not parse {shown} as version")));
        }
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
        // What is not a number ends the numbers.
        let parts = text[..end.unwrap_or(text.len())].split('.');
        let parts: Vec<&str> = parts.take_while(|part| !part.is_empty()).collect();
        if parts.len() < NUMBERS_MIN {
            return Err(refused(format!("illegal version string {shown}")));
        }
        let mut numbers = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let named = go::quoted(part);
            if at == 0 && part.len() > 1 && part.starts_with('0') {
                let why = format!("illegal zero-prefixed version component {named} in {shown}");
                return Err(refused(why));
            }
            numbers.push(part.parse::<u64>().map_err(|_| {
                refused(format!(
                    "illegal non-numeric version component {named} in {shown}: strconv.ParseUint: parsing {named}: value out of range"
                ))
            })?);
        }
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let prefix = if version.starts_with('v') { "" } else { "v" };
        Ok(Self {
            version: format!("{prefix}{version}"),
            numbers: format!("v{}", numbers.join(".")),
            major: numbers[0].clone(),
            minor: numbers[1].clone(),
        })
    }

    fn object(self, has_methods: bool) -> Arc<dyn Object> {
        Arc::new(KubeVersionObject {
            version: self,
            has_methods,
        })
    }

    /// As the cluster reports it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its numbers alone.
    pub fn numbers(&self) -> &str {
        &self.numbers
    }
}

/// `.Capabilities.KubeVersion`: it has the methods of a pointer until it is passed to a function.
#[derive(Debug)]
struct KubeVersionObject {
    version: KubeVersion,
    has_methods: bool,
}

impl Object for KubeVersionObject {
    fn type_name(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        let version = match name {
            _ if !self.has_methods => return None,
            "String" => &self.version.numbers,
            "GitVersion" => &self.version.version,
            _ => return None,
        };
        let version = Value::from(version.as_str());
        Some(Arc::new(Function::new(name, [], move |_, _| Ok(version.clone()))))
    }

    fn field(&self, name: &str) -> Option<Value> {
        let exported = ["Version", "Major", "Minor"].contains(&name);
        exported.then(|| field_of(self, name))?
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let KubeVersion {
            version,
            numbers,
            major,
            minor,
        } = &self.version;
        vec![
            ("Version", version.as_str().into()),
            ("normalizedVersion", numbers.as_str().into()),
            ("Major", major.as_str().into()),
            ("Minor", minor.as_str().into()),
        ]
    }

    fn text(&self) -> Option<String> {
        self.has_methods.then(|| self.version.numbers.clone())
    }

    fn passed(&self) -> Option<Arc<dyn Object>> {
        let version = self.version.clone();
        self.has_methods.then(|| version.object(false))
    }
}

/// A field by its name.
fn field_of(object: &impl Object, name: &str) -> Option<Value> {
    let found = object.fields().into_iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value)
}

/// `.Capabilities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The cluster's version
    pub kube_version: KubeVersion,
    /// Versions of APIs that it serves, `apps/v1`, and kinds of them, `apps/v1/Deployment`
    pub api_versions: Vec<String>,
}

impl Default for Capabilities {
    /// What Helm 4.1.4 assumes without a cluster.
    fn default() -> Self {
        Self {
            kube_version: KubeVersion::read(KUBE_VERSION).expect("the constant is a version"),
            api_versions: API_VERSIONS.map(str::to_owned).into(),
        }
    }
}

impl Object for Capabilities {
    fn type_name(&self) -> &'static str {
        "*common.Capabilities"
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        let copy: Arc<dyn Object> = Arc::new(self.clone());
        (name == "Copy").then(|| {
            Arc::new(Function::new(name, [], move |_, _| {
                Ok(Value::Object(Arc::clone(&copy)))
            }))
        })
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::Object(match name {
            "KubeVersion" => self.kube_version.clone().object(true),
            "APIVersions" => Arc::new(VersionSet(self.api_versions.clone())),
            "HelmVersion" => Arc::new(HelmVersion),
            _ => return None,
        }))
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let names = ["KubeVersion", "APIVersions", "HelmVersion"];
        // A field that is printed was passed.
        let shown = |value| match value {
            Value::Object(object) => Value::Object(object.passed().unwrap_or(object)),
            other => other,
        };
        let fields = names.into_iter();
        fields
            .filter_map(|name| Some((name, shown(self.field(name)?))))
            .collect()
    }
}

/// `.Capabilities.APIVersions`.
#[derive(Debug)]
struct VersionSet(Vec<String>);

impl Object for VersionSet {
    fn type_name(&self) -> &'static str {
        "common.VersionSet"
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        if name != "Has" {
            return None;
        }
        let versions = self.0.clone();
        Some(Arc::new(Function::new(name, [Type::Str], move |_, args| match args {
            [Value::Str(wanted)] => Ok(versions.iter().any(|known| known.as_bytes() == wanted.bytes()).into()),
            _ => Err(Fault::from("no version is named")),
        })))
    }

    fn underlying(&self) -> Option<Value> {
        let versions = self.0.iter().map(|version| Value::from(version.as_str()));
        Some(Value::List(List::new(Type::Str, versions.collect())))
    }
}

/// `.Capabilities.HelmVersion`. The fields that distinguish builds of Helm are empty.
#[derive(Debug)]
struct HelmVersion;

impl Object for HelmVersion {
    fn type_name(&self) -> &'static str {
        "version.BuildInfo"
    }

    fn field(&self, name: &str) -> Option<Value> {
        field_of(self, name)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Version", HELM_VERSION.into()),
            ("GitCommit", "".into()),
            ("GitTreeState", "".into()),
            ("GoVersion", "".into()),
            ("KubeClientVersion", KUBE_CLIENT_VERSION.into()),
        ]
    }
}
