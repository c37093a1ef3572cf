//! Machines that rows of tables start from: one for each mode of the cpu, and for each kind of
//! paging.
//!
//! Over `World::long`, which has the map of memory, each paged machine has a second way to `PAGE`
//! with entries of its own at every level, so that a row can spoil one of them: see `Path`. All
//! of them are present, writable, and for users.

use emu_sim::SimTime;
use emu_x86::defs::{Features, cr0, cr4, efer, rflags, rights};
use emu_x86::state::{SegReg, Segment, TableReg, gpr};

use crate::world::{
    CODE, GDT, HANDLERS, IDT, KERNEL_CS, KERNEL_DS, PAGE, PML4, PT, RSP0, STACK, TSS, USER_CODE,
    USER_CS, USER_CS32, USER_DS, USER_STACK, World, config, descriptor,
};

/// Selector of 32-bit code at CPL 0.
pub(crate) const KERNEL_CS32: u16 = 0x80;
/// Selector of 16-bit code at CPL 0.
const KERNEL_CS16: u16 = 0x88;
/// First selectors of CPL 1 and 2: 64-bit code, 32-bit code, data.
const MIDDLE: [u16; 2] = [0x90, 0xa8];

/// A mode of the cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// 64-bit mode with four levels of tables.
    Long,
    /// The same with five.
    Five,
    /// 32-bit code under the same tables.
    Compatibility,
    /// 32-bit protected mode without paging.
    Protected,
    /// 16-bit protected mode without paging.
    Protected16,
    /// 32-bit protected mode with PAE paging.
    Pae,
    /// 32-bit protected mode with 32-bit paging and 4 MiB pages.
    TwoLevel,
    /// Real mode.
    Real,
}

/// One entry of the way to the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEntry {
    pub(crate) name: &'static str,
    /// Physical address.
    pub(crate) at: u64,
    value: u64,
}

const fn entry(name: &'static str, at: u64, value: u64) -> PathEntry {
    PathEntry { name, at, value }
}

const UPPER: [PathEntry; 2] =
    [entry("pml5e", 0x9_f008, 0x9_0007), entry("pml4e", 0x9_0008, 0x9_1007)];
const LOWER: [PathEntry; 2] = [entry("pde", 0x9_2008, 0x9_3007), entry("pte", 0x9_3800, PAGE | 7)];
const PATH_4: [PathEntry; 4] =
    [entry("pml4e", PML4 + 8, 0x9_1007), entry("pdpte", 0x9_1008, 0x9_2007), LOWER[0], LOWER[1]];
const PATH_5: [PathEntry; 5] = [UPPER[0], UPPER[1], PATH_4[1], LOWER[0], LOWER[1]];
const PATH_PAE: [PathEntry; 3] = [entry("pdpte", 0x8_0008, 0x9_2001), LOWER[0], LOWER[1]];
const PATH_2: [PathEntry; 2] = [entry("pde", 0x8_a400, 0x8_c007), entry("pte", 0x8_cc00, PAGE | 7)];

impl Mode {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "64" => Mode::Long,
            "57" => Mode::Five,
            "compat" => Mode::Compatibility,
            "32" => Mode::Protected,
            "16" => Mode::Protected16,
            "pae" => Mode::Pae,
            "32-bit-paging" => Mode::TwoLevel,
            "real" => Mode::Real,
            _ => return None,
        })
    }

    /// Bits of the code.
    pub(crate) fn bits(self) -> u8 {
        match self {
            Mode::Long | Mode::Five => 64,
            Mode::Compatibility | Mode::Protected | Mode::Pae | Mode::TwoLevel => 32,
            Mode::Protected16 | Mode::Real => 16,
        }
    }

    fn is_long(self) -> bool {
        matches!(self, Mode::Long | Mode::Five | Mode::Compatibility)
    }

    /// Bytes of a word of an exception's frame.
    pub(crate) fn frame_width(self) -> u8 {
        match self {
            Mode::Long | Mode::Five | Mode::Compatibility => 8,
            Mode::Real => 2,
            _ => 4,
        }
    }

    /// Where rows find the page.
    pub(crate) fn page(self) -> u64 {
        match self {
            Mode::Long => 0x80_4030_0000,
            Mode::Five => 0x1_0080_4030_0000,
            Mode::Pae | Mode::TwoLevel => 0x4030_0000,
            _ => PAGE,
        }
    }

    /// The entries that lead there, from the root.
    pub(crate) fn path(self) -> &'static [PathEntry] {
        match self {
            Mode::Long => &PATH_4,
            Mode::Five => &PATH_5,
            Mode::Pae => &PATH_PAE,
            Mode::TwoLevel => &PATH_2,
            _ => &[],
        }
    }

    /// The machine, at CPL 0.
    pub(crate) fn world(self) -> World {
        let mut config = config(emu_x86::defs::Vendor::Intel);
        if self == Mode::Five {
            config.features |= Features::LA57;
        }
        let mut world = World::long_with(config, &[]);
        let flat = |rights| descriptor(0, 0xf_ffff, rights);
        for (selector, rights) in [(KERNEL_CS32, 0xc09b), (KERNEL_CS16, 0x809b)] {
            world.set_descriptor(selector, flat(rights));
        }
        for (first, dpl) in MIDDLE.into_iter().zip([1 << 5, 2 << 5]) {
            for (n, rights) in [0xa09b, 0xc09b, 0xc093].into_iter().enumerate() {
                world.set_descriptor(first + 8 * n as u16, flat(rights | dpl));
            }
        }
        if !self.is_long() {
            self.leave_long_mode(&mut world);
        }
        self.set_tables(&mut world);
        self.set_level(&mut world, 0);
        let _ = world.cpu.apic.mmio_write(0xf0, 4, 0x1ff, SimTime::ZERO);
        world
    }

    /// Gates and stacks as protected mode or real mode has them.
    fn leave_long_mode(self, world: &mut World) {
        let state = &mut world.cpu.state;
        state.efer = 0;
        state.cr4 = 0;
        state.cr0 = cr0::PE | cr0::ET | cr0::NE | cr0::WP;
        state.cr3 = 0;
        if self == Mode::Real {
            state.cr0 = cr0::ET;
        }
        state.idtr = TableReg { base: IDT, limit: if self == Mode::Real { 0x3ff } else { 0x7ff } };
        world.put(TSS + 4, RSP0 | u64::from(KERNEL_DS) << 32);
        for vector in 0..256 {
            let at = HANDLERS + vector * 16;
            if self == Mode::Real {
                world.port.put(IDT + vector * 4, &((at & 0xf) as u16).to_le_bytes());
                world.port.put(IDT + vector * 4 + 2, &((at >> 4) as u16).to_le_bytes());
            } else {
                let rights = u64::from(rights::INTERRUPT_GATE | rights::P);
                let selector = u64::from(KERNEL_CS32) << 16;
                let gate = at & 0xffff | selector | rights << 40 | (at >> 16) << 48;
                world.put(IDT + vector * 8, gate);
            }
        }
    }

    fn set_tables(self, world: &mut World) {
        let state = &mut world.cpu.state;
        match self {
            Mode::Five => {
                state.cr4 |= cr4::LA57;
                state.cr3 = 0x9_f000;
                world.put(0x9_f000, PML4 | 7);
            }
            Mode::Pae => {
                state.cr0 |= cr0::PG;
                state.cr4 = cr4::PAE | cr4::PGE;
                state.efer = efer::NXE;
                state.cr3 = 0x8_0000;
                world.put(0x8_0000, 0x3001);
            }
            Mode::TwoLevel => {
                state.cr0 |= cr0::PG;
                state.cr4 = cr4::PSE | cr4::PGE;
                state.cr3 = 0x8_a000;
                world.port.put(0x8_a000, &0x8_b007u32.to_le_bytes());
                for page in 0..512u64 {
                    let entry = world.get(PT + page * 8) as u32;
                    world.port.put(0x8_b000 + page * 4, &entry.to_le_bytes());
                }
            }
            Mode::Compatibility => world.set_page(PAGE | 7),
            _ => {}
        }
        for entry in self.path() {
            self.set_entry(world, entry.at, entry.value);
        }
    }

    /// Writes an entry of a paging structure.
    pub(crate) fn set_entry(self, world: &mut World, at: u64, value: u64) {
        let size = if self == Mode::TwoLevel { 4 } else { 8 };
        world.port.put(at, &value.to_le_bytes()[..size]);
    }

    /// Reads an entry of a paging structure.
    pub(crate) fn entry(self, world: &World, at: u64) -> u64 {
        world.port.get(at, if self == Mode::TwoLevel { 4 } else { 8 }) as u64
    }

    /// Goes to a privilege level, with its code and stack.
    pub(crate) fn set_level(self, world: &mut World, cpl: u16) {
        let (code, wide, first) = match self {
            Mode::Long | Mode::Five => (0xa09b, KERNEL_CS, 0),
            Mode::Protected16 => (0x809b, KERNEL_CS16, 1),
            _ => (0xc09b, KERNEL_CS32, 1),
        };
        let (cs, ss) = match cpl {
            0 => (wide, KERNEL_DS),
            3 if self.bits() == 64 => (USER_CS, USER_DS),
            3 => (USER_CS32, USER_DS),
            n => {
                let base = MIDDLE[usize::from(n) - 1];
                (base + 8 * first + n, base + 16 + n)
            }
        };
        let dpl = cpl << rights::DPL_SHIFT;
        let state = &mut world.cpu.state;
        (state.rip, state.gpr[gpr::RSP]) =
            if cpl == 3 { (USER_CODE, USER_STACK) } else { (CODE, STACK) };
        let data = Segment { selector: ss, base: 0, limit: u32::MAX, rights: 0xc093 | dpl };
        state.seg = [data; 6];
        let limit = if self.bits() == 16 { 0xf_ffff } else { u32::MAX };
        state.seg[SegReg::Cs as usize] =
            Segment { selector: cs, base: 0, limit, rights: code | dpl };
        if self == Mode::Protected16 {
            // A 16-bit stack cannot reach the others' place, hence a base.
            let stack = &mut state.seg[SegReg::Ss as usize];
            (stack.base, stack.limit, stack.rights) = (0x2_0000, 0xffff, 0x93 | dpl);
            state.gpr[gpr::RSP] -= 0x2_0000;
        }
        if self == Mode::Real {
            let at = |base: u64| Segment {
                selector: (base >> 4) as u16,
                base,
                limit: 0xffff,
                rights: 0x93,
            };
            state.seg = [at(0); 6];
            state.seg[SegReg::Cs as usize] = at(CODE);
            state.seg[SegReg::Ss as usize] = at(0x2_0000);
            (state.rip, state.gpr[gpr::RSP]) = (0, 0x1000);
        }
        state.rflags &= !rflags::VM;
        state.gdtr.base = GDT;
        world.cpu.registers_changed();
    }
}
