//! Pipes: a ring of pages with bytes, a mutex, and a wait queue for each end.
//!
//! As Linux has them since 5.5. A small write goes into the last page if all of it fits, else
//! into a page of its own: of writes of 100 bytes a page takes 40, the pipe 640. Readers and
//! writers wait exclusively, and pass on a wake-up that they did not use up. Which page is used
//! next is as in Linux, too: the one that was emptied last. Bytes are really copied. Mutex, wait
//! queues, ring and pages lie on lines apart, so that their traffic can be told apart. Not
//! modelled: descriptors, poll, closed ends, the page allocator (a pipe keeps its 16 pages).

use guests_abi::class::LineClass;

use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::arch::atomic::{AtomicU8, AtomicU32};
use crate::config::{Broken, PipeWake};
use crate::mutex::Mutex;
use crate::percpu::Line;
use crate::testdev::{declare, declare_lines};
use crate::wait::WaitQueue;
use crate::{arch, memory};

const PAGE_BYTES: usize = 4096;

/// Pages of a pipe.
const SLOTS: usize = 16;

/// Positions in the ring, ever growing, and the pages that hold nothing.
#[repr(C)]
struct Ring {
    /// Where the next page goes.
    head: AtomicU32,
    /// Page that is read next.
    tail: AtomicU32,
    /// Number of empty pages.
    free: AtomicU32,
    /// Their numbers; the last is used first.
    free_pages: [AtomicU8; SLOTS],
}

/// What one place of the ring holds.
#[repr(C)]
struct Slot {
    page: AtomicU32,
    /// First byte that was not read yet.
    offset: AtomicU32,
    bytes: AtomicU32,
}

/// A pipe.
#[repr(C)]
pub(crate) struct Pipe {
    mutex: Line<Mutex>,
    rd_wait: Line<WaitQueue>,
    wr_wait: Line<WaitQueue>,
    ring: Line<Ring>,
    slots: Line<[Slot; SLOTS]>,
    pages: &'static [AtomicU8],
}

impl Pipe {
    /// An empty pipe on a node.
    pub(crate) fn new(node: usize) -> &'static Pipe {
        let pages = memory::alloc_bytes(node, SLOTS * PAGE_BYTES, PAGE_BYTES);
        declare_lines(pages.as_ptr() as u64, pages.len(), LineClass::Page);
        let ring = Ring {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            free: AtomicU32::new(SLOTS as u32),
            free_pages: core::array::from_fn(|page| AtomicU8::new(page as u8)),
        };
        let slot = || Slot {
            page: AtomicU32::new(0),
            offset: AtomicU32::new(0),
            bytes: AtomicU32::new(0),
        };
        let pipe = memory::alloc_value(
            node,
            Pipe {
                mutex: Line(Mutex::new()),
                rd_wait: Line(WaitQueue::new()),
                wr_wait: Line(WaitQueue::new()),
                ring: Line(ring),
                slots: Line(core::array::from_fn(|_| slot())),
                pages,
            },
        );
        declare(pipe, LineClass::Pipe);
        declare(&pipe.rd_wait, LineClass::Wq);
        declare(&pipe.wr_wait, LineClass::Wq);
        pipe
    }

    /// Writes all bytes; sleeps while the pipe is full.
    pub(crate) fn write(&self, data: &[AtomicU8]) {
        self.mutex.lock();
        let mut was_empty = self.is_empty();
        let mut has_slept = false;
        let mut left = if was_empty { data } else { self.merge(data) };
        loop {
            while !left.is_empty() && !self.is_full() {
                left = self.append(left);
            }
            if left.is_empty() {
                break;
            }
            self.mutex.unlock();
            if was_empty {
                self.wake(&self.rd_wait);
            }
            self.wr_wait.wait_event_exclusive(|| !self.is_full());
            self.mutex.lock();
            was_empty = self.is_empty();
            has_slept = true;
        }
        let wakes_next_writer = has_slept && !self.is_full();
        self.mutex.unlock();
        if was_empty {
            self.wake(&self.rd_wait);
        }
        if wakes_next_writer {
            self.wake(&self.wr_wait);
        }
    }

    /// Reads up to as many bytes as there is room for, at least one; sleeps while there is none.
    pub(crate) fn read(&self, data: &[AtomicU8]) -> usize {
        self.mutex.lock();
        let mut has_slept = false;
        while self.is_empty() {
            self.mutex.unlock();
            self.rd_wait.wait_event_exclusive(|| !self.is_empty());
            self.mutex.lock();
            has_slept = true;
        }
        let was_full = self.is_full();
        let mut bytes = 0;
        while bytes < data.len() && !self.is_empty() {
            bytes += self.take(&data[bytes..]);
        }
        let wakes_writer = was_full
            && match arch::this_cpu().policy.pipe_wake {
                PipeWake::WasFull => true,
                PipeWake::Room => !self.is_full(),
            };
        let wakes_next_reader = has_slept && !self.is_empty();
        self.mutex.unlock();
        if wakes_writer {
            self.wake(&self.wr_wait);
        }
        if wakes_next_reader {
            self.wake(&self.rd_wait);
        }
        bytes
    }

    fn wake(&self, queue: &WaitQueue) {
        if arch::this_cpu().policy.broken != Broken::DeafPipe {
            queue.wake_up_sync();
        }
    }

    fn is_empty(&self) -> bool {
        self.ring.head.load(Acquire) == self.ring.tail.load(Relaxed)
    }

    fn is_full(&self) -> bool {
        let used = self.ring.head.load(Relaxed).wrapping_sub(self.ring.tail.load(Acquire));
        used as usize >= SLOTS
    }

    fn slot(&self, at: u32) -> &Slot {
        &self.slots[at as usize % SLOTS]
    }

    fn page(&self, slot: &Slot) -> &'static [AtomicU8] {
        &self.pages[slot.page.load(Relaxed) as usize * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// Puts what is no whole page into the last page, if it fits; returns the rest.
    fn merge<'a>(&self, data: &'a [AtomicU8]) -> &'a [AtomicU8] {
        let slot = self.slot(self.ring.head.load(Relaxed).wrapping_sub(1));
        let (offset, bytes) = (slot.offset.load(Relaxed), slot.bytes.load(Relaxed));
        let (start, rest) = data.split_at(data.len() % PAGE_BYTES);
        let end = (offset + bytes) as usize;
        if end + start.len() > PAGE_BYTES {
            return data;
        }
        memory::copy(&self.page(slot)[end..], start);
        slot.bytes.store(bytes + start.len() as u32, Relaxed);
        rest
    }

    /// Puts a page or less into the next place of the ring, which is free; returns the rest.
    fn append<'a>(&self, data: &'a [AtomicU8]) -> &'a [AtomicU8] {
        let head = self.ring.head.load(Relaxed);
        let free = self.ring.free.load(Relaxed) - 1;
        self.ring.free.store(free, Relaxed);
        let slot = self.slot(head);
        let page = self.ring.free_pages[free as usize].load(Relaxed);
        slot.page.store(u32::from(page), Relaxed);
        let (start, rest) = data.split_at(data.len().min(PAGE_BYTES));
        memory::copy(self.page(slot), start);
        slot.offset.store(0, Relaxed);
        slot.bytes.store(start.len() as u32, Relaxed);
        self.ring.head.store(head.wrapping_add(1), Release);
        rest
    }

    /// Takes bytes out of the next page, and the page out of the ring when it is empty.
    fn take(&self, data: &[AtomicU8]) -> usize {
        let tail = self.ring.tail.load(Relaxed);
        let slot = self.slot(tail);
        let (offset, bytes) = (slot.offset.load(Relaxed), slot.bytes.load(Relaxed));
        let taken = data.len().min(bytes as usize);
        memory::copy(data, &self.page(slot)[offset as usize..][..taken]);
        slot.offset.store(offset + taken as u32, Relaxed);
        slot.bytes.store(bytes - taken as u32, Relaxed);
        if bytes as usize == taken {
            let free = self.ring.free.load(Relaxed);
            self.ring.free_pages[free as usize].store(slot.page.load(Relaxed) as u8, Relaxed);
            self.ring.free.store(free + 1, Relaxed);
            self.ring.tail.store(tail.wrapping_add(1), Release);
        }
        taken
    }
}
