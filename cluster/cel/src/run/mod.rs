//! What expressions run with: values, functions, and the budget that they are metered against. It knows neither rules nor
//! policies.

pub(crate) mod authorizer;
pub(crate) mod causes;
pub(crate) mod functions;
pub(crate) mod library;
pub(crate) mod meter;
pub(crate) mod times;
pub(crate) mod value_schema;
pub(crate) mod values;
pub(crate) mod variables;
