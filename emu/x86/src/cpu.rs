//! One x86 cpu: its parts, and one step.
//!
//! A step takes a pending event, or runs one instruction. An instruction that ends in an exception
//! changes nothing but the note of it; the exception is delivered by the next step, which nothing
//! can come before. A step that waits is run again from its start: `begun` says what it was doing,
//! and everything it decides from is unchanged, so that it makes the same requests.
//!
//! Not modelled: instruction and data breakpoints (DR0 to DR3 hold what is written), SMM, VMX, SVM,
//! machine checks, performance counters, TLB misses of blocks that were entered lately.
//!
//! Reading order: `CpuConfig` (what a machine hands in), `X86Cpu`, `step`, then `enter` (blocks).

use std::ops::Range;
use std::sync::Arc;

use emu_cpu::isa::{Flow, Isa, Received};
use emu_cpu::port::{Note, Port, TimeOrder, Wait};
use emu_cpu::predict::Predictor;
use emu_cpu::timing::{Class, OpTiming};
use emu_cpu::wait::{Signal, WaitReason, WaitRequest, WakeCause};
use emu_sim::{ApicId, Freq, PhysAddr, SimTime};

use crate::apic::{LocalApic, LocalApicConfig};
use crate::code::{CodeCache, Entry, Recent};
use crate::control_reg::DR6_BD;
use crate::ctx::{Ctx, Exception, Exec, Trap};
use crate::decode::{self, Block, INSTRUCTION_BYTES_MAX, Mode};
use crate::defs::{Features, Vendor, cr0, efer, rflags, rights, vector};
use crate::exec::{self, Next};
use crate::fault::{self, Delivery, Nested};
use crate::msr::MsrFile;

use crate::state::{SegReg, Segment, State, TableReg, gpr};
use crate::tlb::{Access, Tlb, TlbSizes};

/// Answer of CPUID for one leaf and sub-leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidRow {
    /// EAX on entry.
    pub leaf: u32,
    /// ECX on entry; `None` when the leaf has no sub-leaves.
    pub subleaf: Option<u32>,
    /// EAX, EBX, ECX, EDX.
    pub regs: [u32; 4],
}

/// Which instruction enters which idle state, by index in the machine's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleTable {
    /// State of HLT.
    pub hlt: Option<u8>,
    /// Hints of MWAIT and MONITORX's MWAITX (EAX bits 7:0) with their states. Other hints take the
    /// deepest listed hint below them.
    pub mwait: Vec<(u32, u8)>,
    /// Ports whose reads enter a state.
    pub ports: Vec<(u16, u8)>,
    /// State of UMWAIT and TPAUSE: that of C0.1 and that of C0.2.
    pub umwait: [Option<u8>; 2],
}

impl IdleTable {
    /// State entered by MWAIT with `hint`.
    #[must_use]
    pub fn mwait_state(&self, hint: u32) -> Option<u8> {
        let below = self.mwait.iter().filter(|row| row.0 <= hint);
        below.max_by_key(|row| row.0).map(|row| row.1)
    }

    /// State entered by a read of `port`.
    #[must_use]
    pub fn port_state(&self, port: u16) -> Option<u8> {
        self.ports.iter().find(|row| row.0 == port).map(|row| row.1)
    }
}

/// What the cpus of a machine have in common.
#[derive(Clone, Debug)]
pub struct CpuConfig {
    /// Whose manual decides where they differ.
    pub vendor: Vendor,
    /// What is implemented and offered.
    pub features: Features,
    /// Width of a physical address in bits, 36 to 52.
    pub phys_addr_bits: u32,
    /// Physical addresses that are no memory: devices, and holes up to the end of memory.
    pub mmio: Vec<Range<u64>>,
    /// Sizes of the TLBs.
    pub tlb: TlbSizes,
    /// Clock of the time-stamp counter.
    pub tsc: Freq,
    /// Clock of the local APIC's timer.
    pub apic_timer: Freq,
    /// Idle states by entry.
    pub idle: IdleTable,
    /// Whether a WRMSR to an x2APIC register waits for older stores.
    pub icr_ordered: bool,
    /// Whether the APIC is in x2APIC mode after reset and INIT.
    pub starts_in_x2apic: bool,
}

/// What one cpu of a machine has for itself.
#[derive(Clone, Debug)]
pub struct CpuIdentity {
    /// Local APIC id.
    pub apic_id: ApicId,
    /// Whether it is the boot processor; others wait for a start-up IPI.
    pub is_bsp: bool,
    /// Answers of CPUID. The APIC id is put in by the cpu.
    pub cpuid: Arc<[CpuidRow]>,
}

/// An event that a step delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// INIT.
    Init,
    /// Start-up IPI.
    Startup(u8),
    /// Exception.
    Exception(Exception),
    /// Single-step trap.
    Debug,
    /// Non-maskable interrupt.
    Nmi,
    /// Maskable interrupt, acknowledged.
    Interrupt(u8),
}

/// What the step that waits was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    /// Nothing: the next step starts anew.
    #[default]
    Nothing,
    /// Entering a block.
    Entry,
    /// Executing an instruction whose block is entered.
    Body,
    /// Delivering an event.
    Event(Event),
}

/// Which requests the running instruction made to enter its block, each noted before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EntryRequests {
    /// Whether the address was translated, not taken from a recent block.
    is_translated: bool,
    /// Physical address fetched first; `None` when the instruction is not the first of its block.
    first: Option<u64>,
    second: Second,
}

/// What a crossing instruction asked of its second line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Second {
    /// Nothing: it lies in one line.
    #[default]
    No,
    /// Translation of the next page, which is not finished.
    Unknown,
    /// Fetch at this physical address.
    At(u64),
}

/// Address that is never that of an instruction.
const NOWHERE: u64 = 1 << 63 | 1;

/// One cpu.
#[derive(Clone, Debug)]
pub struct X86Cpu {
    /// Registers.
    pub state: State,
    /// Branch predictor.
    pub predictor: Predictor,
    /// Local APIC.
    pub apic: LocalApic,
    /// Configuration shared by the cpus of the machine.
    pub config: Arc<CpuConfig>,
    /// Current privilege level.
    pub cpl: u8,
    /// Whether code is 64-bit code.
    pub is_64: bool,
    /// Steps for which interrupts stay inhibited (STI, MOV SS): counted down at each end.
    pub(crate) shadow: u8,
    /// The shadow is that of MOV SS, which holds debug traps back too.
    pub(crate) holds_traps: bool,
    /// The running instruction enters a handler or a system call with TF clear: no trap follows.
    pub(crate) drops_trap: bool,
    /// Idle state to enter when the instruction ends.
    pub(crate) sleep_after: Option<WaitRequest>,
    /// Whether there may be something to do besides the next instruction.
    pub(crate) attention: bool,
    pub(crate) tlb: Tlb,
    pub(crate) msrs: MsrFile,
    pub(crate) identity: CpuIdentity,
    pub(crate) nmi_pending: bool,
    /// From an NMI to the next IRET.
    pub(crate) nmi_blocked: bool,
    pub(crate) init_pending: bool,
    pub(crate) awaits_startup: bool,
    pub(crate) is_shut_down: bool,
    pub(crate) startup: Option<u8>,
    /// When the operating system's limit ends the UMWAIT or TPAUSE that waits.
    pub(crate) os_limit: Option<SimTime>,
    /// A single-step trap is due.
    pub(crate) debug_pending: bool,
    begun: Begun,
    entry: EntryRequests,
    /// Bits of the code: 16, 32 or 64.
    bits: u8,
    stack_mask: u64,
    recent: Recent,
    block: Arc<Block>,
    /// Index in the block of the op at `cursor_rip`.
    cursor: usize,
    cursor_rip: u64,
    cursor_flushes: u64,
}

impl X86Cpu {
    /// A cpu after power-up: the boot processor at its reset vector, others awaiting start-up.
    #[must_use]
    pub fn new(config: Arc<CpuConfig>, identity: CpuIdentity) -> Self {
        let apic = LocalApic::new(apic_config(&config, &identity));
        let mut cpu = X86Cpu {
            state: State::default(),
            predictor: Predictor::default(),
            apic,
            cpl: 0,
            is_64: false,
            shadow: 0,
            holds_traps: false,
            drops_trap: false,
            sleep_after: None,
            attention: false,
            tlb: Tlb::new(config.tlb),
            msrs: MsrFile::new(),
            nmi_pending: false,
            nmi_blocked: false,
            init_pending: false,
            awaits_startup: !identity.is_bsp,
            is_shut_down: false,
            startup: None,
            os_limit: None,
            debug_pending: false,
            begun: Begun::Nothing,
            entry: EntryRequests::default(),
            bits: 16,
            stack_mask: 0xffff,
            recent: Recent::default(),
            block: Arc::new(Block::default()),
            cursor: 0,
            cursor_rip: NOWHERE,
            cursor_flushes: 0,
            config,
            identity,
        };
        cpu.state.pat = 0x0007_0406_0007_0406;
        cpu.reset_registers();
        cpu.start_apic();
        cpu
    }

    /// Follows a change of registers from outside: loaders, debuggers, tests.
    ///
    /// Mode and privilege are computed from CR0, EFER, CS and SS, and all translations go.
    pub fn registers_changed(&mut self) {
        let cs = self.state.seg[SegReg::Cs as usize];
        self.cpl = if self.is_protected() { (cs.selector & 3) as u8 } else { 0 };
        if self.is_virtual_8086() {
            self.cpl = 3;
        }
        self.tlb.flush_all();
        self.update_mode();
        self.refresh_attention();
    }

    /// Time-stamp counter at a simulated time.
    #[must_use]
    pub fn tsc_at(&self, now: SimTime) -> u64 {
        self.config.tsc.count_at(now).wrapping_add(self.state.tsc_offset)
    }

    /// Answer of CPUID, without the bits that follow registers.
    ///
    /// Source: [SDM-2] "CPUID": a basic leaf above the highest answers as the highest basic leaf;
    /// [APM-3] "CPUID": "undefined" ones are zero here. Status: spec, spec.
    #[must_use]
    pub fn cpuid_row(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        let rows = &self.identity.cpuid;
        let fits = |row: &&CpuidRow, leaf: u32| {
            row.leaf == leaf && row.subleaf.is_none_or(|wanted| wanted == subleaf)
        };
        if let Some(row) = rows.iter().find(|row| fits(row, leaf)) {
            return row.regs;
        }
        let top = |base: u32| rows.iter().find(|row| row.leaf == base).map_or(0, |r| r.regs[0]);
        let is_beyond = if leaf >> 31 == 0 { leaf > top(0) } else { leaf > top(1 << 31) };
        if is_beyond && self.config.vendor == Vendor::Intel {
            let highest = top(0);
            return rows.iter().find(|row| fits(row, highest)).map_or([0; 4], |row| row.regs);
        }
        [0; 4]
    }

    /// Whether a feature is implemented and offered.
    #[must_use]
    pub fn has(&self, feature: Features) -> bool {
        self.config.features.contains(feature)
    }

    /// Local APIC id, as a number of the machine.
    #[must_use]
    pub fn apic_id(&self) -> ApicId {
        self.identity.apic_id
    }

    /// Whether CR0.PE is set and this is not virtual-8086 mode.
    #[must_use]
    pub(crate) fn is_protected(&self) -> bool {
        self.state.cr0 & cr0::PE != 0 && !self.is_virtual_8086()
    }

    pub(crate) fn is_virtual_8086(&self) -> bool {
        self.state.rflags & rflags::VM != 0
    }

    /// Whether EFER.LMA is set.
    #[must_use]
    pub(crate) fn is_long(&self) -> bool {
        self.state.efer & efer::LMA != 0
    }

    /// Bits of the code: 16, 32 or 64.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Mask of the stack pointer.
    #[must_use]
    #[inline(always)]
    pub(crate) fn stack_mask(&self) -> u64 {
        self.stack_mask
    }

    /// Sets the stack pointer, as wide as the stack is.
    pub(crate) fn set_rsp(&mut self, value: u64) {
        let mask = self.stack_mask;
        let rsp = &mut self.state.gpr[gpr::RSP];
        *rsp = if mask == 0xffff { *rsp & !mask | value & mask } else { value & mask };
    }

    /// A linear address as wide as linear addresses are.
    #[must_use]
    #[inline(always)]
    pub(crate) fn wrap_linear(&self, lin: u64) -> u64 {
        // The tables of long mode lie at 64-bit addresses in compatibility mode too.
        if self.is_long() { lin } else { lin & 0xffff_ffff }
    }

    /// Follows changes of CS, SS, CR0, EFER.
    pub(crate) fn update_mode(&mut self) {
        let cs = self.state.seg[SegReg::Cs as usize];
        let ss = self.state.seg[SegReg::Ss as usize];
        let is_wide = |segment: Segment| segment.rights & rights::DB != 0;
        self.is_64 = self.is_long() && cs.rights & rights::L != 0;
        self.bits = match (self.is_64, is_wide(cs)) {
            (true, _) => 64,
            (false, true) => 32,
            (false, false) => 16,
        };
        self.stack_mask = match (self.is_64, is_wide(ss)) {
            (true, _) => u64::MAX,
            (false, true) => 0xffff_ffff,
            (false, false) => 0xffff,
        };
        self.cursor_rip = NOWHERE;
    }

    /// Makes the next step look for pending events.
    pub(crate) fn refresh_attention(&mut self) {
        self.attention = self.nmi_pending
            || self.init_pending
            || self.startup.is_some()
            || self.awaits_startup
            || self.is_shut_down
            || self.os_limit.is_some()
            || self.debug_pending
            || self.shadow != 0
            || matches!(self.begun, Begun::Event(_))
            || self.apic.pending().is_some();
    }

    /// Inhibits interrupts until the instruction after the running one has ended; with `traps`,
    /// debug traps too.
    ///
    /// Source: [SDM-3] "Masking Exceptions and Interrupts When Switching Stacks"; [SDM-2] "STI"
    /// names interrupts only. Status: spec.
    pub(crate) fn inhibit_interrupts(&mut self, traps: bool) {
        self.shadow = 2;
        self.holds_traps = traps;
        self.attention = true;
    }

    /// Registers as RESET and INIT leave them.
    ///
    /// Source: [SDM-3] "Processor State After Reset", table "IA-32 and Intel 64 Processor States
    /// Following Power-up, Reset, or INIT". Status: spec.
    fn reset_registers(&mut self) {
        let data = Segment { selector: 0, base: 0, limit: 0xffff, rights: 0x93 };
        let old = &mut self.state;
        let caches = old.cr0 & (cr0::CD | cr0::NW);
        old.gpr = [0; 16];
        old.rip = 0xfff0;
        old.rflags = rflags::FIXED;
        old.seg = [data; 6];
        old.seg[SegReg::Cs as usize] = Segment { selector: 0xf000, base: 0xffff_0000, ..data };
        old.ldtr = Segment { rights: 0x82, ..data };
        old.tr = Segment { rights: 0x8b, ..data };
        old.gdtr = TableReg { base: 0, limit: 0xffff };
        old.idtr = old.gdtr;
        old.cr0 = cr0::ET | caches;
        old.cr2 = 0;
        old.cr3 = 0;
        old.cr4 = 0;
        old.dr = [0, 0, 0, 0, 0, 0, 0xffff_0ff0, 0x400];
        old.efer = 0;
        let signature = self.cpuid_row(1, 0)[0];
        self.state.gpr[gpr::RDX] = u64::from(signature);
        self.shadow = 0;
        self.holds_traps = false;
        self.nmi_pending = false;
        self.nmi_blocked = false;
        self.is_shut_down = false;
        self.debug_pending = false;
        self.registers_changed();
    }

    fn start_apic(&mut self) {
        if self.config.starts_in_x2apic {
            // The mode that the contract with the guest says; firmware would set it.
            let base = self.apic.page_address().0 | if self.identity.is_bsp { 1 << 8 } else { 0 };
            let set =
                self.apic.msr_write(crate::defs::msr::APIC_BASE, base | 3 << 10, SimTime::ZERO);
            debug_assert!(set.is_ok() || !self.has(Features::X2APIC));
        }
    }

    /// Takes INIT: registers as after reset, then waits for a start-up IPI, or the boot processor
    /// starts again.
    fn take_init<P: Port>(&mut self, port: &mut P) -> Flow {
        self.init_pending = false;
        self.apic.init();
        port.set_timer(None);
        port.disarm_monitor();
        self.reset_registers();
        self.awaits_startup = !self.identity.is_bsp;
        self.refresh_attention();
        if self.awaits_startup { Flow::Sleep(startup_request()) } else { Flow::Next }
    }

    /// Source: [SDM-3] "Typical AP Initialization Sequence"; [SDM-3] "ICR": start-up at
    /// `000VV000H`. Status: spec.
    fn take_startup(&mut self, page: u8) {
        self.startup = None;
        self.awaits_startup = false;
        let cs = &mut self.state.seg[SegReg::Cs as usize];
        cs.selector = u16::from(page) << 8;
        cs.base = u64::from(page) << 12;
        self.state.rip = 0;
        self.update_mode();
        self.refresh_attention();
    }

    /// The event to deliver before the next instruction, in the order of the manual.
    ///
    /// Source: [SDM-3] "Priority Among Concurrent Events". Status: spec.
    fn next_event(&mut self) -> Option<Event> {
        if self.init_pending {
            return Some(Event::Init);
        }
        if self.awaits_startup {
            return self.startup.map(Event::Startup);
        }
        if self.debug_pending {
            return Some(Event::Debug);
        }
        if self.nmi_pending && !self.nmi_blocked && self.shadow == 0 {
            return Some(Event::Nmi);
        }
        if self.interrupt_ready() {
            let vector = self.apic.acknowledge();
            self.refresh_attention();
            return Some(Event::Interrupt(vector));
        }
        None
    }

    /// Delivers an event; one that came from outside is no longer pending then.
    fn run_event<P: Port>(&mut self, event: Event, port: &mut P) -> Result<Flow, Wait> {
        let delivery = match event {
            Event::Init => {
                self.begun = Begun::Nothing;
                return Ok(self.take_init(port));
            }
            Event::Startup(page) => {
                self.begun = Begun::Nothing;
                self.take_startup(page);
                return Ok(Flow::Next);
            }
            Event::Exception(exception) => Delivery::exception(exception),
            Event::Debug => Delivery::trap(vector::DB),
            Event::Nmi => Delivery::external(vector::NMI),
            Event::Interrupt(vector) => Delivery::external(vector),
        };
        port.dispatch(&OpTiming { class: Class::IrqEntry, ..OpTiming::default() });
        port.serialise();
        let result = Ctx { cpu: self, port }.deliver(delivery);
        if result == Err(Trap::Wait) {
            return Err(Wait);
        }
        self.tlb.commit();
        self.end_event(event);
        if let (Event::Interrupt(vector), Ok(())) = (event, &result) {
            port.note(Note::InterruptTaken(vector));
        }
        let Err(Trap::Fault(nested)) = result else { return Ok(Flow::Next) };
        self.note_fault_address(nested);
        let first = match event {
            Event::Exception(exception) => Some(exception.vector),
            _ => None,
        };
        match fault::nest(first, nested) {
            Nested::Serial => self.note_exception(nested),
            Nested::DoubleFault(exception) => self.note_exception(exception),
            Nested::Shutdown => {
                self.is_shut_down = true;
                self.refresh_attention();
                return Ok(Flow::Shutdown);
            }
        }
        Ok(Flow::Next)
    }

    /// Clears the latch of an event that is taken.
    fn end_event(&mut self, event: Event) {
        match event {
            Event::Debug => self.debug_pending = false,
            Event::Nmi => {
                self.nmi_pending = false;
                self.nmi_blocked = true;
                self.is_shut_down = false;
            }
            _ => {}
        }
        self.begun = Begun::Nothing;
        self.refresh_attention();
    }

    /// Source: [SDM-3] "Interrupt 14 - Page-Fault Exception (#PF)": CR2 is loaded when the fault
    /// occurs, also when it becomes a double fault.
    fn note_fault_address(&mut self, exception: Exception) {
        if exception.vector == vector::PF {
            self.state.cr2 = exception.cr2;
        }
    }

    fn note_exception(&mut self, exception: Exception) {
        self.note_fault_address(exception);
        if exception.vector == vector::DB {
            self.state.dr[6] |= DR6_BD;
        }
        self.begun = Begun::Event(Event::Exception(exception));
        self.attention = true;
    }

    /// The slow start of a step: events, waits for start-up, shutdown.
    #[inline(never)]
    fn attend<P: Port>(&mut self, port: &mut P) -> Option<Result<Flow, Wait>> {
        if self.begun == Begun::Nothing {
            self.end_timed_wait(port);
            if let Some(event) = self.next_event() {
                self.begun = Begun::Event(event);
                // The latch may be empty by now, and a delivery that waits must come back here.
                self.attention = true;
                // Also when nothing else is pending: a run again must come here.
                self.attention = true;
            }
        }
        if let Begun::Event(event) = self.begun {
            return Some(self.run_event(event, port));
        }
        if self.awaits_startup {
            return Some(Ok(Flow::Sleep(startup_request())));
        }
        if self.is_shut_down {
            return Some(Ok(Flow::Shutdown));
        }
        None
    }

    /// Sets CF when the operating system's limit has ended UMWAIT or TPAUSE.
    fn end_timed_wait<P: Port>(&mut self, port: &mut P) {
        let Some(limit) = self.os_limit.take() else { return };
        if port.time(TimeOrder::Early) >= limit {
            self.state.rflags |= rflags::CF;
        }
        self.refresh_attention();
    }

    /// The slow end of an instruction: shadows and single steps.
    #[inline(never)]
    fn end_unusual(&mut self, had_tf: bool) {
        self.shadow = self.shadow.saturating_sub(1);
        self.holds_traps &= self.shadow != 0;
        // A trap follows each instruction that began with TF set, also one that clears it.
        if had_tf && !self.holds_traps && !self.drops_trap {
            self.debug_pending = true;
            self.state.dr[6] |= 1 << 14;
        }
        self.refresh_attention();
    }
}

fn startup_request() -> WaitRequest {
    WaitRequest { reason: WaitReason::Startup, state: None, wake_on_masked: false, deadline: None }
}

fn apic_config(config: &CpuConfig, identity: &CpuIdentity) -> LocalApicConfig {
    let is_intel = config.vendor == Vendor::Intel;
    LocalApicConfig {
        id: identity.apic_id,
        is_bsp: identity.is_bsp,
        version: if is_intel { 0x15 } else { 0x10 },
        has_cmci: is_intel,
        can_suppress_eoi_broadcast: is_intel,
        can_send_lowest_priority: true,
        has_x2apic: config.features.contains(Features::X2APIC),
        has_tsc_deadline: config.features.contains(Features::TSC_DEADLINE),
        phys_addr_bits: config.phys_addr_bits,
        timer_freq: config.apic_timer,
        tsc_freq: config.tsc,
    }
}

// Blocks: where instructions come from.

impl X86Cpu {
    fn code_mode(&self) -> u16 {
        u16::from(self.cpl) << 8 | u16::from(self.bits)
    }

    fn fetch_access(&self) -> Access {
        if self.cpl == 3 { Access::ExecUser } else { Access::ExecSup }
    }

    /// Linear address of the next instruction.
    #[must_use]
    #[inline(always)]
    pub fn linear_pc(&self) -> u64 {
        if self.is_64 {
            self.state.rip
        } else {
            self.state.seg[SegReg::Cs as usize].base.wrapping_add(self.state.rip) & 0xffff_ffff
        }
    }

    /// Enters the block at the instruction pointer.
    #[inline]
    fn enter<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Exec<()> {
        let lin = self.linear_pc();
        let (flushes, mode) = (self.tlb.flushes(), self.code_mode());
        let Some(entry) = self.recent.find(lin, flushes, mode) else {
            return self.enter_slow(unit, port, lin);
        };
        let (pa, version, second) = (entry.pa, entry.version, entry.second);
        self.entry = EntryRequests { first: Some(pa), ..EntryRequests::default() };
        port.fetch(PhysAddr(pa))?;
        if let Some((second_pa, _)) = second {
            self.entry.second = Second::At(second_pa);
            port.fetch(PhysAddr(second_pa))?;
        }
        let is_current = port.code_version(pa >> 12) == version
            && second.is_none_or(|(at, version)| port.code_version(at >> 12) == version);
        if is_current && let Some(entry) = self.recent.find(lin, flushes, mode) {
            if !Arc::ptr_eq(&self.block, &entry.block) {
                self.block = Arc::clone(&entry.block);
            }
            self.start_block();
            return Ok(());
        }
        self.decode_at(unit, port, lin, pa)
    }

    fn start_block(&mut self) {
        self.cursor = 0;
        self.cursor_rip = self.state.rip;
        self.cursor_flushes = self.tlb.flushes();
    }

    /// Source: [SDM-3] "Limit Checking": a fetch beyond the limit of CS is #GP(0).
    #[inline(never)]
    fn enter_slow<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P, lin: u64) -> Exec<()> {
        let is_outside = if self.is_64 {
            !self.is_canonical(lin)
        } else {
            self.state.rip > u64::from(self.state.seg[SegReg::Cs as usize].limit)
        };
        if is_outside {
            return Err(Exception::gp(0).into());
        }
        let access = self.fetch_access();
        self.entry = EntryRequests::default();
        let pa = Ctx { cpu: self, port }.translate(lin, access)?;
        if self.is_device(pa) {
            // No code in devices: the bytes would be all ones.
            return Err(Exception::ud().into());
        }
        let first = Some(pa);
        self.entry = EntryRequests { is_translated: true, first, second: Second::No };
        port.fetch(PhysAddr(pa))?;
        self.decode_at(unit, port, lin, pa)
    }

    /// Finds or decodes the block at `pa`, whose line is fetched.
    fn decode_at<P: Port>(
        &mut self,
        unit: &mut CodeCache,
        port: &mut P,
        lin: u64,
        pa: u64,
    ) -> Exec<()> {
        let (frame, offset) = (pa >> 12, (pa & 0xfff) as u16);
        let left = 64 - (pa & 63) as usize;
        let version = port.code_version(frame);
        let shared = unit.find(frame, self.bits, offset, version).map(Arc::clone);
        // Each cpu says so itself, so that what it is told of does not depend on its neighbours.
        port.note_code(frame);
        let block = match shared {
            Some(block) => block,
            None => {
                let mut bytes = [0; 64];
                port.code_bytes(PhysAddr(pa), &mut bytes[..left]);
                let mode = Mode { bits: self.bits };
                let block = Arc::new(decode::decode_block(&bytes[..left], lin, mode));
                unit.insert(frame, self.bits, offset, version, Arc::clone(&block));
                block
            }
        };
        if block.ops.is_empty() {
            return self.decode_crossing(port, lin, pa);
        }
        self.keep(lin, pa, version, None, block);
        Ok(())
    }

    /// Decodes the instruction at `pa` that goes on in the next line.
    fn decode_crossing<P: Port>(&mut self, port: &mut P, lin: u64, pa: u64) -> Exec<()> {
        let left = 64 - (pa & 63) as usize;
        let second = match self.entry.second {
            Second::At(second) => second,
            Second::No | Second::Unknown => self.fetch_second(port, lin, pa)?,
        };
        let (frame, next_frame) = (pa >> 12, second >> 12);
        port.note_code(frame);
        port.note_code(next_frame);
        let mut bytes = [0; 64 + INSTRUCTION_BYTES_MAX];
        port.code_bytes(PhysAddr(pa), &mut bytes[..left]);
        port.code_bytes(PhysAddr(second), &mut bytes[left..left + INSTRUCTION_BYTES_MAX]);
        let bytes = &bytes[..left + INSTRUCTION_BYTES_MAX];
        let block = decode::decode_crossing(bytes, lin, Mode { bits: self.bits });
        let second = Some((second, port.code_version(next_frame)));
        let version = port.code_version(frame);
        self.keep(lin, pa, version, second, Arc::new(block));
        Ok(())
    }

    /// Asks for the line behind that of the instruction at `lin`, which is at `pa`.
    fn fetch_second<P: Port>(&mut self, port: &mut P, lin: u64, pa: u64) -> Exec<u64> {
        let next = self.wrap_linear((lin | 63).wrapping_add(1));
        let second = if next & 0xfff == 0 {
            self.entry.second = Second::Unknown;
            let access = self.fetch_access();
            Ctx { cpu: self, port }.translate(next, access)?
        } else {
            (pa | 63) + 1
        };
        self.entry.second = Second::At(second);
        port.fetch(PhysAddr(second))?;
        Ok(second)
    }

    fn keep(
        &mut self,
        lin: u64,
        pa: u64,
        version: u32,
        second: Option<(u64, u32)>,
        block: Arc<Block>,
    ) {
        self.block = Arc::clone(&block);
        let (flushes, mode) = (self.tlb.flushes(), self.code_mode());
        self.recent.insert(Entry { lin, flushes, mode, pa, version, second, block });
        self.start_block();
    }

    /// Makes the requests again by which the running instruction entered its block, whatever the
    /// lines hold by now.
    fn enter_again<P: Port>(&mut self, port: &mut P) -> Exec<()> {
        let EntryRequests { is_translated, first, second } = self.entry;
        let Some(first) = first else { return Ok(()) };
        let lin = self.linear_pc();
        if is_translated {
            let access = self.fetch_access();
            Ctx { cpu: self, port }.translate(lin, access)?;
        }
        port.fetch(PhysAddr(first))?;
        match second {
            Second::No => {}
            Second::At(second) if !is_translated => port.fetch(PhysAddr(second))?,
            Second::Unknown | Second::At(_) => {
                self.fetch_second(port, lin, first)?;
            }
        }
        Ok(())
    }

    /// Brings the cursor to the instruction to run.
    #[inline]
    fn locate<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Exec<()> {
        match self.begun {
            Begun::Body => return self.enter_again(port),
            Begun::Entry => {
                let lin = self.linear_pc();
                match self.entry.first {
                    Some(first) => {
                        self.enter_again(port)?;
                        self.decode_at(unit, port, lin, first)?;
                    }
                    None => self.enter_slow(unit, port, lin)?,
                }
            }
            _ => {
                let is_inside = self.cursor_rip == self.state.rip
                    && self.cursor_flushes == self.tlb.flushes()
                    && self.cursor < self.block.ops.len();
                self.entry = EntryRequests::default();
                if !is_inside {
                    self.begun = Begun::Entry;
                    self.enter(unit, port)?;
                }
            }
        }
        self.begun = Begun::Body;
        Ok(())
    }

    /// Enters and executes one instruction; gives its length too.
    #[inline]
    fn run_instruction<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Exec<(Next, u8)> {
        self.locate(unit, port)?;
        let op = self.block.ops[self.cursor];
        port.dispatch(&op.timing);
        let next = exec::execute(&mut Ctx { cpu: self, port }, &op)?;
        Ok((next, op.len))
    }

    fn advance(&mut self, len: u8) {
        let rip = self.state.rip.wrapping_add(u64::from(len));
        self.state.rip = if self.is_64 { rip } else { rip & 0xffff_ffff };
        self.cursor += 1;
        self.cursor_rip = self.state.rip;
    }
}

impl Isa for X86Cpu {
    type Unit = CodeCache;

    fn step<P: Port>(&mut self, unit: &mut CodeCache, port: &mut P) -> Result<Flow, Wait> {
        self.tlb.begin();
        if self.attention
            && let Some(result) = self.attend(port)
        {
            return result;
        }
        let had_tf = self.state.rflags & rflags::TF != 0;
        self.drops_trap = false;
        let (next, len) = match self.run_instruction(unit, port) {
            Ok(done) => done,
            Err(Trap::Wait) => return Err(Wait),
            Err(Trap::Fault(exception)) => {
                self.tlb.commit();
                self.note_exception(exception);
                return Ok(Flow::Next);
            }
        };
        self.begun = Begun::Nothing;
        self.tlb.commit();
        let mut flow = Flow::Next;
        match next {
            Next::Seq => self.advance(len),
            Next::Jump(target) => {
                self.state.rip = target;
                self.cursor_rip = NOWHERE;
            }
            Next::Repeat => {}
            Next::Sleep(request) => {
                self.advance(len);
                flow = Flow::Sleep(request);
            }
            Next::Shutdown => {
                self.is_shut_down = true;
                self.attention = true;
                flow = Flow::Shutdown;
            }
        }
        if port.take_code_store() {
            self.cursor_rip = NOWHERE;
        }
        if self.attention | had_tf {
            self.end_unusual(had_tf);
        }
        if let Some(request) = self.sleep_after.take() {
            flow = Flow::Sleep(request);
        }
        Ok(flow)
    }

    fn receive(&mut self, signal: Signal, now: SimTime) -> Received {
        self.take_signal(signal, now)
    }

    fn timer(&mut self, now: SimTime) -> Option<SimTime> {
        let _ = self.apic.expire(now);
        self.refresh_attention();
        self.apic.next_expiry()
    }

    /// Source: [SDM-3] "HLT", "MWAIT", "UMWAIT": what ends each. Status: spec.
    fn wake_cause(&self, request: &WaitRequest) -> Option<WakeCause> {
        if request.reason == WaitReason::Startup {
            return (self.startup.is_some() || self.init_pending).then_some(WakeCause::Reset);
        }
        if self.init_pending {
            return Some(WakeCause::Reset);
        }
        if self.nmi_pending && !self.nmi_blocked {
            return Some(WakeCause::Nmi);
        }
        if request.reason == WaitReason::Shutdown {
            return None;
        }
        let is_open = self.state.rflags & rflags::IF != 0 || request.wake_on_masked;
        (is_open && self.apic.pending().is_some()).then_some(WakeCause::Interrupt)
    }

    fn interrupt_ready(&self) -> bool {
        self.attention
            && self.shadow == 0
            && self.state.rflags & rflags::IF != 0
            && !self.awaits_startup
            && !self.is_shut_down
            && self.begun == Begun::Nothing
            && self.apic.pending().is_some()
    }

    fn pc(&self) -> u64 {
        self.linear_pc()
    }

    fn registers(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        let state = &self.state;
        let mut registers: Vec<_> = NAMES.into_iter().zip(state.gpr).collect();
        registers.extend([
            ("rip", state.rip),
            ("rflags", state.rflags),
            ("cs", u64::from(state.seg[SegReg::Cs as usize].selector)),
            ("ss", u64::from(state.seg[SegReg::Ss as usize].selector)),
            ("cr0", state.cr0),
            ("cr2", state.cr2),
            ("cr3", state.cr3),
            ("cr4", state.cr4),
            ("efer", state.efer),
        ]);
        registers
    }

    fn same_state(&self, other: &Self) -> bool {
        self.state.rip == other.state.rip
            && self.state.gpr == other.state.gpr
            && self.state == other.state
            && self.apic == other.apic
            && self.msrs == other.msrs
            && self.predictor.stamp() == other.predictor.stamp()
            && self.tlb.generation() == other.tlb.generation()
            && self.latches() == other.latches()
            && self.begun == other.begun
            && self.cursor == other.cursor
            && self.cursor_rip == other.cursor_rip
    }
}

impl X86Cpu {
    fn latches(&self) -> (u8, u8, Option<u8>, [bool; 7]) {
        let flags = [
            self.nmi_pending,
            self.nmi_blocked,
            self.init_pending,
            self.awaits_startup,
            self.is_shut_down,
            self.debug_pending,
            self.holds_traps,
        ];
        (self.cpl, self.shadow, self.startup, flags)
    }
}
