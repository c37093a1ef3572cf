//! System instructions without far transfer: `SysOp`, and loads of segment registers: `SegLoad`.
//!
//! Serialising instructions drain the store buffer (`engine.md` X3). Bodies of more than a few
//! lines are elsewhere: `control_reg`, `msr`, `mwait`, `segment`.
//!
//! Not modelled: performance counters (RDPMC reads zero), caches behind WBINVD and INVD (values
//! are never stale in the model), the 24-bit form of LGDT and LIDT.

use emu_cpu::port::{Note, Port};
use emu_cpu::wait::WaitReason;

use super::{Next, operand};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::{Op, SegLoad, SysOp};
use crate::defs::{Features, cr0, cr4, rflags, rights};
use crate::segment::{Descriptor, Raise, code_of};
use crate::state::{SegReg, Segment, TableReg, gpr};
use crate::tlb::Access;

/// XCR0 components that exist: x87 and SSE.
const XCR0_LEGAL: u64 = 3;

/// Executes a system instruction.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SysOp) -> Exec<Next> {
    match what {
        SysOp::Cli => set_interrupt_flag(ctx, false)?,
        SysOp::Sti => set_interrupt_flag(ctx, true)?,
        SysOp::Hlt => return ctx.halt(),
        SysOp::Monitor => return ctx.monitor(op, Features::MONITOR),
        SysOp::Mwait => return ctx.mwait(),
        SysOp::Monitorx => return ctx.monitor(op, Features::MONITORX),
        SysOp::Mwaitx => return ctx.mwaitx(),
        SysOp::Umonitor => return ctx.umonitor(op),
        SysOp::Umwait => return ctx.timed_wait(op, WaitReason::Monitor),
        SysOp::Tpause => return ctx.timed_wait(op, WaitReason::Pause),
        SysOp::Rdmsr => rdmsr(ctx)?,
        SysOp::Wrmsr => wrmsr(ctx)?,
        SysOp::Swapgs => swapgs(ctx, op)?,
        SysOp::Stac => set_ac(ctx, true)?,
        SysOp::Clac => set_ac(ctx, false)?,
        SysOp::Cpuid => cpuid(ctx)?,
        SysOp::MovFromCr => {
            let value = ctx.read_cr(op.src.number())?;
            operand::set_reg(&mut ctx.cpu.state, op.dst, register_size(op), value);
        }
        SysOp::MovToCr => {
            let value = operand::reg(&ctx.cpu.state, op.src, register_size(op));
            ctx.write_cr(op.dst.number(), value)?;
        }
        SysOp::MovFromDr => {
            let value = ctx.read_dr(op.src.number())?;
            operand::set_reg(&mut ctx.cpu.state, op.dst, register_size(op), value);
        }
        SysOp::MovToDr => {
            let value = operand::reg(&ctx.cpu.state, op.src, register_size(op));
            ctx.write_dr(op.dst.number(), value)?;
        }
        _ => return execute_rare(ctx, op, what),
    }
    Ok(Next::Seq)
}

fn execute_rare<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SysOp) -> Exec<Next> {
    match what {
        SysOp::Invlpg => invlpg(ctx, op)?,
        SysOp::Invpcid => invpcid(ctx, op)?,
        SysOp::Rdpmc => rdpmc(ctx)?,
        SysOp::Xgetbv => xgetbv(ctx)?,
        SysOp::Xsetbv => xsetbv(ctx)?,
        SysOp::Clts => {
            ctx.require_cpl0()?;
            ctx.cpu.state.cr0 &= !cr0::TS;
        }
        SysOp::Smsw => store_short(ctx, op, ctx.cpu.state.cr0)?,
        SysOp::Lmsw => {
            ctx.require_cpl0()?;
            let value = operand::get(ctx, op, op.dst, 2)?;
            ctx.load_msw(value)?;
        }
        SysOp::Lgdt | SysOp::Lidt => load_table(ctx, op, what)?,
        SysOp::Sgdt => store_table(ctx, op, ctx.cpu.state.gdtr)?,
        SysOp::Sidt => store_table(ctx, op, ctx.cpu.state.idtr)?,
        SysOp::Lldt => lldt(ctx, op)?,
        SysOp::Ltr => ltr(ctx, op)?,
        SysOp::Sldt => store_selector(ctx, op, ctx.cpu.state.ldtr)?,
        SysOp::Str => store_selector(ctx, op, ctx.cpu.state.tr)?,
        SysOp::Invd | SysOp::Wbinvd => {
            ctx.require_cpl0()?;
            ctx.serialise()?;
        }
        SysOp::Rdfsbase => read_base(ctx, op, SegReg::Fs)?,
        SysOp::Rdgsbase => read_base(ctx, op, SegReg::Gs)?,
        SysOp::Wrfsbase => write_base(ctx, op, SegReg::Fs)?,
        SysOp::Wrgsbase => write_base(ctx, op, SegReg::Gs)?,
        SysOp::Serialize => {
            require(ctx, Features::SERIALIZE)?;
            ctx.serialise()?;
        }
        SysOp::Verr | SysOp::Verw => verify(ctx, op, what == SysOp::Verw)?,
        SysOp::Lar | SysOp::Lsl => load_rights(ctx, op, what == SysOp::Lsl)?,
        SysOp::Arpl => arpl(ctx, op)?,
        _ => return Err(Exception::ud().into()),
    }
    Ok(Next::Seq)
}

/// Executes a load of a segment register.
pub(super) fn seg_load<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SegLoad) -> Exec<Next> {
    let far = match what {
        SegLoad::Mov | SegLoad::Pop => None,
        SegLoad::Lds => Some(SegReg::Ds),
        SegLoad::Les => Some(SegReg::Es),
        SegLoad::Lfs => Some(SegReg::Fs),
        SegLoad::Lgs => Some(SegReg::Gs),
        SegLoad::Lss => Some(SegReg::Ss),
    };
    if let Some(seg) = far {
        return load_far_pointer(ctx, op, seg);
    }
    let Some(seg) = op.dst.segment().filter(|seg| *seg != SegReg::Cs) else {
        return Err(Exception::ud().into());
    };
    let selector = match what {
        // Of the slot, the selector alone is read, as measured on Intel cores.
        SegLoad::Pop => ctx.stack_read(ctx.cpu.state.gpr[gpr::RSP], 2)?,
        _ => operand::get(ctx, op, op.src, 2)?,
    };
    let segment = ctx.load_segment(seg, selector as u16)?;
    if what == SegLoad::Pop {
        let rsp = ctx.cpu.state.gpr[gpr::RSP];
        ctx.cpu.set_rsp(rsp.wrapping_add(u64::from(op.size)));
    }
    set_segment(ctx, seg, segment);
    if seg == SegReg::Ss {
        // "Loading the SS register … inhibits all interrupts until after the execution of the
        // next instruction".
        ctx.cpu.inhibit_interrupts(true);
    }
    Ok(Next::Seq)
}

fn load_far_pointer<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, seg: SegReg) -> Exec<Next> {
    if !op.dst.is_gpr() || !op.src.is_mem() {
        return Err(Exception::ud().into());
    }
    let (from, at) = ctx.ea(op);
    let offset = ctx.read(from, at, op.size)?;
    let selector = ctx.read(from, ctx.cpu.wrap_offset(at, u64::from(op.size)), 2)?;
    let segment = ctx.load_segment(seg, selector as u16)?;
    set_segment(ctx, seg, segment);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, offset);
    Ok(Next::Seq)
}

fn set_segment<P: Port>(ctx: &mut Ctx<'_, P>, seg: SegReg, segment: Segment) {
    ctx.cpu.state.seg[seg as usize] = segment;
    if seg == SegReg::Ss {
        ctx.cpu.update_mode();
    }
}

fn require<P: Port>(ctx: &Ctx<'_, P>, feature: Features) -> Exec<()> {
    if ctx.cpu.has(feature) { Ok(()) } else { Err(Exception::ud().into()) }
}

/// Bytes of general registers that go with control and debug registers.
fn register_size(op: &Op) -> u8 {
    if op.bits == 64 { 8 } else { 4 }
}

/// Source: [SDM-2] "CLI", "STI": by IOPL; STI inhibits interrupts for one instruction if IF was 0.
fn set_interrupt_flag<P: Port>(ctx: &mut Ctx<'_, P>, on: bool) -> Exec<()> {
    let cpu = &mut *ctx.cpu;
    let iopl = (cpu.state.rflags & rflags::IOPL) >> rflags::IOPL_SHIFT;
    if cpu.state.cr0 & cr0::PE != 0 && u64::from(cpu.cpl) > iopl {
        return Err(Exception::gp(0).into());
    }
    let was_on = cpu.state.rflags & rflags::IF != 0;
    if was_on == on {
        return Ok(());
    }
    cpu.state.rflags ^= rflags::IF;
    if on {
        cpu.inhibit_interrupts(false);
    }
    ctx.port.note(Note::InterruptFlag(on));
    Ok(())
}

fn rdmsr<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    ctx.require_cpl0()?;
    let value = ctx.rdmsr(ctx.cpu.state.gpr[gpr::RCX] as u32)?;
    set_pair(ctx, value);
    Ok(())
}

fn wrmsr<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    ctx.require_cpl0()?;
    let value = pair(ctx);
    ctx.wrmsr(ctx.cpu.state.gpr[gpr::RCX] as u32, value)
}

/// EDX:EAX.
fn pair<P: Port>(ctx: &Ctx<'_, P>) -> u64 {
    let gpr = &ctx.cpu.state.gpr;
    gpr[gpr::RDX] << 32 | gpr[gpr::RAX] & 0xffff_ffff
}

fn set_pair<P: Port>(ctx: &mut Ctx<'_, P>, value: u64) {
    ctx.cpu.state.gpr[gpr::RAX] = value & 0xffff_ffff;
    ctx.cpu.state.gpr[gpr::RDX] = value >> 32;
}

fn swapgs<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    if op.bits != 64 {
        return Err(Exception::ud().into());
    }
    ctx.require_cpl0()?;
    let state = &mut ctx.cpu.state;
    std::mem::swap(&mut state.kernel_gs_base, &mut state.seg[SegReg::Gs as usize].base);
    Ok(())
}

fn set_ac<P: Port>(ctx: &mut Ctx<'_, P>, on: bool) -> Exec<()> {
    // "#UD if CPL > 0", and without the feature.
    if !ctx.cpu.has(Features::SMAP) || ctx.cpu.cpl != 0 {
        return Err(Exception::ud().into());
    }
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = if on { *rflags | rflags::AC } else { *rflags & !rflags::AC };
    Ok(())
}

/// Source: [SDM-2] "CPUID": leaves 1, 7, 0xB, 0xD, 0x1F and 0x8000001E have fields that follow
/// the APIC id or registers.
fn cpuid<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    ctx.serialise()?;
    let cpu = &mut *ctx.cpu;
    let (leaf, subleaf) = (cpu.state.gpr[gpr::RAX] as u32, cpu.state.gpr[gpr::RCX] as u32);
    let [mut eax, mut ebx, mut ecx, mut edx] = cpu.cpuid_row(leaf, subleaf);
    let id = cpu.apic_id().0;
    match leaf {
        1 => {
            ebx = ebx & 0x00ff_ffff | id << 24;
            let osxsave = u32::from(cpu.state.cr4 & cr4::OSXSAVE != 0) << 27;
            ecx = ecx & !(1 << 27) | osxsave;
            if cpu.apic.mode() == crate::apic::Mode::Disabled {
                edx &= !(1 << 9);
            }
        }
        0xb | 0x1f => edx = id,
        0xd if subleaf == 0 => ebx = 0x240,
        0x8000_001e => eax = id,
        _ => {}
    }
    let gpr = &mut cpu.state.gpr;
    gpr[gpr::RAX] = u64::from(eax);
    gpr[gpr::RBX] = u64::from(ebx);
    gpr[gpr::RCX] = u64::from(ecx);
    gpr[gpr::RDX] = u64::from(edx);
    Ok(())
}

fn rdpmc<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    if ctx.cpu.state.cr4 & cr4::PCE == 0 {
        ctx.require_cpl0()?;
    }
    set_pair(ctx, 0);
    Ok(())
}

fn xgetbv<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    if ctx.cpu.state.cr4 & cr4::OSXSAVE == 0 {
        return Err(Exception::ud().into());
    }
    let value = match ctx.cpu.state.gpr[gpr::RCX] as u32 {
        0 => ctx.cpu.state.fp.xcr0,
        _ => return Err(Exception::gp(0).into()),
    };
    set_pair(ctx, value);
    Ok(())
}

fn xsetbv<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<()> {
    if ctx.cpu.state.cr4 & cr4::OSXSAVE == 0 {
        return Err(Exception::ud().into());
    }
    ctx.require_cpl0()?;
    let value = pair(ctx);
    // "Attempting to clear bit 0 of XCR0", or to set what does not exist.
    let is_illegal = value & 1 == 0 || value & !XCR0_LEGAL != 0;
    if ctx.cpu.state.gpr[gpr::RCX] as u32 != 0 || is_illegal {
        return Err(Exception::gp(0).into());
    }
    ctx.cpu.state.fp.xcr0 = value;
    Ok(())
}

fn invlpg<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    ctx.require_cpl0()?;
    let (seg, offset) = ctx.ea(op);
    ctx.serialise()?;
    let cpu = &mut *ctx.cpu;
    let base = match seg {
        _ if !cpu.is_64 => cpu.segment(seg).base,
        SegReg::Fs | SegReg::Gs => cpu.segment(seg).base,
        _ => 0,
    };
    let lin = cpu.wrap_linear(base.wrapping_add(offset));
    // "If the memory address is in a non-canonical form, INVLPG is the same as a NOP."
    if cpu.is_canonical(lin) || !cpu.is_64 {
        let has_pcid = cpu.state.cr4 & cr4::PCIDE != 0;
        let pcid = if has_pcid { (cpu.state.cr3 & 0xfff) as u16 } else { 0 };
        cpu.tlb.flush_page(lin, pcid, true);
    }
    Ok(())
}

/// Source: [SDM-2] "INVPCID": types 0 to 3.
fn invpcid<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    require(ctx, Features::INVPCID)?;
    ctx.require_cpl0()?;
    let (seg, offset) = ctx.ea(op);
    let descriptor = ctx.read_wide(seg, offset, false)?;
    let kind = operand::reg(&ctx.cpu.state, op.dst, register_size(op));
    let (low, lin) = (descriptor as u64, (descriptor >> 64) as u64);
    let pcid = (low & 0xfff) as u16;
    let has_pcid = ctx.cpu.state.cr4 & cr4::PCIDE != 0;
    let is_illegal = kind > 3
        || low >> 12 != 0
        || kind < 2 && !has_pcid && pcid != 0
        || kind == 0 && !ctx.cpu.is_canonical(lin);
    if is_illegal {
        return Err(Exception::gp(0).into());
    }
    ctx.serialise()?;
    let tlb = &mut ctx.cpu.tlb;
    match kind {
        0 => tlb.flush_page(lin, pcid, false),
        1 => tlb.flush_non_global(Some(pcid)),
        2 => tlb.flush_all(),
        _ => tlb.flush_non_global(None),
    }
    Ok(())
}

/// Checks UMIP, for SGDT and kin.
fn require_umip<P: Port>(ctx: &Ctx<'_, P>) -> Exec<()> {
    let is_on = ctx.cpu.state.cr4 & cr4::UMIP != 0;
    if is_on && ctx.cpu.cpl > 0 { Err(Exception::gp(0).into()) } else { Ok(()) }
}

/// SMSW, SLDT, STR: memory takes 16 bits, a register its own size.
fn store_short<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, value: u64) -> Exec<()> {
    require_umip(ctx)?;
    let size = if op.dst.is_mem() { 2 } else { op.size };
    operand::put(ctx, op, size, value)
}

fn store_selector<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, from: Segment) -> Exec<()> {
    if !ctx.cpu.is_protected() {
        return Err(Exception::ud().into());
    }
    store_short(ctx, op, u64::from(from.selector))
}

fn load_table<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SysOp) -> Exec<()> {
    ctx.require_cpl0()?;
    let (seg, offset) = ctx.ea(op);
    let limit = ctx.read(seg, offset, 2)?;
    let base = ctx.read(seg, ctx.cpu.wrap_offset(offset, 2), op.size)?;
    if ctx.cpu.is_64 && !ctx.cpu.is_canonical(base) {
        return Err(Exception::gp(0).into());
    }
    ctx.serialise()?;
    let table = TableReg { base, limit: limit as u16 };
    if what == SysOp::Lgdt {
        ctx.cpu.state.gdtr = table;
    } else {
        ctx.cpu.state.idtr = table;
    }
    Ok(())
}

fn store_table<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, table: TableReg) -> Exec<()> {
    require_umip(ctx)?;
    let (seg, offset) = ctx.ea(op);
    ctx.probe_write(seg, offset, u32::from(op.size) + 2)?;
    ctx.write(seg, offset, 2, u64::from(table.limit))?;
    ctx.write(seg, ctx.cpu.wrap_offset(offset, 2), op.size, table.base)
}

/// Reads a system descriptor of type `wanted`: base, limit and rights, and its place.
fn system_descriptor<P: Port>(
    ctx: &mut Ctx<'_, P>,
    selector: u16,
    wanted: u16,
) -> Exec<(Segment, Descriptor)> {
    let raise: Raise = Exception::gp;
    if selector & 4 != 0 {
        return Err(raise(code_of(selector)).into());
    }
    let descriptor = ctx.descriptor(selector, 0, raise)?;
    if !descriptor.is_system() || descriptor.system_type() != wanted {
        return Err(raise(code_of(selector)).into());
    }
    if !descriptor.is_present() {
        return Err(Exception::np(code_of(selector)).into());
    }
    let mut segment = descriptor.segment(selector);
    if ctx.cpu.is_long() {
        let high_index = u64::from(selector & 0xfff8) + 15;
        if high_index > u64::from(ctx.cpu.state.gdtr.limit) {
            return Err(raise(code_of(selector)).into());
        }
        let high = ctx.read_linear(descriptor.at.wrapping_add(8), 8, Access::ReadSup)?;
        segment.base |= high << 32;
        if !ctx.cpu.is_canonical(segment.base) || high >> 40 & 0x1f != 0 {
            return Err(raise(code_of(selector)).into());
        }
    }
    Ok((segment, descriptor))
}

fn lldt<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let selector = privileged_selector(ctx, op)?;
    let segment = if selector & 0xfffc == 0 {
        Segment { selector, ..Segment::default() }
    } else {
        system_descriptor(ctx, selector, rights::LDT)?.0
    };
    ctx.serialise()?;
    ctx.cpu.state.ldtr = segment;
    Ok(())
}

fn ltr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let selector = privileged_selector(ctx, op)?;
    if selector & 0xfffc == 0 {
        return Err(Exception::gp(0).into());
    }
    let (mut segment, descriptor) = system_descriptor(ctx, selector, rights::TSS_AVAILABLE)?;
    ctx.serialise()?;
    segment.rights |= 2;
    // "The processor sets the busy flag" of the descriptor.
    let byte = descriptor.raw >> 40 & 0xff | 2;
    ctx.write_linear(descriptor.at.wrapping_add(5), 1, Access::WriteSup, byte)?;
    ctx.cpu.state.tr = segment;
    Ok(())
}

fn privileged_selector<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<u16> {
    if !ctx.cpu.is_protected() {
        return Err(Exception::ud().into());
    }
    ctx.require_cpl0()?;
    Ok(operand::get(ctx, op, op.dst, 2)? as u16)
}

fn require_base_access<P: Port>(ctx: &Ctx<'_, P>, op: &Op) -> Exec<()> {
    let is_on = ctx.cpu.state.cr4 & cr4::FSGSBASE != 0;
    if is_on && op.bits == 64 { Ok(()) } else { Err(Exception::ud().into()) }
}

fn read_base<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, seg: SegReg) -> Exec<()> {
    require_base_access(ctx, op)?;
    let base = ctx.cpu.segment(seg).base;
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, base);
    Ok(())
}

fn write_base<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, seg: SegReg) -> Exec<()> {
    require_base_access(ctx, op)?;
    let base = operand::reg(&ctx.cpu.state, op.dst, op.size);
    if !ctx.cpu.is_canonical(base) {
        return Err(Exception::gp(0).into());
    }
    ctx.cpu.state.seg[seg as usize].base = base;
    Ok(())
}

/// The descriptor of a selector if it is visible at the present privilege; outside the tables is
/// no fault here.
fn visible<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16) -> Exec<Option<Descriptor>> {
    if selector & 0xfffc == 0 {
        return Ok(None);
    }
    let descriptor = match ctx.descriptor(selector, 0, Exception::gp) {
        Ok(descriptor) => descriptor,
        Err(crate::ctx::Trap::Fault(fault)) if fault.vector == crate::defs::vector::GP => {
            return Ok(None);
        }
        Err(trap) => return Err(trap),
    };
    let (rpl, dpl) = ((selector & 3) as u8, descriptor.dpl());
    let is_visible = descriptor.is_conforming() || ctx.cpu.cpl <= dpl && rpl <= dpl;
    Ok(is_visible.then_some(descriptor))
}

fn set_zf<P: Port>(ctx: &mut Ctx<'_, P>, on: bool) {
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = if on { *rflags | rflags::ZF } else { *rflags & !rflags::ZF };
}

/// VERR, VERW.
fn verify<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, write: bool) -> Exec<()> {
    if !ctx.cpu.is_protected() {
        return Err(Exception::ud().into());
    }
    let selector = operand::get(ctx, op, op.dst, 2)? as u16;
    let found = visible(ctx, selector)?;
    let is_good = found.is_some_and(|descriptor| {
        if write { descriptor.is_writable_data() } else { descriptor.is_readable() }
    });
    set_zf(ctx, is_good);
    Ok(())
}

/// LAR, LSL.
///
/// Source: [SDM-2] "LAR", "LSL": the tables of valid types.
fn load_rights<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, limit: bool) -> Exec<()> {
    if !ctx.cpu.is_protected() {
        return Err(Exception::ud().into());
    }
    let selector = operand::get(ctx, op, op.src, 2)? as u16;
    let is_long = ctx.cpu.is_long();
    let found = visible(ctx, selector)?.filter(|descriptor| {
        let system = match (is_long, limit) {
            (true, true) => matches!(descriptor.system_type(), 2 | 9 | 11),
            (true, false) => matches!(descriptor.system_type(), 2 | 9 | 11 | 12),
            (false, true) => matches!(descriptor.system_type(), 1 | 2 | 3 | 9 | 11),
            (false, false) => matches!(descriptor.system_type(), 1..=5 | 9 | 11 | 12),
        };
        !descriptor.is_system() || system
    });
    set_zf(ctx, found.is_some());
    if let Some(descriptor) = found {
        let value =
            if limit { u64::from(descriptor.limit()) } else { descriptor.raw >> 32 & 0x00ff_ff00 };
        operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, value);
    }
    Ok(())
}

/// ARPL: raises the RPL of the first selector to that of the second.
fn arpl<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    if !ctx.cpu.is_protected() {
        return Err(Exception::ud().into());
    }
    let first = operand::get(ctx, op, op.dst, 2)?;
    let second = operand::reg(&ctx.cpu.state, op.src, 2);
    let is_lower = first & 3 < second & 3;
    if is_lower {
        operand::put(ctx, op, 2, first & !3 | second & 3)?;
    }
    set_zf(ctx, is_lower);
    Ok(())
}
