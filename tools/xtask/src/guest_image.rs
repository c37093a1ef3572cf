//! Guest images: which there are, and the note that a built one carries.

use guests_abi::note::{self, HASH_BYTES};

/// A target that the guest kernel is built for.
#[derive(Clone, Copy, Debug)]
pub struct GuestTarget {
    /// Target triple of rustc.
    pub triple: &'static str,
    /// Linker script, below `guests/kern`.
    pub linker_script: &'static str,
    /// The committed image, below the root.
    pub image: &'static str,
}

/// All targets.
pub const GUEST_TARGETS: &[GuestTarget] = &[
    GuestTarget {
        triple: "x86_64-unknown-none",
        linker_script: "x86_64.ld",
        image: "guests/images/x86_64/kern.elf",
    },
    GuestTarget {
        triple: "aarch64-unknown-none-softfloat",
        linker_script: "aarch64.ld",
        image: "guests/images/aarch64/kern.elf",
    },
];

const PROGRAM_NOTE: u32 = 4;

/// Source hash and compiler text of an ELF64 image, if it has a note of ours.
pub fn image_note(elf: &[u8]) -> Option<([u8; HASH_BYTES], &str)> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(u64_at(elf, 32)?).ok()?;
    let (entry_bytes, entries) = (u16_at(elf, 54)? as usize, u16_at(elf, 56)? as usize);
    (0..entries).find_map(|entry| {
        let header = elf.get(table.checked_add(entry * entry_bytes)?..)?;
        if u32::from_le_bytes(header.get(..4)?.try_into().ok()?) != PROGRAM_NOTE {
            return None;
        }
        let at = usize::try_from(u64_at(header, 8)?).ok()?;
        let bytes = usize::try_from(u64_at(header, 32)?).ok()?;
        note::parse(elf.get(at..at.checked_add(bytes)?)?)
    })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
