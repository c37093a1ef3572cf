//! Hand-over on arm64: the MMU off, all exceptions masked, the FDT in X0, a stack.
//!
//! The FDT lies at the top of node 0's RAM, the stack below it.

use emu_sim::{PAGE_SIZE, PhysAddr};
use topology::{Isa, Machine};

use super::{Handover, HandoverError};
use crate::load::Reserved;

/// Bytes of the stack of CPU 0.
pub const STACK_BYTES: u64 = 16 << 10;

/// Registers of CPU 0 at entry; all others are 0, or as after reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm64Entry {
    /// First instruction.
    pub pc: u64,
    /// Top of the stack, at the level of entry.
    pub sp: u64,
    /// Address of the FDT.
    pub x0: u64,
}

/// Computes memory and registers at hand-over for an image that starts at `start`.
///
/// Errors: `Isa`, `NoRoom`.
pub fn arm64(
    machine: &Machine,
    start: PhysAddr,
    fdt: Vec<u8>,
) -> Result<Handover<Arm64Entry>, HandoverError> {
    if machine.isa != Isa::Aarch64 {
        return Err(HandoverError::Isa);
    }
    let need = (fdt.len() as u64).next_multiple_of(PAGE_SIZE) + STACK_BYTES;
    let range = machine.ram().first().copied();
    let have = range.map_or(0, |range| range.size & !(PAGE_SIZE - 1));
    let (Some(range), true) = (range, need <= have) else {
        return Err(HandoverError::NoRoom { need, have });
    };
    let stack = range.base + have - need;
    let tree = stack + STACK_BYTES;
    let reserved = |base, bytes, name| Reserved { base, last: base + bytes - 1, name };
    Ok(Handover {
        entry: Arm64Entry { pc: start.0, sp: tree, x0: tree },
        reserved: vec![
            reserved(stack, STACK_BYTES, "the stack of the hand-over"),
            reserved(tree, need - STACK_BYTES, "the device tree"),
        ],
        memory: vec![(PhysAddr(tree), fdt)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdt_and_stack_lie_at_the_top_of_node_0() {
        let m = Machine::load("duo-arm", &[]).expect("a machine");
        let end = 0x8000_0000 + (1 << 30);
        let found = arm64(&m, PhysAddr(0x8008_0000), vec![7; 0x1001]).expect("it fits");
        let tree = end - 0x2000;
        assert_eq!(found.entry, Arm64Entry { pc: 0x8008_0000, sp: tree, x0: tree });
        assert_eq!(found.memory, [(PhysAddr(tree), vec![7; 0x1001])]);
        let ranges: Vec<_> = found.reserved.iter().map(|r| (r.base, r.last)).collect();
        assert_eq!(ranges, [(tree - STACK_BYTES, tree - 1), (tree, end - 1)]);
        let small = Machine::load("duo-arm", &["memory.per_node=64KiB".into()]);
        if let Ok(small) = small {
            let found = arm64(&small, PhysAddr(0), vec![0; 1 << 16]);
            let error = HandoverError::NoRoom { need: 0x1_4000, have: 0x1_0000 };
            assert_eq!(found.map(|h| h.entry), Err(error));
        }
    }
}
