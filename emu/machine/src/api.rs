//! The library's face: what a run needs and how it can end. Plain data.

use emu_sim::mutant::Mutation;
use emu_sim::{CpuId, PhysAddr, SimTime};
use guests_abi::class::LineClass;

/// Choices of one machine that are not in its topology file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The first `n` cpus exist; all of the file's when `None`.
    pub cpus: Option<u32>,
    /// Seed of everything that is left to chance.
    pub seed: u64,
    /// Bytes of console output after which the run ends.
    pub max_output: u64,
    /// Exception level that arm64 machines start at: 1, or 2.
    pub entry_level: u8,
    /// Skip iterations of spin loops that only re-read held lines. Changes speed only.
    pub elide_spins: bool,
    /// Window in picoseconds; `None` is the machine's own. Smaller ones change speed only.
    pub window_ps: Option<u64>,
    /// Draws window and host order of every round from this seed, within what is legal. Changes
    /// speed only (`engine.md` D7): for tests.
    pub shuffle_host: Option<u64>,
    /// What the machine does wrong, for tests under the feature `mutants`.
    pub mutation: Mutation,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cpus: None,
            seed: 1,
            max_output: 16 << 20,
            entry_level: 1,
            elide_spins: true,
            window_ps: None,
            shuffle_host: None,
            mutation: Mutation::default(),
        }
    }
}

/// What the guest is told and given beside its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot<'a> {
    /// Command line.
    pub bootargs: &'a str,
    /// Initial RAM disk, which lies behind the image.
    pub initrd: Option<&'a [u8]>,
}

impl<'a> From<&'a str> for Boot<'a> {
    fn from(bootargs: &'a str) -> Self {
        Boot { bootargs, initrd: None }
    }
}

/// Where a run is to end, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Until {
    /// Simulated time since reset.
    pub time: SimTime,
    /// Stop at every region mark.
    pub regions: bool,
}

/// How a run ended. All but `Region` are final unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The guest wrote its exit code to the test device.
    Exit {
        /// The guest's code; 0 is success.
        code: u64,
    },
    /// A region mark; the run can go on.
    Region {
        /// Region id.
        id: u64,
        /// Begin, else end.
        begin: bool,
        /// The cpu that wrote it.
        cpu: CpuId,
    },
    /// The guest asked its firmware to start the machine anew.
    Reset,
    /// No cpu can ever run again; see the stall report.
    Stalled,
    /// A guest fault without handler: triple fault of this cpu, or a reset loop.
    GuestFault {
        /// Cpu.
        cpu: CpuId,
        /// Instruction address.
        pc: u64,
        /// What happened, for people.
        what: String,
    },
    /// `Until::time` was reached; the run can go on.
    TimeLimit,
    /// The console output reached its bound.
    OutputLimit,
}

/// Holds or delays a cpu at a point of the image (`guest-abi.md` 2). A run without rules is
/// bit-identical to one of an image without points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointRule {
    /// Cpu; every cpu when `None`.
    pub cpu: Option<CpuId>,
    /// Name of the point.
    pub point: String,
    /// What to do there.
    pub action: PointAction,
}

/// What a rule does to a cpu that reaches its point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointAction {
    /// Waits for a fixed time.
    Delay(SimTime),
    /// Waits for a seeded time, uniform below the bound, drawn anew at each pass.
    DelayUpTo(SimTime),
    /// Waits until another cpu has passed a point `times` more often since the rule was set.
    HoldUntil {
        /// The other cpu; any when `None`.
        cpu: Option<CpuId>,
        /// Its point.
        point: String,
        /// Passes needed.
        times: u64,
    },
}

/// A range of lines that the guest named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedLines {
    /// First byte.
    pub address: PhysAddr,
    /// Bytes.
    pub len: u64,
    /// Class.
    pub class: LineClass,
}
