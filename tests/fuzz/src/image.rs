//! Images from segments that a target assembles.

use emu_machine::Image;
use emu_machine::load::{Segment, Symbols};
use emu_sim::PhysAddr;

/// A segment that may be run and written.
pub(crate) fn segment(base: u64, bytes: Vec<u8>) -> Segment {
    Segment {
        index: 0,
        base: PhysAddr(base),
        size: bytes.len() as u64,
        bytes,
        virtual_base: base,
        is_executable: true,
        is_writable: true,
    }
}

/// An image of these segments, numbered in their order.
pub(crate) fn image(isa: topology::Isa, entry: u64, mut segments: Vec<Segment>) -> Image {
    for (index, segment) in segments.iter_mut().enumerate() {
        segment.index = index;
    }
    Image {
        isa,
        entry: PhysAddr(entry),
        segments,
        symbols: Symbols::default(),
        points: Vec::new(),
        origin: None,
    }
}
