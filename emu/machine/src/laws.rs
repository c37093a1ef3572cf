//! Conservation laws of the machine: they hold at the end of every run of anything, at any cut.
//!
//! What is sent arrives or is under way, each wait that began has ended or lasts, no line has a
//! writer beside others, directories know what their caches hold, and nobody waits for a message
//! when none is under way. A law that does not hold is a bug of the model, whatever the guest did.

use std::fmt;

use emu_cpu::thread::{Pending, RunState};
use emu_cpu::wait::MonitorState;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_sim::CpuId;

use crate::platform::Platform;
use crate::system::System;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLaw {
    /// Name of the law.
    pub law: &'static str,
    /// What was found.
    pub found: String,
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model bug: law `{}` does not hold: {}", self.law, self.found)
    }
}

impl std::error::Error for BrokenLaw {}

fn law(law: &'static str, holds: bool, found: impl FnOnce() -> String) -> Result<(), BrokenLaw> {
    if holds { Ok(()) } else { Err(BrokenLaw { law, found: found() }) }
}

impl<P: Platform> System<P> {
    /// Checks the conservation laws where the machine stands: between two runs.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub(crate) fn check_laws(&self) -> Result<(), BrokenLaw> {
        self.check_messages()?;
        (0..self.places.len() as u32).try_for_each(|cpu| self.check_cpu(CpuId(cpu)))?;
        self.check_lines()?;
        self.check_quiet()
    }

    /// Interrupt messages: sent = taken + merged + dropped + pending + under way.
    fn check_messages(&self) -> Result<(), BrokenLaw> {
        let (mut sent, mut arrived, mut pending) = (0, 0, 0);
        for cpu in (0..self.places.len() as u32).map(CpuId) {
            let c = self.counters(cpu);
            sent += c.ipi_sent;
            arrived += c.ipi_taken + c.ipi_merged + c.ipi_dropped;
            pending += c.ipi_pending;
        }
        let under_way = self.ipis_under_way();
        law("IPIs end", sent == arrived + pending + under_way, || {
            format!(
                "ipi_sent {sent} is not taken, merged or dropped {arrived} + ipi_pending {pending} \
                 + under way {under_way}"
            )
        })
    }

    fn check_cpu(&self, cpu: CpuId) -> Result<(), BrokenLaw> {
        let c = self.counters(cpu);
        let found = || format!("{cpu}: {c:?}");
        law("accepted IPIs end", c.ipi_accepted == c.ipi_taken + c.ipi_pending, found)?;
        // A cpu of arm64 may acknowledge without a handler, or several in one.
        let is_handled =
            c.ipi_taken <= c.handler_entries || self.topology.isa == topology::Isa::Aarch64;
        law("IPIs taken are handled", is_handled, found)?;
        law("masked time is pending time", c.ipi_pend_masked_ps <= c.ipi_pend_ps, found)?;
        law("the longest section is one", c.irqoff_max_ps <= c.irqoff_ps, found)?;
        law("elided is executed", c.elided <= c.instructions, found)?;
        // All but the boot cpu wait for their start before anything has run.
        let entered = c.idle_enter + u64::from(cpu.0 != 0);
        let is_waiting = matches!(self.run_state(cpu), RunState::Waiting(_));
        let left = c.idle_wake_write + c.idle_wake_irq + c.idle_wake_other;
        law("waits end", entered == left + u64::from(is_waiting), || {
            format!("{cpu}, waiting {is_waiting}: {c:?}")
        })
    }

    /// Lines: one writer, and records that know all copies and watches (`engine.md` L11, W3).
    fn check_lines(&self) -> Result<(), BrokenLaw> {
        let (mut held, mut watched) = (Vec::new(), Vec::new());
        for core in &self.cores {
            held.extend(core.lines().map(|(line, perm)| (line, core.id(), perm)));
            for smt in 0..core.cpus() {
                if let MonitorState::Armed(line) = core.thread(smt).monitor() {
                    watched.push((line, core.id()));
                }
            }
        }
        emu_mem::laws::check(held, &watched, &self.llcs, &self.homes, &self.paths)
            .map_err(|breach| BrokenLaw { law: "lines are recorded", found: breach.to_string() })
    }

    /// With no message under way, nobody waits for one (`engine.md` P2, P4).
    fn check_quiet(&self) -> Result<(), BrokenLaw> {
        if !self.uncore.is_empty() || self.cores.iter().any(emu_cpu::node::Core::has_messages) {
            return Ok(());
        }
        let is_idle = self.llcs.iter().all(Llc::is_idle) && self.homes.iter().all(Home::is_idle);
        law("transactions end", is_idle, || format!("{:?}", self.stall_report().busy_lines))?;
        for core in &self.cores {
            let asked: Vec<_> = core.lines_under_way().collect();
            law("lines come", asked.is_empty(), || format!("{} asked for {asked:?}", core.id()))?;
        }
        (0..self.places.len() as u32).map(CpuId).try_for_each(|cpu| {
            let (core, smt) = self.places[cpu.index()];
            let pending = self.cores[core].thread(smt).pending();
            let waits = matches!(
                pending,
                Pending::Line(_) | Pending::Flush(_) | Pending::Device | Pending::Answers
            );
            law("answers come", !waits, || format!("{cpu} waits for {pending:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86::X86;
    use crate::{Options, Until};
    use emu_sim::SimTime;

    #[test]
    fn an_ipi_that_nobody_got_and_a_line_that_nobody_sends_are_found() {
        let topology = topology::Machine::load("duo", &[]).expect("a machine");
        let mut machine = System::<X86>::new(&topology, Options::default()).expect("it is built");
        assert_eq!(machine.check_laws(), Ok(()));
        let mut lost = machine.clone();
        lost.ipi_sent[0] += 1;
        let broken = lost.check_laws().expect_err("it is lost");
        assert_eq!(
            broken.to_string(),
            "model bug: law `IPIs end` does not hold: ipi_sent 1 is not taken, merged or dropped 0 \
             + ipi_pending 0 + under way 0"
        );
        // The first fetch asks for a line; without its message it would never come.
        machine.run_to_stop(&Until { time: SimTime(1), regions: false }, &mut ());
        assert_eq!(machine.check_laws(), Ok(()));
        while machine.uncore.pop().is_some() {}
        let broken = machine.check_laws().expect_err("its request is gone");
        assert_eq!(broken.law, "lines come", "{broken}");
    }
}
