//! The descriptions of real Kubernetes' table columns, as `cluster/table/data/columns.json` has them: each with the columns
//! that have it. It compares nothing.

use std::collections::BTreeMap;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::compare::body;
use crate::{Call, Connection, Endpoint, Outcome};

/// The media type of aggregated discovery.
const ALL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The media type with which kubectl requests tables.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// Columns that most tables have and describe alike; they are listed once.
const COMMON: [&str; 3] = ["Age", "Created At", "Name"];

/// Requests a table of every resource.
///
/// # Errors
/// When the server does not answer, or not with a table.
pub async fn read(real: &Endpoint) -> Outcome<Value> {
    let mut connection = real.connect().await?;
    let mut columns: BTreeMap<String, String> = BTreeMap::new();
    for root in ["/api", "/apis"] {
        let found = get(&mut connection, root, ALL).await?;
        for group in list(&found["items"]) {
            let name = text(&group["metadata"]["name"]);
            let Some(version) = list(&group["versions"]).next() else {
                continue;
            };
            let at = match name {
                "" => format!("/api/{}", text(&version["version"])),
                name => format!("/apis/{name}/{}", text(&version["version"])),
            };
            for resource in
                list(&version["resources"]).filter(|resource| list(&resource["verbs"]).any(|verb| verb == "list"))
            {
                let plural = text(&resource["resource"]);
                let table = get(&mut connection, &format!("{at}/{plural}"), TABLE).await?;
                let dot = if name.is_empty() { "" } else { "." };
                for column in list(&table["columnDefinitions"]) {
                    let key = format!("{plural}{dot}{name}/{}", text(&column["name"]));
                    columns.insert(key, text(&column["description"]).to_owned());
                }
            }
        }
    }
    Ok(by_description(columns))
}

/// Each description with the columns that have it. A common column is listed once, and by resource where its description
/// differs.
fn by_description(mut columns: BTreeMap<String, String>) -> Value {
    for name in COMMON {
        let ends = format!("/{name}");
        let mut times: BTreeMap<&String, usize> = BTreeMap::new();
        for (_, description) in columns.iter().filter(|(key, _)| key.ends_with(&ends)) {
            *times.entry(description).or_default() += 1;
        }
        let Some(commonest) = times
            .into_iter()
            .max_by_key(|(_, times)| *times)
            .map(|(text, _)| text.clone())
        else {
            continue;
        };
        columns.retain(|key, description| !key.ends_with(&ends) || *description != commonest);
        columns.insert(format!("*{ends}"), commonest);
    }
    let mut described: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, description) in columns {
        described.entry(description).or_default().push(key);
    }
    json!(described)
}

async fn get(connection: &mut Connection, path: &str, accept: &'static str) -> Outcome<Value> {
    let mut call = Call::new(Method::GET, path);
    call.headers.insert(ACCEPT, HeaderValue::from_static(accept));
    let answer = connection.send(&call).await?;
    match answer.status {
        StatusCode::OK => Ok(body(&answer)),
        status => Err(format!("{path} is answered with {status}: {}", body(&answer))),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_listed_once_and_common_columns_without_tables() {
        let columns = [
            ("pods/Name", "n"),
            ("nodes/Name", "n"),
            ("pods/Ready", "r"),
            ("odd/Name", "other"),
            ("odd/Ready", "r"),
        ];
        let columns = columns.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let described = by_description(BTreeMap::from(columns));
        assert_eq!(
            described,
            json!({"n": ["*/Name"], "other": ["odd/Name"], "r": ["odd/Ready", "pods/Ready"]})
        );
    }
}
