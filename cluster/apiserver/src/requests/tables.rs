//! Tables for kubectl. Cells are printed by cluster-table; here rows are assembled.

use std::sync::Arc;

use bytes::Bytes;
use cluster_store::Entry;
use cluster_table::{Column, Printer, human_duration};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kinds::metadata;
use crate::kinds::registry::Served;
use crate::kinds::rendering::{self, ListMeta};
use crate::state::context::Context;
use crate::wire::negotiation::Meta;
use crate::wire::query::Query;
use crate::wire::status::Status;

/// The annotation of the bookmark behind the last object of a first list.
pub(crate) const INITIAL_END: &str = "k8s.io/initial-events-end";

/// What a row carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    None,
    Metadata,
    Object,
}

/// Prints the objects of one kind in one version.
pub(crate) struct Tables {
    served: Arc<Served>,
    version: String,
    printer: Printer,
    include: Include,
    meta: Meta,
}

#[derive(Serialize)]
struct Table<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: &'a ListMeta,
    #[serde(rename = "columnDefinitions")]
    columns: Option<&'a [Column]>,
    rows: Option<Vec<Row>>,
}

#[derive(Serialize)]
struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Value>,
    object: Option<Box<RawValue>>,
}

impl Tables {
    /// Errors: 400 for an unknown `includeObject`.
    pub(crate) fn new(served: &Arc<Served>, version: &str, query: &Query, meta: Meta) -> Result<Self, Status> {
        let include = match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::None,
            "Object" => Include::Object,
            other => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                     'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        let printer = match served.kind.columns(version) {
            // A kind with an invalid path has no columns, but its objects still have a table.
            Some(columns) => Printer::custom(&columns).unwrap_or_else(|_| Printer::plain()),
            None => Printer::builtin(served.group(), served.plural()).unwrap_or_else(Printer::plain),
        };
        Ok(Self {
            served: served.clone(),
            version: version.to_owned(),
            printer,
            include,
            meta,
        })
    }

    fn row(&self, bytes: &[u8], now: Timestamp) -> Result<Row, Status> {
        let object: Value = serde_json::from_slice(bytes).map_err(Status::internal)?;
        let mut row = self.printer.row(&object, now);
        if let Some(cells) = self.served.kind.cells(&self.version, &object) {
            row.cells = self.own_cells(&object, cells, now);
        }
        let raw = |bytes: Bytes| {
            let text = String::from_utf8(bytes.to_vec()).map_err(Status::internal)?;
            RawValue::from_string(text).map_err(Status::internal)
        };
        let ends = object
            .pointer("/metadata/annotations")
            .is_some_and(|annotations| annotations.get(INITIAL_END).is_some());
        let object = match self.include {
            // Otherwise clients could not see that the first list is complete.
            Include::None if ends => Some(raw(rendering::metadata(bytes, self.meta)?)?),
            Include::None => None,
            Include::Metadata => Some(raw(rendering::metadata(bytes, self.meta)?)?),
            Include::Object => Some(raw(Bytes::copy_from_slice(bytes))?),
        };
        Ok(Row {
            cells: row.cells,
            conditions: row.conditions,
            object,
        })
    }

    /// Cells that the kind filled itself: the name goes first, times become ages.
    fn own_cells(&self, object: &Value, cells: Vec<Value>, now: Timestamp) -> Vec<Value> {
        let types = self
            .printer
            .columns()
            .iter()
            .skip(1)
            .map(|column| column.type_.as_str());
        let shown = cells
            .into_iter()
            .zip(types)
            .map(|(cell, type_)| match (type_, cell.as_str()) {
                ("date", Some(time)) => match time.parse::<Timestamp>() {
                    Ok(then) => json!(human_duration(now.as_second().saturating_sub(then.as_second()))),
                    Err(_) => json!("<unknown>"),
                },
                _ => cell,
            });
        std::iter::once(json!(metadata::text(object, "name")))
            .chain(shown)
            .collect()
    }

    fn table(&self, meta: &ListMeta, rows: Vec<Row>, header: bool) -> Result<Bytes, Status> {
        let columns = header.then(|| self.printer.columns());
        let rows = Some(rows).filter(|rows| !rows.is_empty() || !self.printer.is_plain());
        let table = Table {
            kind: "Table",
            api_version: self.meta.api_version(),
            metadata: meta,
            columns,
            rows,
        };
        serde_json::to_vec(&table).map(Bytes::from).map_err(Status::internal)
    }

    /// An object of a watch event as a table of one row; `header`: whether columns are described.
    pub(crate) fn event(&self, bytes: &[u8], now: Timestamp, header: bool) -> Result<Bytes, Status> {
        let row = self.row(bytes, now)?;
        self.table(&version_of(bytes), vec![row], header)
    }
}

fn version_of(bytes: &[u8]) -> ListMeta {
    let path = ["metadata", "resourceVersion"].map(str::to_owned);
    ListMeta {
        resource_version: crate::kinds::filter::field_text(bytes, &path).unwrap_or_default(),
        ..ListMeta::default()
    }
}

/// One object as a table of one row.
pub(crate) fn single(context: &Context, bytes: &[u8], meta: Meta) -> Result<Bytes, Status> {
    Tables::new(&context.served, context.version(), &context.query, meta)?.event(bytes, context.now, true)
}

/// A list as a table.
pub(crate) fn list(context: &Context, entries: &[Entry], list: &ListMeta, meta: Meta) -> Result<Bytes, Status> {
    let tables = Tables::new(&context.served, context.version(), &context.query, meta)?;
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = rendering::object(&context.served, context.version(), &entry.object, entry.revision)?;
        rows.push(tables.row(&bytes, context.now)?);
    }
    tables.table(list, rows, true)
}
