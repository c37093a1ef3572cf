//! Delivery of exceptions and interrupts.
//!
//! Modelled: 64-bit IDT gates with IST and stacks of the TSS, 32-bit and 16-bit gates of protected
//! mode with and without stack switch, the vector table of real mode, error codes, double faults
//! and shutdown. Not modelled: task gates (#GP), delivery out of virtual-8086 mode (#GP).
//!
//! A delivery makes all its requests before it changes a register; the frame is probed before it
//! is written, so that a fault leaves no part of it.
//!
//! Source: [SDM-3] "Interrupt and Exception Handling".

use emu_cpu::port::{Note, Port};

use crate::control_reg::DR7_GD;
use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{rflags, rights, vector};
use crate::segment::{Descriptor, Raise, code_of, null_stack};
use crate::state::{SegReg, Segment, gpr};
use crate::tlb::Access;

/// Error code: the selector part is an index into the IDT.
const IDT: u32 = 2;
/// Error code: the event came from outside the program.
const EXT: u32 = 1;

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An interrupt, or an exception.
    Hardware,
    /// INT n, INT3, INTO: the gate's DPL is checked.
    Software,
}

/// An event on its way to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    vector: u8,
    code: Option<u32>,
    source: Source,
    /// RFLAGS.RF in the frame: the instruction is to be run again without breakpoint.
    sets_rf: bool,
    /// Return address; `None` is the present instruction pointer.
    rip: Option<u64>,
}

impl Delivery {
    /// An exception that faults: it returns to the instruction.
    pub(crate) const fn exception(exception: Exception) -> Self {
        Delivery {
            vector: exception.vector,
            code: exception.code,
            source: Source::Hardware,
            sets_rf: true,
            rip: None,
        }
    }

    /// A trap, or an exception without code, between two instructions.
    pub(crate) const fn trap(vector: u8) -> Self {
        Delivery { vector, code: None, source: Source::Hardware, sets_rf: false, rip: None }
    }

    /// An interrupt.
    pub(crate) const fn external(vector: u8) -> Self {
        Self::trap(vector)
    }

    /// A software interrupt that returns to `rip`. INT1 checks no DPL.
    pub(crate) const fn software(vector: u8, rip: u64, checks_dpl: bool) -> Self {
        let source = if checks_dpl { Source::Software } else { Source::Hardware };
        Delivery { vector, code: None, source, sets_rf: false, rip: Some(rip) }
    }

    const fn ext(self) -> u32 {
        match self.source {
            Source::Hardware => EXT,
            Source::Software => 0,
        }
    }

    const fn gate_code(self) -> u32 {
        (self.vector as u32) << 3 | IDT | self.ext()
    }
}

/// What becomes of an exception during the delivery of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nested {
    /// The exception is delivered in its place.
    Serial,
    /// #DF is delivered.
    DoubleFault(Exception),
    /// The cpu shuts down.
    Shutdown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Benign,
    Contributory,
    PageFault,
    DoubleFault,
}

const fn group(number: u8) -> Group {
    match number {
        vector::DE | vector::TS | vector::NP | vector::SS | vector::GP => Group::Contributory,
        vector::PF => Group::PageFault,
        vector::DF => Group::DoubleFault,
        _ => Group::Benign,
    }
}

/// Decides what an exception during the delivery of `first` becomes; `first` is `None` for an
/// interrupt.
///
/// Source: [SDM-3] "Interrupt 8 - Double Fault Exception (#DF)", table "Conditions for Generating
/// a Double Fault". Status: spec.
pub(crate) fn nest(first: Option<u8>, second: Exception) -> Nested {
    let first = first.map_or(Group::Benign, group);
    match (first, group(second.vector)) {
        (Group::DoubleFault, Group::Contributory | Group::PageFault | Group::DoubleFault) => {
            Nested::Shutdown
        }
        (Group::Contributory, Group::Contributory)
        | (Group::PageFault, Group::Contributory | Group::PageFault) => {
            Nested::DoubleFault(Exception { vector: vector::DF, code: Some(0), cr2: 0 })
        }
        _ => Nested::Serial,
    }
}

/// A gate of the IDT.
#[derive(Clone, Copy, Debug)]
struct Gate {
    selector: u16,
    offset: u64,
    ist: u8,
    /// Bytes of a frame's elements: 2, 4 or 8.
    width: u8,
    clears_if: bool,
}

/// The handler's stack, and whether SS:RSP of the interrupted code is pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) ss: Segment,
    pub(crate) rsp: u64,
    pub(crate) pushes_old: bool,
}

/// A stack frame under construction, last element pushed last.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    values: [u64; 6],
    len: usize,
}

impl Frame {
    fn push(&mut self, value: u64) {
        self.values[self.len] = value;
        self.len += 1;
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Enters the handler of an event.
    ///
    /// # Errors
    /// Exceptions of the delivery itself; `Wait`.
    pub(crate) fn deliver(&mut self, delivery: Delivery) -> Exec<()> {
        if !self.cpu.is_protected() {
            if self.cpu.is_virtual_8086() {
                return Err(Exception::gp(delivery.gate_code()).into());
            }
            return self.deliver_real(delivery);
        }
        let gate = self.gate(delivery)?;
        let ext = delivery.ext();
        if gate.selector & 0xfffc == 0 {
            return Err(Exception::gp(ext).into());
        }
        let code = self.descriptor(gate.selector, ext, Exception::gp)?;
        let new_cpl = self.check_handler(code, gate.selector, ext)?;
        let code = self.mark_accessed(code)?;
        let stack = self.handler_stack(gate, new_cpl, ext)?;
        let mut cs = code.segment(gate.selector);
        cs.selector = gate.selector & !3 | u16::from(new_cpl);
        self.check_target(cs, gate.offset, ext)?;
        let frame = self.frame(delivery, stack);
        let rsp = self.push_frame(gate.width, stack, new_cpl, ext, &frame.values[..frame.len])?;
        self.commit_delivery(gate, cs, Stack { rsp, ..stack }, new_cpl);
        // "the processor clears the GD flag upon entering to the debug exception handler".
        if delivery.vector == vector::DB && delivery.source == Source::Hardware {
            self.cpu.state.dr[7] &= !DR7_GD;
        }
        Ok(())
    }

    /// Reads and checks the gate.
    ///
    /// Source: [SDM-3] "IDT Descriptors", "64-Bit Mode IDT"; [SDM-2] "INT n", the pseudocode.
    fn gate(&mut self, delivery: Delivery) -> Exec<Gate> {
        let is_long = self.cpu.is_long();
        let size = if is_long { 16 } else { 8 };
        let idtr = self.cpu.state.idtr;
        let offset = u64::from(delivery.vector) * size;
        let code = delivery.gate_code();
        if offset + size - 1 > u64::from(idtr.limit) {
            return Err(Exception::gp(code).into());
        }
        let at = idtr.base.wrapping_add(offset);
        let raw = self.read_linear(at, 8, Access::ReadSup)?;
        let high = if is_long {
            self.read_linear(at.wrapping_add(8), 8, Access::ReadSup)? & 0xffff_ffff
        } else {
            0
        };
        let gate = Descriptor { at, raw };
        let width = match gate.system_type() {
            rights::INTERRUPT_GATE | rights::TRAP_GATE if is_long => 8,
            rights::INTERRUPT_GATE | rights::TRAP_GATE => 4,
            rights::INTERRUPT_GATE_16 | rights::TRAP_GATE_16 if !is_long => 2,
            _ => 0,
        };
        let is_refused = delivery.source == Source::Software && gate.dpl() < self.cpu.cpl;
        if !gate.is_system() || width == 0 || is_refused {
            return Err(Exception::gp(code).into());
        }
        if !gate.is_present() {
            return Err(Exception::np(code).into());
        }
        let low = raw & 0xffff | raw >> 32 & 0xffff_0000;
        Ok(Gate {
            selector: (raw >> 16) as u16,
            offset: if width == 2 { low & 0xffff } else { high << 32 | low },
            ist: if is_long { (raw >> 32) as u8 & 7 } else { 0 },
            width,
            clears_if: gate.system_type() & 1 == 0,
        })
    }

    /// Checks the handler's code segment; gives its privilege level.
    fn check_handler(&self, code: Descriptor, selector: u16, ext: u32) -> Exec<u8> {
        let cpl = self.cpu.cpl;
        let is_right_size = !self.cpu.is_long() || code.is_long() && !code.is_wide();
        if !code.is_code() || code.dpl() > cpl || !is_right_size {
            return Err(Exception::gp(code_of(selector) | ext).into());
        }
        if !code.is_present() {
            return Err(Exception::np(code_of(selector) | ext).into());
        }
        Ok(if code.is_conforming() { cpl } else { code.dpl() })
    }

    /// Source: [SDM-3] "Stack Switching in IA-32e Mode", "Interrupt Stack Table",
    /// "Exception- or Interrupt-Handler Procedures".
    fn handler_stack(&mut self, gate: Gate, new_cpl: u8, ext: u32) -> Exec<Stack> {
        let old = self.cpu.segment(SegReg::Ss);
        let rsp = self.cpu.state.gpr[gpr::RSP];
        let is_inner = new_cpl < self.cpu.cpl;
        if self.cpu.is_long() {
            // IST entries lie behind the three stack pointers and eight reserved bytes.
            let rsp = match gate.ist {
                0 if is_inner => self.stack_of_level(new_cpl, ext)?.0,
                0 => rsp,
                n => self.stack_of_level(n + 3, ext)?.0,
            };
            if !self.cpu.is_canonical(rsp) {
                return Err(Exception::ss(ext).into());
            }
            let ss = if is_inner { null_stack(u16::from(new_cpl)) } else { old };
            return Ok(Stack { ss, rsp: rsp & !15, pushes_old: true });
        }
        if !is_inner {
            return Ok(Stack { ss: old, rsp: rsp & self.cpu.stack_mask(), pushes_old: false });
        }
        let (rsp, selector) = self.stack_of_level(new_cpl, ext)?;
        let ss = self.inner_stack_segment(selector, new_cpl, ext)?;
        Ok(Stack { ss, rsp, pushes_old: true })
    }

    /// Loads SS for an inner privilege level.
    pub(crate) fn inner_stack_segment(
        &mut self,
        selector: u16,
        cpl: u8,
        ext: u32,
    ) -> Exec<Segment> {
        let ts: Raise = Exception::ts;
        if selector & 0xfffc == 0 {
            return Err(ts(ext).into());
        }
        let descriptor = self.descriptor(selector, ext, ts)?;
        let is_legal =
            (selector & 3) as u8 == cpl && descriptor.dpl() == cpl && descriptor.is_writable_data();
        if !is_legal {
            return Err(ts(code_of(selector) | ext).into());
        }
        if !descriptor.is_present() {
            return Err(Exception::ss(code_of(selector) | ext).into());
        }
        Ok(self.mark_accessed(descriptor)?.segment(selector))
    }

    fn frame(&self, delivery: Delivery, stack: Stack) -> Frame {
        let state = &self.cpu.state;
        let mut frame = Frame::default();
        if stack.pushes_old {
            frame.push(u64::from(state.seg[SegReg::Ss as usize].selector));
            frame.push(state.gpr[gpr::RSP]);
        }
        let rf = if delivery.sets_rf { rflags::RF } else { 0 };
        frame.push(state.rflags & !rflags::RF | rf);
        frame.push(u64::from(state.seg[SegReg::Cs as usize].selector));
        frame.push(delivery.rip.unwrap_or(state.rip));
        if let Some(code) = delivery.code {
            frame.push(u64::from(code));
        }
        frame
    }

    /// Writes the frame with the rights of the handler; gives the stack pointer below it.
    ///
    /// Source: [SDM-2] "INT n", the pseudocode: a new stack without room is #SS of its selector,
    /// the old one #SS(EXT).
    pub(crate) fn push_frame(
        &mut self,
        width: u8,
        stack: Stack,
        new_cpl: u8,
        ext: u32,
        values: &[u64],
    ) -> Exec<u64> {
        let access = if new_cpl == 3 { Access::WriteUser } else { Access::WriteSup };
        let size = u64::from(width);
        let is_long = self.cpu.is_long();
        let mask = match stack.ss.rights & rights::DB {
            _ if is_long => u64::MAX,
            0 => 0xffff,
            _ => 0xffff_ffff,
        };
        let lowest = stack.rsp.wrapping_sub(size * values.len() as u64) & mask;
        if !is_long {
            let last = lowest.wrapping_add(size * values.len() as u64 - 1);
            let is_down = stack.ss.rights & (rights::CODE | rights::DC) == rights::DC;
            let limit = u64::from(stack.ss.limit);
            let is_inside = if is_down { lowest > limit } else { last <= limit };
            if !is_inside {
                let is_new = new_cpl < self.cpu.cpl;
                let selector = if is_new { code_of(stack.ss.selector) } else { 0 };
                return Err(Exception::ss(selector | ext).into());
            }
        }
        let base = if is_long { 0 } else { stack.ss.base };
        let first = self.cpu.wrap_linear(base.wrapping_add(lowest));
        let last = first.wrapping_add(size * values.len() as u64 - 1);
        self.translate_in(SegReg::Ss, first, access)?;
        if first >> 12 != last >> 12 {
            self.translate_in(SegReg::Ss, last, access)?;
        }
        let mut rsp = stack.rsp;
        for value in values {
            rsp = rsp.wrapping_sub(size) & mask;
            self.write_linear(base.wrapping_add(rsp), width, access, *value)?;
        }
        Ok(rsp)
    }

    fn commit_delivery(&mut self, gate: Gate, cs: Segment, stack: Stack, new_cpl: u8) {
        let state = &mut self.cpu.state;
        state.seg[SegReg::Cs as usize] = cs;
        state.seg[SegReg::Ss as usize] = stack.ss;
        state.rip = gate.offset;
        self.cpu.drops_trap = true;
        let state = &mut self.cpu.state;
        state.rflags &= !(rflags::TF | rflags::NT | rflags::VM | rflags::RF);
        if gate.clears_if && state.rflags & rflags::IF != 0 {
            state.rflags &= !rflags::IF;
            self.port.note(Note::InterruptFlag(false));
        }
        self.cpu.cpl = new_cpl;
        self.cpu.update_mode();
        self.cpu.set_rsp(stack.rsp);
    }

    /// Source: [SDM-3] "Interrupt and Exception Handling" of "8086 Emulation".
    fn deliver_real(&mut self, delivery: Delivery) -> Exec<()> {
        let idtr = self.cpu.state.idtr;
        let offset = u64::from(delivery.vector) * 4;
        if offset + 3 > u64::from(idtr.limit) {
            return Err(Exception::gp(delivery.gate_code()).into());
        }
        let at = idtr.base.wrapping_add(offset);
        let target = self.read_linear(at, 4, Access::ReadSup)?;
        let state = &self.cpu.state;
        let rip = delivery.rip.unwrap_or(state.rip);
        let cs = state.seg[SegReg::Cs as usize].selector;
        let values = [state.rflags, u64::from(cs), rip];
        let mut rsp = state.gpr[gpr::RSP];
        self.probe_write(SegReg::Ss, rsp.wrapping_sub(6) & self.cpu.stack_mask(), 6)?;
        for value in values {
            rsp = rsp.wrapping_sub(2);
            self.stack_write(rsp, 2, value & 0xffff)?;
        }
        let selector = (target >> 16) as u16;
        self.cpu.set_rsp(rsp);
        let state = &mut self.cpu.state;
        let cs = &mut state.seg[SegReg::Cs as usize];
        cs.selector = selector;
        cs.base = u64::from(selector) << 4;
        state.rip = target & 0xffff;
        if state.rflags & rflags::IF != 0 {
            self.port.note(Note::InterruptFlag(false));
        }
        state.rflags &= !(rflags::IF | rflags::TF | rflags::AC | rflags::RF);
        self.cpu.drops_trap = true;
        self.cpu.update_mode();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_faults_follow_the_table() {
        let pf = Exception::pf(0, 0);
        let gp = Exception::gp(0);
        let ud = Exception::ud();
        let double = |nested| matches!(nested, Nested::DoubleFault(_));
        assert_eq!(nest(None, gp), Nested::Serial);
        assert_eq!(nest(Some(vector::UD), gp), Nested::Serial);
        assert!(double(nest(Some(vector::GP), gp)));
        assert_eq!(nest(Some(vector::GP), pf), Nested::Serial);
        assert!(double(nest(Some(vector::PF), pf)));
        assert!(double(nest(Some(vector::PF), gp)));
        assert_eq!(nest(Some(vector::PF), ud), Nested::Serial);
        assert_eq!(nest(Some(vector::DF), gp), Nested::Shutdown);
        assert_eq!(nest(Some(vector::DF), pf), Nested::Shutdown);
    }
}
