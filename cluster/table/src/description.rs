//! Descriptions of columns, as kube-apiserver has them. `data/columns.json` has each description with the columns that have
//! it: `pods/Ready`, `deployments.apps/Ready`, `*/Name`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// By resource and column.
fn all() -> &'static BTreeMap<String, String> {
    static ALL: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let described: BTreeMap<String, Vec<String>> = serde_json::from_slice(include_bytes!("../data/columns.json"))
            .expect("a committed table, read by a test of this crate");
        let described = described.into_iter();
        described
            .flat_map(|(text, columns)| columns.into_iter().map(move |column| (column, text.clone())))
            .collect()
    })
}

/// That of a column of a resource (`pods`, `deployments.apps`), or of one that most tables have; else empty.
pub(crate) fn of(resource: &str, column: &str) -> &'static str {
    let own = all().get(&format!("{resource}/{column}"));
    own.or_else(|| all().get(&format!("*/{column}")))
        .map_or("", String::as_str)
}

/// That of a column of a kind that has no table of its own.
pub(crate) fn common(column: &str) -> &'static str {
    of("*", column)
}
