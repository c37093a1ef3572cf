//! Instruction forms: what iced calls a `Code`, and what becomes of each here.

use emu_x86::decode::{FarOp, Kind, SysOp};
use iced_x86::{Code, Instruction};

use crate::emulate;
use crate::generate;
use crate::rng::Rng;

/// What becomes of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It runs on the host and on the emulator.
    Native,
    /// It is implemented, but a process cannot run it, or the answer is the machine's own.
    NotNative(&'static str),
    /// It has no body, in any of its operand kinds.
    NotImplemented,
    /// No instance was made: iced decodes it by a special option only, or the generator does not
    /// know its operands, which no implemented instruction has.
    NotDecoded,
}

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// iced's name of it.
    pub code: Code,
    /// What becomes of it.
    pub class: Class,
}

/// Tries at an instance before a form counts as one that cannot be encoded.
const TRIES: u64 = 64;

/// All forms of 64-bit mode, in iced's order.
#[must_use]
pub fn all() -> Vec<Form> {
    let legal = Code::values().filter(|code| {
        let info = code.op_code();
        info.is_instruction() && info.mode64()
    });
    legal.map(|code| Form { code, class: classify(code) }).collect()
}

/// Those that run on the host, as far as it has them.
#[must_use]
pub fn native(forms: &[Form]) -> Vec<Code> {
    forms.iter().filter(|form| form.class == Class::Native).map(|form| form.code).collect()
}

fn classify(code: Code) -> Class {
    let mut is_encoded = false;
    for n in 0..TRIES {
        let mut rng = Rng::new(0, n);
        let Some((_, bytes)) = generate::instance(code, &mut rng) else { continue };
        is_encoded = true;
        match emulate::decode(&bytes).kind {
            // RDRAND has a kind, but no body: no machine offers it.
            Kind::Unimplemented | Kind::Invalid | Kind::Random => {}
            kind => return not_native(kind).map_or(Class::Native, Class::NotNative),
        }
    }
    if is_encoded { Class::NotImplemented } else { Class::NotDecoded }
}

/// Why a process cannot run a kind, if so.
#[must_use]
pub fn not_native(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Far(FarOp::Int | FarOp::Int1 | FarOp::Int3 | FarOp::Into) => "enters the kernel",
        Kind::Far(FarOp::Syscall | FarOp::Sysenter) => "enters the kernel",
        Kind::System(SysOp::Cpuid) => "the answer is the machine's",
        Kind::System(SysOp::Rdpmc) => "CR4.PCE is the kernel's choice",
        Kind::System(SysOp::Sgdt | SysOp::Sidt | SysOp::Sldt | SysOp::Str | SysOp::Smsw) => {
            "kernels emulate it under UMIP"
        }
        Kind::System(SysOp::Umwait | SysOp::Tpause) => "waits",
        _ => return None,
    })
}

/// The feature that the host lacks to run an instruction, of `flags` of its cpuinfo.
#[must_use]
pub fn missing_feature(instruction: &Instruction, flags: &[String]) -> Option<String> {
    let features = instruction.cpuid_features();
    let names = features.iter().map(|feature| format!("{feature:?}").to_lowercase());
    names.into_iter().find(|name| !has(flags, name))
}

/// Whether the host has what iced calls `name`.
fn has(flags: &[String], name: &str) -> bool {
    let word = match name {
        // Every 64-bit processor.
        "intel8086" | "intel8086_only" | "intel186" | "intel286" | "intel286_only" | "intel386"
        | "intel386_only" | "intel386_486_only" | "intel386_a0_only" | "intel486" | "x64"
        | "cpuid" | "fpu" | "fpu287" | "fpu387" | "multibytenop" | "smm" => return true,
        "sse3" => "pni",
        "lzcnt" => "abm",
        "lahf" | "lahf_sahf" => "lahf_lm",
        "cmpxchg16b" => "cx16",
        "pause" => "sse2",
        "clfsh" => "clflush",
        "sysret" | "sysc" => "syscall",
        // Hints, and no-operations where they are not known.
        "prefetchw" | "prefetchwt1" | "prefetchiti" | "cldemote" | "cet_ss" | "cet_ibt" => {
            return true;
        }
        other => other,
    };
    flags.iter().any(|flag| flag == word)
}
