//! What the lab needs of a machine, as a trait, so that its drivers are tested without one.

use emu_machine::{BrokenLaw, CpuCounters, NamedLines, Options, PointRule, Stop, Until};
use emu_observe::{Observer, PointTable, StallReport};
use emu_sim::{CpuId, SimTime};
use topology::Machine;

use crate::LabError;

/// What is put into a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Program<'a> {
    /// Bytes of the image's file.
    pub image: &'a [u8],
    /// Address of a raw image.
    pub load_at: Option<u64>,
    /// Command line of the guest.
    pub bootargs: &'a str,
    /// Initial RAM disk.
    pub initrd: Option<&'a [u8]>,
    /// Symbols in place of the image's: an ELF file, or lines as `nm` prints them.
    pub symbols: Option<&'a [u8]>,
}

impl<'a> Program<'a> {
    /// An image that says itself where it lies.
    #[must_use]
    pub fn new(image: &'a [u8], bootargs: &'a str) -> Program<'a> {
        Program { image, bootargs, ..Program::default() }
    }
}

/// A machine with an image in it. A clone is a fork: both go on alike and apart.
pub trait Rig: Clone + Send + Sized {
    /// Builds a machine and loads the image with its boot arguments.
    ///
    /// Errors: `LabError::Input` when machine or image do not allow it.
    fn build(topology: &Machine, options: Options, program: &Program<'_>)
    -> Result<Self, LabError>;
    /// Runs until something stops it.
    fn run<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop;
    /// Simulated time.
    fn now(&self) -> SimTime;
    /// Hands bytes to the receiver of the serial port.
    fn input(&mut self, bytes: &[u8]);
    /// Number of cpus that exist.
    fn cpus(&self) -> usize;
    /// Machine-kept counters since reset.
    fn counters(&self, cpu: CpuId) -> CpuCounters;
    /// IPIs that were sent and have not arrived.
    fn ipis_under_way(&self) -> u64;
    /// Gives a fork its own seed; at region begin this also draws the start offsets.
    fn reseed(&mut self, seed: u64);
    /// Replaces the rules at points.
    ///
    /// Errors: `LabError::Input` for a point that the image does not have.
    fn set_rules(&mut self, rules: &[PointRule]) -> Result<(), LabError>;
    /// Reads guest memory; bytes outside of RAM are zero.
    fn read_guest(&self, address: u64, len: usize) -> Vec<u8>;
    /// What the guest printed.
    fn console(&self) -> &[u8];
    /// Address of a symbol of the image.
    fn symbol(&self, name: &str) -> Option<u64>;
    /// Symbol and offset of an address.
    fn describe(&self, pc: u64) -> Option<String>;
    /// Points of the image, by the index that events carry.
    fn points(&self) -> PointTable;
    /// Lines that the guest named, in the order in which it did.
    fn named_lines(&self) -> &[NamedLines];
    /// Whether a cpu is in an idle wait, or in a spin that nothing disturbs.
    fn is_settled(&self, cpu: CpuId) -> bool;
    /// How often a cpu has passed a point since the rules were set; 0 without rules.
    fn passed(&self, cpu: CpuId, point: &str) -> u64;
    /// Registers of a cpu by name, for messages.
    fn registers(&self, cpu: CpuId) -> Vec<(&'static str, u64)>;
    /// Checks the laws of the model where the machine stands.
    ///
    /// Errors: the first that does not hold.
    fn check_laws(&self) -> Result<(), BrokenLaw>;
    /// Who waits for what.
    fn stall_report(&self) -> StallReport;
}

/// Whom a driver tells how far it is. Results do not depend on it.
pub trait Progress: Sync {
    /// A piece of work begins; `total` steps of it are to come.
    fn begin(&self, what: &str, total: u64);
    /// Some steps are done, and this many guest instructions were executed.
    fn advance(&self, steps: u64, instructions: u64);
    /// The piece of work ends.
    fn end(&self);
}

/// Nobody.
impl Progress for () {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64, _: u64) {}
    fn end(&self) {}
}
