//! Memory of each node: handed out from the bottom, never given back.
//!
//! The boot CPU lays everything out before other CPUs run; later allocations come from the one
//! control thread. So a plain bump pointer per node is enough.

use core::ops::Range;

use guests_abi::layout::NODES_MAX;

use crate::arch::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use crate::console::die;

/// What is left of the memory of one node.
pub(crate) struct NodeMemory {
    next: AtomicU64,
    end: AtomicU64,
}

impl NodeMemory {
    const EMPTY: NodeMemory = NodeMemory { next: AtomicU64::new(0), end: AtomicU64::new(0) };

    fn bytes_left(&self) -> u64 {
        self.end.load(Relaxed) - self.next.load(Relaxed)
    }
}

static NODES: [NodeMemory; NODES_MAX] = [NodeMemory::EMPTY; NODES_MAX];

/// Offers a range of RAM to a node, which keeps its largest one, less what is set aside.
///
/// `reserved` is taken off at the end that it touches or lies nearest to.
pub(crate) fn add_range(node: usize, range: Range<u64>, reserved: &[Range<u64>]) {
    let Some(memory) = NODES.get(node) else {
        die!(BAD_MACHINE, "memory node {node}: at most {NODES_MAX} nodes");
    };
    let (mut start, mut end) = (range.start, range.end);
    for hole in reserved {
        if hole.end <= start || hole.start >= end {
            continue;
        }
        if hole.start.saturating_sub(start) <= end.saturating_sub(hole.end) {
            start = start.max(hole.end);
        } else {
            end = end.min(hole.start);
        }
    }
    let start = start.next_multiple_of(4096);
    if end > start && end - start > memory.bytes_left() {
        memory.next.store(start, Relaxed);
        memory.end.store(end, Relaxed);
    }
}

/// Whether the node has memory.
pub(crate) fn has_node(node: usize) -> bool {
    NODES.get(node).is_some_and(|memory| memory.bytes_left() > 0)
}

/// Address of `bytes` of untouched memory of the node, aligned to `align`, a power of two.
///
/// A node without memory borrows from node 0.
pub(crate) fn alloc(node: usize, bytes: usize, align: usize) -> u64 {
    let node = if has_node(node) { node } else { 0 };
    let memory = &NODES[node];
    let start = memory.next.load(Relaxed).next_multiple_of(align as u64);
    let end = start + bytes as u64;
    if end > memory.end.load(Relaxed) {
        die!(BAD_MACHINE, "node {node}: out of memory for {bytes} bytes");
    }
    memory.next.store(end, Relaxed);
    start
}

/// A slice of `count` values for which zeros are valid, on the node, on lines of its own.
#[expect(unsafe_code, reason = "makes a slice of an address")]
pub(crate) fn alloc_slice<T: Zeroed>(node: usize, count: usize) -> &'static mut [T] {
    let bytes = (count * size_of::<T>()).next_multiple_of(64).max(64);
    let address = alloc(node, bytes, align_of::<T>().max(64));
    // SAFETY: fresh memory of that size and alignment, never handed out again, zeroed here; zeros
    // are a value of `T` by its trait.
    unsafe {
        core::ptr::write_bytes(address as *mut u8, 0, bytes);
        core::slice::from_raw_parts_mut(address as *mut T, count)
    }
}

/// A value on the node, on lines of its own.
#[expect(unsafe_code, reason = "makes a reference of an address")]
pub(crate) fn alloc_value<T: Sync>(node: usize, value: T) -> &'static T {
    let address = alloc(node, size_of::<T>().next_multiple_of(64), align_of::<T>().max(64));
    // SAFETY: fresh memory of that size and alignment, never handed out again.
    unsafe {
        (address as *mut T).write(value);
        &*(address as *const T)
    }
}

/// Words of the node that nobody has touched, so that no cache holds them.
#[expect(unsafe_code, reason = "makes a slice of an address")]
pub(crate) fn alloc_untouched(node: usize, words: usize) -> &'static [AtomicU64] {
    let address = alloc(node, words * size_of::<AtomicU64>(), 64);
    // SAFETY: fresh memory of that size and alignment, never handed out again; RAM holds some
    // value in every byte, and any value is one of an atomic integer.
    unsafe { core::slice::from_raw_parts(address as *const AtomicU64, words) }
}

/// Bytes of the node, aligned to `align`, a power of two of at least 64.
#[expect(unsafe_code, reason = "makes a slice of an address")]
pub(crate) fn alloc_bytes(node: usize, bytes: usize, align: usize) -> &'static [AtomicU8] {
    let address = alloc(node, bytes.next_multiple_of(64), align);
    // SAFETY: as in `alloc_untouched`.
    unsafe { core::slice::from_raw_parts(address as *const AtomicU8, bytes) }
}

/// Copies as many bytes as both have; a lock, or their owner, keeps others off both.
#[expect(unsafe_code, reason = "a copy by bytes would take a step for each")]
pub(crate) fn copy(to: &[AtomicU8], from: &[AtomicU8]) {
    let bytes = to.len().min(from.len());
    // SAFETY: both are that long, atomics may be written through a shared reference, nobody else
    // accesses them meanwhile, and a buffer is never copied to itself.
    unsafe {
        let to = to.as_ptr().cast_mut().cast::<u8>();
        core::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to, bytes);
    }
}

/// Types for which a run of zero bytes is a valid value.
#[expect(unsafe_code, reason = "a promise about representation")]
// SAFETY: implementors promise what the first line says.
pub(crate) unsafe trait Zeroed {}

macro_rules! zeroed {
    ($($ty:ty),*) => {$(
        #[expect(unsafe_code, reason = "integers, atomics and records of them")]
        // SAFETY: zero is a value of every integer and so of records of integers.
        unsafe impl Zeroed for $ty {}
    )*};
}

zeroed!(u64, AtomicU64);

#[expect(unsafe_code, reason = "a null link leads nowhere")]
// SAFETY: a link is an atomic pointer, which may be null.
unsafe impl<T> Zeroed for crate::link::Link<T> {}

#[expect(unsafe_code, reason = "a task is atomics")]
// SAFETY: zero is a value of every field of a task: integers, links, an open lock.
unsafe impl Zeroed for crate::task::Task {}

#[expect(unsafe_code, reason = "a bucket is atomics")]
// SAFETY: zero is a value of every field of a bucket: integers, links, an open lock.
unsafe impl Zeroed for crate::percpu::Line<crate::futex::Bucket> {}
