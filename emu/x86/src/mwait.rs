//! Instructions that wait: HLT, MONITOR and MWAIT, MONITORX and MWAITX, UMONITOR, UMWAIT, TPAUSE.
//!
//! A body checks, then asks for a wait as a value (`WaitRequest`); the engine does the waiting and
//! records what ended it. A wait falls through when its monitor is not armed (a store came since,
//! or none was armed), or when an event that would end it is pending; it never arms again.
//!
//! Not modelled: ranges of another size than the line; MWAIT at CPL 3 (#UD, as with the enabling
//! bits of IA32_MISC_ENABLE and HWCR clear); hints of MONITOR in EDX.
//!
//! Source: [SDM-2] "MONITOR", "MWAIT", "UMONITOR", "UMWAIT", "TPAUSE", "HLT"; [APM-3] "MONITORX",
//! "MWAITX".

use emu_cpu::port::{Port, TimeOrder};
use emu_cpu::wait::{MonitorState, WaitReason, WaitRequest};
use emu_sim::{Freq, PhysAddr, SimTime};

use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::Op;
use crate::defs::{Features, cr4, rflags};
use crate::exec::Next;
use crate::mmu::Place;
use crate::state::gpr;

/// ECX: a masked interrupt ends the wait too.
const BREAK_ON_MASKED: u64 = 1;
/// ECX of MWAITX: EBX limits the wait.
const TIMED: u64 = 2;
/// Hint that asks for no idle state: C0.
const HINT_C0: u32 = 0xf0;
/// IA32_UMWAIT_CONTROL: C0.2 is not allowed.
const C02_DISABLED: u64 = 1;
/// Control of UMWAIT and TPAUSE: C0.1 instead of C0.2.
const C01: u64 = 1;

impl<P: Port> Ctx<'_, P> {
    /// HLT.
    ///
    /// # Errors
    /// #GP(0) above CPL 0.
    pub(crate) fn halt(&mut self) -> Exec<Next> {
        self.require_cpl0()?;
        Ok(self.sleep(WaitRequest {
            reason: WaitReason::Halt,
            state: self.cpu.config.idle.hlt,
            wake_on_masked: false,
            deadline: None,
        }))
    }

    /// Waits, unless what would end the wait is there already.
    fn sleep(&mut self, request: WaitRequest) -> Next {
        use emu_cpu::isa::Isa;
        if self.cpu.wake_cause(&request).is_none() {
            return Next::Sleep(request);
        }
        if request.reason == WaitReason::Monitor {
            self.port.disarm_monitor();
        }
        Next::Seq
    }

    /// MONITOR and MONITORX.
    ///
    /// # Errors
    /// #UD, #GP(0) for ECX, faults of a load of one byte, `Wait`.
    pub(crate) fn monitor(&mut self, op: &Op, feature: Features) -> Exec<Next> {
        self.require_wait_feature(feature)?;
        // "ECX: unsupported extension": none is defined.
        if self.cpu.state.gpr[gpr::RCX] & 0xffff_ffff != 0 {
            return Err(Exception::gp(0).into());
        }
        let mask = u64::MAX >> (64 - 8 * u32::from(op.asize));
        self.arm(op, self.cpu.state.gpr[gpr::RAX] & mask)
    }

    /// UMONITOR.
    ///
    /// # Errors
    /// #UD, faults of a load of one byte, `Wait`.
    pub(crate) fn umonitor(&mut self, op: &Op) -> Exec<Next> {
        self.require_wait_feature(Features::WAITPKG)?;
        let mask = u64::MAX >> (64 - 8 * u32::from(op.asize));
        self.arm(op, self.cpu.state.gpr[op.dst.number()] & mask)
    }

    /// "The address must be of write-back type": for a device the monitor is left unarmed.
    fn arm(&mut self, op: &Op, offset: u64) -> Exec<Next> {
        let lin = self.linear(op.seg, offset, 1, false)?;
        let access = self.read_access();
        match self.translate_in(op.seg, lin, access)? {
            Place::Ram(pa) => self.port.arm_monitor(PhysAddr(pa))?,
            Place::Device(_) | Place::Apic(_) => self.port.disarm_monitor(),
        }
        Ok(Next::Seq)
    }

    /// MWAIT.
    ///
    /// # Errors
    /// #UD, #GP(0) for ECX.
    pub(crate) fn mwait(&mut self) -> Exec<Next> {
        self.require_wait_feature(Features::MONITOR)?;
        let (hint, ecx) = self.hint_and_extensions();
        // CPUID.5:ECX bit 1: "Supports treating interrupts as break-events for MWAIT, even when
        // interrupts disabled".
        let can_break = self.cpu.cpuid_row(5, 0)[2] & 2 != 0;
        let legal = if can_break { BREAK_ON_MASKED } else { 0 };
        if ecx & !legal != 0 {
            return Err(Exception::gp(0).into());
        }
        Ok(self.monitor_wait(hint, ecx, None))
    }

    /// MWAITX.
    ///
    /// # Errors
    /// #UD, #GP(0) for ECX.
    pub(crate) fn mwaitx(&mut self) -> Exec<Next> {
        self.require_wait_feature(Features::MONITORX)?;
        let (hint, ecx) = self.hint_and_extensions();
        if ecx & !(BREAK_ON_MASKED | TIMED) != 0 {
            return Err(Exception::gp(0).into());
        }
        // "EBX: max wait time in Software P0 clocks, the same clocks counted by the TSC"; 0 is no
        // limit.
        let limit = self.cpu.state.gpr[gpr::RBX] & 0xffff_ffff;
        let deadline = if ecx & TIMED != 0 && limit != 0 {
            let now = self.port.time(TimeOrder::Retired);
            after_cycles(self.cpu.config.tsc, now, limit)
        } else {
            None
        };
        Ok(self.monitor_wait(hint, ecx, deadline))
    }

    fn hint_and_extensions(&self) -> (u32, u64) {
        let gpr = &self.cpu.state.gpr;
        ((gpr[gpr::RAX] & 0xff) as u32, gpr[gpr::RCX] & 0xffff_ffff)
    }

    fn monitor_wait(&mut self, hint: u32, ecx: u64, deadline: Option<SimTime>) -> Next {
        if !matches!(self.port.monitor(), MonitorState::Armed(_)) {
            self.port.disarm_monitor();
            return Next::Seq;
        }
        let is_c0 = hint & HINT_C0 == HINT_C0;
        let state = if is_c0 { None } else { self.cpu.config.idle.mwait_state(hint) };
        self.sleep(WaitRequest {
            reason: WaitReason::Monitor,
            state,
            wake_on_masked: ecx & BREAK_ON_MASKED != 0,
            deadline,
        })
    }

    /// UMWAIT and TPAUSE.
    ///
    /// # Errors
    /// #UD, #GP(0) for the control register and with CR4.TSD above CPL 0.
    ///
    /// Source: [SDM-2] "UMWAIT", "TPAUSE": "External interrupts cause exit the
    /// implementation-dependent optimized state regardless of whether maskable-interrupts are
    /// inhibited"; CF says that the operating system's limit ended the wait.
    pub(crate) fn timed_wait(&mut self, op: &Op, reason: WaitReason) -> Exec<Next> {
        self.require_wait_feature(Features::WAITPKG)?;
        let control = self.cpu.state.gpr[op.dst.number()] & 0xffff_ffff;
        let is_forbidden = self.cpu.state.cr4 & cr4::TSD != 0 && self.cpu.cpl > 0;
        if control & !C01 != 0 || is_forbidden {
            return Err(Exception::gp(0).into());
        }
        let os = self.cpu.state.umwait_control;
        let is_c01 = control & C01 != 0 || os & C02_DISABLED != 0;
        let now = self.port.time(TimeOrder::Retired);
        let tsc = self.cpu.tsc_at(now);
        let low = |n: usize| self.cpu.state.gpr[n] & 0xffff_ffff;
        let wanted = low(gpr::RDX) << 32 | low(gpr::RAX);
        let os_limit = os & 0xffff_fffc;
        let is_os_first = os_limit != 0 && tsc.saturating_add(os_limit) < wanted;
        let end = if is_os_first { tsc + os_limit } else { wanted };
        let state = &mut self.cpu.state;
        state.rflags &=
            !(rflags::CF | rflags::PF | rflags::AF | rflags::ZF | rflags::SF | rflags::OF);
        if end <= tsc {
            return Ok(Next::Seq);
        }
        if reason == WaitReason::Monitor && !matches!(self.port.monitor(), MonitorState::Armed(_)) {
            self.port.disarm_monitor();
            return Ok(Next::Seq);
        }
        let deadline = after_cycles(self.cpu.config.tsc, now, end - tsc);
        let next = self.sleep(WaitRequest {
            reason,
            state: self.cpu.config.idle.umwait[usize::from(!is_c01)],
            wake_on_masked: true,
            deadline,
        });
        if is_os_first && next != Next::Seq {
            self.cpu.os_limit = deadline;
            self.cpu.refresh_attention();
        }
        Ok(next)
    }

    /// MONITOR and MWAIT are for CPL 0; the others for all.
    fn require_wait_feature(&self, feature: Features) -> Exec<()> {
        let is_privileged = feature == Features::MONITOR;
        if !self.cpu.has(feature) || is_privileged && self.cpu.cpl != 0 {
            return Err(Exception::ud().into());
        }
        Ok(())
    }
}

/// Time `cycles` after `now`; `None` when simulated time does not reach so far.
fn after_cycles(clock: Freq, now: SimTime, cycles: u64) -> Option<SimTime> {
    let edge = clock.count_at(now).checked_add(cycles)?;
    let last = clock.edge_at_or_after(SimTime(SimTime::NEVER.0 - 1));
    (edge < last).then(|| clock.edge(edge))
}
