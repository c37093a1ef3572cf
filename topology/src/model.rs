//! The resolved machine: plain data with dense indices, ready to be built from.
//!
//! Modelled: who is where (cpus, cores, LLCs, nodes, packages), what each core is, how long each
//! leg of a transaction, interrupt or idle exit takes, and which features exist. Not modelled:
//! behaviour of any kind; nothing here changes after `resolve` made it.
//! Units are in the names or beside them; every `Ps` is simulated picoseconds.

use std::fmt;

/// A duration in picoseconds.
pub type Ps = u64;

/// Bytes of a cache line on every machine.
pub const LINE_SIZE: u32 = 64;

/// The instruction set of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 64-bit x86 with APICs.
    X86_64,
    /// 64-bit Arm with a GIC.
    Aarch64,
}

/// A sharing level, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A socket.
    Package,
    /// A die as the firmware describes it.
    Die,
    /// A group of cores behind one LLC slice (CCX, tile).
    Complex,
    /// A group of cores that share less than an LLC (DSU pair, module).
    Cluster,
    /// A physical core.
    Core,
    /// A logical processor of a core.
    Smt,
}

/// One level of the hierarchy as resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelPlace {
    /// Which level.
    pub level: Level,
    /// How many units of it the machine has.
    pub count: usize,
    /// Lowest bit of the level's field in the architectural ID.
    pub id_shift: u32,
    /// Width of that field in bits; holes make it wider than the units need.
    pub id_bits: u32,
}

/// Where one cpu is; all fields but the IDs are dense indices into the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// Index into `Machine::cores`.
    pub core: usize,
    /// Sibling index inside the core.
    pub smt: usize,
    /// Machine-wide cluster number.
    pub cluster: usize,
    /// Machine-wide complex number.
    pub complex: usize,
    /// Machine-wide die number.
    pub die: usize,
    /// Package number.
    pub package: usize,
    /// Index into `Machine::nodes`.
    pub node: usize,
    /// Index into `Machine::llcs`.
    pub llc: usize,
    /// Index into `Machine::core_types`.
    pub core_type: usize,
    /// Local APIC ID (x86; 0 elsewhere).
    pub apic_id: u32,
    /// Affinity fields of `MPIDR_EL1` (Arm; 0 elsewhere).
    pub mpidr: u64,
}

/// One cache as its users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Capacity in bytes.
    pub size: u64,
    /// Associativity.
    pub ways: u32,
    /// Line size in bytes.
    pub line: u32,
    /// Load-to-use latency in core cycles.
    pub latency: u32,
}

impl Cache {
    /// Returns the number of sets; not always a power of two.
    pub fn sets(&self) -> u64 {
        self.size / (u64::from(self.ways) * u64::from(self.line))
    }
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePlace {
    /// Its cpus by sibling index.
    pub cpus: Vec<usize>,
    /// Index into `Machine::llcs`.
    pub llc: usize,
    /// Index into `Machine::core_types`.
    pub core_type: usize,
    /// Clock in kHz, fixed for the whole run.
    pub core_khz: u64,
    /// First-level instruction cache.
    pub l1i: Cache,
    /// First-level data cache.
    pub l1d: Cache,
    /// Second-level cache, private or shared; absent where the LLC is the second level.
    pub l2: Option<Cache>,
    /// Leg of a request or answer from the core to its LLC.
    pub llc_request: Ps,
    /// Leg of a grant or snoop from the LLC to the core.
    pub llc_response: Ps,
}

/// One last-level cache domain: the outermost cache inside a package, with its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Llc {
    /// Capacity, ways and load-to-use latency; absent where `llc = "package"` names no cache.
    pub cache: Option<Cache>,
    /// Its cores, ascending.
    pub cores: Vec<usize>,
    /// Its package.
    pub package: usize,
    /// The node of its first core.
    pub node: usize,
}

/// One NUMA node and the memory that is homed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// First physical address.
    pub base: u64,
    /// Bytes owned. On x86 node 0's part 0xa0000-0xfffff is not RAM; see `Machine::ram`.
    pub size: u64,
    /// Its package (the first one, where a node spans several).
    pub package: usize,
    /// Its cpus, ascending.
    pub cpus: Vec<usize>,
}

/// A piece of RAM with its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamRange {
    /// First physical address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Index into `Machine::nodes`.
    pub node: usize,
}

/// How far two cpus are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same cpu.
    Same,
    /// SMT siblings.
    Smt,
    /// Two cores of one LLC.
    Llc,
    /// Two LLCs of one package.
    Package,
    /// Two packages.
    Remote,
}

/// A dense matrix of legs, row = from, column = to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legs {
    /// Number of columns.
    pub columns: usize,
    /// Row-major values.
    pub ps: Vec<Ps>,
}

impl Legs {
    /// Returns the leg from row `from` to column `to`.
    pub fn at(&self, from: usize, to: usize) -> Ps {
        self.ps[from * self.columns + to]
    }
}

/// The legs and services above the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Time an LLC slice is busy with one request, and after which its outcome leaves.
    pub llc_service: Ps,
    /// Time a home directory is busy with one request, and after which its outcome leaves.
    pub home_service: Ps,
    /// DRAM access beyond the legs to and from the home.
    pub memory: Ps,
    /// Fixed cost of a line moving between siblings of one core.
    pub smt_handover: Ps,
    /// How long a core keeps a line after a demand grant; 0 = not at all.
    pub line_keep: Ps,
    /// How long an exclusive load holds its line at most; 0 = not at all (Arm).
    pub exclusive_hold: Ps,
    /// Delay before a request that met a full queue is tried again.
    pub retry: Ps,
    /// LLC (row) to home node (column).
    pub llc_home: Legs,
    /// Home node (row) to LLC (column).
    pub home_llc: Legs,
    /// LLC to LLC data leg; one matrix for all homes, or one per home node.
    pub llc_llc: Vec<Legs>,
}

impl Latency {
    /// Returns the leg from an LLC to a home.
    pub fn llc_home(&self, llc: usize, home: usize) -> Ps {
        self.llc_home.at(llc, home)
    }

    /// Returns the leg from a home to an LLC.
    pub fn home_llc(&self, home: usize, llc: usize) -> Ps {
        self.home_llc.at(home, llc)
    }

    /// Returns the data leg between two LLCs for a line homed at `home`.
    pub fn llc_llc(&self, from: usize, to: usize, home: usize) -> Ps {
        self.llc_llc.get(home).unwrap_or(&self.llc_llc[0]).at(from, to)
    }
}

/// Fixed clocks of the machine; the core clock is in `CorePlace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Clock of core 0 in kHz.
    pub core_khz: u64,
    /// Invariant TSC, or Arm system counter, in kHz.
    pub tsc_khz: u64,
    /// Input clock of the local APIC timer in Hz (x86; 0 elsewhere).
    pub apic_timer_hz: u64,
}

impl Clocks {
    /// Returns the Arm system counter's frequency in Hz, as CNTFRQ_EL0 holds it.
    pub fn counter_hz(&self) -> u64 {
        self.tsc_khz.saturating_mul(1_000)
    }
}

/// Interrupt wires by distance, from the sender's register write to the target's acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpiWire {
    /// To oneself.
    pub same: Ps,
    /// To the SMT sibling.
    pub core: Ps,
    /// To another core of the LLC.
    pub llc: Ps,
    /// To another LLC of the package.
    pub package: Ps,
    /// To another package.
    pub remote: Ps,
}

impl IpiWire {
    /// Returns the wire time over `distance`.
    pub fn at(&self, distance: Distance) -> Ps {
        match distance {
            Distance::Same => self.same,
            Distance::Smt => self.core,
            Distance::Llc => self.llc,
            Distance::Package => self.package,
            Distance::Remote => self.remote,
        }
    }
}

/// The mode of every local APIC when the guest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApicMode {
    /// MMIO registers, 8-bit IDs.
    Xapic,
    /// MSR registers, 32-bit IDs.
    X2apic,
}

/// Choices of the interrupt controller that differ between real machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apic {
    /// Mode at hand-over and after INIT.
    pub mode: ApicMode,
    /// Whether an x2APIC ICR write drains earlier stores (AMD yes, Intel no).
    pub icr_ordered: bool,
}

/// Which generic interrupt controller an Arm machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GicVersion {
    /// Distributor and CPU interfaces in memory, at most eight cpus.
    V2,
    /// Affinity routing, redistributors, system registers.
    V3,
}

/// The interrupt controller (Arm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gic {
    /// Architecture version.
    pub version: GicVersion,
    /// Whether an SGI can name cpus with Aff0 above 15 (`ICC_CTLR_EL1.RSS`).
    pub has_range_selector: bool,
}

/// Which instruction calls the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// HVC: the firmware sits at EL2.
    Hvc,
    /// SMC: the firmware sits at EL3.
    Smc,
}

/// Where an LSE atomic is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicPlace {
    /// In the core, which takes the line for writing.
    Near,
    /// At the line's home; the line does not travel.
    Far,
    /// Near while the core holds the line for writing, else far.
    Held,
}

/// Where LSE atomics are performed, by form; the last that fits decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomics {
    /// Forms that return a value: LDADD, SWP, CAS and kin.
    pub load: AtomicPlace,
    /// Forms that return none: STADD and kin.
    pub store: AtomicPlace,
    /// Forms with release order only.
    pub release: AtomicPlace,
    /// Forms with acquire order.
    pub acquire: AtomicPlace,
}

/// Choices that the Arm architecture leaves to an implementation; without meaning on x86.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Interrupt controller.
    pub gic: Gic,
    /// How the firmware is called.
    pub conduit: Conduit,
    /// Whether `MPIDR_EL1.MT` is set: Aff0 counts the threads of a core.
    pub is_multithreaded: bool,
    /// Physical address bits.
    pub physical_bits: u32,
    /// Whether the event register is set after reset.
    pub is_event_set: bool,
    /// Where atomics are performed.
    pub atomics: Atomics,
    /// One in so many store-exclusives fails without need; 0 = none. How long a load-exclusive
    /// holds its line is `Latency::exclusive_hold`.
    pub exclusive_failure: u32,
    /// Time from CPU_ON to the first instruction of the cpu that it starts.
    pub power_on: Ps,
}

/// Choices of MONITOR hardware that the manuals leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Whether a store by the arming cpu itself triggers its monitor.
    pub own_store_triggers: bool,
    /// Smallest and largest watched range in bytes, as CPUID 5 says.
    pub line_size: u32,
}

/// Latency and throughput of one class of operations, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// Cycles from operands to result.
    pub latency: u32,
    /// How many pipes take this class.
    pub units: u32,
    /// Cycles one operation occupies its pipe.
    pub interval: u32,
}

/// Operation classes of the core timing, in the order of `CoreType::ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the field's words; OP_NAMES spells them")]
pub enum Op {
    Alu,
    Shift,
    Lea,
    Bit,
    Mul,
    MulWide,
    Div8,
    Div16,
    Div32,
    Div64,
    Branch,
    Load,
    Store,
    Crc32,
    SimdInt,
    SimdMul,
    SimdShuffle,
    SimdToGpr,
    GprToSimd,
    FpMove,
    FpAdd,
    FpMul,
    FpFma,
    FpDiv32,
    FpDiv64,
    FpSqrt32,
    FpSqrt64,
    FpConvert,
    X87,
}

/// Key of each operation class in core files, by `Op as usize`.
pub const OP_NAMES: [&str; 29] = [
    "alu",
    "shift",
    "lea",
    "bit",
    "mul",
    "mul_wide",
    "div8",
    "div16",
    "div32",
    "div64",
    "branch",
    "load",
    "store",
    "crc32",
    "simd_int",
    "simd_mul",
    "simd_shuffle",
    "simd_to_gpr",
    "gpr_to_simd",
    "fp_move",
    "fp_add",
    "fp_mul",
    "fp_fma",
    "fp_div32",
    "fp_div64",
    "fp_sqrt32",
    "fp_sqrt64",
    "fp_convert",
    "x87",
];

/// Operations that only x86 has: core files of Arm do not name them.
pub const OPS_X86: [&str; 4] = ["lea", "div8", "div16", "x87"];

/// Costs of system instructions and events in core cycles; Arm core files name them by Arm's words.
/// What an ISA does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SysCost {
    /// A locked read-modify-write on a line held for writing.
    pub rmw_l1: u32,
    /// MONITOR and MONITORX, UMONITOR.
    pub monitor: u32,
    /// MWAIT, or Arm WFE, from issue to the start of the idle entry, or to falling through.
    pub mwait: u32,
    /// UMWAIT that returns at once.
    pub umwait: u32,
    /// TPAUSE that returns at once.
    pub tpause: u32,
    /// HLT, or Arm WFI, from issue to the start of the idle entry.
    pub hlt: u32,
    /// PAUSE, or Arm YIELD.
    pub pause: u32,
    /// MFENCE, or Arm DSB, with an empty store buffer.
    pub mfence: u32,
    /// LFENCE, or Arm ISB.
    pub lfence: u32,
    /// SFENCE, or Arm DMB.
    pub sfence: u32,
    /// CPUID and other serialising instructions beyond the drain; on Arm a firmware call from its
    /// HVC or SMC to its return.
    pub cpuid: u32,
    /// RDTSC, or a read of the Arm counter.
    pub rdtsc: u32,
    /// RDTSCP.
    pub rdtscp: u32,
    /// RDMSR, or an Arm system register read.
    pub rdmsr: u32,
    /// WRMSR, or an Arm system register write.
    pub wrmsr: u32,
    /// Write of an x2APIC register other than the ICR.
    pub x2apic_write: u32,
    /// Write of the ICR, or of the SGI register: the sender's share of an IPI.
    pub icr_write: u32,
    /// One access to the xAPIC page.
    pub xapic_mmio: u32,
    /// IN or OUT.
    pub port_io: u32,
    /// Interrupt or exception entry microcode, up to the first handler instruction.
    pub irq_entry: u32,
    /// IRET or ERET.
    pub iret: u32,
    /// SYSCALL.
    pub syscall: u32,
    /// SYSRET.
    pub sysret: u32,
    /// SWAPGS.
    pub swapgs: u32,
    /// CLI, STI, POPF with IF.
    pub cli_sti: u32,
    /// Move to a control or segment register.
    pub mov_cr: u32,
    /// INVLPG, or Arm TLBI.
    pub invlpg: u32,
    /// CLFLUSH, CLFLUSHOPT, CLWB, or Arm DC and IC, beyond their memory access.
    pub clflush: u32,
    /// XSAVE or XRSTOR beyond their memory accesses.
    pub xsave: u32,
    /// One step of a string instruction beyond its accesses.
    pub rep_step: u32,
    /// Start of a REP string instruction.
    pub rep_start: u32,
}

/// One TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// Entries.
    pub entries: u32,
    /// Associativity; equal to `entries` where fully associative.
    pub ways: u32,
    /// Extra cycles of a hit.
    pub latency: u32,
}

/// Timing of one core design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreType {
    /// Name as the machine file uses it.
    pub name: String,
    /// `MIDR_EL1` (Arm; 0 elsewhere).
    pub midr: u32,
    /// Whether instructions issue in program order only.
    pub in_order: bool,
    /// Operations dispatched per cycle.
    pub dispatch_width: u32,
    /// Operations retired per cycle.
    pub retire_width: u32,
    /// Operations in flight (reorder buffer).
    pub window: u32,
    /// Loads in flight.
    pub load_buffer: u32,
    /// Stores between dispatch and drain.
    pub store_buffer: u32,
    /// L1D misses in flight.
    pub miss_buffer: u32,
    /// Cycles from a load to its use when the store buffer covers it.
    pub store_forward: u32,
    /// Cycles between two drains of the store buffer into owned lines.
    pub drain_interval: u32,
    /// Cycles lost by a mispredicted branch.
    pub mispredict: u32,
    /// Entries of the direction predictor table.
    pub predictor_entries: u32,
    /// Bits of global history.
    pub predictor_history: u32,
    /// Entries of the branch target buffer.
    pub btb_entries: u32,
    /// Entries of the return stack.
    pub return_stack: u32,
    /// First-level instruction TLB.
    pub itlb: Tlb,
    /// First-level data TLB.
    pub dtlb: Tlb,
    /// Second-level TLB.
    pub l2_tlb: Tlb,
    /// Times by `Op as usize`.
    pub ops: Vec<OpTime>,
    /// Costs of system instructions.
    pub sys: SysCost,
}

impl CoreType {
    /// Returns the times of a class.
    pub fn op(&self, op: Op) -> OpTime {
        self.ops[op as usize]
    }
}

/// How a cpu asks for an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleEntry {
    /// HLT.
    Hlt,
    /// MWAIT with this hint in EAX.
    Mwait(u32),
    /// A read of this I/O port.
    Port(u16),
    /// WFI.
    Wfi,
    /// PSCI CPU_SUSPEND with this power state.
    Psci(u32),
}

impl IdleEntry {
    /// Whether a store to the monitored line can end the state.
    pub fn has_monitor(self) -> bool {
        matches!(self, IdleEntry::Mwait(_))
    }
}

impl fmt::Display for IdleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdleEntry::Hlt => f.write_str("hlt"),
            IdleEntry::Mwait(hint) => write!(f, "mwait {hint:#04x}"),
            IdleEntry::Port(port) => write!(f, "port {port:#x}"),
            IdleEntry::Wfi => f.write_str("wfi"),
            IdleEntry::Psci(state) => write!(f, "psci {state:#010x}"),
        }
    }
}

/// Who must ask before an idle state is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleScope {
    /// The cpu alone.
    Cpu,
    /// All cpus of the core.
    Core,
    /// All cpus of the cluster.
    Cluster,
    /// All cpus of the package.
    Package,
}

/// What an idle state empties when it is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// L1 caches.
    pub l1: bool,
    /// The L2 cache.
    pub l2: bool,
    /// The LLC, whichever cache that is.
    pub llc: bool,
    /// TLBs.
    pub tlb: bool,
}

/// What CPUID, tables or FDT tell the guest about an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Entry latency in microseconds; 0 where the guest is told one latency only.
    pub entry_us: u32,
    /// Exit latency in microseconds.
    pub latency_us: u32,
    /// Latency from the wake event in the worst case, where it is not entry plus exit.
    pub wakeup_us: Option<u32>,
    /// Target residency in microseconds.
    pub residency_us: u32,
}

/// One idle state with its true costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Key in the machine file, e.g. `c1`.
    pub name: String,
    /// How it is asked for.
    pub entry: IdleEntry,
    /// Whether the guest is told of it and may enter it.
    pub enabled: bool,
    /// Time from the request until the state is reached, with the flush of an LLC.
    pub entry_latency: Ps,
    /// Time for which a request holds back the next one of its cluster.
    pub queue: Ps,
    /// Whether a wake during entry ends the entry at once.
    pub abortable: bool,
    /// Exit time after a store to the monitored line; `None` where the entry arms no monitor.
    pub exit_store: Option<Ps>,
    /// Exit time after an interrupt.
    pub exit_interrupt: Ps,
    /// Delay of a snoop that meets the idle core.
    pub snoop_latency: Ps,
    /// What entry empties.
    pub flushes: Flushes,
    /// Whether the local timer stops.
    pub timer_stops: bool,
    /// Who must ask.
    pub scope: IdleScope,
    /// What the guest is told.
    pub advertised: Advertised,
}

/// What CPUID says about the vendor and part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct X86Identity {
    /// Twelve letters of leaf 0.
    pub vendor: String,
    /// Brand string, at most 48 bytes.
    pub brand: String,
    /// Display family.
    pub family: u32,
    /// Display model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
    /// Physical address bits.
    pub physical_bits: u32,
}

/// A set of feature names, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Sorted names without doubles.
    pub names: Vec<String>,
}

impl Features {
    /// Whether the machine has the feature.
    pub fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|have| have.as_str().cmp(name)).is_ok()
    }
}

/// Where a number comes from (seams: kinds of a machine file).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured on this very model.
    Measured,
    /// Measured on a sibling of the same design.
    Sibling,
    /// Declared by vendor, firmware or driver.
    Declared,
    /// Recalled from a publication that was not read again.
    Recalled,
    /// Assumed, with the reason as source.
    Assumed,
    /// Set on the command line.
    Set,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Measured => "measured",
            Kind::Sibling => "sibling",
            Kind::Declared => "declared",
            Kind::Recalled => "recalled",
            Kind::Assumed => "assumed",
            Kind::Set => "set",
        })
    }
}

/// One number of the machine file with its provenance, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Dotted key, as `--set` takes it.
    pub key: String,
    /// Value with unit, as written.
    pub value: String,
    /// Kind of evidence.
    pub kind: Kind,
    /// Source or reason.
    pub source: String,
}

/// A machine, complete and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name by which it is loaded.
    pub id: String,
    /// One line for people.
    pub name: String,
    /// File it came from, as named in messages.
    pub file: String,
    /// Instruction set.
    pub isa: Isa,
    /// Levels, outermost first; all six are present.
    pub levels: Vec<LevelPlace>,
    /// Level at which the L2 caches are attached, where there are any below the LLC.
    pub l2_level: Option<Level>,
    /// Level whose units are the LLC domains.
    pub llc_level: Level,
    /// Cpus by number.
    pub cpus: Vec<CpuPlace>,
    /// Cores, package by package.
    pub cores: Vec<CorePlace>,
    /// LLC domains, package by package.
    pub llcs: Vec<Llc>,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// SLIT distances, row-major over nodes; 10 = local.
    pub node_distances: Vec<u32>,
    /// Core designs in use.
    pub core_types: Vec<CoreType>,
    /// Clocks.
    pub clocks: Clocks,
    /// Legs and services above the cores.
    pub latency: Latency,
    /// Interrupt wires.
    pub ipi_wire: IpiWire,
    /// Interrupt controller choices.
    pub apic: Apic,
    /// MONITOR choices.
    pub monitor: Monitor,
    /// Choices of Arm machines.
    pub arm: Arm,
    /// Time of the DMA engine for 64 KiB; nothing: there is no engine.
    pub dma_latency: Option<Ps>,
    /// Idle states, shallow first as in the file.
    pub idle: Vec<IdleState>,
    /// Delay of a stop request between cpus (guest exit, stop at a point).
    pub stop_latency: Ps,
    /// CPUID identity (x86).
    pub identity: X86Identity,
    /// Feature names.
    pub features: Features,
    /// Every sourced number, in file order.
    pub figures: Vec<Figure>,
}

impl Machine {
    /// Returns the number of packages.
    pub fn packages(&self) -> usize {
        self.level(Level::Package).count
    }

    /// Returns one level.
    pub fn level(&self, level: Level) -> &LevelPlace {
        &self.levels[level as usize]
    }

    /// Returns how far two cpus are apart.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let (from, to) = (&self.cpus[a], &self.cpus[b]);
        if a == b {
            Distance::Same
        } else if from.core == to.core {
            Distance::Smt
        } else if from.llc == to.llc {
            Distance::Llc
        } else if from.package == to.package {
            Distance::Package
        } else {
            Distance::Remote
        }
    }

    /// Returns whether some idle state stops the timers of cpus.
    pub fn stops_timers(&self) -> bool {
        self.idle.iter().any(|state| state.enabled && state.timer_stops)
    }

    /// Returns the state that this one adds to, by index: the last one before it of narrower scope.
    /// Its cost is what a cpu pays while others keep the wider unit up.
    pub fn narrower(&self, state: usize) -> Option<usize> {
        let scope = self.idle[state].scope;
        self.idle[..state].iter().rposition(|other| other.enabled && other.scope < scope)
    }

    /// Returns the wire time of an interrupt from cpu `a` to cpu `b`.
    pub fn ipi_wire(&self, a: usize, b: usize) -> Ps {
        self.ipi_wire.at(self.distance(a, b))
    }

    /// Returns the shortest leg from any core to the uncore.
    pub fn min_core_uncore(&self) -> Ps {
        self.cores.iter().map(|core| core.llc_request).min().unwrap_or(0)
    }

    /// Returns the shortest leg from the uncore to any core.
    pub fn min_uncore_core(&self) -> Ps {
        self.cores.iter().map(|core| core.llc_response).min().unwrap_or(0)
    }

    /// Returns how far cores may run ahead of each other: the sum of the two shortest legs.
    pub fn window_ps(&self) -> Ps {
        self.min_core_uncore() + self.min_uncore_core()
    }

    /// Returns the timing of a cpu's core.
    pub fn core_type_of(&self, cpu: usize) -> &CoreType {
        &self.core_types[self.cpus[cpu].core_type]
    }

    /// Returns the SLIT distance between two nodes.
    pub fn node_distance(&self, from: usize, to: usize) -> u32 {
        self.node_distances[from * self.nodes.len() + to]
    }

    /// Returns the node that owns a physical address.
    pub fn node_of(&self, address: u64) -> Option<usize> {
        self.nodes.iter().position(|node| address.wrapping_sub(node.base) < node.size)
    }

    /// Returns the RAM of the machine in address order, x86 holes left out.
    pub fn ram(&self) -> Vec<RamRange> {
        let mut ranges = Vec::new();
        for (node, place) in self.nodes.iter().enumerate() {
            let end = place.base + place.size;
            let splits = self.isa == Isa::X86_64 && place.base == 0 && end > LOW_HOLE.end;
            if splits {
                ranges.push(RamRange { base: 0, size: LOW_HOLE.start, node });
                ranges.push(RamRange { base: LOW_HOLE.end, size: end - LOW_HOLE.end, node });
            } else {
                ranges.push(RamRange { base: place.base, size: place.size, node });
            }
        }
        ranges.sort_by_key(|range| range.base);
        ranges
    }
}

/// The x86 hole below 1 MiB (legacy video and firmware).
pub const LOW_HOLE: std::ops::Range<u64> = 0xa_0000..0x10_0000;

/// The x86 hole for devices: IOAPIC, local APIC, test device.
pub const DEVICE_HOLE: std::ops::Range<u64> = 0xc000_0000..0x1_0000_0000;
