//! Mnemonics to kinds.

use iced_x86::{Code, Instruction, Mnemonic as M, OpKind, Register};

use super::is_string_code;
use super::kind::{
    BitOp, BmiOp, Cond, CvtOp, DecimalOp, FarOp, FpArith, FpForm, FpStateOp, FpuOp, IntOp, Kind,
    LoopKind, SegLoad, ShuffleOp, StringOp, SysOp, VecMov, VecShift,
};

/// The kind of an instruction that iced has decoded.
pub(super) fn kind(instruction: &Instruction) -> Kind {
    let has_mmx = (0..instruction.op_count())
        .any(|i| instruction.op_kind(i) == OpKind::Register && instruction.op_register(i).is_mm());
    if has_mmx {
        return Kind::Unimplemented;
    }
    if is_string_code(instruction.code()) {
        let is_move = instruction.code() == Code::Movsd_m32_m32;
        return Kind::String(if is_move { StringOp::Movs } else { StringOp::Cmps });
    }
    integer(instruction)
        .or_else(|| conditional(instruction.mnemonic()))
        .or_else(|| system(instruction.mnemonic()))
        .or_else(|| far(instruction))
        .or_else(|| vector_moves(instruction.mnemonic()))
        .or_else(|| packed_integer(instruction.mnemonic()))
        .or_else(|| floating(instruction.mnemonic()))
        .unwrap_or(Kind::Unimplemented)
}

fn is_register(instruction: &Instruction, operand: u32, test: fn(Register) -> bool) -> bool {
    instruction.op_kind(operand) == OpKind::Register && test(instruction.op_register(operand))
}

fn is_segment(instruction: &Instruction, operand: u32) -> bool {
    is_register(instruction, operand, Register::is_segment_register)
}

/// MOV in its forms with segment, control and debug registers.
fn mov(instruction: &Instruction) -> Kind {
    if is_segment(instruction, 0) {
        return Kind::SegLoad(SegLoad::Mov);
    }
    if is_segment(instruction, 1) {
        return Kind::MovFromSegment;
    }
    let system = |i, test| is_register(instruction, i, test);
    if system(0, Register::is_cr) {
        Kind::System(SysOp::MovToCr)
    } else if system(1, Register::is_cr) {
        Kind::System(SysOp::MovFromCr)
    } else if system(0, Register::is_dr) {
        Kind::System(SysOp::MovToDr)
    } else if system(1, Register::is_dr) {
        Kind::System(SysOp::MovFromDr)
    } else if system(0, Register::is_tr) || system(1, Register::is_tr) {
        Kind::Unimplemented
    } else {
        Kind::Mov
    }
}

#[rustfmt::skip]
fn integer(instruction: &Instruction) -> Option<Kind> {
    Some(match instruction.mnemonic() {
        M::Mov => mov(instruction),
        M::Lea => Kind::Lea,
        M::Add => Kind::Add,
        M::Or => Kind::Or,
        M::Adc => Kind::Adc,
        M::Sbb => Kind::Sbb,
        M::And => Kind::And,
        M::Sub => Kind::Sub,
        M::Xor => Kind::Xor,
        M::Cmp => Kind::Cmp,
        M::Test => Kind::Test,
        M::Inc => Kind::Inc,
        M::Dec => Kind::Dec,
        M::Neg => Kind::Neg,
        M::Not => Kind::Not,
        M::Movzx => Kind::Movzx,
        M::Shr => Kind::Shr,
        M::Sar => Kind::Sar,
        M::Rol => Kind::Rol,
        M::Ror => Kind::Ror,
        M::Rcl => Kind::Rcl,
        M::Rcr => Kind::Rcr,
        M::Shld => Kind::Shld,
        M::Shrd => Kind::Shrd,
        M::Mul => Kind::Mul,
        M::Div => Kind::Div,
        M::Idiv => Kind::Idiv,
        M::Bsf => Kind::Bsf,
        M::Bsr => Kind::Bsr,
        M::Tzcnt => Kind::Tzcnt,
        M::Lzcnt => Kind::Lzcnt,
        M::Popcnt => Kind::Popcnt,
        M::Bswap => Kind::Bswap,
        M::Adcx => Kind::Adcx,
        M::Adox => Kind::Adox,
        M::Movbe => Kind::Movbe,
        M::Crc32 => Kind::Crc32,
        M::Xchg => Kind::Xchg,
        M::Xadd => Kind::Xadd,
        M::Cmpxchg => Kind::Cmpxchg,
        M::Cmpxchg8b => Kind::Cmpxchg8b,
        M::Cmpxchg16b => Kind::Cmpxchg16b,
        M::Lahf => Kind::Lahf,
        M::Sahf => Kind::Sahf,
        M::Clc => Kind::Clc,
        M::Stc => Kind::Stc,
        M::Cmc => Kind::Cmc,
        M::Cld => Kind::Cld,
        M::Std => Kind::Std,
        M::Salc => Kind::Salc,
        M::In => Kind::In,
        M::Out => Kind::Out,
        M::Enter => Kind::Enter,
        M::Leave => Kind::Leave,
        M::Bound => Kind::Bound,
        M::Pause => Kind::Pause,
        M::Lfence => Kind::Lfence,
        M::Sfence => Kind::Sfence,
        M::Mfence => Kind::Mfence,
        M::Rdtsc => Kind::Rdtsc,
        M::Rdtscp => Kind::Rdtscp,
        M::Rdpid => Kind::Rdpid,
        M::Ret => Kind::Ret,
        M::Movsx | M::Movsxd => Kind::Movsx,
        M::Shl | M::Sal => Kind::Shl,
        M::Imul if instruction.op_count() == 1 => Kind::Imul,
        M::Imul => Kind::ImulTruncated,
        M::Jcxz | M::Jecxz | M::Jrcxz => Kind::Jcxz,
        M::Cbw | M::Cwde | M::Cdqe => Kind::SignExtend,
        M::Cwd | M::Cdq | M::Cqo => Kind::SignDouble,
        M::Xlatb => Kind::Xlat,
        M::Pusha | M::Pushad => Kind::PushAll,
        M::Popa | M::Popad => Kind::PopAll,
        M::Pushf | M::Pushfd | M::Pushfq => Kind::PushFlags,
        M::Popf | M::Popfd | M::Popfq => Kind::PopFlags,
        M::Push if is_segment(instruction, 0) => Kind::PushSegment,
        M::Pop if is_segment(instruction, 0) => Kind::SegLoad(SegLoad::Pop),
        M::Push => Kind::Push,
        M::Pop => Kind::Pop,
        M::Clflush | M::Clflushopt => Kind::FlushLine,
        M::Clwb => Kind::WriteBackLine,
        M::Rdrand | M::Rdseed => Kind::Random,
        M::Nop | M::Reservednop | M::Endbr32 | M::Endbr64 | M::Cldemote | M::Rdsspd | M::Rdsspq
        | M::Prefetch | M::Prefetchnta | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2
        | M::Prefetchw | M::Prefetchwt1 | M::Prefetchit0 | M::Prefetchit1 => Kind::Nop,
        M::Bt => Kind::Bit(BitOp::Bt),
        M::Bts => Kind::Bit(BitOp::Bts),
        M::Btr => Kind::Bit(BitOp::Btr),
        M::Btc => Kind::Bit(BitOp::Btc),
        M::Andn => Kind::Bmi(BmiOp::Andn),
        M::Bextr => Kind::Bmi(BmiOp::Bextr),
        M::Blsi => Kind::Bmi(BmiOp::Blsi),
        M::Blsmsk => Kind::Bmi(BmiOp::Blsmsk),
        M::Blsr => Kind::Bmi(BmiOp::Blsr),
        M::Bzhi => Kind::Bmi(BmiOp::Bzhi),
        M::Mulx => Kind::Bmi(BmiOp::Mulx),
        M::Pdep => Kind::Bmi(BmiOp::Pdep),
        M::Pext => Kind::Bmi(BmiOp::Pext),
        M::Rorx => Kind::Bmi(BmiOp::Rorx),
        M::Sarx => Kind::Bmi(BmiOp::Sarx),
        M::Shlx => Kind::Bmi(BmiOp::Shlx),
        M::Shrx => Kind::Bmi(BmiOp::Shrx),
        M::Loop => Kind::Loop(LoopKind::Loop),
        M::Loope => Kind::Loop(LoopKind::Loope),
        M::Loopne => Kind::Loop(LoopKind::Loopne),
        M::Daa => Kind::Decimal(DecimalOp::Daa),
        M::Das => Kind::Decimal(DecimalOp::Das),
        M::Aaa => Kind::Decimal(DecimalOp::Aaa),
        M::Aas => Kind::Decimal(DecimalOp::Aas),
        M::Aam => Kind::Decimal(DecimalOp::Aam),
        M::Aad => Kind::Decimal(DecimalOp::Aad),
        M::Movsb | M::Movsw | M::Movsq => Kind::String(StringOp::Movs),
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => Kind::String(StringOp::Stos),
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => Kind::String(StringOp::Lods),
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => Kind::String(StringOp::Scas),
        M::Cmpsb | M::Cmpsw | M::Cmpsq => Kind::String(StringOp::Cmps),
        M::Insb | M::Insw | M::Insd => Kind::String(StringOp::Ins),
        M::Outsb | M::Outsw | M::Outsd => Kind::String(StringOp::Outs),
        _ => return None,
    })
}

#[rustfmt::skip]
fn conditional(mnemonic: M) -> Option<Kind> {
    Some(match mnemonic {
        M::Jo => Kind::Jcc(Cond::O),
        M::Jno => Kind::Jcc(Cond::No),
        M::Jb => Kind::Jcc(Cond::B),
        M::Jae => Kind::Jcc(Cond::Ae),
        M::Je => Kind::Jcc(Cond::E),
        M::Jne => Kind::Jcc(Cond::Ne),
        M::Jbe => Kind::Jcc(Cond::Be),
        M::Ja => Kind::Jcc(Cond::A),
        M::Js => Kind::Jcc(Cond::S),
        M::Jns => Kind::Jcc(Cond::Ns),
        M::Jp => Kind::Jcc(Cond::P),
        M::Jnp => Kind::Jcc(Cond::Np),
        M::Jl => Kind::Jcc(Cond::L),
        M::Jge => Kind::Jcc(Cond::Ge),
        M::Jle => Kind::Jcc(Cond::Le),
        M::Jg => Kind::Jcc(Cond::G),
        M::Cmovo => Kind::Cmov(Cond::O),
        M::Cmovno => Kind::Cmov(Cond::No),
        M::Cmovb => Kind::Cmov(Cond::B),
        M::Cmovae => Kind::Cmov(Cond::Ae),
        M::Cmove => Kind::Cmov(Cond::E),
        M::Cmovne => Kind::Cmov(Cond::Ne),
        M::Cmovbe => Kind::Cmov(Cond::Be),
        M::Cmova => Kind::Cmov(Cond::A),
        M::Cmovs => Kind::Cmov(Cond::S),
        M::Cmovns => Kind::Cmov(Cond::Ns),
        M::Cmovp => Kind::Cmov(Cond::P),
        M::Cmovnp => Kind::Cmov(Cond::Np),
        M::Cmovl => Kind::Cmov(Cond::L),
        M::Cmovge => Kind::Cmov(Cond::Ge),
        M::Cmovle => Kind::Cmov(Cond::Le),
        M::Cmovg => Kind::Cmov(Cond::G),
        M::Seto => Kind::Set(Cond::O),
        M::Setno => Kind::Set(Cond::No),
        M::Setb => Kind::Set(Cond::B),
        M::Setae => Kind::Set(Cond::Ae),
        M::Sete => Kind::Set(Cond::E),
        M::Setne => Kind::Set(Cond::Ne),
        M::Setbe => Kind::Set(Cond::Be),
        M::Seta => Kind::Set(Cond::A),
        M::Sets => Kind::Set(Cond::S),
        M::Setns => Kind::Set(Cond::Ns),
        M::Setp => Kind::Set(Cond::P),
        M::Setnp => Kind::Set(Cond::Np),
        M::Setl => Kind::Set(Cond::L),
        M::Setge => Kind::Set(Cond::Ge),
        M::Setle => Kind::Set(Cond::Le),
        M::Setg => Kind::Set(Cond::G),
        _ => return None,
    })
}

#[rustfmt::skip]
fn system(mnemonic: M) -> Option<Kind> {
    let op = match mnemonic {
        M::Hlt => SysOp::Hlt,
        M::Cli => SysOp::Cli,
        M::Sti => SysOp::Sti,
        M::Cpuid => SysOp::Cpuid,
        M::Rdmsr => SysOp::Rdmsr,
        M::Wrmsr => SysOp::Wrmsr,
        M::Rdpmc => SysOp::Rdpmc,
        M::Xgetbv => SysOp::Xgetbv,
        M::Xsetbv => SysOp::Xsetbv,
        M::Clts => SysOp::Clts,
        M::Smsw => SysOp::Smsw,
        M::Lmsw => SysOp::Lmsw,
        M::Lgdt => SysOp::Lgdt,
        M::Lidt => SysOp::Lidt,
        M::Sgdt => SysOp::Sgdt,
        M::Sidt => SysOp::Sidt,
        M::Lldt => SysOp::Lldt,
        M::Ltr => SysOp::Ltr,
        M::Sldt => SysOp::Sldt,
        M::Str => SysOp::Str,
        M::Invlpg => SysOp::Invlpg,
        M::Invpcid => SysOp::Invpcid,
        M::Invd => SysOp::Invd,
        M::Swapgs => SysOp::Swapgs,
        M::Rdfsbase => SysOp::Rdfsbase,
        M::Rdgsbase => SysOp::Rdgsbase,
        M::Wrfsbase => SysOp::Wrfsbase,
        M::Wrgsbase => SysOp::Wrgsbase,
        M::Clac => SysOp::Clac,
        M::Stac => SysOp::Stac,
        M::Monitor => SysOp::Monitor,
        M::Mwait => SysOp::Mwait,
        M::Monitorx => SysOp::Monitorx,
        M::Mwaitx => SysOp::Mwaitx,
        M::Umonitor => SysOp::Umonitor,
        M::Umwait => SysOp::Umwait,
        M::Tpause => SysOp::Tpause,
        M::Serialize => SysOp::Serialize,
        M::Verr => SysOp::Verr,
        M::Verw => SysOp::Verw,
        M::Lar => SysOp::Lar,
        M::Lsl => SysOp::Lsl,
        M::Arpl => SysOp::Arpl,
        M::Wbinvd | M::Wbnoinvd => SysOp::Wbinvd,
        _ => return None,
    };
    Some(Kind::System(op))
}

#[rustfmt::skip]
fn far(instruction: &Instruction) -> Option<Kind> {
    let is_far = instruction.is_jmp_far() || instruction.is_call_far()
        || instruction.is_jmp_far_indirect() || instruction.is_call_far_indirect();
    Some(match instruction.mnemonic() {
        M::Jmp if is_far => Kind::Far(FarOp::Jmp),
        M::Call if is_far => Kind::Far(FarOp::Call),
        M::Jmp if instruction.is_jmp_near_indirect() => Kind::JmpIndirect,
        M::Call if instruction.is_call_near_indirect() => Kind::CallIndirect,
        M::Jmp => Kind::Jmp,
        M::Call => Kind::Call,
        M::Retf => Kind::Far(FarOp::Ret),
        M::Iret | M::Iretd | M::Iretq => Kind::Far(FarOp::Iret),
        M::Int => Kind::Far(FarOp::Int),
        M::Int1 => Kind::Far(FarOp::Int1),
        M::Int3 => Kind::Far(FarOp::Int3),
        M::Into => Kind::Far(FarOp::Into),
        M::Ud0 | M::Ud1 | M::Ud2 => Kind::Far(FarOp::Ud),
        M::Syscall => Kind::Far(FarOp::Syscall),
        M::Sysret | M::Sysretq => Kind::Far(FarOp::Sysret),
        M::Sysenter => Kind::Far(FarOp::Sysenter),
        M::Sysexit | M::Sysexitq => Kind::Far(FarOp::Sysexit),
        M::Lds => Kind::SegLoad(SegLoad::Lds),
        M::Les => Kind::SegLoad(SegLoad::Les),
        M::Lfs => Kind::SegLoad(SegLoad::Lfs),
        M::Lgs => Kind::SegLoad(SegLoad::Lgs),
        M::Lss => Kind::SegLoad(SegLoad::Lss),
        _ => return None,
    })
}

#[rustfmt::skip]
fn vector_moves(mnemonic: M) -> Option<Kind> {
    let op = match mnemonic {
        M::Movaps | M::Movapd | M::Movdqa | M::Movntps | M::Movntpd | M::Movntdq
        | M::Movntdqa => VecMov::Aligned,
        M::Movups | M::Movupd | M::Movdqu | M::Lddqu => VecMov::Unaligned,
        M::Movss | M::Movsd => VecMov::Scalar,
        M::Movd | M::Movq => VecMov::Quad,
        M::Movlps | M::Movlpd => VecMov::Low,
        M::Movhps | M::Movhpd => VecMov::High,
        M::Movhlps => VecMov::HighToLow,
        M::Movlhps => VecMov::LowToHigh,
        M::Movnti => VecMov::NtInteger,
        M::Movmskps | M::Movmskpd | M::Pmovmskb => VecMov::Mask,
        M::Maskmovdqu => VecMov::MaskStore,
        M::Movddup => VecMov::DupLow64,
        M::Movsldup => VecMov::DupEven32,
        M::Movshdup => VecMov::DupOdd32,
        M::Ldmxcsr => VecMov::LoadMxcsr,
        M::Stmxcsr => VecMov::StoreMxcsr,
        _ => return None,
    };
    Some(Kind::VecMov(op))
}

#[rustfmt::skip]
fn packed_integer(mnemonic: M) -> Option<Kind> {
    Some(match mnemonic {
        M::Pand | M::Andps | M::Andpd => Kind::Int(IntOp::And),
        M::Pandn | M::Andnps | M::Andnpd => Kind::Int(IntOp::Andn),
        M::Por | M::Orps | M::Orpd => Kind::Int(IntOp::Or),
        M::Pxor | M::Xorps | M::Xorpd => Kind::Int(IntOp::Xor),
        M::Punpckldq | M::Unpcklps => Kind::Int(IntOp::Punpckldq),
        M::Punpcklqdq | M::Unpcklpd => Kind::Int(IntOp::Punpcklqdq),
        M::Punpckhdq | M::Unpckhps => Kind::Int(IntOp::Punpckhdq),
        M::Punpckhqdq | M::Unpckhpd => Kind::Int(IntOp::Punpckhqdq),
        M::Paddb => Kind::Int(IntOp::Paddb),
        M::Paddw => Kind::Int(IntOp::Paddw),
        M::Paddd => Kind::Int(IntOp::Paddd),
        M::Paddq => Kind::Int(IntOp::Paddq),
        M::Psubb => Kind::Int(IntOp::Psubb),
        M::Psubw => Kind::Int(IntOp::Psubw),
        M::Psubd => Kind::Int(IntOp::Psubd),
        M::Psubq => Kind::Int(IntOp::Psubq),
        M::Paddsb => Kind::Int(IntOp::Paddsb),
        M::Paddsw => Kind::Int(IntOp::Paddsw),
        M::Paddusb => Kind::Int(IntOp::Paddusb),
        M::Paddusw => Kind::Int(IntOp::Paddusw),
        M::Psubsb => Kind::Int(IntOp::Psubsb),
        M::Psubsw => Kind::Int(IntOp::Psubsw),
        M::Psubusb => Kind::Int(IntOp::Psubusb),
        M::Psubusw => Kind::Int(IntOp::Psubusw),
        M::Pcmpeqb => Kind::Int(IntOp::Pcmpeqb),
        M::Pcmpeqw => Kind::Int(IntOp::Pcmpeqw),
        M::Pcmpeqd => Kind::Int(IntOp::Pcmpeqd),
        M::Pcmpeqq => Kind::Int(IntOp::Pcmpeqq),
        M::Pcmpgtb => Kind::Int(IntOp::Pcmpgtb),
        M::Pcmpgtw => Kind::Int(IntOp::Pcmpgtw),
        M::Pcmpgtd => Kind::Int(IntOp::Pcmpgtd),
        M::Pcmpgtq => Kind::Int(IntOp::Pcmpgtq),
        M::Pminsb => Kind::Int(IntOp::Pminsb),
        M::Pminsw => Kind::Int(IntOp::Pminsw),
        M::Pminsd => Kind::Int(IntOp::Pminsd),
        M::Pminub => Kind::Int(IntOp::Pminub),
        M::Pminuw => Kind::Int(IntOp::Pminuw),
        M::Pminud => Kind::Int(IntOp::Pminud),
        M::Pmaxsb => Kind::Int(IntOp::Pmaxsb),
        M::Pmaxsw => Kind::Int(IntOp::Pmaxsw),
        M::Pmaxsd => Kind::Int(IntOp::Pmaxsd),
        M::Pmaxub => Kind::Int(IntOp::Pmaxub),
        M::Pmaxuw => Kind::Int(IntOp::Pmaxuw),
        M::Pmaxud => Kind::Int(IntOp::Pmaxud),
        M::Pmullw => Kind::Int(IntOp::Pmullw),
        M::Pmulld => Kind::Int(IntOp::Pmulld),
        M::Pmulhw => Kind::Int(IntOp::Pmulhw),
        M::Pmulhuw => Kind::Int(IntOp::Pmulhuw),
        M::Pmulhrsw => Kind::Int(IntOp::Pmulhrsw),
        M::Pmuludq => Kind::Int(IntOp::Pmuludq),
        M::Pmuldq => Kind::Int(IntOp::Pmuldq),
        M::Pmaddwd => Kind::Int(IntOp::Pmaddwd),
        M::Pmaddubsw => Kind::Int(IntOp::Pmaddubsw),
        M::Psadbw => Kind::Int(IntOp::Psadbw),
        M::Pavgb => Kind::Int(IntOp::Pavgb),
        M::Pavgw => Kind::Int(IntOp::Pavgw),
        M::Pabsb => Kind::Int(IntOp::Pabsb),
        M::Pabsw => Kind::Int(IntOp::Pabsw),
        M::Pabsd => Kind::Int(IntOp::Pabsd),
        M::Psignb => Kind::Int(IntOp::Psignb),
        M::Psignw => Kind::Int(IntOp::Psignw),
        M::Psignd => Kind::Int(IntOp::Psignd),
        M::Phaddw => Kind::Int(IntOp::Phaddw),
        M::Phaddd => Kind::Int(IntOp::Phaddd),
        M::Phsubw => Kind::Int(IntOp::Phsubw),
        M::Phsubd => Kind::Int(IntOp::Phsubd),
        M::Punpcklbw => Kind::Int(IntOp::Punpcklbw),
        M::Punpcklwd => Kind::Int(IntOp::Punpcklwd),
        M::Punpckhbw => Kind::Int(IntOp::Punpckhbw),
        M::Punpckhwd => Kind::Int(IntOp::Punpckhwd),
        M::Packsswb => Kind::Int(IntOp::Packsswb),
        M::Packssdw => Kind::Int(IntOp::Packssdw),
        M::Packuswb => Kind::Int(IntOp::Packuswb),
        M::Packusdw => Kind::Int(IntOp::Packusdw),
        M::Pshufb => Kind::Int(IntOp::Pshufb),
        M::Psllw => Kind::VecShift(VecShift::Psllw),
        M::Pslld => Kind::VecShift(VecShift::Pslld),
        M::Psllq => Kind::VecShift(VecShift::Psllq),
        M::Psrlw => Kind::VecShift(VecShift::Psrlw),
        M::Psrld => Kind::VecShift(VecShift::Psrld),
        M::Psrlq => Kind::VecShift(VecShift::Psrlq),
        M::Psraw => Kind::VecShift(VecShift::Psraw),
        M::Psrad => Kind::VecShift(VecShift::Psrad),
        M::Pslldq => Kind::VecShift(VecShift::Pslldq),
        M::Psrldq => Kind::VecShift(VecShift::Psrldq),
        M::Pshufd => Kind::Shuffle(ShuffleOp::Pshufd),
        M::Pshuflw => Kind::Shuffle(ShuffleOp::Pshuflw),
        M::Pshufhw => Kind::Shuffle(ShuffleOp::Pshufhw),
        M::Shufps => Kind::Shuffle(ShuffleOp::Shufps),
        M::Shufpd => Kind::Shuffle(ShuffleOp::Shufpd),
        M::Palignr => Kind::Shuffle(ShuffleOp::Palignr),
        M::Ptest => Kind::Shuffle(ShuffleOp::Ptest),
        M::Pinsrb | M::Pinsrw | M::Pinsrd | M::Pinsrq => Kind::Shuffle(ShuffleOp::Pinsr),
        M::Pextrb | M::Pextrw | M::Pextrd | M::Pextrq | M::Extractps
            => Kind::Shuffle(ShuffleOp::Pextr),
        M::Pmovzxbw | M::Pmovzxbd | M::Pmovzxbq | M::Pmovzxwd | M::Pmovzxwq | M::Pmovzxdq
            => Kind::Shuffle(ShuffleOp::Pmovzx),
        M::Pmovsxbw | M::Pmovsxbd | M::Pmovsxbq | M::Pmovsxwd | M::Pmovsxwq | M::Pmovsxdq
            => Kind::Shuffle(ShuffleOp::Pmovsx),
        _ => return None,
    })
}

#[rustfmt::skip]
fn floating(mnemonic: M) -> Option<Kind> {
    Some(match mnemonic {
        M::Addss => Kind::Fp(FpArith::Add, FpForm::Ss),
        M::Addsd => Kind::Fp(FpArith::Add, FpForm::Sd),
        M::Addps => Kind::Fp(FpArith::Add, FpForm::Ps),
        M::Addpd => Kind::Fp(FpArith::Add, FpForm::Pd),
        M::Subss => Kind::Fp(FpArith::Sub, FpForm::Ss),
        M::Subsd => Kind::Fp(FpArith::Sub, FpForm::Sd),
        M::Subps => Kind::Fp(FpArith::Sub, FpForm::Ps),
        M::Subpd => Kind::Fp(FpArith::Sub, FpForm::Pd),
        M::Mulss => Kind::Fp(FpArith::Mul, FpForm::Ss),
        M::Mulsd => Kind::Fp(FpArith::Mul, FpForm::Sd),
        M::Mulps => Kind::Fp(FpArith::Mul, FpForm::Ps),
        M::Mulpd => Kind::Fp(FpArith::Mul, FpForm::Pd),
        M::Divss => Kind::Fp(FpArith::Div, FpForm::Ss),
        M::Divsd => Kind::Fp(FpArith::Div, FpForm::Sd),
        M::Divps => Kind::Fp(FpArith::Div, FpForm::Ps),
        M::Divpd => Kind::Fp(FpArith::Div, FpForm::Pd),
        M::Minss => Kind::Fp(FpArith::Min, FpForm::Ss),
        M::Minsd => Kind::Fp(FpArith::Min, FpForm::Sd),
        M::Minps => Kind::Fp(FpArith::Min, FpForm::Ps),
        M::Minpd => Kind::Fp(FpArith::Min, FpForm::Pd),
        M::Maxss => Kind::Fp(FpArith::Max, FpForm::Ss),
        M::Maxsd => Kind::Fp(FpArith::Max, FpForm::Sd),
        M::Maxps => Kind::Fp(FpArith::Max, FpForm::Ps),
        M::Maxpd => Kind::Fp(FpArith::Max, FpForm::Pd),
        M::Sqrtss => Kind::Fp(FpArith::Sqrt, FpForm::Ss),
        M::Sqrtsd => Kind::Fp(FpArith::Sqrt, FpForm::Sd),
        M::Sqrtps => Kind::Fp(FpArith::Sqrt, FpForm::Ps),
        M::Sqrtpd => Kind::Fp(FpArith::Sqrt, FpForm::Pd),
        M::Rcpss => Kind::Fp(FpArith::Rcp, FpForm::Ss),
        M::Rcpps => Kind::Fp(FpArith::Rcp, FpForm::Ps),
        M::Rsqrtss => Kind::Fp(FpArith::Rsqrt, FpForm::Ss),
        M::Rsqrtps => Kind::Fp(FpArith::Rsqrt, FpForm::Ps),
        M::Cmpss => Kind::FpCompare(FpForm::Ss),
        M::Cmpsd => Kind::FpCompare(FpForm::Sd),
        M::Cmpps => Kind::FpCompare(FpForm::Ps),
        M::Cmppd => Kind::FpCompare(FpForm::Pd),
        M::Comiss | M::Ucomiss => Kind::FpFlags(FpForm::Ss),
        M::Comisd | M::Ucomisd => Kind::FpFlags(FpForm::Sd),
        M::Cvtsi2ss => Kind::Cvt(CvtOp::Si2ss),
        M::Cvtsi2sd => Kind::Cvt(CvtOp::Si2sd),
        M::Cvtss2si => Kind::Cvt(CvtOp::Ss2si),
        M::Cvtsd2si => Kind::Cvt(CvtOp::Sd2si),
        M::Cvttss2si => Kind::Cvt(CvtOp::Tss2si),
        M::Cvttsd2si => Kind::Cvt(CvtOp::Tsd2si),
        M::Cvtss2sd => Kind::Cvt(CvtOp::Ss2sd),
        M::Cvtsd2ss => Kind::Cvt(CvtOp::Sd2ss),
        M::Cvtps2pd => Kind::Cvt(CvtOp::Ps2pd),
        M::Cvtpd2ps => Kind::Cvt(CvtOp::Pd2ps),
        M::Cvtdq2ps => Kind::Cvt(CvtOp::Dq2ps),
        M::Cvtps2dq => Kind::Cvt(CvtOp::Ps2dq),
        M::Cvttps2dq => Kind::Cvt(CvtOp::Tps2dq),
        M::Cvtdq2pd => Kind::Cvt(CvtOp::Dq2pd),
        M::Cvtpd2dq => Kind::Cvt(CvtOp::Pd2dq),
        M::Cvttpd2dq => Kind::Cvt(CvtOp::Tpd2dq),
        M::Fninit | M::Finit => Kind::Fpu(FpuOp::Fninit),
        M::Fnclex | M::Fclex => Kind::Fpu(FpuOp::Fnclex),
        M::Fnstcw | M::Fstcw => Kind::Fpu(FpuOp::Fnstcw),
        M::Fldcw => Kind::Fpu(FpuOp::Fldcw),
        M::Fnstsw | M::Fstsw => Kind::Fpu(FpuOp::Fnstsw),
        M::Fnop => Kind::Fpu(FpuOp::Fnop),
        M::Wait => Kind::Fpu(FpuOp::Fwait),
        M::Emms => Kind::Fpu(FpuOp::Emms),
        M::Fxsave | M::Fxsave64 => Kind::FpState(FpStateOp::Fxsave),
        M::Fxrstor | M::Fxrstor64 => Kind::FpState(FpStateOp::Fxrstor),
        M::Xsave | M::Xsave64 | M::Xsaveopt | M::Xsaveopt64 => Kind::FpState(FpStateOp::Xsave),
        M::Xrstor | M::Xrstor64 => Kind::FpState(FpStateOp::Xrstor),
        _ => return None,
    })
}
