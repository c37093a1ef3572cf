//! The ELF note that ties an image to its sources.
//!
//! Descriptor: [`HASH_BYTES`] bytes of SHA-256 over the guest sources, then the text of
//! `rustc -V` without a line end. The freshness test compares the hash only.

/// Section that holds the note.
pub const SECTION: &str = ".note.crosscall";
/// Name of the note's owner, with its NUL.
pub const OWNER: &[u8; 10] = b"crosscall\0";
/// Type of the note.
pub const TYPE_SOURCE_HASH: u32 = 1;
/// Bytes of the hash at the start of the descriptor.
pub const HASH_BYTES: usize = 32;

/// Hash and compiler text of a note section, if it holds a note of ours.
pub fn parse(section: &[u8]) -> Option<([u8; HASH_BYTES], &str)> {
    let word = |at: usize| {
        section.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes).map(|word| word as usize)
    };
    let (name_bytes, desc_bytes) = (word(0)?, word(4)?);
    if word(8)? != TYPE_SOURCE_HASH as usize || section.get(12..12 + name_bytes)? != OWNER {
        return None;
    }
    let desc_at = 12 + name_bytes.next_multiple_of(4);
    let desc = section.get(desc_at..desc_at.checked_add(desc_bytes)?)?;
    let (hash, compiler) = desc.split_at_checked(HASH_BYTES)?;
    let compiler = core::str::from_utf8(compiler).ok()?.trim_end_matches('\0');
    Some((hash.try_into().ok()?, compiler))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_and_a_truncated_one_is_not() {
        let mut note = [0u8; 68];
        note[0] = 10;
        note[4] = 44;
        note[8] = 1;
        note[12..22].copy_from_slice(OWNER);
        note[24..56].fill(7);
        note[56..68].copy_from_slice(b"rustc 1.96.0");
        assert_eq!(parse(&note), Some(([7; 32], "rustc 1.96.0")));
        assert_eq!(parse(&note[..60]), None);
        note[12] = b'X';
        assert_eq!(parse(&note), None);
    }
}
