//! `encryptAES` and `decryptAES`: AES-256 with chained blocks (CBC), the first of which is random.

use aes::Aes256;
use aes::cipher::{Block, BlockDecrypt, BlockEncrypt, KeyInit};

use crate::sprig::args::{Answer, text};
use crate::sprig::encoding::{decode, encode};
use crate::sprig::random::entropy;
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

const BLOCK: usize = 16;
const KEY: usize = 32;
/// Steps to make a key, and to draw random bytes.
const CIPHER_STEPS: usize = 100;

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    vec![
        Function::new("encryptAES", [Str, Str], encrypt),
        Function::new("decryptAES", [Str, Str], decrypt),
    ]
}

/// The password with zeros behind it, or as much of it as a key takes.
fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; KEY];
    for (key, byte) in key.iter_mut().zip(password) {
        *key = *byte;
    }
    Aes256::new(&key.into())
}

fn xor(block: &mut [u8], with: &[u8]) {
    for (byte, with) in block.iter_mut().zip(with) {
        *byte ^= with;
    }
}

fn block(bytes: &[u8]) -> Block<Aes256> {
    let mut block = Block::<Aes256>::default();
    xor(&mut block, bytes);
    block
}

fn encrypt(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let (password, plain) = (text(args, 0), text(args, 1));
    if plain.is_empty() {
        return Ok(Value::string(""));
    }
    scope.check_length(plain.len().saturating_mul(2))?;
    scope.spend(CIPHER_STEPS.saturating_add(plain.len()))?;
    let padding = BLOCK - plain.len() % BLOCK;
    let mut content = plain.to_vec();
    content.resize(plain.len() + padding, padding.to_le_bytes()[0]);
    let mut out = vec![0; BLOCK];
    entropy(scope)?.fill(&mut out);
    let cipher = cipher(password);
    for chunk in content.chunks(BLOCK) {
        let before = out.len() - BLOCK;
        let mut block = block(chunk);
        xor(&mut block, out.get(before..).unwrap_or_default());
        cipher.encrypt_block(&mut block);
        out.extend_from_slice(&block);
    }
    Ok(Value::string(encode(&out)))
}

fn decrypt(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let (password, written) = (text(args, 0), text(args, 1));
    if written.is_empty() {
        return Ok(Value::string(""));
    }
    scope.spend(CIPHER_STEPS.saturating_add(written.len()))?;
    let bytes = decode(written).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    if bytes.len() < BLOCK {
        let capacity = written.len() / 4 * 3;
        return Err(format!("runtime error: slice bounds out of range [:{BLOCK}] with capacity {capacity}").into());
    }
    if bytes.len() % BLOCK != 0 {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cipher(password);
    let mut out = Vec::with_capacity(bytes.len());
    for (chunk, before) in bytes.chunks(BLOCK).skip(1).zip(bytes.chunks(BLOCK)) {
        let mut block = block(chunk);
        cipher.decrypt_block(&mut block);
        xor(&mut block, before);
        out.extend_from_slice(&block);
    }
    let padding = *out.last().ok_or("runtime error: index out of range [-1]")?;
    match out.len().checked_sub(usize::from(padding)) {
        Some(length) => out.truncate(length),
        None => {
            let beyond = usize::from(padding) - out.len();
            return Err(format!("runtime error: slice bounds out of range [:-{beyond}]").into());
        }
    }
    Ok(Value::string(out))
}
