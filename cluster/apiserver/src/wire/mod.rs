//! What is read from clients and written to them: paths, queries, selectors, content negotiation, bodies, errors. It knows no
//! kind and no store.

pub(crate) mod answer;
pub(crate) mod decode;
pub(crate) mod guarded_body;
pub(crate) mod invalid_utf8;
pub(crate) mod label_selector;
pub(crate) mod metrics_text;
pub(crate) mod negotiation;
pub(crate) mod path;
pub(crate) mod percent;
pub(crate) mod printing;
pub(crate) mod protobuf;
pub(crate) mod query;
pub mod request;
pub(crate) mod selector;
pub(crate) mod status;
pub(crate) mod version_order;
