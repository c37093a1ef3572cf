//! Function calls on other CPUs: queue, signal, drain.
//!
//! A call is a descriptor (csd) on the target's queue. Who finds the queue not empty signals
//! nothing: an earlier caller did, and the target takes the whole queue at once. Who finds it
//! empty asks `guests_sched::call_idle` whether the target can do without an interrupt.

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_abi::layout::CPUS_MAX;
use guests_sched::call_idle::{self, Signal};

use crate::arch::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::arch::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use crate::arch::{self, Ipi, irq_disable, irq_restore, irq_save};
use crate::counters::{add, bump};
use crate::link::Link;
use crate::percpu::{Cpu, Line};
use crate::points::point;
use crate::{machine, memory, testdev};

/// A function that runs on another CPU, with interrupts off.
pub(crate) type CallFn = extern "C" fn(usize);

/// The caller waits until LOCK clears, or may not reuse the csd before.
const LOCK: u32 = 1;
/// The caller waits: run first, then unlock. Else unlock first, then run.
const SYNC: u32 = 2;

/// Call-function descriptor; half a line.
#[repr(C, align(32))]
pub(crate) struct Csd {
    next: AtomicPtr<Csd>,
    flags: AtomicU32,
    func: AtomicUsize,
    info: AtomicUsize,
}

impl Csd {
    /// A free descriptor.
    const fn new() -> Csd {
        Csd {
            next: AtomicPtr::new(core::ptr::null_mut()),
            flags: AtomicU32::new(0),
            func: AtomicUsize::new(0),
            info: AtomicUsize::new(0),
        }
    }

    fn fill(&self, flags: u32, func: CallFn, info: usize) {
        self.flags.store(flags, Relaxed);
        self.func.store(func as usize, Relaxed);
        self.info.store(info, Relaxed);
    }

    /// Spins until the descriptor is unlocked; interrupts are on.
    #[inline]
    fn lock_wait(&self) {
        arch::cond_load(&self.flags, Acquire, |flags| flags & LOCK == 0);
    }

    #[inline]
    fn unlock(&self) {
        point!(csd_unlock);
        self.flags.store(0, Release);
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
    while csd.flags.load(Acquire) & LOCK != 0 {
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
    bump(Counter::CallRemote);
    if push(machine::cpu(target), csd) {
        send_call_function_single_ipi(target);
    } else {
        bump(Counter::CallFolded);
    }
    point!(call_signalled);
}

/// Puts a csd on the queue of a CPU; returns whether the queue was empty.
#[inline]
fn push(target: &Cpu, csd: &Csd) -> bool {
    let csd_ptr = core::ptr::from_ref(csd).cast_mut();
    point!(call_push);
    let mut first = target.call_single_queue.load(Relaxed);
    loop {
        csd.next.store(first, Relaxed);
        match target.call_single_queue.compare_exchange(first, csd_ptr, SeqCst, Relaxed) {
            Ok(_) => break,
            Err(seen) => first = seen,
        }
    }
    point!(call_pushed);
    first.is_null()
}

fn send_call_function_single_ipi(target: usize) {
    if call_function_single_prep_ipi(target) {
        send_call_ipi(target);
    } else {
        bump(Counter::CallSaved);
    }
}

fn send_call_ipi(target: usize) {
    bump(Counter::CallIpi);
    point!(call_send_ipi);
    arch::send_ipi(target, Ipi::CallSingle);
}

/// Signals the target's idle task through its flags if it polls; returns whether an IPI is
/// needed instead.
fn call_function_single_prep_ipi(target: usize) -> bool {
    let policy = &arch::this_cpu().policy;
    let variant = policy.call_idle;
    if !arch::has_polling(policy) || !call_idle::reads_flags(variant) {
        return true;
    }
    let word = &machine::cpu(target).idle().ti.flags;
    point!(call_read_flags);
    let mut flags = word.load(Relaxed);
    loop {
        match call_idle::signal(variant, flags) {
            Signal::Ipi => return true,
            Signal::Saved => return false,
            Signal::SetFlags(wanted) => {
                point!(call_set_flag);
                match word.compare_exchange(flags, wanted, SeqCst, Relaxed) {
                    Ok(_) => {
                        bump(Counter::FlagsRmw);
                        return false;
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

/// A set of CPUs, one bit each.
pub(crate) struct CpuMask([u64; CPUS_MAX / 64]);

impl CpuMask {
    fn insert(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Calls `each` for every CPU of the set, in order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize)) {
        for (at, &word) in self.0.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                each(at * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
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
    let mut noted = CpuMask([0; CPUS_MAX / 64]);
    let (mut noted_count, mut noted_last) = (0, 0);
    targets(&mut |target| {
        if target == this {
            return;
        }
        let csd = calls.csd(target);
        csd.lock_wait();
        csd.fill(flags, func, info);
        bump(Counter::CallRemote);
        if push(machine::cpu(target), csd) {
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

/// Drains the queue from the idle loop, for callers that saw POLLING and sent no interrupt.
pub(crate) fn flush_smp_call_function_queue() {
    irq_disable!(irqoff_flush);
    flush_queue(arch::this_cpu());
    arch::irq_enable();
}

/// Whether the queue of this CPU looks empty to a plain load.
pub(crate) fn queue_looks_empty() -> bool {
    arch::this_cpu().call_single_queue.load(Relaxed).is_null()
}

/// Takes the whole queue and runs it oldest first: those who wait, then the others.
#[expect(unsafe_code, reason = "walks a list of raw pointers")]
fn flush_queue(cpu: &Cpu) {
    point!(csq_take);
    let newest = cpu.call_single_queue.swap(core::ptr::null_mut(), AcqRel);
    if newest.is_null() {
        return;
    }
    // SAFETY, for all dereferences: a csd stays valid until it is unlocked, as its owner waits
    // for that, and its `next` is read before.
    let mut left = unsafe { reverse(newest) };
    let mut waiting_none = core::ptr::null_mut::<Csd>();
    let mut waiting_none_last = core::ptr::null_mut::<Csd>();
    while !left.is_null() {
        // SAFETY: see above.
        let csd = unsafe { &*left };
        let next = csd.next.load(Relaxed);
        if csd.flags.load(Relaxed) & SYNC != 0 {
            Csd::run(csd.func.load(Relaxed), csd.info.load(Relaxed));
            csd.unlock();
        } else {
            csd.next.store(core::ptr::null_mut(), Relaxed);
            if waiting_none.is_null() {
                waiting_none = left;
            } else {
                // SAFETY: see above.
                unsafe { (*waiting_none_last).next.store(left, Relaxed) };
            }
            waiting_none_last = left;
        }
        left = next;
    }
    while !waiting_none.is_null() {
        // SAFETY: see above.
        let csd = unsafe { &*waiting_none };
        waiting_none = csd.next.load(Relaxed);
        let (func, info) = (csd.func.load(Relaxed), csd.info.load(Relaxed));
        csd.unlock();
        Csd::run(func, info);
    }
}

/// Reverses a list of descriptors.
///
/// # Safety
/// Every descriptor of the list is valid.
#[expect(unsafe_code, reason = "walks a list of raw pointers")]
unsafe fn reverse(mut left: *mut Csd) -> *mut Csd {
    let mut reversed = core::ptr::null_mut();
    while !left.is_null() {
        // SAFETY: by the contract of this function.
        let csd = unsafe { &*left };
        let next = csd.next.load(Relaxed);
        if next != reversed {
            csd.next.store(reversed, Relaxed);
        }
        (reversed, left) = (left, next);
    }
    reversed
}
