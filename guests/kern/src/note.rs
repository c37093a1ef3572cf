//! The ELF note with the hash of the sources (`guests/abi`, note).
//!
//! `cargo xtask guests` passes hash and compiler in the environment. A build by hand lacks them
//! and carries zeros, which no freshness test takes for fresh.

use guests_abi::note::{HASH_BYTES, OWNER, TYPE_SOURCE_HASH};

const HASH_HEX: &str = match option_env!("CROSSCALL_SOURCE_HASH") {
    Some(hex) => hex,
    None => "",
};
const COMPILER: &str = match option_env!("CROSSCALL_RUSTC") {
    Some(text) => text,
    None => "unknown",
};
const COMPILER_BYTES: usize = COMPILER.len().next_multiple_of(4);

#[repr(C)]
struct Note {
    name_bytes: u32,
    desc_bytes: u32,
    kind: u32,
    name: [u8; 12],
    hash: [u8; HASH_BYTES],
    compiler: [u8; COMPILER_BYTES],
}

#[used]
#[unsafe(link_section = ".note.crosscall")]
#[expect(unsafe_code, reason = "a note has its own section")]
static NOTE: Note = Note {
    name_bytes: OWNER.len() as u32,
    desc_bytes: (HASH_BYTES + COMPILER_BYTES) as u32,
    kind: TYPE_SOURCE_HASH,
    name: padded(OWNER),
    hash: hash(),
    compiler: padded(COMPILER.as_bytes()),
};

const fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < text.len() {
        bytes[at] = text[at];
        at += 1;
    }
    bytes
}

const fn hash() -> [u8; HASH_BYTES] {
    let hex = HASH_HEX.as_bytes();
    let mut bytes = [0; HASH_BYTES];
    let mut at = 0;
    while at * 2 + 1 < hex.len() && at < HASH_BYTES {
        bytes[at] = nibble(hex[at * 2]) << 4 | nibble(hex[at * 2 + 1]);
        at += 1;
    }
    bytes
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("the hash is lower-case hexadecimal"),
    }
}
