//! What an image says about itself in sections of its own: points, and the hash of its sources.
//!
//! Modelled: the layout of `.crosscall.points` and of the ELF note `crosscall`. Not modelled:
//! what points are for; the machine's rules decide that.

use super::LoadError;

/// Section that lists the points.
pub const POINTS_SECTION: &str = ".crosscall.points";
/// Name field of the note that carries the hash of the sources.
pub const NOTE_NAME: &[u8] = b"crosscall";
/// Type field of that note.
pub const NOTE_SOURCE_HASH: u32 = 1;
/// Most points of an image.
pub const MAX_POINTS: usize = 1 << 16;
/// Longest name of a point in bytes.
pub const MAX_POINT_NAME_BYTES: usize = 128;

/// A marked step of the guest; the label stands before the instruction at `address`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Address as linked (virtual).
    pub address: u64,
    /// Name; several addresses have one name where the step was inlined several times.
    pub name: String,
}

/// Reads `.crosscall.points`: entries of an 8-byte address and a NUL-terminated name, each padded
/// with zeros to 8 bytes.
///
/// Errors: `Malformed` for a cut entry, a name without end, empty or not ASCII; `TooMany`.
pub(super) fn parse_points(section: &[u8]) -> Result<Vec<Point>, LoadError> {
    let bad = |at: usize, why: &str| LoadError::Malformed {
        what: POINTS_SECTION,
        why: format!("entry at {at:#x} {why}"),
    };
    let mut points = Vec::new();
    let mut at = 0;
    while at < section.len() {
        let Some((address, tail)) = section[at..].split_first_chunk::<8>() else {
            return Err(bad(at, "is cut off in its address"));
        };
        let window = &tail[..tail.len().min(MAX_POINT_NAME_BYTES + 1)];
        let Some(len) = window.iter().position(|&byte| byte == 0) else {
            return Err(bad(at, "has a name without an end (at most 128 bytes)"));
        };
        let name = &window[..len];
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(bad(at, "has no name of printable ASCII"));
        }
        if points.len() == MAX_POINTS {
            let allowed = MAX_POINTS as u64;
            return Err(LoadError::TooMany { what: "points", found: allowed + 1, allowed });
        }
        let name = String::from_utf8_lossy(name).into_owned();
        points.push(Point { address: u64::from_le_bytes(*address), name });
        at = (at + 8 + len + 1).next_multiple_of(8);
    }
    points.sort();
    points.dedup();
    Ok(points)
}

/// Finds the source hash in a note section or segment.
///
/// Notes of others are skipped; a list that ends early ends the search, since a note section may
/// be padded.
pub(super) fn source_hash(mut notes: &[u8]) -> Option<[u8; 32]> {
    while let Some((header, tail)) = notes.split_first_chunk::<12>() {
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (name_len, desc_len) = (word(0) as usize, word(4) as usize);
        let desc_at = name_len.next_multiple_of(4);
        let name = tail.get(..name_len)?;
        let desc = tail.get(desc_at..)?.get(..desc_len)?;
        if name.strip_suffix(b"\0") == Some(NOTE_NAME) && word(8) == NOTE_SOURCE_HASH {
            return desc.try_into().ok();
        }
        notes = tail.get(desc_at + desc_len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{parse_points, source_hash};
    use crate::load::LoadError;

    fn entry(address: u64, name: &str) -> Vec<u8> {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn points_are_sorted_by_address() {
        let section = [entry(0x20, "b_name"), entry(0x10, "seven77"), entry(0x18, "eight888")];
        let points = parse_points(&section.concat()).expect("well formed");
        let seen: Vec<_> = points.iter().map(|p| (p.address, p.name.as_str())).collect();
        assert_eq!(seen, [(0x10, "seven77"), (0x18, "eight888"), (0x20, "b_name")]);
    }

    #[test]
    fn broken_points_are_refused() {
        let good = entry(0x10, "name");
        let mut endless = entry(0x10, "name");
        endless.truncate(12);
        for (bytes, why) in [
            (good[..7].to_vec(), "cut off"),
            (endless, "without an end"),
            (entry(0x10, ""), "no name"),
            (entry(0x10, "a b"), "no name"),
        ] {
            let found = parse_points(&bytes).map_err(|error| error.to_string());
            assert!(found.as_ref().is_err_and(|text| text.contains(why)), "{found:?}");
            assert!(matches!(parse_points(&bytes), Err(LoadError::Malformed { .. })));
        }
    }

    #[test]
    fn note_is_found_behind_others() {
        let mut notes = vec![4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0];
        notes.extend(b"GNU\0\x07\0\0\0");
        notes.extend([10, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0]);
        notes.extend(b"crosscall\0\0\0");
        notes.extend([0xab; 32]);
        assert_eq!(source_hash(&notes), Some([0xab; 32]));
        assert_eq!(source_hash(&notes[..notes.len() - 1]), None);
        assert_eq!(source_hash(&[0xff; 40]), None);
    }
}
