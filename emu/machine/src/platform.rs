//! What differs from one instruction set to the other: cpus, hand-over, devices.
//!
//! A [`System`](crate::system::System) is generic over it, so that nothing on the path of an
//! instruction asks which it is.

use std::fmt::Debug;

use emu_cpu::isa::Isa;
use emu_sim::{PhysAddr, SimTime};

use crate::bus::{Asked, Request};
use crate::handover::{Handover, HandoverError};

/// The devices of a machine of one instruction set, and how its cpus are made.
pub(crate) trait Platform: Clone + Debug {
    /// Its cpus.
    type Cpu: Isa;
    /// Registers of the boot cpu at hand-over.
    type Entry;
    /// Address of the test device.
    const TEST_DEVICE: u64;
    /// Address of the DMA engine, where the machine has one.
    const DMA_ENGINE: u64;

    /// Devices after reset, for the first `cpus` cpus.
    fn new(topology: &topology::Machine, cpus: usize) -> Self;

    /// What makes cpu `n` of a machine with the first `cpus` cpus, entered at that exception level
    /// (arm64).
    fn cpu_maker(
        topology: &topology::Machine,
        cpus: usize,
        entry_level: u8,
    ) -> impl Fn(usize) -> Self::Cpu;

    /// Id by which signals name a cpu.
    fn arch_id(place: &topology::CpuPlace) -> u32;

    /// Computes memory and registers for an image that starts at `start`.
    fn hand_over(
        topology: &topology::Machine,
        start: PhysAddr,
        fdt: Vec<u8>,
    ) -> Result<Handover<Self::Entry>, HandoverError>;

    /// Sets a cpu at the hand-over state.
    fn enter(cpu: &mut Self::Cpu, entry: &Self::Entry);

    /// Performs one access: the value read, 0 for a write, `None` where nobody answers.
    fn access(&mut self, a: &Asked, out: &mut Vec<Request>) -> Option<u64>;

    /// When a device does something next, unasked.
    fn due(&self) -> Option<SimTime>;

    /// Lets devices do what is due at `now`.
    fn advance(&mut self, now: SimTime, out: &mut Vec<Request>);

    /// The interrupt of the DMA engine goes up or down; `route` is what it was told.
    fn dma_interrupt(&mut self, is_up: bool, route: u64, out: &mut Vec<Request>);

    /// Hands a byte to the console's receiver; false when it has no room.
    fn receive(&mut self, byte: u8, out: &mut Vec<Request>) -> bool;

    /// What a report says of a cpu's interrupts: whether it takes them, and those pending.
    fn interrupts(cpu: &Self::Cpu) -> (bool, Vec<u8>);
}
