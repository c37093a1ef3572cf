//! Sockets of the loopback device: two ends, each with a buffer that the other end fills.
//!
//! A sender does the protocol's work, and delivers on its own CPU, as the softirq behind a loopback
//! transmission does: with preemption off, it puts the data into the other end's buffer and wakes
//! who reads there, with the sync hint. Datagrams that find no room are dropped. A stream waits for
//! room; its reader acknowledges, which takes half of the work, and wakes the writer when a third
//! of the window is free. The work is time spent, `sock_work_ns`, a guess. Not modelled: packets
//! and their allocation, protocols, several senders to one end, lost segments.

use core::sync::atomic::fence;

use guests_abi::class::LineClass;

use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::arch::atomic::{AtomicU8, AtomicU32};
use crate::arch::{self, irq_restore, irq_save};
use crate::lock::Lock;
use crate::percpu::Line;
use crate::start::config;
use crate::testdev::{declare, declare_lines};
use crate::wait::WaitQueue;
use crate::{memory, work};

/// Kind of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages with ends, which may be lost.
    Datagram,
    /// Bytes, which may not.
    Stream,
}

/// Bytes of a datagram's length in a buffer.
const LENGTH_BYTES: usize = 4;

/// Largest segment of a stream: the loopback device takes packets of 64 KiB.
const SEGMENT_BYTES: usize = 65_536;

/// Lock of a buffer, and how many bytes were put in and taken out.
#[repr(C)]
struct Positions {
    lock: Lock,
    put: AtomicU32,
    taken: AtomicU32,
}

/// One direction: the buffer at the end that reads.
#[repr(C)]
struct Flow {
    positions: Line<Positions>,
    rd_wait: Line<WaitQueue>,
    wr_wait: Line<WaitQueue>,
    buffer: &'static [AtomicU8],
    kind: Kind,
}

/// One end.
#[derive(Clone, Copy)]
pub(crate) struct Sock {
    /// Where it writes.
    tx: &'static Flow,
    /// Where it reads.
    rx: &'static Flow,
}

/// Two ends that are connected, on a node; each reads from a buffer of `window` bytes.
pub(crate) fn pair(kind: Kind, node: usize, window: usize) -> [Sock; 2] {
    let [a, b] = [(); 2].map(|()| Flow::new(kind, node, window));
    [Sock { tx: b, rx: a }, Sock { tx: a, rx: b }]
}

impl Sock {
    /// Sends all of it, as one datagram or as bytes; returns whether it was delivered.
    pub(crate) fn send(&self, data: &[AtomicU8]) -> bool {
        let flow = self.tx;
        if flow.kind == Kind::Datagram {
            flow.start_over();
            let has_room = flow.room() >= data.len() + LENGTH_BYTES;
            if has_room {
                let length = (data.len() as u32).to_le_bytes().map(AtomicU8::new);
                flow.deliver(&length, data);
            }
            return has_room;
        }
        let mut left = data;
        while !left.is_empty() {
            flow.start_over();
            if flow.room() == 0 {
                flow.wr_wait.wait_event(|| flow.has_write_space());
            }
            let (segment, rest) = left.split_at(left.len().min(flow.room()).min(SEGMENT_BYTES));
            flow.deliver(&[], segment);
            left = rest;
        }
        true
    }

    /// Receives a datagram (what does not fit is lost), or as many bytes as there are, at least
    /// one; sleeps while there is nothing. Returns the number of bytes.
    pub(crate) fn recv(&self, data: &[AtomicU8]) -> usize {
        let flow = self.rx;
        flow.rd_wait.wait_event_exclusive(|| !flow.is_empty());
        let at = flow.positions.taken.load(Relaxed);
        if flow.kind == Kind::Stream {
            let bytes = data.len().min(flow.used());
            flow.get(at, &data[..bytes]);
            flow.take(bytes);
            flow.acknowledge();
            return bytes;
        }
        let length = [const { AtomicU8::new(0) }; LENGTH_BYTES];
        flow.get(at, &length);
        let length = u32::from_le_bytes(length.map(|byte| byte.load(Relaxed))) as usize;
        let bytes = data.len().min(length);
        flow.get(at.wrapping_add(LENGTH_BYTES as u32), &data[..bytes]);
        flow.take(LENGTH_BYTES + length);
        bytes
    }

    /// Receives until `data` is full; streams only.
    pub(crate) fn recv_all(&self, data: &[AtomicU8]) {
        let mut bytes = 0;
        while bytes < data.len() {
            bytes += self.recv(&data[bytes..]);
        }
    }
}

impl Flow {
    fn new(kind: Kind, node: usize, window: usize) -> &'static Flow {
        let buffer = memory::alloc_bytes(node, window, 64);
        declare_lines(buffer.as_ptr() as u64, window, LineClass::Page);
        let (put, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        let new = Flow {
            positions: Line(Positions { lock: Lock::new(), put, taken }),
            rd_wait: Line(WaitQueue::new()),
            wr_wait: Line(WaitQueue::new()),
            buffer,
            kind,
        };
        let flow = memory::alloc_value(node, new);
        declare(flow, LineClass::Sock);
        declare(&flow.rd_wait, LineClass::Wq);
        declare(&flow.wr_wait, LineClass::Wq);
        flow
    }

    fn used(&self) -> usize {
        let put = self.positions.put.load(Acquire);
        put.wrapping_sub(self.positions.taken.load(Acquire)) as usize
    }

    fn room(&self) -> usize {
        self.buffer.len() - self.used()
    }

    fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// Whether a writer that waits is worth waking.
    fn has_write_space(&self) -> bool {
        self.room() >= self.buffer.len() / 3
    }

    /// The writer begins at the start of an empty buffer again, so that short messages stay in
    /// the same lines, as packets do that were freed just now. Nobody reads an empty buffer.
    fn start_over(&self) {
        self.locked(|positions| {
            if self.is_empty() {
                positions.put.store(0, Relaxed);
                positions.taken.store(0, Relaxed);
            }
        });
    }

    /// Delivers data behind a head: work, copy, wake-up.
    fn deliver(&self, head: &[AtomicU8], data: &[AtomicU8]) {
        arch::preempt_disable();
        work::for_ns(config().messages.sock_work_ns);
        let at = self.positions.put.load(Relaxed);
        self.put(at, head);
        self.put(at.wrapping_add(head.len() as u32), data);
        let end = at.wrapping_add((head.len() + data.len()) as u32);
        self.locked(|positions| positions.put.store(end, Release));
        Flow::wake(&self.rd_wait);
        arch::preempt_enable();
    }

    fn take(&self, bytes: usize) {
        self.locked(|positions| {
            let taken = positions.taken.load(Relaxed).wrapping_add(bytes as u32);
            positions.taken.store(taken, Release);
        });
    }

    /// What the reader of a stream sends back when the writer waits for it.
    fn acknowledge(&self) {
        arch::preempt_disable();
        work::for_ns(config().messages.sock_work_ns / 2);
        if self.has_write_space() {
            Flow::wake(&self.wr_wait);
        }
        arch::preempt_enable();
    }

    /// Wakes who waits, if anybody does.
    fn wake(queue: &WaitQueue) {
        fence(SeqCst);
        if queue.is_active() {
            queue.wake_up_sync();
        }
    }

    fn locked(&self, change: impl FnOnce(&Positions)) {
        arch::preempt_disable();
        let was_on = irq_save!(irqoff_wait_queue);
        self.positions.lock.lock();
        change(&self.positions);
        self.positions.lock.unlock();
        irq_restore(was_on);
        arch::preempt_enable();
    }

    /// The parts of the buffer from a position on: up to its end, and from its start.
    fn parts(&self, at: u32, bytes: usize) -> (&[AtomicU8], &[AtomicU8]) {
        let at = at as usize % self.buffer.len();
        let first = bytes.min(self.buffer.len() - at);
        (&self.buffer[at..at + first], &self.buffer[..bytes - first])
    }

    fn put(&self, at: u32, data: &[AtomicU8]) {
        let (first, second) = self.parts(at, data.len());
        memory::copy(first, data);
        memory::copy(second, &data[first.len()..]);
    }

    fn get(&self, at: u32, data: &[AtomicU8]) {
        let (first, second) = self.parts(at, data.len());
        memory::copy(data, first);
        memory::copy(&data[first.len()..], second);
    }
}
