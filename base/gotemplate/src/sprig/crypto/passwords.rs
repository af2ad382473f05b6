//! Passwords: bcrypt, and those that are derived from a master's.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::environment::error::Fault;
use crate::sprig::args::{Answer, at, text};
use crate::sprig::encoding::encode;
use crate::sprig::random::entropy;
use crate::value::function::{Function, Scope};
use crate::value::{Type, UintKind, Value};

/// The default cost of golang.org/x/crypto/bcrypt: 2^10 rounds.
const COST: u32 = 10;
/// The longest password that bcrypt accepts.
const PASSWORD_BYTES_MAX: usize = 72;
/// It takes some 50 ms. Charts need a few; the default limit allows fifty.
const BCRYPT_STEPS: usize = 1_000_000;
/// bcrypt's own alphabet in place of base64's.
const ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// bcrypt writes so many bytes of the hash.
const HASH_BYTES: usize = 23;

/// What the Master Password algorithm puts before a name.
const SCOPE_NAME: &[u8] = b"com.lyndir.masterpassword";
/// scrypt with N = 2^15, r = 8, p = 2: 32 MiB and some 150 ms.
const SCRYPT: (u8, u32, u32) = (15, 8, 2);
const SCRYPT_STEPS: usize = 3_000_000;
const KEY_BYTES: usize = 64;

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    vec![
        Function::new("bcrypt", [Str], |scope, args| {
            Ok(Value::string(bcrypt(text(args, 0), scope)?))
        }),
        Function::new("htpasswd", [Str, Str], |scope, args| {
            let name = text(args, 0);
            if name.contains(&b':') {
                return Ok(Value::string([b"invalid username: ", name].concat()));
            }
            let hashed = bcrypt(text(args, 1), scope)?;
            Ok(Value::string([name, b":", &hashed].concat()))
        }),
        Function::new(
            "derivePassword",
            [Type::Uint(UintKind::Uint32), Str, Str, Str, Str],
            derive_password,
        ),
    ]
}

fn bcrypt(password: &[u8], scope: &mut Scope<'_>) -> Result<Vec<u8>, Fault> {
    if password.len() > PASSWORD_BYTES_MAX {
        let what = "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes";
        return Ok(what.as_bytes().to_vec());
    }
    scope.spend(BCRYPT_STEPS)?;
    let mut salt = [0; 16];
    entropy(scope)?.fill(&mut salt);
    let mut key = [password, &[0]].concat();
    key.truncate(PASSWORD_BYTES_MAX);
    let hashed = bcrypt::bcrypt(COST, salt, &key);
    let hashed = hashed.get(..HASH_BYTES).unwrap_or_default();
    Ok([
        format!("$2a${COST}$").as_bytes(),
        &own_base64(&salt),
        &own_base64(hashed),
    ]
    .concat())
}

/// Base64 in bcrypt's alphabet, without padding.
fn own_base64(bytes: &[u8]) -> Vec<u8> {
    let places = encode(bytes).into_iter().filter_map(|letter| {
        let place = STANDARD.iter().position(|standard| *standard == letter)?;
        ALPHABET.get(place).copied()
    });
    places.collect()
}

/// The templates of a type of passwords: <https://masterpassword.app>.
fn templates(kind: &[u8]) -> Option<&'static [&'static [u8]]> {
    Some(match kind {
        b"maximum" => &[b"anoxxxxxxxxxxxxxxxxx", b"axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            b"CvcvnoCvcvCvcv",
            b"CvcvCvcvnoCvcv",
            b"CvcvCvcvCvcvno",
            b"CvccnoCvcvCvcv",
            b"CvccCvcvnoCvcv",
            b"CvccCvcvCvcvno",
            b"CvcvnoCvccCvcv",
            b"CvcvCvccnoCvcv",
            b"CvcvCvccCvcvno",
            b"CvcvnoCvcvCvcc",
            b"CvcvCvcvnoCvcc",
            b"CvcvCvcvCvccno",
            b"CvccnoCvccCvcv",
            b"CvccCvccnoCvcv",
            b"CvccCvccCvcvno",
            b"CvcvnoCvccCvcc",
            b"CvcvCvccnoCvcc",
            b"CvcvCvccCvccno",
            b"CvccnoCvcvCvcc",
            b"CvccCvcvnoCvcc",
            b"CvccCvcvCvccno",
        ],
        b"medium" => &[b"CvcnoCvc", b"CvcCvcno"],
        b"short" => &[b"Cvcn"],
        b"basic" => &[b"aaanaaan", b"aannaaan", b"aaannaaa"],
        b"pin" => &[b"nnnn"],
        _ => return None,
    })
}

fn letters(of: u8) -> &'static [u8] {
    match of {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn length(text: &[u8]) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes()
}

fn derive_password(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let counter = match at(args, 0) {
        // Go cuts off what is too large.
        Value::Uint(_, counter) => (*counter & u64::from(u32::MAX)) as u32,
        _ => 0,
    };
    let [kind, password, user, site] = [1, 2, 3, 4].map(|place| text(args, place));
    let Some(templates) = templates(kind) else {
        return Ok(Value::string([b"cannot find password template ", kind].concat()));
    };
    scope.spend(SCRYPT_STEPS)?;
    let salt = [SCOPE_NAME, &length(user), user].concat();
    let (log_n, r, p) = SCRYPT;
    let mut key = [0; KEY_BYTES];
    let params = scrypt::Params::new(log_n, r, p, KEY_BYTES);
    let params = params.map_err(|why| Fault::Message(format!("failed to derive password: {why}")))?;
    scrypt::scrypt(password, &salt, &params, &mut key)
        .map_err(|why| Fault::Message(format!("failed to derive password: {why}")))?;
    let mut hmac = Hmac::<Sha256>::new_from_slice(&key).map_err(|why| Fault::Message(why.to_string()))?;
    hmac.update(&[SCOPE_NAME, &length(site), site, &counter.to_be_bytes()].concat());
    let drawn = hmac.finalize().into_bytes();
    let pick = |place: usize, count: usize| usize::from(drawn.get(place).copied().unwrap_or(0)) % count.max(1);
    let template = templates.get(pick(0, templates.len())).copied().unwrap_or_default();
    let password = template.iter().enumerate().filter_map(|(at, of)| {
        let letters = letters(*of);
        letters.get(pick(at + 1, letters.len())).copied()
    });
    Ok(Value::string(password.collect::<Vec<u8>>()))
}
