//! Random instances of a form, and cases around them.
//!
//! An instance has random operands; its case has registers and memory such that operands in memory
//! mostly lie where there is some, with edges of lines and pages, pages without rights, and
//! addresses that are none in the mix. What a kind of instruction needs to do more than fault
//! (`direct`) is put in place.
//!
//! Reading order: `instance` (the encoding), `case` (the state), `direct`.

mod direct;
mod operand;
mod place;

use emu_x86::decode::{Kind, Op};
use emu_x86::flat_user::{CODE, CODE_PAGE};
use emu_x86::state::gpr;
use iced_x86::{Code, Decoder, DecoderOptions, Encoder, Instruction};

use crate::case::{Case, SETTABLE_FLAGS};
use crate::rng::Rng;
use crate::{emulate, forms, values};

/// Longest instruction.
const LEN_MAX: usize = 15;
/// Prefixes that are put before some instructions.
const PREFIXES: [u8; 10] = [0x66, 0x67, 0x2e, 0x3e, 0x36, 0x26, 0x64, 0x65, 0xf2, 0xf3];

/// A case that is ready to run, with what it is.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The case.
    pub case: Case,
    /// Its instruction.
    pub instruction: Instruction,
    /// What the emulator makes of it.
    pub op: Op,
}

/// A random instruction of a form, with its bytes. `None` when the operands do not go together.
pub fn instance(code: Code, rng: &mut Rng) -> Option<(Instruction, Vec<u8>)> {
    let wanted = operand::instruction(code, rng)?;
    let mut encoder = Encoder::try_new(64).ok()?;
    encoder.encode(&wanted, CODE).ok()?;
    let bytes = encoder.take_buffer();
    let found = decode(&bytes);
    (found.code() == code && found.len() == bytes.len()).then_some((found, bytes))
}

/// iced's view of bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, CODE, DecoderOptions::NONE).decode()
}

/// A case of a form. `None` when the operands do not go together, or the host could not run it.
pub fn case(code: Code, rng: &mut Rng) -> Option<Generated> {
    let (instruction, bytes) = instance(code, rng)?;
    let (instruction, bytes) = mutated(instruction, bytes, rng)?;
    let op = emulate::decode(&bytes);
    if matches!(op.kind, Kind::Unimplemented | Kind::Random) || forms::not_native(op.kind).is_some()
    {
        return None;
    }
    let mut case = Case::new(bytes);
    case.flags = rng.word() & SETTABLE_FLAGS;
    for (n, value) in case.gpr.iter_mut().enumerate() {
        if n != gpr::RSP {
            *value = values::integer(rng);
        }
    }
    case.gpr[gpr::RSP] = place::stack(rng);
    for value in &mut case.xmm {
        *value = values::vector(rng);
    }
    place::operands(&mut case, &instruction, &op, rng);
    direct::arrange(&mut case, &instruction, &op, rng);
    let can_run = clear_of_itself(&case, &instruction) && !splits_lock(&case, &instruction, &op);
    can_run.then_some(Generated { case, instruction, op })
}

/// Whether a locked access lies in two lines: kernels detect these and put the process to sleep.
pub(crate) fn splits_lock(case: &Case, instruction: &Instruction, op: &Op) -> bool {
    let is_memory = op.dst.is_mem() || op.src.is_mem();
    let is_locked = instruction.has_lock_prefix() || op.kind == Kind::Xchg;
    if !is_memory || !is_locked {
        return false;
    }
    let mut at = place::linear(case, op);
    if let Kind::Bit(_) = op.kind
        && op.src.is_gpr()
    {
        // The index moves the operand by whole operands.
        let index = case.gpr[op.src.number()] << (64 - 8 * u32::from(op.size));
        let units = index as i64 >> (64 - 8 * u32::from(op.size)) >> (8 * op.size).trailing_zeros();
        at = at.wrapping_add_signed(units * i64::from(op.size));
    }
    at % 64 + instruction.memory_size().size() as u64 > 64
}

/// One in eight gets a prefix that it does not need.
fn mutated(
    instruction: Instruction,
    bytes: Vec<u8>,
    rng: &mut Rng,
) -> Option<(Instruction, Vec<u8>)> {
    if !rng.one_in(8) || bytes.len() >= LEN_MAX {
        return Some((instruction, bytes));
    }
    let mut with_prefix = vec![rng.pick(&PREFIXES)];
    with_prefix.extend(&bytes);
    let found = decode(&with_prefix);
    // Bytes that are none to iced must be none to the emulator and to the host.
    (found.len() == with_prefix.len() || found.is_invalid()).then_some((found, with_prefix))
}

/// Whether a direct branch goes elsewhere than into itself, which would never end.
fn clear_of_itself(case: &Case, instruction: &Instruction) -> bool {
    let is_branch = instruction.is_jcc_short_or_near()
        || instruction.is_jmp_short_or_near()
        || instruction.is_call_near()
        || instruction.is_loop()
        || instruction.is_loopcc()
        || instruction.is_jcx_short();
    let target = instruction.near_branch_target();
    !is_branch || !(CODE..case.next()).contains(&target)
}

/// A place in the code page that is no part of the instruction, hence INT3.
fn landing(rng: &mut Rng) -> u64 {
    CODE_PAGE + 0x100 + rng.below(0x600)
}

/// The linear address of the memory operand of an op, before the case runs.
#[must_use]
pub fn linear(case: &Case, op: &Op) -> u64 {
    place::linear(case, op)
}
