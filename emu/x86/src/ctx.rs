//! What an instruction body may touch: registers, memory through segmentation and paging, and the
//! engine's port. Nothing else.
//!
//! The rule for bodies: **first all requests (reads, writes, atomics, fences), then all changes of
//! registers.** A request may return `Trap::Wait`; the body then ends at once and runs again from
//! its start later, its finished requests being answered from the step log in the same order.
//!
//! A store is a request with an effect that stays: before the first store of several, probe the
//! others ([`Ctx::probe_write`]), so that no fault comes after a store.
//!
//! Memory access is in `mmu` and `segment`; here are time, ports and fences.

use emu_cpu::port::{DeviceAccess, Fence, Port, Space, TimeOrder, Wait};
use emu_cpu::wait::{WaitReason, WaitRequest};
use emu_sim::SimTime;

use crate::cpu::X86Cpu;
use crate::defs::{cr0, cr4, rflags, vector};
use crate::tlb::Access;

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Run again later.
    Wait,
    /// An exception; architectural state is that before the instruction.
    Fault(Exception),
}

impl From<Wait> for Trap {
    fn from(_: Wait) -> Self {
        Trap::Wait
    }
}

impl From<Exception> for Trap {
    fn from(exception: Exception) -> Self {
        Trap::Fault(exception)
    }
}

/// An exception with what it pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Vector, 0 to 31.
    pub vector: u8,
    /// Error code, for those that push one.
    pub code: Option<u32>,
    /// New CR2 of a page fault.
    pub cr2: u64,
}

impl Exception {
    const fn plain(vector: u8) -> Self {
        Exception { vector, code: None, cr2: 0 }
    }

    const fn coded(vector: u8, code: u32) -> Self {
        Exception { vector, code: Some(code), cr2: 0 }
    }

    /// #DE, divide error.
    #[must_use]
    pub const fn de() -> Self {
        Self::plain(vector::DE)
    }

    /// #DB as a fault, of a debug register that is guarded.
    #[must_use]
    pub const fn db() -> Self {
        Self::plain(vector::DB)
    }

    /// #BR, bound range exceeded.
    #[must_use]
    pub const fn br() -> Self {
        Self::plain(vector::BR)
    }

    /// #UD, invalid opcode.
    #[must_use]
    pub const fn ud() -> Self {
        Self::plain(vector::UD)
    }

    /// #NM, device not available.
    #[must_use]
    pub const fn nm() -> Self {
        Self::plain(vector::NM)
    }

    /// #MF, x87 floating point.
    #[must_use]
    pub const fn mf() -> Self {
        Self::plain(vector::MF)
    }

    /// #XM, SIMD floating point.
    #[must_use]
    pub const fn xm() -> Self {
        Self::plain(vector::XM)
    }

    /// #AC(0), alignment check.
    #[must_use]
    pub const fn ac() -> Self {
        Self::coded(vector::AC, 0)
    }

    /// #GP with an error code: 0, or a selector.
    #[must_use]
    pub const fn gp(code: u32) -> Self {
        Self::coded(vector::GP, code)
    }

    /// #SS with an error code: 0, or a selector.
    #[must_use]
    pub const fn ss(code: u32) -> Self {
        Self::coded(vector::SS, code)
    }

    /// #NP of a selector.
    #[must_use]
    pub const fn np(code: u32) -> Self {
        Self::coded(vector::NP, code)
    }

    /// #TS of a selector.
    #[must_use]
    pub const fn ts(code: u32) -> Self {
        Self::coded(vector::TS, code)
    }

    /// #PF at a linear address, with its error code (`defs::pf`).
    #[must_use]
    pub const fn pf(lin: u64, code: u32) -> Self {
        Exception { vector: vector::PF, code: Some(code), cr2: lin }
    }
}

/// Result of a body or of a request.
pub type Exec<T> = Result<T, Trap>;

/// A body's view of the world.
pub struct Ctx<'a, P: Port> {
    /// The cpu: registers in `cpu.state`.
    pub cpu: &'a mut X86Cpu,
    /// The engine.
    pub port: &'a mut P,
}

impl<P: Port> Ctx<'_, P> {
    /// Waits for older instructions, and stores as asked.
    ///
    /// # Errors
    /// `Wait`.
    pub fn fence(&mut self, fence: Fence) -> Exec<()> {
        Ok(self.port.fence(fence)?)
    }

    /// The kind of an ordinary data read at the present privilege.
    #[inline(always)]
    pub(crate) fn read_access(&self) -> Access {
        if self.cpu.cpl == 3 {
            Access::ReadUser
        } else if self.cpu.state.rflags & rflags::AC != 0 {
            Access::ReadSupAc
        } else {
            Access::ReadSup
        }
    }

    /// The kind of an ordinary data write at the present privilege.
    #[inline(always)]
    pub(crate) fn write_access(&self) -> Access {
        if self.cpu.cpl == 3 {
            Access::WriteUser
        } else if self.cpu.state.rflags & rflags::AC != 0 {
            Access::WriteSupAc
        } else {
            Access::WriteSup
        }
    }

    /// Raises #GP(0) unless the privilege level is 0.
    ///
    /// # Errors
    /// #GP(0).
    pub fn require_cpl0(&self) -> Exec<()> {
        if self.cpu.cpl == 0 { Ok(()) } else { Err(Exception::gp(0).into()) }
    }

    /// Reads the time-stamp counter for RDTSC and RDTSCP.
    ///
    /// # Errors
    /// #GP(0) when CR4.TSD forbids users to.
    ///
    /// Source: [SDM-3] "Time-Stamp Counter".
    pub fn read_tsc(&mut self, order: TimeOrder) -> Exec<u64> {
        let is_forbidden = self.cpu.state.cr4 & cr4::TSD != 0 && self.cpu.cpl != 0;
        if is_forbidden && self.cpu.state.cr0 & cr0::PE != 0 {
            return Err(Exception::gp(0).into());
        }
        let now = self.port.time(order);
        Ok(self.cpu.tsc_at(now))
    }

    /// Simulated time after all older instructions, for registers that count.
    pub(crate) fn now(&mut self) -> SimTime {
        self.port.time(TimeOrder::Retired)
    }

    /// Reads an I/O port of 1, 2 or 4 bytes, for IN and INS.
    ///
    /// A port of the idle table performs no access: the cpu sleeps after the instruction, which
    /// reads all ones.
    ///
    /// # Errors
    /// #GP(0) by IOPL and the I/O permission bitmap; #PF of the bitmap; `Wait`.
    pub fn io_in(&mut self, port: u16, size: u8) -> Exec<u64> {
        self.check_io(port, size)?;
        if let Some(state) = self.cpu.config.idle.port_state(port) {
            // A port read that enters an idle state arms no monitor; only an interrupt ends it.
            self.port.fence(Fence::Full)?;
            self.cpu.sleep_after = Some(WaitRequest {
                reason: WaitReason::Power,
                state: Some(state),
                wake_on_masked: true,
                deadline: None,
            });
            return Ok(u64::MAX >> (64 - 8 * u32::from(size)));
        }
        let addr = u64::from(port);
        self.read_device(DeviceAccess { space: Space::Port, addr, size, write: None })
    }

    /// Reads a device. What nobody answers is all ones, as an aborted cycle of the bus reads.
    pub(crate) fn read_device(&mut self, access: DeviceAccess) -> Exec<u64> {
        let ones = u64::MAX >> (64 - 8 * u32::from(access.size));
        Ok(self.port.device(access)?.unwrap_or(ones))
    }

    /// Writes an I/O port of 1, 2 or 4 bytes, for OUT and OUTS.
    ///
    /// # Errors
    /// As [`Ctx::io_in`].
    pub fn io_out(&mut self, port: u16, size: u8, value: u64) -> Exec<()> {
        self.check_io(port, size)?;
        let addr = u64::from(port);
        self.port.device(DeviceAccess { space: Space::Port, addr, size, write: Some(value) })?;
        Ok(())
    }

    /// Source: [SDM-1] "I/O Privilege Level", "I/O Permission Bit Map".
    pub(crate) fn check_io(&mut self, port: u16, size: u8) -> Exec<()> {
        let state = &self.cpu.state;
        let iopl = (state.rflags & rflags::IOPL) >> rflags::IOPL_SHIFT;
        let is_virtual = state.rflags & rflags::VM != 0;
        if state.cr0 & cr0::PE == 0 || u64::from(self.cpu.cpl) <= iopl && !is_virtual {
            return Ok(());
        }
        let tr = state.tr;
        let denied = Err(Exception::gp(0).into());
        if tr.limit < 0x67 {
            return denied;
        }
        let map = self.read_linear(tr.base.wrapping_add(0x66), 2, Access::ReadSup)?;
        let byte = map + u64::from(port >> 3);
        // "the processor reads two bytes from the I/O permission bit map".
        if byte + 1 > u64::from(tr.limit) {
            return denied;
        }
        let bits = self.read_linear(tr.base.wrapping_add(byte), 2, Access::ReadSup)?;
        let wanted = (1u64 << size) - 1;
        if bits >> (port & 7) & wanted == 0 { Ok(()) } else { denied }
    }
}
