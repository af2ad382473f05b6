//! Addresses of machines.

use super::args::text;
use crate::error::Fault;
use crate::function::Function;
use crate::host::Host;
use crate::value::{Type, Value};

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new("getHostByName", [Type::Str], |scope, args| {
        let name = String::from_utf8_lossy(text(args, 0)).into_owned();
        let host = scope.host.downcast_mut::<Host>();
        let Some(names) = host.and_then(|host| host.names.as_mut()) else {
            // As Helm says without `--enable-dns`.
            return Ok(Value::string(""));
        };
        // What Go says when it is to choose one of none.
        let address = names
            .address(&name)
            .ok_or_else(|| Fault::from("invalid argument to Intn"))?;
        Ok(Value::from(address))
    })]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Context, Functions, Host, Limits, MissingKey, Names, Set, Value};

    #[derive(Debug)]
    struct OneName;

    impl Names for OneName {
        fn address(&mut self, name: &str) -> Option<String> {
            (name == "one").then(|| "10.0.0.1".to_owned())
        }
    }

    fn rendered(name: &str, names: Option<Box<dyn Names>>) -> String {
        let mut set = Set::new("t", Arc::new(Functions::new().with_sprig()), MissingKey::Default);
        let text = format!("<{{{{getHostByName \"{name}\"}}}}>");
        set.parse("t", text.as_bytes()).expect("it is a template");
        let mut host = Host {
            names,
            ..Host::default()
        };
        let mut context = Context {
            limits: Limits::default(),
            host: &mut host,
        };
        let rendered = Arc::new(set).render("t", Value::Nil, &mut context);
        rendered.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output).into_owned(),
        )
    }

    #[test]
    fn nobody_is_asked_for_an_address_unless_the_caller_says_whom() {
        assert_eq!(rendered("one", None), "<>");
        assert_eq!(rendered("one", Some(Box::new(OneName))), "<10.0.0.1>");
        let error = rendered("two", Some(Box::new(OneName)));
        assert!(
            error.ends_with("error calling getHostByName: invalid argument to Intn"),
            "{error}"
        );
    }
}
