//! Sprig's functions that need keys: passwords, ciphers, private keys, certificates. Randomness and time come from the
//! caller's [`crate::Host`], so that equal ones make equal keys. What takes long is counted as steps before it is done.

mod certificates;
mod cipher;
mod curves;
mod der;
mod keys;
mod passwords;
mod pem;
mod primes;

use super::args::{Answer, at, int, text};
use super::encoding::decode;
use crate::environment::error::Fault;
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};
use certificates::{CERTIFICATE, Certificate, Signer, Wanted, check, make};
use keys::Key;

/// Bits of the keys that certificates get.
const BITS: u32 = 2048;

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    const INT: Type = Type::INT;
    let list = || Type::List(Box::new(Type::Any));
    let signer = || Type::Named(CERTIFICATE);
    let leaf = || vec![Str, list(), list(), INT];
    let with = |mut params: Vec<Type>, more: Vec<Type>| {
        params.extend(more);
        params
    };
    let mut functions = vec![
        Function::new("genCA", [Str, INT], |scope, args| authority(scope, args, None)),
        Function::new("genCAWithKey", [Str, INT, Str], |scope, args| {
            authority(scope, args, Some(2))
        }),
        Function::new("genSelfSignedCert", leaf(), |scope, args| {
            self_signed(scope, args, None)
        }),
        Function::new("genSelfSignedCertWithKey", with(leaf(), vec![Str]), |scope, args| {
            self_signed(scope, args, Some(4))
        }),
        Function::new("genSignedCert", with(leaf(), vec![signer()]), |scope, args| {
            signed(scope, args, None)
        }),
        Function::new(
            "genSignedCertWithKey",
            with(leaf(), vec![signer(), Str]),
            |scope, args| signed(scope, args, Some(5)),
        ),
        Function::new("buildCustomCert", [Str, Str], |scope, args| {
            let decoded = |place, what: &str| {
                let bytes = decode(text(args, place));
                bytes.map_err(|_| Fault::Message(format!("unable to decode base64 {what}")))
            };
            let cert = decoded(0, "certificate")?;
            let key = decoded(1, "private key")?;
            check(&cert, &key, scope)?;
            Ok(Certificate {
                cert: cert.into(),
                key: key.into(),
            }
            .into())
        }),
    ];
    functions.extend(keys::functions());
    functions.extend(passwords::functions());
    functions.extend(cipher::functions());
    functions
}

/// A new key, or the one that is given.
fn key(scope: &mut Scope<'_>, args: &[Value], given: Option<usize>) -> Result<Key, Fault> {
    let Some(place) = given else {
        return Key::rsa(BITS, scope);
    };
    scope.spend(text(args, place).len())?;
    let key = Key::read(text(args, place));
    key.map_err(|why| Fault::Message(format!("parsing private key: {why}")))
}

fn authority(scope: &mut Scope<'_>, args: &[Value], given: Option<usize>) -> Answer {
    let key = key(scope, args, given)?;
    let wanted = Wanted::authority(text(args, 0), int(args, 1));
    Ok(make(&wanted, &key, None, scope)?.into())
}

/// The content of a certificate for a server or client.
fn leaf(scope: &Scope<'_>, args: &[Value]) -> Result<Wanted, Fault> {
    Wanted::leaf(text(args, 0), at(args, 1), at(args, 2), int(args, 3), scope)
}

fn self_signed(scope: &mut Scope<'_>, args: &[Value], given: Option<usize>) -> Answer {
    let key = match given {
        // An invalid address or name is reported before a key is generated.
        None => {
            leaf(scope, args)?;
            key(scope, args, None)?
        }
        given => key(scope, args, given)?,
    };
    let wanted = leaf(scope, args)?;
    Ok(make(&wanted, &key, None, scope)?.into())
}

fn signed(scope: &mut Scope<'_>, args: &[Value], given: Option<usize>) -> Answer {
    let given_key = match given {
        None => None,
        given => Some(key(scope, args, given)?),
    };
    let authority: &Certificate = at(args, 4).object().ok_or("unable to decode certificate")?;
    let signer = Signer::read(authority, scope)?;
    let wanted = leaf(scope, args)?;
    let key = match given_key {
        Some(key) => key,
        None => key(scope, args, None)?,
    };
    Ok(make(&wanted, &key, Some(&signer), scope)?.into())
}
