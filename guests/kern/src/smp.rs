//! Function calls on other CPUs: queue, signal, drain.
//!
//! A call is a descriptor (csd) on the target's queue. Who finds the queue not empty signals
//! nothing: an earlier caller did, and the target takes the whole queue at once. Who finds it
//! empty asks `guests_sched::call_idle` whether the target can do without an interrupt. Wakes that
//! are queued for another CPU travel on the same queue (`ttwu_via=csd`).

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_sched::call_idle::{self, CallIdle, Signal};

use crate::arch::atomic::AtomicUsize;
use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::arch::{self, Ipi, irq_disable, irq_restore, irq_save};
use crate::counters::{add, bump};
use crate::cpumask::CpuMask;
use crate::link::Link;
use crate::llist::{List, Node};
use crate::percpu::{Cpu, Line};
use crate::points::point;
use crate::{machine, memory, softirq, testdev, wake};

/// A function that runs on another CPU, with interrupts off.
pub(crate) type CallFn = extern "C" fn(usize);

/// The caller waits until LOCK clears, or may not reuse the csd before.
const LOCK: u32 = 1;
/// The caller waits: run first, then unlock. Else unlock first, then run.
const SYNC: u32 = 2;
/// Not a descriptor: the `wake_entry` of a task that is to be woken here.
pub(crate) const TTWU: u32 = 4;

/// Call-function descriptor; half a line.
#[repr(C, align(32))]
pub(crate) struct Csd {
    node: Node,
    func: AtomicUsize,
    info: AtomicUsize,
}

impl Csd {
    /// Queues it for a CPU, whatever this one does: nobody waits, and who owns the descriptor knows
    /// that it is free. Interrupts are off.
    pub(crate) fn call_async(&self, target: usize, func: CallFn, info: usize) {
        self.fill(LOCK, func, info);
        generic_exec_single(target, self);
    }

    /// A free descriptor.
    const fn new() -> Csd {
        Csd { node: Node::new(), func: AtomicUsize::new(0), info: AtomicUsize::new(0) }
    }

    fn fill(&self, flags: u32, func: CallFn, info: usize) {
        self.node.flags.store(flags, Relaxed);
        self.func.store(func as usize, Relaxed);
        self.info.store(info, Relaxed);
    }

    /// Spins until the descriptor is unlocked; interrupts are on.
    #[inline]
    fn lock_wait(&self) {
        arch::cond_load(&self.node.flags, Acquire, |flags| flags & LOCK == 0);
    }

    #[inline]
    fn unlock(&self) {
        point!(csd_unlock);
        self.node.flags.store(0, Release);
    }

    /// The descriptor of a node that is not TTWU.
    #[inline]
    #[expect(unsafe_code, reason = "a node is the first field of its descriptor")]
    fn of(node: &Node) -> &Csd {
        // SAFETY: such nodes are pushed by `push_csd` only.
        unsafe { &*core::ptr::from_ref(node).cast::<Csd>() }
    }

    #[inline]
    #[expect(unsafe_code, reason = "makes a function of an address")]
    fn run(func: usize, info: usize) {
        // SAFETY: `fill` stored a function of this type.
        let func = unsafe { core::mem::transmute::<usize, CallFn>(func) };
        point!(call_func);
        func(info);
        point!(call_func_done);
    }
}

/// Runs `func(info)` on a CPU. With `is_wait`, interrupts are on and the function has run on
/// return: two CPUs that call each other with interrupts off would wait for ever.
pub(crate) fn smp_call_function_single(target: usize, func: CallFn, info: usize, is_wait: bool) {
    arch::preempt_disable();
    let this = arch::this_cpu();
    if this.id() == target {
        call_self(func, info);
    } else if is_wait {
        let csd = Csd::new();
        csd.fill(LOCK | SYNC, func, info);
        generic_exec_single(target, &csd);
        csd.lock_wait();
    } else {
        let csd = &*this.csd_data;
        csd.lock_wait();
        csd.fill(LOCK, func, info);
        generic_exec_single(target, csd);
    }
    point!(call_done);
    arch::preempt_enable();
}

/// As a waiting [`smp_call_function_single`], but gives up hope after `bound_ticks` of the clock:
/// then an extra IPI makes the target drain its queue. Returns whether the call was in time.
pub(crate) fn call_single_bounded(
    target: usize,
    func: CallFn,
    info: usize,
    bound_ticks: u64,
) -> bool {
    arch::preempt_disable();
    let csd = Csd::new();
    csd.fill(LOCK | SYNC, func, info);
    generic_exec_single(target, &csd);
    let deadline = arch::clock_ticks() + bound_ticks;
    let mut is_in_time = true;
    while csd.node.flags.load(Acquire) & LOCK != 0 {
        arch::cpu_relax();
        if is_in_time && arch::clock_ticks() > deadline {
            is_in_time = false;
            point!(call_lost);
            bump(Counter::CallLost);
            bump(Counter::CallRemote);
            send_call_ipi(target);
        }
    }
    point!(call_done);
    arch::preempt_enable();
    is_in_time
}

fn call_self(func: CallFn, info: usize) {
    let was_on = irq_save!(irqoff_self_call);
    Csd::run(func as usize, info);
    irq_restore(was_on);
}

/// Queues a csd and signals if need be.
#[inline]
fn generic_exec_single(target: usize, csd: &Csd) {
    __smp_call_single_queue(target, &csd.node);
    point!(call_signalled);
}

/// Puts a node on the call queue of a CPU, and signals if the queue was empty.
#[inline]
pub(crate) fn __smp_call_single_queue(target: usize, node: &Node) {
    bump(Counter::CallRemote);
    if machine::cpu(target).call_single_queue.push(node) {
        send_call_function_single_ipi(target);
    } else {
        bump(Counter::CallFolded);
    }
}

fn send_call_function_single_ipi(target: usize) {
    if signal_polling(target, arch::this_cpu().policy.call_idle) {
        bump(Counter::CallSaved);
    } else {
        send_call_ipi(target);
    }
}

fn send_call_ipi(target: usize) {
    bump(Counter::CallIpi);
    point!(call_send_ipi);
    arch::send_ipi(target, Ipi::CallSingle);
}

/// Signals the idle task of a CPU through its flags, as the variant has it; returns whether it
/// polls and so needs no IPI.
pub(crate) fn signal_polling(target: usize, variant: CallIdle) -> bool {
    if !arch::has_polling(&arch::this_cpu().policy) || !call_idle::reads_flags(variant) {
        return false;
    }
    let word = &machine::cpu(target).idle().ti.flags;
    point!(call_read_flags);
    let mut flags = word.load(Relaxed);
    loop {
        match call_idle::signal(variant, flags) {
            Signal::Ipi => return false,
            Signal::Saved => return true,
            Signal::SetFlags(wanted) => {
                point!(call_set_flag);
                match word.compare_exchange(flags, wanted, SeqCst, Relaxed) {
                    Ok(_) => {
                        bump(Counter::FlagsRmw);
                        return true;
                    }
                    Err(seen) => flags = seen,
                }
            }
        }
    }
}

/// The descriptors with which one CPU calls many: one per target, on the target's node.
pub(crate) struct CallMany {
    by_target: &'static [Link<Line<Csd>>],
}

impl CallMany {
    /// Sets descriptors aside for calls from `source`. Only the control thread may.
    pub(crate) fn new(source: usize) -> CallMany {
        let count = machine::cpu_count();
        let by_target = memory::alloc_slice::<Link<Line<Csd>>>(machine::node(source), count);
        for (target, slot) in by_target.iter().enumerate() {
            let csd = memory::alloc_value(machine::node(target), Line(Csd::new()));
            let address = core::ptr::from_ref(csd) as u64;
            testdev::declare_lines(address, size_of_val(csd), LineClass::Csd);
            slot.set(Some(csd));
        }
        CallMany { by_target }
    }

    #[inline]
    fn csd(&self, target: usize) -> &'static Csd {
        self.by_target[target].get_some()
    }
}

/// Runs `func(info)` on every CPU that `targets` names, except this one; `targets` must name
/// the same CPUs each time it is called.
///
/// Two or more CPUs whose queue was empty get a real interrupt each, polling or not.
pub(crate) fn smp_call_function_many(
    calls: &CallMany,
    targets: impl Fn(&mut dyn FnMut(usize)),
    func: CallFn,
    info: usize,
    is_wait: bool,
) {
    arch::preempt_disable();
    let this = arch::this_cpu().id();
    let flags = if is_wait { LOCK | SYNC } else { LOCK };
    let noted = CpuMask::new();
    let (mut noted_count, mut noted_last) = (0, 0);
    targets(&mut |target| {
        if target == this {
            return;
        }
        let csd = calls.csd(target);
        csd.lock_wait();
        csd.fill(flags, func, info);
        bump(Counter::CallRemote);
        if machine::cpu(target).call_single_queue.push(&csd.node) {
            noted.insert(target);
            (noted_count, noted_last) = (noted_count + 1, target);
        } else {
            bump(Counter::CallFolded);
        }
    });
    match noted_count {
        0 => {}
        1 => send_call_function_single_ipi(noted_last),
        _ => {
            point!(call_send_ipi);
            add(Counter::CallIpi, noted_count);
            arch::send_ipi_many(&noted, Ipi::Call);
        }
    }
    point!(call_signalled);
    if is_wait {
        targets(&mut |target| {
            if target != this {
                calls.csd(target).lock_wait();
            }
        });
    }
    point!(call_done);
    arch::preempt_enable();
}

/// The call-function interrupts: drain the queue. Interrupts are off.
pub(crate) fn generic_smp_call_function_interrupt() {
    flush_queue(arch::this_cpu());
}

/// Drains the queue from the idle loop, for callers that saw POLLING and sent no interrupt, then
/// runs the softirqs that the functions raised.
pub(crate) fn flush_smp_call_function_queue() {
    irq_disable!(irqoff_flush);
    flush_queue(arch::this_cpu());
    softirq::run_pending();
    arch::irq_enable();
}

/// Whether the queue of this CPU looks empty to a plain load.
pub(crate) fn queue_looks_empty() -> bool {
    arch::this_cpu().call_single_queue.looks_empty()
}

/// Takes the whole queue and runs it oldest first: those who wait, then the others, then the
/// wakes, in one batch.
fn flush_queue(cpu: &'static Cpu) {
    let mut taken = cpu.call_single_queue.take();
    let (mut not_waited_for, mut wakes) = (List::new(), List::new());
    // A csd stays valid until it is unlocked, as its owner waits for that.
    while let Some(node) = taken.pop() {
        match node.flags.load(Relaxed) {
            TTWU => wakes.append(node),
            flags if flags & SYNC != 0 => {
                let csd = Csd::of(node);
                Csd::run(csd.func.load(Relaxed), csd.info.load(Relaxed));
                csd.unlock();
            }
            _ => not_waited_for.append(node),
        }
    }
    while let Some(node) = not_waited_for.pop() {
        let csd = Csd::of(node);
        let (func, info) = (csd.func.load(Relaxed), csd.info.load(Relaxed));
        csd.unlock();
        Csd::run(func, info);
    }
    if !wakes.is_empty() {
        wake::sched_ttwu_pending(cpu, wakes);
    }
}
