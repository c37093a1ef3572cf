//! What must agree between the host and the emulator.
//!
//! Left out, each with its reason here: what the manual leaves undefined (`undefined`), answers
//! that are the machine's own, exception flags of MXCSR (not modelled), and the last bits of RCP
//! and RSQRT (the manual gives a bound, [SDM-2] "RCPPS": relative error at most 1.5 * 2^-12).

use std::fmt::Write as _;

use emu_x86::decode::{FpArith, FpStateOp, Kind, Op, SysOp, VecMov};
use emu_x86::state::gpr::{RAX, RCX, RDX};

use crate::case::{Case, End, Outcome};
use crate::undefined::Undefined;

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
/// Not compared in RFLAGS: RF, which is of the frame that an exception makes.
const FRAME_FLAGS: u64 = 1 << 16;
/// Flags of exceptions in MXCSR.
const MXCSR_FLAGS: u32 = 0x3f;
/// First address that is the kernel's: for these, Linux tells a process that the page is present,
/// whether it is or not.
const KERNEL: u64 = 1 << 47;
const PAGE_FAULT: u8 = 14;
/// Relative error of RCP and RSQRT.
const BOUND: f64 = 1.5 / 4096.0;

/// Differences as text, host first; empty when all agrees.
#[must_use]
pub fn differences(
    case: &Case,
    op: &Op,
    undefined: Undefined,
    host: &Outcome,
    emulated: &Outcome,
) -> String {
    let mut text = String::new();
    let (host_end, end) = (visible(host.end, op), visible(emulated.end, op));
    if host_end != end {
        let _ = write!(text, " end={host_end:x?}/{end:x?}");
    }
    let ignored = machine_registers(op) | if undefined.destination { register(op) } else { 0 };
    for (n, name) in NAMES.iter().enumerate() {
        let (a, b) = (host.gpr[n], emulated.gpr[n]);
        if a != b && ignored >> n & 1 == 0 {
            let _ = write!(text, " {name}={a:x}/{b:x}");
        }
    }
    let flags = !(undefined.flags | FRAME_FLAGS);
    if (host.rflags ^ emulated.rflags) & flags != 0 {
        let _ = write!(text, " flags={:x}/{:x}", host.rflags, emulated.rflags);
    }
    for n in 0..16 {
        let (a, b) = (host.xmm[n], emulated.xmm[n]);
        if a != b && !(is_approximate(op, n) && is_near(a, b)) {
            let _ = write!(text, " xmm{n}={a:x}/{b:x}");
        }
    }
    memory(&mut text, case, op, undefined, (host, emulated));
    rest(&mut text, host, emulated);
    text
}

/// An end as far as a process sees it.
fn visible(end: End, op: &Op) -> End {
    let End::Fault(PAGE_FAULT, mut code, mut cr2) = end else { return end };
    if cr2 >= KERNEL {
        code |= 1;
    }
    // Which of several accesses comes first is the processor's choice.
    let is_several = matches!(
        op.kind,
        Kind::Far(_) | Kind::FpState(_) | Kind::VecMov(VecMov::MaskStore) | Kind::Enter
    );
    if is_several {
        (code, cr2) = (code & !1, 0);
    }
    End::Fault(PAGE_FAULT, code, cr2)
}

/// Registers with answers of the machine, one bit each.
fn machine_registers(op: &Op) -> u64 {
    match op.kind {
        Kind::Rdtsc | Kind::System(SysOp::Xgetbv) => 1 << RAX | 1 << RDX,
        Kind::Rdtscp => 1 << RAX | 1 << RCX | 1 << RDX,
        Kind::Rdpid => register(op),
        _ => 0,
    }
}

/// The destination register, as a bit.
fn register(op: &Op) -> u64 {
    if op.dst.is_gpr() { 1 << op.dst.number() } else { 0 }
}

fn is_approximate(op: &Op, n: usize) -> bool {
    matches!(op.kind, Kind::Fp(FpArith::Rcp | FpArith::Rsqrt, _)) && op.dst.number() == n
}

/// Whether four singles are near each other, and equal where they are no numbers.
fn is_near(a: u128, b: u128) -> bool {
    (0..4).all(|i| {
        let element = |value: u128| f32::from_bits((value >> (32 * i)) as u32);
        let (a, b) = (element(a), element(b));
        let is_within = (f64::from(a) - f64::from(b)).abs() <= BOUND * f64::from(b).abs();
        // What the bound allows to be a denormal, may be zero.
        let is_tiny = f64::from(b).abs() <= f64::from(f32::MIN_POSITIVE) * (1.0 + BOUND);
        let is_within = is_within || is_tiny && a.to_bits() == b.to_bits() & 0x8000_0000;
        a.to_bits() == b.to_bits() || a.is_finite() && b.is_finite() && is_within
    })
}

fn memory(
    text: &mut String,
    case: &Case,
    op: &Op,
    undefined: Undefined,
    (host, emulated): (&Outcome, &Outcome),
) {
    let is_fault = matches!(host.end, End::Fault(..));
    // Stores before what faults stay, by the processor's choice which: also the return address of
    // a call to where no address is.
    let stores_several =
        matches!(op.kind, Kind::Enter | Kind::FpState(_) | Kind::Far(_) | Kind::CallIndirect);
    let is_open = undefined.destination && op.dst.is_mem() || is_fault && stores_several;
    if is_open || host.memory == emulated.memory {
        return;
    }
    let lacking = |of: &Outcome, change: &(u64, u8)| !of.memory.contains(change);
    let mut found = 0;
    for (side, (a, b)) in [("host", (host, emulated)), ("emulated", (emulated, host))] {
        let only = a.memory.iter().filter(|change| lacking(b, change));
        for (at, byte) in only.filter(|(at, _)| !is_choice(case, op, *at)) {
            found += 1;
            if found <= 16 {
                let _ = write!(text, " {side}[{at:x}]={byte:x}");
            }
        }
    }
}

/// Bytes of a save area that are the processor's choice.
///
/// MXCSR_MASK is the processor's; bytes from 416 on are reserved or the user's; XSTATE_BV says by
/// the processor's tracking whether a component is in use ([SDM-1] "XSAVE").
fn is_choice(case: &Case, op: &Op, at: u64) -> bool {
    let Kind::FpState(FpStateOp::Fxsave | FpStateOp::Xsave) = op.kind else { return false };
    let area = crate::generate::linear(case, op);
    let offset = at.wrapping_sub(area);
    matches!(offset, 28..32 | 416..512 | 512..520)
}

fn rest(text: &mut String, host: &Outcome, emulated: &Outcome) {
    let a = (host.mxcsr & !MXCSR_FLAGS, host.fcw, host.fsw, host.ftw);
    let b = (emulated.mxcsr & !MXCSR_FLAGS, emulated.fcw, emulated.fsw, emulated.ftw);
    if a != b {
        let _ = write!(text, " mxcsr,fcw,fsw,ftw={a:x?}/{b:x?}");
    }
    if host.st != emulated.st {
        let _ = write!(text, " st={:x?}/{:x?}", host.st, emulated.st);
    }
    // The return from the kernel makes null selectors zero.
    let selectors = |of: &Outcome| of.selectors.map(|s| if s & !3 == 0 { 0 } else { s });
    if host.bases != emulated.bases || selectors(host) != selectors(emulated) {
        let _ = write!(text, " segments={:x?}", (host.bases, host.selectors));
        let _ = write!(text, "/{:x?}", (emulated.bases, emulated.selectors));
    }
}
