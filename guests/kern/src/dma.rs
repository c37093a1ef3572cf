//! Driver of the DMA engine (`guests_abi::dma`).
//!
//! Transfers are queued under a lock and done in turn. The interrupt of the engine goes to one CPU;
//! its handler runs the completion of every transfer that is done, there. Not modelled: mapping, as
//! engine and caches are coherent; scatter lists; channels of several engines.

use guests_abi::dma::{INTERRUPT, Register};

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::arch::{self, irq_restore, irq_save};
use crate::completion::Completion;
use crate::console::die;
use crate::link::Link;
use crate::lock::Lock;
use crate::machine::Node;
use crate::percpu::Line;

/// A transfer; on lines of its own, as it is written by who submits and by the handler.
#[repr(C, align(64))]
pub(crate) struct Transfer {
    from: u64,
    to: u64,
    bytes: u64,
    /// Counts one event for each time the transfer is done.
    pub(crate) done: Completion,
    next: Link<Transfer>,
}

impl Transfer {
    /// A transfer between physical addresses.
    pub(crate) const fn new(from: u64, to: u64, bytes: u64) -> Transfer {
        Transfer { from, to, bytes, done: Completion::new(), next: Link::none() }
    }
}

/// Where the engine is; read-mostly.
#[repr(C)]
struct Facts {
    base: AtomicU64,
    interrupt: AtomicU32,
}

/// What is under way.
#[repr(C)]
struct Channel {
    lock: Lock,
    /// Transfers that the engine has completed, as far as the driver knows.
    completed: AtomicU64,
    first: Link<Transfer>,
    last: Link<Transfer>,
}

static FACTS: Line<Facts> = Line(Facts { base: AtomicU64::new(0), interrupt: AtomicU32::new(0) });

static CHANNEL: Line<Channel> = Line(Channel {
    lock: Lock::new(),
    completed: AtomicU64::new(0),
    first: Link::none(),
    last: Link::none(),
});

/// Takes the engine from its node.
pub(crate) fn find(node: &Node) {
    let Some(range) = node.ranges().next() else {
        die!(BAD_MACHINE, "dma engine without registers");
    };
    arch::map_device(&range);
    FACTS.interrupt.store(arch::shared_interrupt(node), Relaxed);
    FACTS.base.store(range.start, Relaxed);
}

/// Number of the engine's interrupt, where devices have some; else 0.
#[inline]
pub(crate) fn interrupt() -> u32 {
    FACTS.interrupt.load(Relaxed)
}

fn write(register: Register, value: u64) {
    arch::io_write(FACTS.base.load(Relaxed) + register as u64, value);
}

fn read(register: Register) -> u64 {
    arch::io_read(FACTS.base.load(Relaxed) + register as u64)
}

/// Opens the engine, and routes its interrupt to a CPU.
pub(crate) fn open(irq_cpu: usize) {
    if FACTS.base.load(Relaxed) == 0 {
        die!(BAD_MACHINE, "the machine has no dma engine; give it one with dma.latency");
    }
    arch::enable_irq(interrupt());
    arch::route_irq(interrupt(), irq_cpu);
    write(Register::Route, arch::interrupt_message(irq_cpu));
}

/// Hands a transfer to the engine.
pub(crate) fn submit(transfer: &'static Transfer) {
    let was_on = irq_save!(irqoff_dma);
    CHANNEL.lock.lock();
    transfer.next.set(None);
    match CHANNEL.last.get() {
        Some(last) => last.next.set(Some(transfer)),
        None => CHANNEL.first.set(Some(transfer)),
    }
    CHANNEL.last.set(Some(transfer));
    write(Register::Source, transfer.from);
    write(Register::Destination, transfer.to);
    write(Register::Length, transfer.bytes);
    write(Register::Doorbell, 1);
    CHANNEL.lock.unlock();
    irq_restore(was_on);
}

/// Why the engine did not take a transfer, as its register says; 0: it took all.
pub(crate) fn error() -> u64 {
    read(Register::Error)
}

/// Takes off a transfer that is done.
fn pop_done(completed: u64) -> Option<&'static Transfer> {
    CHANNEL.lock.lock();
    let known = CHANNEL.completed.load(Relaxed);
    let done = CHANNEL.first.get().filter(|_| known < completed);
    if let Some(done) = done {
        CHANNEL.completed.store(known + 1, Relaxed);
        CHANNEL.first.set(done.next.get());
        if done.next.get().is_none() {
            CHANNEL.last.set(None);
        }
    }
    CHANNEL.lock.unlock();
    done
}

/// Completes what the engine says is done, by its interrupt or by polling; interrupts are off.
pub(crate) fn interrupted() {
    // First the acknowledgement: what is done behind it raises the interrupt again.
    write(Register::Status, INTERRUPT);
    let completed = read(Register::Completed);
    while let Some(transfer) = pop_done(completed) {
        transfer.done.complete();
    }
}
