//! Addresses of machines.

use super::args::text;
use crate::environment::error::Fault;
use crate::environment::host::Host;
use crate::value::function::Function;
use crate::value::{Type, Value};

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new("getHostByName", [Type::Str], |scope, args| {
        let name = String::from_utf8_lossy(text(args, 0)).into_owned();
        let host = scope.host.downcast_mut::<Host>();
        let Some(names) = host.and_then(|host| host.names.as_mut()) else {
            // As Helm answers without `--enable-dns`.
            return Ok(Value::string(""));
        };
        // Go's error when it chooses one of no addresses.
        let address = names
            .address(&name)
            .ok_or_else(|| Fault::from("invalid argument to Intn"))?;
        Ok(Value::from(address))
    })]
}

#[cfg(test)]
mod tests {
    use crate::{Host, Names};

    #[derive(Debug)]
    struct OneName;

    impl Names for OneName {
        fn address(&mut self, name: &str) -> Option<String> {
            (name == "one").then(|| "10.0.0.1".to_owned())
        }
    }

    fn rendered(name: &str, names: Option<Box<dyn Names>>) -> String {
        let mut host = Host {
            names,
            ..Host::default()
        };
        crate::environment::host::rendered(&format!("<{{{{getHostByName \"{name}\"}}}}>"), &mut host)
    }

    #[test]
    fn address_is_looked_up_only_with_a_resolver_of_the_caller() {
        assert_eq!(rendered("one", None), "<>");
        assert_eq!(rendered("one", Some(Box::new(OneName))), "<10.0.0.1>");
        let error = rendered("two", Some(Box::new(OneName)));
        assert!(
            error.ends_with("error calling getHostByName: invalid argument to Intn"),
            "{error}"
        );
    }
}
