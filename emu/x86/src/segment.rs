//! Segmentation: linear addresses, descriptors, and loads of segment registers.
//!
//! Modelled: real mode (with limits as they were left, so "unreal" mode works), protected and
//! compatibility mode with types, limits and privileges, 64-bit mode with the bases of FS and GS.
//! Not modelled: virtual-8086 mode beyond address formation, hardware task switches, 286 system
//! segments other than their gates.

use emu_cpu::port::Port;

use crate::cpu::X86Cpu;
use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{Vendor, rights};
use crate::state::{SegReg, Segment};
use crate::tlb::Access;

/// Exception for a selector or a limit, by error code.
pub(crate) type Raise = fn(u32) -> Exception;

/// A descriptor of code, data, or a system segment, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Linear address of the descriptor.
    pub(crate) at: u64,
    /// The eight bytes.
    pub(crate) raw: u64,
}

impl Descriptor {
    /// Bits 40 to 55 without those of the limit.
    pub(crate) const fn rights(self) -> u16 {
        (self.raw >> 40) as u16 & 0xf0ff
    }

    pub(crate) const fn is_present(self) -> bool {
        self.rights() & rights::P != 0
    }

    pub(crate) const fn dpl(self) -> u8 {
        (self.rights() >> rights::DPL_SHIFT) as u8 & 3
    }

    pub(crate) const fn is_system(self) -> bool {
        self.rights() & rights::S == 0
    }

    /// Type of a system descriptor.
    pub(crate) const fn system_type(self) -> u16 {
        self.rights() & rights::TYPE
    }

    pub(crate) const fn is_code(self) -> bool {
        self.rights() & (rights::S | rights::CODE) == rights::S | rights::CODE
    }

    pub(crate) const fn is_conforming(self) -> bool {
        self.is_code() && self.rights() & rights::DC != 0
    }

    pub(crate) const fn is_writable_data(self) -> bool {
        self.rights() & (rights::S | rights::CODE | rights::RW) == rights::S | rights::RW
    }

    /// Whether DS, ES, FS and GS may hold it.
    pub(crate) const fn is_readable(self) -> bool {
        self.rights() & rights::S != 0
            && self.rights() & (rights::CODE | rights::RW) != rights::CODE
    }

    pub(crate) const fn is_long(self) -> bool {
        self.rights() & rights::L != 0
    }

    pub(crate) const fn is_wide(self) -> bool {
        self.rights() & rights::DB != 0
    }

    pub(crate) const fn base(self) -> u64 {
        self.raw >> 16 & 0x00ff_ffff | self.raw >> 32 & 0xff00_0000
    }

    /// Limit in bytes.
    pub(crate) const fn limit(self) -> u32 {
        let limit = (self.raw & 0xffff | self.raw >> 32 & 0xf_0000) as u32;
        if self.rights() & rights::G != 0 { limit << 12 | 0xfff } else { limit }
    }

    /// The segment register that a load makes of it.
    pub(crate) const fn segment(self, selector: u16) -> Segment {
        Segment { selector, base: self.base(), limit: self.limit(), rights: self.rights() }
    }
}

/// A flat segment, as SYSCALL and its kin make them.
pub(crate) const fn flat_segment(selector: u16, rights: u16) -> Segment {
    Segment { selector, base: 0, limit: u32::MAX, rights }
}

/// Error code of a selector.
pub(crate) const fn code_of(selector: u16) -> u32 {
    selector as u32 & 0xfffc
}

impl X86Cpu {
    /// A segment register.
    #[must_use]
    #[inline(always)]
    pub fn segment(&self, seg: SegReg) -> Segment {
        self.state.seg[seg as usize]
    }

    /// An offset moved on, as wide as offsets are.
    #[must_use]
    pub(crate) fn wrap_offset(&self, offset: u64, by: u64) -> u64 {
        let sum = offset.wrapping_add(by);
        if self.is_64 { sum } else { sum & 0xffff_ffff }
    }

    /// Source: [SDM-3] "Limit Checking", "Type Checking". Status: spec.
    #[inline(never)]
    fn linear_legacy(&self, seg: SegReg, offset: u64, size: u8, write: bool) -> Exec<u64> {
        let segment = self.segment(seg);
        let has = |bits: u16| segment.rights & bits == bits;
        let is_code = has(rights::CODE);
        let is_typed = !self.is_protected()
            || has(rights::P)
                && if write { !is_code && has(rights::RW) } else { !is_code || has(rights::RW) };
        let last = offset.wrapping_add(u64::from(size) - 1);
        let limit = u64::from(segment.limit);
        let is_inside = if !is_code && has(rights::DC) {
            let top = if has(rights::DB) { 0xffff_ffff } else { 0xffff };
            offset > limit && last <= top
        } else {
            last <= limit
        };
        if is_typed && is_inside {
            return Ok(segment.base.wrapping_add(offset) & 0xffff_ffff);
        }
        let raise: Raise = if seg == SegReg::Ss { Exception::ss } else { Exception::gp };
        Err(raise(0).into())
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Linear address of an access of `size` bytes at an offset in a segment.
    ///
    /// # Errors
    /// #GP(0), #SS(0) by type and limit outside 64-bit mode. That an address of 64-bit mode is
    /// canonical is checked where it is translated.
    #[inline(always)]
    pub fn linear(&self, seg: SegReg, offset: u64, size: u8, write: bool) -> Exec<u64> {
        if self.cpu.is_64 {
            return Ok(match seg {
                SegReg::Fs | SegReg::Gs => self.cpu.segment(seg).base.wrapping_add(offset),
                _ => offset,
            });
        }
        self.cpu.linear_legacy(seg, offset, size, write)
    }

    /// Reads the descriptor of a selector that is not null.
    ///
    /// # Errors
    /// `raise` of the selector (with `ext`) when it lies outside its table; #PF, `Wait`.
    pub(crate) fn descriptor(&mut self, selector: u16, ext: u32, raise: Raise) -> Exec<Descriptor> {
        let index = u64::from(selector & 0xfff8);
        let state = &self.cpu.state;
        let (base, limit) = if selector & 4 == 0 {
            (state.gdtr.base, u64::from(state.gdtr.limit))
        } else if state.ldtr.rights & rights::P != 0 {
            (state.ldtr.base, u64::from(state.ldtr.limit))
        } else {
            return Err(raise(code_of(selector) | ext).into());
        };
        if index + 7 > limit {
            return Err(raise(code_of(selector) | ext).into());
        }
        let at = base.wrapping_add(index);
        let raw = self.read_linear(at, 8, Access::ReadSup)?;
        Ok(Descriptor { at, raw })
    }

    /// Sets the accessed bit of a descriptor of code or data.
    ///
    /// # Errors
    /// #PF, `Wait`.
    pub(crate) fn mark_accessed(&mut self, descriptor: Descriptor) -> Exec<Descriptor> {
        let raw = descriptor.raw | 1 << 40;
        if raw != descriptor.raw {
            let byte = raw >> 40 & 0xff;
            self.write_linear(descriptor.at.wrapping_add(5), 1, Access::WriteSup, byte)?;
        }
        Ok(Descriptor { raw, ..descriptor })
    }

    /// The register that a load of ES, SS, DS, FS or GS with `selector` gives.
    ///
    /// # Errors
    /// #GP, #NP, #SS, #PF, `Wait`.
    ///
    /// Source: [SDM-2] "MOV", "Protected Mode Exceptions" and "64-Bit Mode Exceptions".
    pub(crate) fn load_segment(&mut self, seg: SegReg, selector: u16) -> Exec<Segment> {
        let old = self.cpu.segment(seg);
        if !self.cpu.is_protected() {
            let base = u64::from(selector) << 4;
            if self.cpu.is_virtual_8086() {
                return Ok(Segment { selector, base, limit: 0xffff, rights: 0xf3 });
            }
            return Ok(Segment { selector, base, ..old });
        }
        if selector & 0xfffc == 0 {
            return self.load_null(seg, selector);
        }
        let descriptor = self.descriptor(selector, 0, Exception::gp)?;
        let (rpl, dpl, cpl) = ((selector & 3) as u8, descriptor.dpl(), self.cpu.cpl);
        let is_legal = if seg == SegReg::Ss {
            rpl == cpl && dpl == cpl && descriptor.is_writable_data()
        } else {
            let is_checked = !descriptor.is_conforming();
            descriptor.is_readable() && (!is_checked || rpl <= dpl && cpl <= dpl)
        };
        if !is_legal {
            return Err(Exception::gp(code_of(selector)).into());
        }
        if !descriptor.is_present() {
            let raise: Raise = if seg == SegReg::Ss { Exception::ss } else { Exception::np };
            return Err(raise(code_of(selector)).into());
        }
        Ok(self.mark_accessed(descriptor)?.segment(selector))
    }

    /// Source: [SDM-2] "MOV": a null selector in SS is #GP(0), but for 64-bit mode below CPL 3
    /// with RPL equal to CPL; [APM-2] "Null Selectors": AMD keeps the base of FS and GS.
    fn load_null(&mut self, seg: SegReg, selector: u16) -> Exec<Segment> {
        let cpl = self.cpu.cpl;
        if seg == SegReg::Ss {
            if !self.cpu.is_64 || cpl == 3 || (selector & 3) as u8 != cpl {
                return Err(Exception::gp(0).into());
            }
            return Ok(null_stack(selector));
        }
        let base = match self.cpu.config.vendor {
            Vendor::Amd if self.cpu.is_64 => self.cpu.segment(seg).base,
            _ => 0,
        };
        Ok(Segment { selector, base, limit: 0, rights: 0 })
    }

    /// Checks a code segment as the target of a direct far JMP or CALL.
    ///
    /// # Errors
    /// #GP, #NP.
    ///
    /// Source: [SDM-2] "JMP", `CONFORMING-CODE-SEGMENT` and `NONCONFORMING-CODE-SEGMENT`.
    pub(crate) fn check_code(&self, descriptor: Descriptor, selector: u16) -> Exec<()> {
        let (rpl, dpl, cpl) = ((selector & 3) as u8, descriptor.dpl(), self.cpu.cpl);
        let is_legal = descriptor.is_code()
            && !(self.cpu.is_long() && descriptor.is_long() && descriptor.is_wide())
            && if descriptor.is_conforming() { dpl <= cpl } else { rpl <= cpl && dpl == cpl };
        if !is_legal {
            return Err(Exception::gp(code_of(selector)).into());
        }
        if !descriptor.is_present() {
            return Err(Exception::np(code_of(selector)).into());
        }
        Ok(())
    }

    /// Checks that an instruction pointer lies in a code segment.
    ///
    /// # Errors
    /// #GP with `ext`.
    pub(crate) fn check_target(&self, code: Segment, rip: u64, ext: u32) -> Exec<()> {
        let is_64 = self.cpu.is_long() && code.rights & rights::L != 0;
        let is_inside =
            if is_64 { self.cpu.is_canonical(rip) } else { rip <= u64::from(code.limit) };
        if is_inside { Ok(()) } else { Err(Exception::gp(ext).into()) }
    }

    /// Reads the stack pointer of a privilege level from the TSS, with the SS of a 32-bit TSS.
    ///
    /// # Errors
    /// #TS when the TSS is too short; #PF, `Wait`.
    ///
    /// Source: [SDM-3] "Stack Switching", "Task-State Segment (TSS)" of both modes.
    pub(crate) fn stack_of_level(&mut self, dpl: u8, ext: u32) -> Exec<(u64, u16)> {
        let tr = self.cpu.state.tr;
        let is_long = self.cpu.is_long();
        let offset = 4 + u64::from(dpl) * 8;
        let size = if is_long { 8 } else { 6 };
        if offset + size - 1 > u64::from(tr.limit) {
            return Err(Exception::ts(code_of(tr.selector) | ext).into());
        }
        let at = tr.base.wrapping_add(offset);
        if is_long {
            return Ok((self.read_linear(at, 8, Access::ReadSup)?, u16::from(dpl)));
        }
        let esp = self.read_linear(at, 4, Access::ReadSup)?;
        let ss = self.read_linear(at.wrapping_add(4), 2, Access::ReadSup)?;
        Ok((esp, ss as u16))
    }
}

/// SS after a null selector: usable in 64-bit mode, DPL from the selector.
pub(crate) const fn null_stack(selector: u16) -> Segment {
    let dpl = (selector & 3) << rights::DPL_SHIFT;
    Segment { selector, base: 0, limit: u32::MAX, rights: 0xc013 | dpl }
}
