//! From a typed change to a JSON patch that touches nothing else. Types know only some fields of an object: so the change is
//! found between the typed view before and after, carried over to the raw object, and written as the difference of two raw
//! objects. Pure.

mod difference;
mod overlay;

pub use difference::difference;
pub use overlay::overlay;
