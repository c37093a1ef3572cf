//! Instructions that wait and wake: WFE, WFI, WFET, WFIT, SEV, SEVL, YIELD.
//!
//! The event register is a latch of the cpu. WFE falls through and clears it when it is set, when
//! the reservation has fallen since LDXR, or when the event stream had an event since the last WFE.
//! Otherwise it waits: for the line that is reserved, an interrupt that is not masked, an event, or
//! the next event of the stream. WFI waits for an interrupt, masked or not.
//!
//! Source: \[ArmARM\] "Wait for Event mechanism and Send event", "Wait for Interrupt mechanism",
//! "Traps to EL1 of EL0 execution of WFE, WFI". Status: spec.

use emu_cpu::isa::Isa;
use emu_cpu::port::{Port, Target};
use emu_cpu::wait::{MonitorState, Signal, WaitReason, WaitRequest};
use emu_sim::SimTime;

use crate::ctx::{Ctx, Exception, Exec, Hint, Next};
use crate::defs::{Ec, Features, hcr, sctlr};
use crate::sysreg::Cell;

/// Which instruction waits: `ISS.TI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Wfi = 0,
    Wfe = 1,
    Wfit = 2,
    Wfet = 3,
}

impl<P: Port> Ctx<'_, P> {
    /// A hint that waits or wakes.
    ///
    /// # Errors
    /// Traps of EL0 and to EL2; undefined; `Wait`.
    pub fn hint(&mut self, hint: Hint) -> Exec<Next> {
        match hint {
            Hint::Nop | Hint::Yield => Ok(Next::Seq),
            Hint::Sev => {
                self.port.signal(Target::AllButSelf, Signal::Event, false)?;
                self.cpu.event_register = true;
                Ok(Next::Seq)
            }
            Hint::Sevl => {
                self.cpu.event_register = true;
                Ok(Next::Seq)
            }
            Hint::Wfe => self.wait(Wait::Wfe, None),
            Hint::Wfi => self.wait(Wait::Wfi, None),
            Hint::Wfet(_) | Hint::Wfit(_) if !self.cpu.has(Features::WFXT) => {
                Err(Exception::undefined().into())
            }
            Hint::Wfet(rd) => self.wait(Wait::Wfet, Some(rd)),
            Hint::Wfit(rd) => self.wait(Wait::Wfit, Some(rd)),
        }
    }

    fn wait(&mut self, kind: Wait, register: Option<u8>) -> Exec<Next> {
        let now = self.now();
        let is_event = matches!(kind, Wait::Wfe | Wait::Wfet);
        if is_event && self.take_event(now) {
            return Ok(Next::Seq);
        }
        let limit = register.map(|rd| {
            let value = self.cpu.state.x(rd);
            self.cpu.timer.virtual_deadline(value, now).unwrap_or(SimTime::NEVER)
        });
        if limit.is_some_and(|limit| limit <= now) {
            return Ok(Next::Seq);
        }
        self.check_wait_trap(kind, register)?;
        let control = self.cpu.sys[Cell::CntkctlEl1];
        let stream = is_event.then(|| self.cpu.timer.next_event(control, now)).flatten();
        let deadline = [limit, stream].into_iter().flatten().min();
        let deadline = deadline.filter(|at| *at != SimTime::NEVER);
        let is_armed = matches!(self.port.monitor(), MonitorState::Reserved(_));
        let request = WaitRequest {
            reason: if is_event && is_armed { WaitReason::Monitor } else { WaitReason::Halt },
            state: if is_event { None } else { self.cpu.config.wfi_state },
            wake_on_masked: !is_event,
            deadline,
        };
        self.cpu.waits_for_event = is_event;
        if self.cpu.wake_cause(&request).is_some() {
            return Ok(Next::Seq);
        }
        Ok(Next::Sleep(request))
    }

    /// Whether WFE falls through; what made it do so is used up.
    fn take_event(&mut self, now: SimTime) -> bool {
        let control = self.cpu.sys[Cell::CntkctlEl1];
        let is_lost = self.port.monitor() == MonitorState::Triggered;
        let is_set = self.cpu.event_register
            || is_lost
            || self.cpu.timer.had_event(control, self.cpu.event_seen, now);
        self.cpu.event_register = false;
        self.cpu.event_seen = now;
        if is_lost {
            self.port.disarm_monitor();
        }
        is_set
    }

    /// "Traps EL0 execution of WFE": SCTLR_EL1.nTWE and nTWI; HCR_EL2.TWE and TWI.
    fn check_wait_trap(&self, kind: Wait, register: Option<u8>) -> Exec<()> {
        let el = self.cpu.state.pstate.el;
        let (open, el2) = match kind {
            Wait::Wfe | Wait::Wfet => (sctlr::NTWE, hcr::TWE),
            Wait::Wfi | Wait::Wfit => (sctlr::NTWI, hcr::TWI),
        };
        let level = if el == 0 && self.cpu.sys[Cell::SctlrEl1] & open == 0 {
            1
        } else if el < 2 && self.cpu.has_el2() && self.cpu.sys[Cell::HcrEl2] & el2 != 0 {
            2
        } else {
            return Ok(());
        };
        let register = register.map_or(0, |rd| u32::from(rd) << 5 | 1 << 2);
        let iss = 1 << 24 | 0xe << 20 | register | kind as u32;
        Err(Exception { class: Ec::Wfx, iss, far: None, level, is_after: false }.into())
    }
}
