//! The machine as others see it: a system of either instruction set.

use emu_arm64::cpu::ArmCpu;
use emu_cpu::counters::CpuCounters;
use emu_cpu::isa::Isa;
use emu_cpu::thread::RunState;
use emu_mem::home::HomeCounters;
use emu_mem::llc::LlcCounters;
use emu_observe::{Observer, StallReport};
use emu_sim::{CpuId, SimTime};
use emu_x86::cpu::X86Cpu;

use crate::api::{Boot, NamedLines, Options, PointRule, Stop, Until};
use crate::arm64::Arm64;
use crate::dma::{Dma, DmaDone};
use crate::fdt;
use crate::handover;
use crate::laws::BrokenLaw;
use crate::load::{Image, LoadError};
use crate::rules::UnknownPoint;
use crate::system::System;
use crate::x86::X86;

/// Why a machine cannot be built or loaded.
#[derive(Debug)]
pub enum BuildError {
    /// More cpus asked for than the file has, or none.
    Cpus {
        /// Asked for.
        asked: u32,
        /// In the file.
        has: u32,
    },
    /// The image does not fit.
    Load(LoadError),
    /// The FDT cannot be made.
    Fdt(fdt::FdtError),
    /// The hand-over state cannot be made.
    Handover(handover::HandoverError),
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::Cpus { asked, has } => {
                write!(f, "{asked} cpus asked for, the machine has {has}; choose 1 to {has}")
            }
            BuildError::Load(_) => f.write_str("the image cannot be loaded"),
            BuildError::Fdt(_) => f.write_str("the device tree cannot be made"),
            BuildError::Handover(_) => f.write_str("the machine cannot be handed over"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Load(e) => Some(e),
            BuildError::Fdt(e) => Some(e),
            BuildError::Handover(e) => Some(e),
            BuildError::Cpus { .. } => None,
        }
    }
}

/// A machine with its whole state; a clone is a fork.
#[derive(Clone, Debug)]
pub struct Machine(Any);

#[derive(Clone, Debug)]
enum Any {
    X86(Box<System<X86>>),
    Arm64(Box<System<Arm64>>),
}

/// Does the same with the system, whichever it is.
macro_rules! each {
    ($any:expr, $system:ident => $do:expr) => {
        match $any {
            Any::X86($system) => $do,
            Any::Arm64($system) => $do,
        }
    };
}

impl Machine {
    /// Builds a machine.
    ///
    /// # Errors
    /// When `options` ask for cpus that the topology does not have.
    pub fn new(topology: &topology::Machine, options: Options) -> Result<Machine, BuildError> {
        Ok(Machine(match topology.isa {
            topology::Isa::X86_64 => Any::X86(Box::new(System::new(topology, options)?)),
            topology::Isa::Aarch64 => Any::Arm64(Box::new(System::new(topology, options)?)),
        }))
    }

    /// Loads an image and sets CPU 0 at its entry; what it boots with is in the device tree.
    ///
    /// # Errors
    /// When the image does not fit into the machine's RAM or overlaps what the hand-over needs.
    pub fn load<'a>(&mut self, image: &Image, boot: impl Into<Boot<'a>>) -> Result<(), BuildError> {
        each!(&mut self.0, s => s.load(image, boot.into()))
    }

    /// Runs until the guest exits, a region mark (if asked for), the time limit, or the end of all
    /// activity.
    ///
    /// Debug builds check the conservation laws at the end of every run; others leave that to the
    /// caller of [`Machine::check_laws`].
    pub fn run<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop {
        each!(&mut self.0, s => s.run(until, observer))
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &topology::Machine {
        each!(&self.0, s => &s.topology)
    }

    /// The image that was loaded.
    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        each!(&self.0, s => s.image.as_deref())
    }

    /// Simulated time.
    #[must_use]
    pub fn now(&self) -> SimTime {
        each!(&self.0, s => s.now)
    }

    /// Number of cpus.
    #[must_use]
    pub fn cpus(&self) -> usize {
        each!(&self.0, s => s.places.len())
    }

    /// Console output so far.
    #[must_use]
    pub fn console(&self) -> &[u8] {
        each!(&self.0, s => &s.console)
    }

    /// Hands bytes to the receiver of the serial port, which takes them as it finds room.
    pub fn input(&mut self, bytes: &[u8]) {
        each!(&mut self.0, s => s.input(bytes));
    }

    /// Lines that the guest named.
    #[must_use]
    pub fn named_lines(&self) -> &[NamedLines] {
        each!(&self.0, s => &s.named_lines)
    }

    /// Counters of one cpu.
    #[must_use]
    pub fn counters(&self, cpu: CpuId) -> CpuCounters {
        each!(&self.0, s => s.counters(cpu))
    }

    /// Counters of every LLC, then of every home.
    #[must_use]
    pub fn line_counters(&self) -> (Vec<&LlcCounters>, Vec<&HomeCounters>) {
        each!(&self.0, s => s.line_counters())
    }

    /// Interrupt messages that were sent and have not arrived.
    #[must_use]
    pub fn ipis_under_way(&self) -> u64 {
        each!(&self.0, s => s.ipis_under_way())
    }

    /// What a cpu does.
    #[must_use]
    pub fn run_state(&self, cpu: CpuId) -> RunState {
        each!(&self.0, s => s.run_state(cpu))
    }

    /// Address of a cpu's next instruction (virtual).
    #[must_use]
    pub fn pc(&self, cpu: CpuId) -> u64 {
        each!(&self.0, s => s.cpu(cpu).pc())
    }

    /// General registers of a cpu by name.
    #[must_use]
    pub fn registers(&self, cpu: CpuId) -> Vec<(&'static str, u64)> {
        each!(&self.0, s => s.cpu(cpu).registers())
    }

    /// The architectural state of a cpu, as text for comparisons.
    #[must_use]
    pub fn state_text(&self, cpu: CpuId) -> String {
        match &self.0 {
            Any::X86(s) => format!("{:x?}", s.cpu(cpu).state),
            Any::Arm64(s) => format!("{:x?}", s.cpu(cpu).state),
        }
    }

    /// The architectural state of an x86 cpu.
    ///
    /// # Panics
    /// On a machine of another instruction set.
    #[must_use]
    pub fn x86(&self, cpu: CpuId) -> &X86Cpu {
        match &self.0 {
            Any::X86(s) => s.cpu(cpu),
            Any::Arm64(_) => panic!("the cpus of this machine are no x86"),
        }
    }

    /// The architectural state of an arm64 cpu.
    ///
    /// # Panics
    /// On a machine of another instruction set.
    #[must_use]
    pub fn arm64(&self, cpu: CpuId) -> &ArmCpu {
        match &self.0 {
            Any::Arm64(s) => s.cpu(cpu),
            Any::X86(_) => panic!("the cpus of this machine are no arm64"),
        }
    }

    /// Copies guest memory.
    #[must_use]
    pub fn read_guest(&self, pa: u64, len: usize) -> Vec<u8> {
        each!(&self.0, s => s.read_guest(pa, len))
    }

    /// Reads a 64-bit word of guest memory.
    #[must_use]
    pub fn read_guest_u64(&self, pa: u64) -> u64 {
        each!(&self.0, s => s.read_guest_u64(pa))
    }

    /// Overwrites guest memory between two runs: for loaders and debuggers. Caches hold no data,
    /// so every cpu sees it; no monitor triggers.
    pub fn write_guest(&mut self, pa: u64, bytes: &[u8]) {
        each!(&mut self.0, s => s.write_guest(pa, bytes));
    }

    /// Pages of guest memory that take host memory.
    #[must_use]
    pub fn touched_pages(&self) -> usize {
        each!(&self.0, s => s.phys.touched_pages())
    }

    /// Gives a fork another seed: chance, the seed register, and the start offset of every cpu
    /// that runs.
    pub fn reseed(&mut self, seed: u64) {
        each!(&mut self.0, s => s.reseed(seed));
    }

    /// Sets the rules at points; an empty list watches the points without rules.
    ///
    /// # Errors
    /// A name that the image does not have.
    pub fn set_rules(&mut self, rules: &[PointRule]) -> Result<(), UnknownPoint> {
        each!(&mut self.0, s => s.set_rules(rules))
    }

    /// Stops watching points.
    pub fn clear_rules(&mut self) {
        each!(&mut self.0, s => s.clear_rules());
    }

    /// Names of the image's points; a point's index in records is its place here.
    #[must_use]
    pub fn point_names(&self) -> Vec<String> {
        each!(&self.0, s => s.point_names())
    }

    /// How often a cpu passed a point since the rules were set.
    #[must_use]
    pub fn passes(&self, cpu: CpuId, point: &str) -> u64 {
        each!(&self.0, s => s.passes(cpu, point))
    }

    /// Lets a device make an access, whose request leaves at `at`; returns its number.
    ///
    /// # Panics
    /// If that is past, or the access crosses a line.
    pub fn dma(&mut self, at: SimTime, dma: Dma) -> usize {
        each!(&mut self.0, s => s.dma(at, dma))
    }

    /// Accesses that were made, in order of time.
    #[must_use]
    pub fn dma_done(&self) -> &[DmaDone] {
        each!(&self.0, s => s.dma_done())
    }

    /// Checks the conservation laws where the machine stands: between two runs.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn check_laws(&self) -> Result<(), BrokenLaw> {
        each!(&self.0, s => s.check_laws())
    }

    /// Says of every cpu what it waits for and what last reached it, and which lines are busy.
    #[must_use]
    pub fn stall_report(&self) -> StallReport {
        each!(&self.0, s => s.stall_report())
    }
}
