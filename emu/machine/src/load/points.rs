//! Points of an image: marked steps at which the machine can delay or hold a cpu.
//!
//! Modelled: the layout of `guests_abi::points`. Not modelled: what points are for; the machine's
//! rules decide that.

use super::LoadError;
use guests_abi::points::SECTION;

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

/// Reads the section; entries with address 0, whose code the linker dropped, are left out.
///
/// Stricter than `guests_abi::points::parse`, which stops where this refuses: a point that is
/// silently missing would let a test hold nothing and pass.
///
/// Errors: `Malformed` for a cut entry, a name without end, empty or not ASCII; `TooMany`.
pub(super) fn parse_points(section: &[u8]) -> Result<Vec<Point>, LoadError> {
    let bad = |at: usize, why: &str| LoadError::Malformed {
        what: SECTION,
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
        let address = u64::from_le_bytes(*address);
        if address != 0 {
            points.push(Point { address, name });
        }
        at = (at + 8 + len + 1).next_multiple_of(8);
    }
    points.sort();
    points.dedup();
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::parse_points;
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
        let section = [
            entry(0x20, "b_name"),
            entry(0x10, "seven77"),
            entry(0x18, "eight888"),
            entry(0, "dropped"),
        ];
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
}
