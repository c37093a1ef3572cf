//! A cpu in user mode on a [`FlatPort`], as a process of a 64-bit kernel sees it, for tests of
//! bodies against a host process.
//!
//! | address | what | user may |
//! |---|---|---|
//! | 0x18000 | code; the instruction lies at 0x18800, all else is INT3 | read, execute |
//! | 0x20000, 0x21000 | data | read, write |
//! | 0x23000 | data | read |
//! | 0x28000 | stack; RSP is 0x28800 | read, write |
//!
//! All other pages of the lower half are not present; the GDT lies in the upper half. Page tables
//! and GDT are in memory from 0x30000 on. Selectors, their descriptors and the control registers
//! are those of Linux; there is no IDT and no TSS, hence no delivery and no port.

use std::sync::Arc;

use emu_sim::{ApicId, Freq};

use crate::cpu::{CpuConfig, CpuIdentity, IdleTable, X86Cpu};
use crate::defs::{Features, Vendor, cr0, cr4, efer, pte, rflags};
use crate::state::{SegReg, Segment, TableReg, gpr};
use crate::tlb::TlbSizes;
use emu_cpu::flat::FlatPort;

/// Page of the code.
pub const CODE_PAGE: u64 = 0x18000;
/// Address of the instruction.
pub const CODE: u64 = 0x18800;
/// First of two pages of data.
pub const DATA: u64 = 0x20000;
/// Behind the data.
pub const DATA_END: u64 = 0x22000;
/// A page that may be read alone.
pub const READ_ONLY: u64 = 0x23000;
/// The page of the stack.
pub const STACK_PAGE: u64 = 0x28000;
/// Stack pointer.
pub const STACK: u64 = 0x28800;
/// Base of FS.
pub const FS_BASE: u64 = 0x20804;
/// Base of GS.
pub const GS_BASE: u64 = 0x20408;
/// Bytes of memory.
pub const MEMORY_BYTES: usize = 0x40000;

/// The pages that user code may read, with whether it may write and execute.
pub const PAGES: [(u64, bool, bool); 5] = [
    (CODE_PAGE, false, true),
    (DATA, true, false),
    (DATA + 0x1000, true, false),
    (READ_ONLY, false, false),
    (STACK_PAGE, true, false),
];

/// Selector of 64-bit user code.
pub const USER_CS: u16 = 0x33;
/// Selector of user data.
pub const USER_DS: u16 = 0x2b;

const PML5: u64 = 0x30000;
const PML4: u64 = 0x31000;
const PDPT: u64 = 0x32000;
const PD: u64 = 0x33000;
const PT: u64 = 0x34000;
/// Tables of the upper half: PDPT, PD and PT.
const UPPER: [u64; 3] = [0x35000, 0x36000, 0x37000];
/// Where the GDT lies in memory, and at which linear address.
const GDT_FRAME: u64 = 0x3a000;
const GDT: u64 = 0xffff_fe00_0000_0000;
/// Limit of the GDT.
const GDT_LIMIT: u16 = 0x7f;

/// Descriptors: kernel code of 32 and 64 bits, kernel data, user code of 32 bits, user data, user
/// code of 64 bits.
const DESCRIPTORS: [(u64, u64); 6] = [
    (0x08, 0x00cf_9b00_0000_ffff),
    (0x10, 0x00af_9b00_0000_ffff),
    (0x18, 0x00cf_9300_0000_ffff),
    (0x20, 0x00cf_fb00_0000_ffff),
    (0x28, 0x00cf_f300_0000_ffff),
    (0x30, 0x00af_fb00_0000_ffff),
];

/// A cpu at CPL 3 at `CODE` and its memory; with `la57`, linear addresses of 57 bits.
#[must_use]
pub fn user_world(vendor: Vendor, la57: bool) -> (X86Cpu, FlatPort) {
    let config = CpuConfig {
        vendor,
        features: Features::all(),
        phys_addr_bits: 46,
        mmio: Vec::new(),
        tlb: TlbSizes::default(),
        tsc: Freq::from_khz(1_000_000),
        apic_timer: Freq::from_khz(100_000),
        idle: IdleTable::default(),
        icr_ordered: true,
        starts_in_x2apic: false,
    };
    let identity = CpuIdentity { apic_id: ApicId(0), is_bsp: true, cpuid: Arc::from([]) };
    let mut cpu = X86Cpu::new(Arc::new(config), identity);
    set_registers(&mut cpu, la57);
    let mut port = FlatPort::new(MEMORY_BYTES);
    set_tables(&mut port);
    port.memory[CODE_PAGE as usize..CODE_PAGE as usize + 0x1000].fill(0xcc);
    (cpu, port)
}

fn set_registers(cpu: &mut X86Cpu, la57: bool) {
    let state = &mut cpu.state;
    state.gpr = [0; 16];
    state.gpr[gpr::RSP] = STACK;
    state.rip = CODE;
    state.rflags = rflags::FIXED | rflags::IF;
    state.cr0 = cr0::PE | cr0::MP | cr0::ET | cr0::NE | cr0::WP | cr0::AM | cr0::PG;
    state.cr4 = cr4::PAE
        | cr4::PGE
        | cr4::OSFXSR
        | cr4::OSXMMEXCPT
        | cr4::OSXSAVE
        | cr4::FSGSBASE
        | cr4::UMIP
        | cr4::SMEP
        | cr4::SMAP;
    state.cr3 = PML4;
    if la57 {
        state.cr4 |= cr4::LA57;
        state.cr3 = PML5;
    }
    state.efer = efer::LME | efer::LMA | efer::NXE | efer::SCE;
    state.fp.xcr0 = 3;
    state.gdtr = TableReg { base: GDT, limit: GDT_LIMIT };
    state.idtr = TableReg { base: 0, limit: 0 };
    state.tr = Segment { selector: 0x40, base: 0, limit: 0, rights: 0x8b };
    state.ldtr = Segment::default();
    // Null selectors, which 64-bit code can use; FS and GS have bases of their own.
    state.seg = [Segment::default(); 6];
    state.seg[SegReg::Fs as usize].base = FS_BASE;
    state.seg[SegReg::Gs as usize].base = GS_BASE;
    let flat = |selector, rights| Segment { selector, base: 0, limit: u32::MAX, rights };
    state.seg[SegReg::Cs as usize] = flat(USER_CS, 0xa0fb);
    state.seg[SegReg::Ss as usize] = flat(USER_DS, 0xc0f3);
    cpu.registers_changed();
}

fn set_tables(port: &mut FlatPort) {
    let mut put = |at: u64, value: u64| port.put(at, &value.to_le_bytes());
    let table = pte::P | pte::W | pte::U | pte::A;
    put(PML5, PML4 | table);
    put(PML4, PDPT | table);
    put(PDPT, PD | table);
    put(PD, PT | table);
    // Accessed and dirty from the start, so that no walk shows in memory.
    for (page, can_write, can_execute) in PAGES {
        let write = if can_write { pte::W } else { 0 };
        let execute = if can_execute { 0 } else { pte::NX };
        let entry = page | pte::P | pte::U | pte::A | pte::D | write | execute;
        put(PT + (page >> 12) * 8, entry);
    }
    let index = |level: u32| (GDT >> (12 + 9 * level) & 0x1ff) * 8;
    put(PML5 + index(4), PML4 | table);
    put(PML4 + index(3), UPPER[0] | table);
    put(UPPER[0] + index(2), UPPER[1] | table);
    put(UPPER[1] + index(1), UPPER[2] | table);
    put(UPPER[2] + index(0), GDT_FRAME | pte::P | pte::W | pte::A | pte::D);
    for (at, descriptor) in DESCRIPTORS {
        put(GDT_FRAME + at, descriptor);
    }
}
