//! One arm64 cpu: its parts, and one step.
//!
//! A step takes a pending event, or runs one instruction. An instruction that ends in an exception
//! changes nothing but the note of it; the exception is taken by the next step, which nothing can
//! come before. A step that waits is run again from its start: `begun` says what it was doing, and
//! everything it decides from is unchanged, so that it makes the same requests.

use std::ops::Range;
use std::sync::Arc;

use emu_cpu::isa::{Flow, Isa, Received};
use emu_cpu::port::{Note, Port, Wait};
use emu_cpu::predict::Predictor;
use emu_cpu::timing::{Class, OpTiming};
use emu_cpu::wait::{Signal, WaitReason, WaitRequest, WakeCause};
use emu_sim::{Freq, PhysAddr, SimTime};

use crate::code::{CodeCache, Entry, Recent};
use crate::ctx::{Ctx, Exception, Exec, Next, Trap};
use crate::defs::{Ec, Features, SysReg, spsr};
use crate::except::Kind;
use crate::exec::execute;
use crate::gic::{GicConfig, LocalGic, Pending, SPI_FIRST, SgiTarget};
use crate::psci::power_off_request;
use crate::state::{Pstate, State};
use crate::sysreg::SysRegs;
use crate::timer::{Comparator, GenericTimer};
use crate::tlb::{Invalidate, Tlb, TlbSizes};

/// Which interrupt controller a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gic {
    /// GICv2: CPU interface and banked distributor registers in memory.
    V2,
    /// GICv3: system registers, redistributors.
    V3,
}

/// What the cpus of a machine have in common.
#[derive(Clone, Debug)]
pub struct CpuConfig {
    /// What is implemented and offered.
    pub features: Features,
    /// Identification registers with their values.
    pub ids: Arc<[(SysReg, u64)]>,
    /// `CCSIDR_EL1` by the value of `CSSELR_EL1`.
    pub ccsidr: Vec<(u64, u64)>,
    /// Width of a physical address in bits.
    pub phys_addr_bits: u32,
    /// Physical addresses that are no memory.
    pub mmio: Vec<Range<u64>>,
    /// Sizes of the TLBs.
    pub tlb: TlbSizes,
    /// Clock of the system counter.
    pub counter: Freq,
    /// Clock of the cycle counter `PMCCNTR_EL0`.
    pub cycle: Freq,
    /// Interrupt controller.
    pub gic: Gic,
    /// Level that the boot cpu starts at: 1 or 2. With 1 there is no EL2.
    pub entry_level: u8,
    /// Value of the event register after reset.
    pub event_at_reset: bool,
    /// Idle state of WFI.
    pub wfi_state: Option<u8>,
    /// Power-state parameters of PSCI CPU_SUSPEND with their idle states.
    pub suspend_states: Vec<(u32, u8)>,
}

/// What one cpu of a machine has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuIdentity {
    /// `MPIDR_EL1`.
    pub mpidr: u64,
    /// `MIDR_EL1`.
    pub midr: u64,
    /// Whether it runs from the start; others wait for CPU_ON.
    pub is_boot: bool,
    /// Physical address of its redistributor's frames (GICv3).
    pub gic_frame: Option<u64>,
    /// Processor number in `GICR_TYPER`.
    pub number: u16,
    /// Whether its redistributor is the last of its series.
    pub is_last: bool,
}

impl CpuIdentity {
    /// Affinity Aff3.Aff2.Aff1.Aff0 in 32 bits: the id by which signals find the cpu.
    #[must_use]
    pub const fn affinity(&self) -> u32 {
        (self.mpidr >> 32 & 0xff) as u32 * (1 << 24) + (self.mpidr & 0xff_ffff) as u32
    }
}

/// What the step that waits was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    /// Nothing: the next step starts anew.
    #[default]
    Nothing,
    /// Entering the line of an instruction.
    Entry,
    /// Executing an instruction whose line is entered: "begun instructions finish" (I1).
    Body,
    /// Taking a synchronous exception.
    Exception(Exception),
}

/// Which requests the running instruction makes to enter its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryRequests {
    /// None: it follows in the line of the one before.
    None,
    /// The fetch of this physical address, known from before.
    Fetch(u64),
    /// The translation of its address, and the fetch.
    Translate,
}

/// Address that is never that of an instruction.
const NOWHERE: u64 = 1;
/// Bits of an address in its line.
const LINE_MASK: u64 = 63;

/// One cpu.
#[derive(Clone, Debug)]
pub struct ArmCpu {
    /// Registers.
    pub state: State,
    /// Branch predictor.
    pub predictor: Predictor,
    /// System registers that are storage.
    pub sys: SysRegs,
    /// Redistributor and CPU interface.
    pub gic: LocalGic,
    /// Generic timer.
    pub timer: GenericTimer,
    /// Configuration shared by the cpus of the machine.
    pub config: Arc<CpuConfig>,
    pub(crate) identity: CpuIdentity,
    pub(crate) tlb: Tlb,
    /// The event register of WFE.
    pub(crate) event_register: bool,
    /// Up to when the event stream has been looked at.
    pub(crate) event_seen: SimTime,
    /// The wait, if the cpu waits, is one of WFE: an event ends it.
    pub(crate) waits_for_event: bool,
    /// Invalidations by other cpus that came while an instruction had begun.
    invalidations: Vec<Invalidate>,
    /// Address and X0 after the power-down state that the cpu is in.
    pub(crate) resume: Option<(u64, u64)>,
    /// The cpu is off until CPU_ON.
    is_off: bool,
    recent: Recent,
    /// Address of the instruction that needs no entry of its line, and what the TLB's flushes were.
    following: u64,
    flushes: u64,
    /// How the running instruction entered its line.
    entry: EntryRequests,
    /// Whether there may be something to do besides the next instruction.
    attention: bool,
    begun: Begun,
}

impl ArmCpu {
    /// A cpu after power-up: the boot cpu runs, others are off.
    #[must_use]
    pub fn new(config: Arc<CpuConfig>, identity: CpuIdentity) -> ArmCpu {
        let gic = GicConfig {
            affinity: identity.affinity(),
            number: identity.number,
            is_last: identity.is_last,
        };
        let mut cpu = ArmCpu {
            state: State::at_level(config.entry_level),
            predictor: Predictor::default(),
            sys: SysRegs::new(identity.midr, identity.mpidr),
            gic: match config.gic {
                Gic::V2 => LocalGic::for_v2(gic),
                Gic::V3 => LocalGic::new(gic),
            },
            timer: GenericTimer::new(config.counter),
            identity,
            tlb: Tlb::new(config.tlb),
            event_register: config.event_at_reset,
            event_seen: SimTime::ZERO,
            waits_for_event: false,
            invalidations: Vec::new(),
            resume: None,
            is_off: !identity.is_boot,
            recent: Recent::default(),
            following: NOWHERE,
            flushes: 0,
            entry: EntryRequests::None,
            attention: false,
            begun: Begun::Nothing,
            config,
        };
        cpu.refresh_attention();
        cpu
    }

    /// Whether a feature is implemented and offered.
    #[must_use]
    #[inline(always)]
    pub fn has(&self, feature: Features) -> bool {
        self.config.features.contains(feature)
    }

    /// `MPIDR_EL1`.
    #[must_use]
    pub fn mpidr(&self) -> u64 {
        self.identity.mpidr
    }

    /// Whether the cpu is off and waits for CPU_ON.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Follows a change of registers from outside: loaders, debuggers, tests.
    pub fn registers_changed(&mut self) {
        self.tlb.flush_all();
        self.refresh_attention();
    }

    /// CPU_ON, and the end of a power-down state: the cpu starts at `entry` with `context` in X0,
    /// registers as after reset.
    ///
    /// Source: \[PSCI\] "Initial core configuration": caches and MMU off, all exceptions masked, at
    /// the highest level below the firmware. Status: spec.
    pub fn power_on(&mut self, entry: u64, context: u64) {
        self.state = State::at_level(self.config.entry_level);
        self.state.pc = entry;
        self.state.x[0] = context;
        self.sys = SysRegs::new(self.identity.midr, self.identity.mpidr);
        self.event_register = self.config.event_at_reset;
        self.resume = None;
        self.is_off = false;
        self.begun = Begun::Nothing;
        self.registers_changed();
    }

    /// CPU_OFF.
    pub(crate) fn power_off(&mut self) {
        self.is_off = true;
        self.waits_for_event = false;
        self.refresh_attention();
    }

    /// Makes the next step look for pending events.
    pub(crate) fn refresh_attention(&mut self) {
        self.attention = self.is_off
            || self.resume.is_some()
            || self.state.pstate.il
            || matches!(self.begun, Begun::Exception(_))
            || self.gic.pending().is_some();
    }

    /// Takes the timer's levels to its interrupts.
    pub(crate) fn update_timer_lines(&mut self, now: SimTime) {
        for which in Comparator::ALL {
            let is_up = self.timer.is_asserted(which, now);
            self.gic.redistributor.set_line(which.intid(), is_up);
        }
        self.refresh_attention();
    }

    /// ISR_EL1: what is pending, masked or not.
    pub(crate) fn pending_summary(&self) -> u64 {
        match self.gic.pending() {
            None => 0,
            Some(Pending { group: 0, .. }) => spsr::F,
            Some(_) => spsr::I,
        }
    }

    /// The interrupt to take now: its kind, the level that takes it, its INTID.
    fn interrupt(&self) -> Option<(Kind, u8, u32)> {
        let pending = self.gic.pending()?;
        let kind = if pending.group == 0 { Kind::Fiq } else { Kind::Irq };
        Some((kind, self.interrupt_target(kind)?, pending.intid))
    }

    /// The slow start of a step: what comes before the next instruction, by priority.
    ///
    /// Source: \[ArmARM\] "Exception prioritization": interrupts are taken "in finite time", here
    /// before the next instruction; an exception that is under way comes first.
    #[inline(never)]
    fn attend<P: Port>(&mut self, port: &mut P) -> Option<Flow> {
        if self.is_off {
            return Some(Flow::Sleep(power_off_request()));
        }
        if let Some((entry, context)) = self.resume.take() {
            self.power_on(entry, context);
            return Some(Flow::Next);
        }
        if let Begun::Exception(exception) = self.begun {
            self.begun = Begun::Nothing;
            start_entry(port);
            self.take_exception(exception);
            port.note(Note::InterruptFlag(false));
            return Some(Flow::Next);
        }
        if let Some((kind, target, intid)) = self.interrupt() {
            start_entry(port);
            self.enter(target, kind, self.state.pc);
            port.note(Note::InterruptFlag(false));
            port.note(Note::InterruptTaken(intid.min(255) as u8));
            return Some(Flow::Next);
        }
        if self.state.pstate.il {
            let class = Ec::Illegal;
            self.note_exception(Exception { class, iss: 0, far: None, level: 1, is_after: false });
            return Some(Flow::Next);
        }
        None
    }

    /// Another cpu's TLBI. The TLB does not change while an instruction runs, which must find the
    /// same pages when it runs again.
    fn invalidate(&mut self, what: Invalidate) {
        if !self.is_begun() {
            self.tlb.invalidate(what);
        } else if self.invalidations.len() < INVALIDATIONS_MAX {
            self.invalidations.push(what);
        } else {
            // Too much may be dropped, and too little not.
            self.invalidations.clear();
            self.invalidations.extend([true, false].map(Invalidate::Regime));
        }
    }

    #[inline]
    fn carry_out_invalidations(&mut self) {
        for what in self.invalidations.drain(..) {
            self.tlb.invalidate(what);
        }
    }

    /// Whether an instruction has begun.
    fn is_begun(&self) -> bool {
        matches!(self.begun, Begun::Entry | Begun::Body)
    }

    fn note_exception(&mut self, exception: Exception) {
        self.begun = Begun::Exception(exception);
        self.attention = true;
    }

    /// Executes the instruction at the program counter, whose line is entered if it is not the
    /// following one in the line of the instruction before.
    #[inline]
    fn run_instruction<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Exec<Next> {
        let pc = self.state.pc;
        if self.begun == Begun::Body {
            // The same requests again, whatever the line holds by now.
            self.ask_for_line(port)?;
        } else if self.begun == Begun::Entry {
            self.enter_line(unit, port)?;
        } else if self.following == pc && self.flushes == self.tlb.flushes() {
            self.entry = EntryRequests::None;
        } else {
            self.flushes = self.tlb.flushes();
            self.entry = match self.recent.at(Recent::slot(pc)) {
                Some(e) if e.is(pc, self.flushes, self.state.pstate.el) => {
                    EntryRequests::Fetch(e.pa | pc & LINE_MASK)
                }
                _ => EntryRequests::Translate,
            };
            self.begun = Begun::Entry;
            self.enter_line(unit, port)?;
        }
        let Some(line) = self.recent.at(Recent::slot(pc)) else {
            unreachable!("model bug: a line is entered and not there")
        };
        let op = line.ops[(pc & LINE_MASK) as usize >> 2];
        port.dispatch(&op.timing);
        execute(&mut Ctx { cpu: self, port }, &op)
    }

    /// Makes the requests of `entry`; returns the physical address of the instruction, if it has
    /// any.
    fn ask_for_line<P: Port>(&mut self, port: &mut P) -> Exec<Option<u64>> {
        let pa = match self.entry {
            EntryRequests::None => return Ok(None),
            EntryRequests::Fetch(pa) => pa,
            EntryRequests::Translate => {
                let pc = self.state.pc;
                Ctx { cpu: self, port }.translate_fetch(pc)?
            }
        };
        port.fetch(PhysAddr(pa))?;
        Ok(Some(pa))
    }

    /// Asks for the line of the program counter and sees that it is decoded.
    fn enter_line<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Exec<()> {
        let Some(pa) = self.ask_for_line(port)? else { return Ok(()) };
        let pc = self.state.pc;
        self.begun = Begun::Body;
        let (el, flushes) = (self.state.pstate.el, self.flushes);
        let version = port.code_version(pa >> 12);
        let known = self.recent.at(Recent::slot(pc));
        let is_current = |e: &Entry| e.is(pc, flushes, el) && e.version == version;
        if !known.is_some_and(is_current) {
            let (va, pa) = (pc & !LINE_MASK, pa & !LINE_MASK);
            // Each cpu says so itself, so that what it is told of does not depend on others.
            port.note_code(pa >> 12);
            let ops = unit.line(pa, version, |bytes| port.code_bytes(PhysAddr(pa), bytes));
            self.recent.insert(Entry { va, flushes, el, pa, version, ops });
        }
        Ok(())
    }

    /// Runs one body as a step does: changes of the TLB take effect when it has ended.
    ///
    /// # Errors
    /// What the body ends in.
    pub fn run_body<P: Port, T>(
        &mut self,
        port: &mut P,
        body: impl FnOnce(&mut Ctx<'_, P>) -> Exec<T>,
    ) -> Exec<T> {
        self.tlb.begin();
        let result = body(&mut Ctx { cpu: self, port });
        if !matches!(result, Err(Trap::Wait)) {
            self.tlb.commit();
        }
        result
    }
}

/// Invalidations that are kept one by one while an instruction has begun.
const INVALIDATIONS_MAX: usize = 16;

fn start_entry<P: Port>(port: &mut P) {
    port.dispatch(&OpTiming { class: Class::IrqEntry, ..OpTiming::default() });
    port.serialise();
}

impl Isa for ArmCpu {
    type Unit = CodeCache;

    fn step<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Result<Flow, Wait> {
        if self.waits_for_event {
            // "It is IMPLEMENTATION DEFINED whether restarting execution [...] causes the Event
            // Register to be cleared": here it does.
            self.waits_for_event = false;
            self.event_register = false;
        }
        if self.attention
            && !self.is_begun()
            && let Some(flow) = self.attend(port)
        {
            self.refresh_attention();
            self.following = NOWHERE;
            return Ok(flow);
        }
        self.tlb.begin();
        let next = match self.run_instruction(unit, port) {
            Ok(next) => next,
            Err(Trap::Wait) => {
                if self.begun != Begun::Entry {
                    self.begun = Begun::Body;
                }
                return Err(Wait);
            }
            Err(Trap::Fault(exception)) => {
                self.tlb.commit();
                self.note_exception(exception);
                self.carry_out_invalidations();
                return Ok(Flow::Next);
            }
        };
        self.begun = Begun::Nothing;
        self.tlb.commit();
        self.carry_out_invalidations();
        let (pc, flow) = match next {
            Next::Seq => (self.state.pc.wrapping_add(4), Flow::Next),
            Next::Sleep(request) => (self.state.pc.wrapping_add(4), Flow::Sleep(request)),
            Next::Jump(target) => (target, Flow::Next),
        };
        self.state.pc = pc;
        let leaves_line = pc & LINE_MASK == 0 || matches!(next, Next::Jump(_));
        self.following = if leaves_line || port.take_code_store() { NOWHERE } else { pc };
        Ok(flow)
    }

    /// Interrupts carry the INTID of an SGI or PPI as vector, and for several cpus the value of
    /// ICC_SGI1R_EL1 as logical destination; on GICv2 the number of the sender.
    fn receive(&mut self, signal: Signal, _now: SimTime) -> Received {
        let is_new = match signal {
            Signal::Interrupt { vector, logical, .. } if self.config.gic == Gic::V2 => {
                let source = logical.unwrap_or(0) as u8;
                u32::from(vector) < 16 && self.gic.redistributor.set_pending_from(vector, source)
            }
            Signal::Interrupt { vector, logical, .. } => {
                let affinity = self.identity.affinity();
                let is_meant = |value| SgiTarget::from_register(value).0.contains(affinity);
                if u32::from(vector) >= SPI_FIRST || !logical.is_none_or(is_meant) {
                    return Received::Ignored;
                }
                self.gic.redistributor.set_pending(vector)
            }
            Signal::Event => !std::mem::replace(&mut self.event_register, true),
            Signal::Forward { intid, priority, group } => {
                self.gic.forward(Pending { intid: u32::from(intid), group, priority });
                true
            }
            Signal::Retract { intid, .. } => {
                self.gic.retract(u32::from(intid));
                true
            }
            Signal::PowerOn { entry, context } if self.is_off => {
                self.power_on(entry, context);
                true
            }
            Signal::Invalidate { what } => {
                self.invalidate(Invalidate::from_words(what));
                true
            }
            Signal::PowerOn { .. } | Signal::Nmi | Signal::Init | Signal::Startup(_) => {
                return Received::Ignored;
            }
        };
        self.refresh_attention();
        if is_new { Received::Accepted } else { Received::Merged }
    }

    fn timer(&mut self, now: SimTime) -> Option<SimTime> {
        self.update_timer_lines(now);
        self.timer.next_expiry(now)
    }

    /// Source: \[ArmARM\] "WFI wake-up events", "WFE wake-up events". Status: spec.
    fn wake_cause(&self, request: &WaitRequest) -> Option<WakeCause> {
        if request.reason == WaitReason::Startup {
            return (!self.is_off).then_some(WakeCause::Reset);
        }
        if self.waits_for_event && self.event_register {
            return Some(WakeCause::Event);
        }
        let is_power = request.reason == WaitReason::Power;
        let is_ready = if is_power && self.gic.wake_request() {
            true
        } else if request.wake_on_masked {
            self.gic.pending().is_some()
        } else {
            self.interrupt().is_some()
        };
        is_ready.then_some(WakeCause::Interrupt)
    }

    fn interrupt_ready(&self) -> bool {
        self.attention && !self.is_off && self.begun == Begun::Nothing && self.interrupt().is_some()
    }

    fn pc(&self) -> u64 {
        self.state.pc
    }

    fn registers(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 31] = [
            "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
            "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
            "x26", "x27", "x28", "x29", "x30",
        ];
        use crate::sysreg::Cell;
        let state = &self.state;
        let mut registers: Vec<_> = NAMES.into_iter().zip(state.x).collect();
        registers.extend([
            ("sp", state.x_sp(31)),
            ("pc", state.pc),
            ("pstate", state.pstate.to_spsr()),
            ("elr_el1", state.elr[1]),
            ("esr_el1", self.sys[Cell::EsrEl1]),
            ("far_el1", self.sys[Cell::FarEl1]),
            ("sctlr_el1", self.sys[Cell::SctlrEl1]),
            ("ttbr0_el1", self.sys[Cell::Ttbr0El1]),
            ("ttbr1_el1", self.sys[Cell::Ttbr1El1]),
        ]);
        registers
    }

    fn same_state(&self, other: &Self) -> bool {
        self.state.pc == other.state.pc
            && self.state == other.state
            && self.sys == other.sys
            && self.predictor.stamp() == other.predictor.stamp()
            && self.gic == other.gic
            && self.timer == other.timer
            && self.tlb.generation() == other.tlb.generation()
            && self.latches() == other.latches()
            && self.invalidations == other.invalidations
            && self.begun == other.begun
    }
}

impl ArmCpu {
    fn latches(&self) -> (bool, SimTime, Option<(u64, u64)>, [bool; 2]) {
        let flags = [self.waits_for_event, self.is_off];
        (self.event_register, self.event_seen, self.resume, flags)
    }

    /// Process state, for tests and debuggers.
    #[must_use]
    pub fn pstate(&self) -> Pstate {
        self.state.pstate
    }
}
