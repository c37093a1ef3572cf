//! Atomics of cpus that are performed at the line's home (`engine.md` section 5).
//!
//! To the home they are accesses of a device: every copy ends, then the value is touched in the
//! item in which the answer leaves (V1, V2). The operand travels apart from the request, which
//! costs a trip more than a read. Not modelled: the place in the home's order that a request takes
//! before its operand has come.

use emu_cpu::node::{CoreItem, Far};
use emu_cpu::port::Update;
use emu_mem::msg::{Envelope, LineMsg};
use emu_mem::shadow::Data;
use emu_sim::mutant::Mutant;
use emu_sim::{Key, NodeRef, Phase, SimTime};

use crate::platform::Platform;
use crate::run::UncoreItem;
use crate::system::System;

/// Devices from this number on are atomics under way: cpu, then which of its own.
const FAR: u32 = 1 << 30;
/// Bits of the second part. Fewer stores than that wait in a buffer.
const OWN_BITS: u32 = 16;
/// The one atomic of a cpu whose result is waited for.
const WITH_RESULT: u32 = 1 << OWN_BITS;

/// The device that stands for an atomic.
fn device(far: &Far) -> u32 {
    let own = far.store.map_or(WITH_RESULT, |n| n as u32 & (WITH_RESULT - 1));
    FAR | far.cpu.0 << (OWN_BITS + 1) | own
}

/// Whether a device stands for an atomic.
pub(crate) fn is_far(device: u32) -> bool {
    device & FAR != 0
}

impl<P: Platform> System<P> {
    /// Sends an atomic of core `c`, which left at `sent`, to its home: the request goes there, the
    /// name of a buffer comes back, and the operand follows.
    ///
    /// Source: \[CHI\] "Atomic transactions": `DBIDResp`, then `NCBWrData`. Status: spec.
    pub(crate) fn send_far(&mut self, c: usize, mut far: Far, sent: SimTime, seq: u64) {
        if self.options.mutation.is(Mutant::FarReadsEarly) {
            let old = self.phys.load(far.pa, far.size);
            far.update = far.update.apply(old, far.size).map_or(far.update, Update::Swap);
        }
        let (line, home) = (far.pa.line(), self.paths.home_of(far.pa));
        let llc = self.topology.cores[c].llc;
        let there = self.paths.core_llc[c] + self.paths.llc_home[llc][home.index()];
        let back = self.paths.home_llc[home.index()][llc] + self.paths.llc_core[c];
        let time = sent.ps() + there + back + there;
        let source = self.cores[c].rank();
        let tie = self.chance.tie(line.0, time, source);
        let key = Key { time, phase: Phase::Request, tie, source, seq };
        let from = NodeRef::Device(device(&far));
        let before = self.far.insert(device(&far), far);
        assert!(before.is_none(), "model bug: {before:?} is under way beside {far:?}");
        let (to, msg) = (NodeRef::Home(home), LineMsg::Access { write: true });
        let e = Envelope { key, to, from, line, msg, data: Data::default() };
        self.push_uncore(key, UncoreItem::Line(e));
    }

    /// The home performs the atomic that this device stands for; the answer goes to its core.
    pub(crate) fn touch_for_cpu(&mut self, device: u32, e: &Envelope, behind: &mut [Envelope]) {
        let Some(far) = self.far.remove(&device) else {
            unreachable!("model bug: no atomic of {device:#x} is under way")
        };
        let phys = &self.phys;
        let old = phys.load(far.pa, far.size);
        let change = || {
            if let Some(new) = far.update.apply(old, far.size) {
                phys.store(far.pa, far.size, new);
            }
        };
        let home = self.paths.home_of(far.pa).index();
        self.homes[home].access(e.line, phys, change, behind);
        let (core, smt) = self.places[far.cpu.index()];
        let llc = self.topology.cores[core].llc;
        let left = e.key.time - self.paths.home_device[home];
        let time = left + self.paths.home_llc[home][llc] + self.paths.llc_core[core];
        let item = match far.store {
            Some(n) => CoreItem::FarStored { smt, n },
            None => CoreItem::DeviceDone { smt, value: Some(old) },
        };
        self.deliver(core, Key { time, phase: Phase::Grant, ..e.key }, item);
    }
}
