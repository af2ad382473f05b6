//! What `kubectl get` prints: columns and cells of objects, as kube-apiserver v1.35 prints them
//! (pkg/printers/internalversion/printers.go), and columns by JSON path as custom resources declare them.
//!
//! Pure: never reads a clock (the time is an argument) and never fails: a field that is missing or of the wrong type
//! prints as kube-apiserver prints an empty one.

mod access;
mod cell;
mod cluster;
mod custom;
mod description;
mod duration;
mod network;
mod path;
mod pods;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use custom::CustomColumn;
pub use duration::human_duration;
pub use path::{JsonPath, PathError};

/// Heading of a column; serialises as `TableColumnDefinition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading; kubectl prints it in capitals.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `name` for the column that identifies the row, else usually empty.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
}

impl Column {
    pub(crate) fn new(name: &str, type_: &str, priority: i32) -> Self {
        let format = if name == "Name" && priority == 0 { "name" } else { "" };
        Self {
            name: name.to_owned(),
            type_: type_.to_owned(),
            format: format.to_owned(),
            description: description::common(name).to_owned(),
            priority,
        }
    }

    /// The same, as it is described for a resource: `deployments.apps`.
    fn of_resource(mut self, resource: &str) -> Self {
        description::of(resource, &self.name).clone_into(&mut self.description);
        self
    }
}

/// Cells of one object, in the order of the columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cells: text, numbers, booleans or null.
    pub cells: Vec<Value>,
    /// Conditions of the row: `Completed` for pods that ended; each serialises as `TableRowCondition`.
    pub conditions: Vec<Value>,
}

/// Prints the objects of one kind.
#[derive(Clone, Debug)]
pub struct Printer {
    columns: Vec<Column>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Builtin(fn(&Value, Timestamp) -> Vec<Value>),
    Custom(Vec<custom::Cell>),
}

/// A built-in printer: columns as `(name, type, priority)` and what fills them.
pub(crate) struct Builtin {
    pub(crate) columns: &'static [(&'static str, &'static str, i32)],
    pub(crate) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Printer {
    /// The printer of a kind of Kubernetes itself, by API group (empty for the core) and plural. For kinds without one: `None`.
    pub fn builtin(group: &str, resource: &str) -> Option<Self> {
        let found = match group {
            "" => pods::printer(resource)
                .or_else(|| cluster::core_printer(resource))
                .or_else(|| network::core_printer(resource))
                .or_else(|| storage::core_printer(resource)),
            "apps" | "batch" | "policy" => workloads::printer(group, resource),
            "discovery.k8s.io" | "networking.k8s.io" => network::printer(group, resource),
            "storage.k8s.io" => storage::printer(resource),
            "rbac.authorization.k8s.io" => access::printer(resource),
            _ => cluster::printer(group, resource),
        }?;
        let qualified = match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        let columns = found
            .columns
            .iter()
            .map(|(name, type_, priority)| Column::new(name, type_, *priority).of_resource(&qualified));
        Some(Self {
            columns: columns.collect(),
            body: Body::Builtin(found.cells),
        })
    }

    /// NAME and CREATED AT, as kube-apiserver prints kinds that have no printer.
    pub fn plain() -> Self {
        Self {
            columns: vec![Column::new("Name", "string", 0), Column::new("Created At", "date", 0)],
            body: Body::Builtin(cell::name_and_creation),
        }
    }

    /// NAME and what a custom resource declares (`additionalPrinterColumns`); without any: NAME and AGE.
    ///
    /// # Errors
    /// [`PathError`] for a path beyond what this printer understands; see [`JsonPath`].
    pub fn custom(columns: &[CustomColumn]) -> Result<Self, PathError> {
        custom::printer(columns)
    }

    /// Whether it has the columns of [`Printer::plain`]: upstream the kind has no printer of its own.
    pub fn is_plain(&self) -> bool {
        self.columns.get(1).is_some_and(|column| column.name == "Created At")
    }

    /// The headings.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of one object at the time `now`.
    pub fn row(&self, object: &Value, now: Timestamp) -> Row {
        let (cells, conditions) = match &self.body {
            Body::Builtin(cells) => (cells(object, now), pods::row_conditions(object)),
            Body::Custom(cells) => (custom::cells(cells, object, now), Vec::new()),
        };
        Row { cells, conditions }
    }
}
