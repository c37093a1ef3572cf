//! Path latencies of the line protocol: legs between nodes, in picoseconds. Plain data, computed
//! from the topology by `machine`.

use emu_sim::mutant::Mutation;
use emu_sim::{CoreId, HomeId, LlcId, PhysAddr};

/// Legs and service times of the uncore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// LLC of each core.
    pub llc_of_core: Vec<LlcId>,
    /// Cores of each LLC, ascending; a core's place in it is its bit in the LLC's directory.
    pub cores_of_llc: Vec<Vec<CoreId>>,
    /// Leg core to its LLC, by core.
    pub core_llc: Vec<u64>,
    /// Leg LLC to core, by core.
    pub llc_core: Vec<u64>,
    /// Tag and directory look-up of an LLC, added to every answer it gives from there.
    pub llc_lookup: u64,
    /// Time one request occupies an LLC slice.
    pub llc_service: u64,
    /// Leg LLC to home: `[llc][home]`.
    pub llc_home: Vec<Vec<u64>>,
    /// Leg home to LLC: `[home][llc]`.
    pub home_llc: Vec<Vec<u64>>,
    /// Leg home to device and back, by home.
    pub home_device: Vec<u64>,
    /// Data leg LLC to LLC: `[from][to]`.
    pub llc_llc: Vec<Vec<u64>>,
    /// Directory look-up at a home.
    pub home_lookup: u64,
    /// Time one request occupies a home.
    pub home_service: u64,
    /// Memory read at a home, beyond the look-up.
    pub memory: u64,
    /// LLC capacity: sets (power of two) and ways, by LLC.
    pub llc_geometry: Vec<(u32, u32)>,
    /// Dirty lines stay owned by the LLC that wrote them when others read (MOESI); else memory is
    /// updated and the line is clean everywhere (MESI).
    pub has_owned_state: bool,
    /// End of each home's memory range, ascending: home h owns addresses below `home_ends[h]` and
    /// at or above the end before.
    pub home_ends: Vec<u64>,
    /// What LLCs and homes do wrong.
    pub mutation: Mutation,
}

impl Paths {
    /// Home of an address; addresses above all ranges belong to the last home.
    #[must_use]
    pub fn home_of(&self, pa: PhysAddr) -> HomeId {
        let h = self.home_ends.partition_point(|end| *end <= pa.0);
        HomeId(h.min(self.home_ends.len() - 1) as u32)
    }
}
