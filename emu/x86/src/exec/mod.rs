//! Instruction bodies by family, and the dispatch to them.
//!
//! A body obeys the rule of `ctx`: all requests first, then all changes of registers. Where a
//! manual orders an exception check before a request, so does the body.
//!
//! Not modelled: flags that the manual calls undefined follow what is noted at each family; MMX
//! and x87 arithmetic, AVX and later vector extensions raise #UD and are reported once.
//!
//! Reading order: `operand` (reading and writing operands), `fast`, `alu`, `mov`, `stack`,
//! `branch`, then the others in any order.

mod alu;
mod atomic;
mod bits;
mod bmi;
mod branch;
mod call_gate;
mod control_far;
mod decimal;
mod fast;
mod fpstate;
mod fpu;
mod io;
mod misc;
mod mov;
mod muldiv;
mod operand;
mod shift;
mod sse_cvt;
mod sse_fp;
mod sse_int;
mod sse_mov;
mod sse_shift;
mod sse_shuffle;
mod stack;
mod string;
mod system;

use emu_cpu::port::Port;
use emu_cpu::wait::WaitRequest;

use crate::ctx::{Ctx, Exception, Exec, Trap};
use crate::decode::{Kind, Op};
use crate::defs::Features;
use crate::flags;

/// Runs one body as a step of the cpu does: translations take effect when it has ended.
///
/// # Errors
/// As [`execute`].
pub fn run_body<P: Port>(cpu: &mut crate::X86Cpu, port: &mut P, op: &Op) -> Exec<Next> {
    cpu.tlb.begin();
    let result = execute(&mut Ctx { cpu, port }, op);
    if result != Err(Trap::Wait) {
        cpu.tlb.commit();
    }
    result
}

/// How execution goes on after a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the following instruction.
    Seq,
    /// At this instruction pointer.
    Jump(u64),
    /// With the same instruction: a repeated string instruction has elements left.
    Repeat,
    /// The cpu waits, then goes on with the following instruction.
    Sleep(WaitRequest),
    /// The cpu is in shutdown.
    Shutdown,
}

/// Result of a body.
pub(crate) type Body = Exec<Next>;

/// Ends a body with an exception.
#[cold]
pub(crate) fn fault<T>(exception: Exception) -> Exec<T> {
    Err(Trap::Fault(exception))
}

/// Raises #UD unless the cpu offers the feature.
#[inline]
pub(crate) fn require<P: Port>(ctx: &Ctx<'_, P>, feature: Features) -> Exec<()> {
    if ctx.cpu.has(feature) { Ok(()) } else { fault(Exception::ud()) }
}

/// Executes one instruction; `cpu.state.rip` is its address.
///
/// # Errors
/// `Wait` and exceptions; architectural state is then that before the instruction.
#[inline(always)]
pub fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    if op.is_register_form {
        fast::execute(&mut ctx.cpu.state, op);
        return Ok(Next::Seq);
    }
    execute_common(ctx, op)
}

/// The first level of the dispatch.
#[inline(never)]
fn execute_common<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    match op.kind {
        Kind::Mov => mov::mov(ctx, op),
        Kind::Lea => mov::lea(ctx, op),
        Kind::Movzx => mov::movzx(ctx, op),
        Kind::Movsx => mov::movsx(ctx, op),
        Kind::Add => alu::update(ctx, op, |a, b, _, size| flags::add(a, b, 0, size)),
        Kind::Sub => alu::update(ctx, op, |a, b, _, size| flags::sub(a, b, 0, size)),
        Kind::Adc => alu::update(ctx, op, flags::add),
        Kind::Sbb => alu::update(ctx, op, flags::sub),
        Kind::And => alu::update(ctx, op, |a, b, _, size| flags::logic(a & b, size)),
        Kind::Or => alu::update(ctx, op, |a, b, _, size| flags::logic(a | b, size)),
        Kind::Xor => alu::update(ctx, op, |a, b, _, size| flags::logic(a ^ b, size)),
        Kind::Cmp => alu::compare(ctx, op, |a, b, size| flags::sub(a, b, 0, size).1),
        Kind::Test => alu::compare(ctx, op, |a, b, size| flags::logic(a & b, size).1),
        Kind::Inc => alu::count(ctx, op, |a, size| flags::add(a, 1, 0, size)),
        Kind::Dec => alu::count(ctx, op, |a, size| flags::sub(a, 1, 0, size)),
        Kind::Neg => alu::neg(ctx, op),
        Kind::Not => alu::not(ctx, op),
        Kind::Jcc(cond) => branch::jcc(ctx, op, cond),
        Kind::Jmp => branch::jmp(ctx, op),
        Kind::Call => branch::call(ctx, op),
        Kind::Ret => branch::ret(ctx, op),
        Kind::Push => stack::push(ctx, op),
        Kind::Pop => stack::pop(ctx, op),
        Kind::Nop => Ok(Next::Seq),
        _ => execute_less_common(ctx, op),
    }
}

/// The second level of the dispatch, kept out of the hot one.
#[inline(never)]
fn execute_less_common<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    match op.kind {
        Kind::Shl => shift::shl(ctx, op),
        Kind::Shr => shift::shr(ctx, op),
        Kind::Sar => shift::sar(ctx, op),
        Kind::Rol => shift::rol(ctx, op),
        Kind::Ror => shift::ror(ctx, op),
        Kind::Rcl => shift::rcl(ctx, op),
        Kind::Rcr => shift::rcr(ctx, op),
        Kind::Shld => shift::shld(ctx, op),
        Kind::Shrd => shift::shrd(ctx, op),
        Kind::Cmov(cond) => mov::cmov(ctx, op, cond),
        Kind::Set(cond) => mov::set(ctx, op, cond),
        Kind::JmpIndirect => branch::jmp_indirect(ctx, op),
        Kind::CallIndirect => branch::call_indirect(ctx, op),
        Kind::Loop(kind) => branch::loop_(ctx, op, kind),
        Kind::Jcxz => branch::jcxz(ctx, op),
        Kind::Mul => muldiv::mul(ctx, op),
        Kind::Imul => muldiv::imul(ctx, op),
        Kind::ImulTruncated => muldiv::imul_truncated(ctx, op),
        Kind::Div => muldiv::div(ctx, op),
        Kind::Idiv => muldiv::idiv(ctx, op),
        Kind::Bit(bit_op) => bits::bit(ctx, op, bit_op),
        Kind::Bsf => bits::bsf(ctx, op),
        Kind::Bsr => bits::bsr(ctx, op),
        Kind::Tzcnt => bits::tzcnt(ctx, op),
        Kind::Lzcnt => bits::lzcnt(ctx, op),
        Kind::Popcnt => bits::popcnt(ctx, op),
        Kind::Bswap => bits::bswap(ctx, op),
        Kind::Crc32 => bits::crc32(ctx, op),
        Kind::Bmi(bmi_op) => bmi::bmi(ctx, op, bmi_op),
        Kind::Adcx => bmi::adx(ctx, op, flags::CF),
        Kind::Adox => bmi::adx(ctx, op, flags::OF),
        Kind::Movbe => mov::movbe(ctx, op),
        Kind::Xchg => atomic::xchg(ctx, op),
        Kind::Xadd => atomic::xadd(ctx, op),
        Kind::Cmpxchg => atomic::cmpxchg(ctx, op),
        Kind::Cmpxchg8b => atomic::cmpxchg_pair(ctx, op, 4),
        Kind::Cmpxchg16b => atomic::cmpxchg_pair(ctx, op, 8),
        Kind::SignExtend => mov::sign_extend(ctx, op),
        Kind::SignDouble => mov::sign_double(ctx, op),
        Kind::String(string_op) => string::string(ctx, op, string_op),
        Kind::Leave => stack::leave(ctx, op),
        Kind::PushFlags => stack::push_flags(ctx, op),
        Kind::PopFlags => stack::pop_flags(ctx, op),
        Kind::VecMov(vec_op) => sse_mov::vec_mov(ctx, op, vec_op),
        Kind::Int(int_op) => sse_int::int(ctx, op, int_op),
        Kind::VecShift(shift_op) => sse_shift::vec_shift(ctx, op, shift_op),
        Kind::Shuffle(shuffle_op) => sse_shuffle::shuffle(ctx, op, shuffle_op),
        Kind::Fp(arith, form) => sse_fp::arith(ctx, op, arith, form),
        Kind::FpCompare(form) => sse_fp::compare(ctx, op, form),
        Kind::FpFlags(form) => sse_fp::compare_to_flags(ctx, op, form),
        Kind::Cvt(cvt_op) => sse_cvt::convert(ctx, op, cvt_op),
        _ => execute_rare(ctx, op),
    }
}

/// The third level: what is rare or slow by nature.
#[inline(never)]
fn execute_rare<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    match op.kind {
        Kind::Lahf => misc::lahf(ctx),
        Kind::Sahf => misc::sahf(ctx),
        Kind::Clc => misc::set_flag(ctx, flags::CF, Some(false)),
        Kind::Stc => misc::set_flag(ctx, flags::CF, Some(true)),
        Kind::Cmc => misc::set_flag(ctx, flags::CF, None),
        Kind::Cld => misc::set_flag(ctx, flags::DF, Some(false)),
        Kind::Std => misc::set_flag(ctx, flags::DF, Some(true)),
        Kind::Xlat => misc::xlat(ctx, op),
        Kind::Salc => misc::salc(ctx),
        Kind::Bound => misc::bound(ctx, op),
        Kind::In => io::input(ctx, op),
        Kind::Out => io::output(ctx, op),
        Kind::Enter => stack::enter(ctx, op),
        Kind::PushAll => stack::push_all(ctx, op),
        Kind::PopAll => stack::pop_all(ctx, op),
        Kind::PushSegment => stack::push_segment(ctx, op),
        Kind::MovFromSegment => mov::from_segment(ctx, op),
        Kind::Decimal(decimal_op) => decimal::adjust(ctx, op, decimal_op),
        Kind::Pause | Kind::Sfence => Ok(Next::Seq),
        Kind::Lfence => misc::lfence(ctx),
        Kind::Mfence => misc::mfence(ctx),
        Kind::FlushLine => misc::flush_line(ctx, op),
        Kind::WriteBackLine => misc::write_back_line(ctx, op),
        Kind::Rdtsc => misc::rdtsc(ctx),
        Kind::Rdtscp => misc::rdtscp(ctx),
        Kind::Rdpid => misc::rdpid(ctx, op),
        Kind::Fpu(fpu_op) => fpu::control(ctx, op, fpu_op),
        Kind::FpState(state_op) => fpstate::save_restore(ctx, op, state_op),
        Kind::System(what) => system::execute(ctx, op, what),
        Kind::SegLoad(what) => system::seg_load(ctx, op, what),
        Kind::Far(what) => control_far::execute(ctx, op, what),
        Kind::Unimplemented => misc::unimplemented(ctx, op),
        // Not advertised: #UD without report, as on a machine without them.
        _ => fault(Exception::ud()),
    }
}
