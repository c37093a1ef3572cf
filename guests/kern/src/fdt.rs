//! Reader of a flattened device tree: walks the structure block once, in place.
//!
//! Not a tree: the caller gets each property with the path of node names that leads to it. A
//! 1024-CPU tree is some hundred kilobytes, read once by one CPU, so the walk does nothing but
//! step from token to token.

use core::ffi::CStr;

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;

/// Deepest nesting that is followed; deeper nodes are walked over.
pub(crate) const DEPTH_MAX: usize = 8;

/// A device tree in memory.
#[derive(Clone, Copy)]
pub(crate) struct Fdt {
    bytes: &'static [u8],
}

/// One step of the walk.
pub(crate) enum Event<'a> {
    /// A property of the node at the end of the path; the root's path is one empty name.
    Property { path: &'a [&'static str], name: &'static str, value: &'static [u8] },
    /// The node at the end of the path ends; all its properties have been seen.
    NodeEnd { path: &'a [&'static str] },
}

impl Fdt {
    /// The tree at an address; `None` when there is none.
    #[expect(unsafe_code, reason = "makes a slice of an address")]
    pub(crate) fn at(address: u64) -> Option<Fdt> {
        if address == 0 {
            return None;
        }
        // SAFETY: the machine put a tree there and the memory is set aside; nothing writes it.
        let header = unsafe { core::slice::from_raw_parts(address as *const u8, 40) };
        if be32(header, 0)? != MAGIC {
            return None;
        }
        let bytes = be32(header, 4)? as usize;
        // SAFETY: as above, with the length that the header gives.
        Some(Fdt { bytes: unsafe { core::slice::from_raw_parts(address as *const u8, bytes) } })
    }

    /// Addresses of the tree, to be set aside.
    pub(crate) fn range(self) -> core::ops::Range<u64> {
        let range = self.bytes.as_ptr_range();
        range.start as u64..range.end as u64
    }

    /// Walks the tree; `None` when it is malformed.
    pub(crate) fn walk(self, mut each: impl FnMut(Event<'_>)) -> Option<()> {
        let mut at = be32(self.bytes, 8)? as usize;
        let strings = self.bytes.get(be32(self.bytes, 12)? as usize..)?;
        let mut path = [""; DEPTH_MAX];
        let mut depth = 0;
        loop {
            let token = be32(self.bytes, at)?;
            at += 4;
            match token {
                BEGIN_NODE => {
                    let name = text(self.bytes.get(at..)?)?;
                    at = (at + name.len() + 1).next_multiple_of(4);
                    if let Some(slot) = path.get_mut(depth) {
                        *slot = name;
                    }
                    depth += 1;
                }
                END_NODE => {
                    if depth <= DEPTH_MAX {
                        each(Event::NodeEnd { path: &path[..depth] });
                    }
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(());
                    }
                }
                PROPERTY => {
                    let bytes = be32(self.bytes, at)? as usize;
                    let name = text(strings.get(be32(self.bytes, at + 4)? as usize..)?)?;
                    let value = self.bytes.get(at + 8..at + 8 + bytes)?;
                    at = (at + 8 + bytes).next_multiple_of(4);
                    if depth <= DEPTH_MAX {
                        each(Event::Property { path: &path[..depth], name, value });
                    }
                }
                NOP => {}
                _ => return None,
            }
        }
    }
}

/// The 32-bit cell at a byte offset.
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A value of one or two cells, that is, of 4 or 8 bytes.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => be32(value, 0).map(u64::from),
        8 => Some(u64::from_be_bytes(value.try_into().ok()?)),
        _ => None,
    }
}

/// The text up to the first NUL.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    CStr::from_bytes_until_nul(bytes).ok()?.to_str().ok()
}
