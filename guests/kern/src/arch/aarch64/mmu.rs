//! Translation: memory at its own address, in blocks of 1 GiB.
//!
//! One table of level 1 serves all CPUs: 4 KiB granule, 39 bits of address. A GiB with RAM in it
//! is write-back and inner shareable, one with devices is Device-nGnRE; both in one GiB, and RAM
//! above 512 GiB, are refused. Start-up code enters the GiBs of image and device tree, whoever
//! reads the tree enters the rest. Entries only become valid, so nothing is ever invalidated.

use core::arch::global_asm;
use core::ops::Range;

use super::atomic::{AtomicU64, Ordering::Relaxed};
use super::barrier;
use crate::console::die;

const GIB: u64 = 1 << 30;
const ENTRIES: usize = 512;

#[repr(C, align(4096))]
struct Table([AtomicU64; ENTRIES]);

static LEVEL_1: Table = Table([const { AtomicU64::new(0) }; ENTRIES]);

/// A valid block that was accessed.
const BLOCK: u64 = 1 | 1 << 10;
/// Attribute 1, inner shareable.
const NORMAL: u64 = BLOCK | 1 << 2 | 3 << 8;
/// Attribute 0, never executed.
const DEVICE: u64 = BLOCK | 3 << 53;

/// Attribute 0: Device-nGnRE; 1: write-back, allocating.
const MAIR: u64 = 0x04 | 0xff << 8;
/// 39 bits by TTBR0, walks write-back and inner shareable, no TTBR1. The size of physical
/// addresses is added.
const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23;
/// Translation, caches, alignment of SP; the bits that are 1 in a core without extensions.
const SCTLR: u64 = 0x30d0_0800 | 1 << 12 | 1 << 3 | 1 << 2 | 1;

/// Maps a range of RAM.
pub(crate) fn map_ram(range: &Range<u64>) {
    map(range, NORMAL);
}

/// Maps the registers of a device.
pub(crate) fn map_device(range: &Range<u64>) {
    map(range, DEVICE);
}

fn map(range: &Range<u64>, attributes: u64) {
    for gib in range.start / GIB..range.end.div_ceil(GIB) {
        let Some(entry) = LEVEL_1.0.get(gib as usize) else {
            die!(BAD_MACHINE, "{:#x}: addresses end at {ENTRIES} GiB", range.start);
        };
        let wanted = gib * GIB | attributes;
        match entry.load(Relaxed) {
            0 => entry.store(wanted, Relaxed),
            found if found == wanted => {}
            _ => die!(BAD_MACHINE, "{:#x}: memory and devices in one GiB", range.start),
        }
    }
    barrier!("dsb ishst");
    barrier!("isb");
}

// `mmu_map_x0` enters the GiB of x0 as RAM; x1 to x3 change. `mmu_enable` turns translation on
// for this CPU. Both run without translation.
global_asm!(
    "mmu_map_x0:",
    "adrp x1, {table}",
    "add x1, x1, :lo12:{table}",
    "ubfx x2, x0, #30, #9",
    "add x1, x1, x2, lsl #3",
    "lsl x2, x2, #30",
    "ldr x3, ={normal}",
    "orr x2, x2, x3",
    "str x2, [x1]",
    "ret",
    "mmu_enable:",
    "ldr x1, ={mair}",
    "msr mair_el1, x1",
    "ldr x1, ={tcr}",
    "mrs x2, id_aa64mmfr0_el1",
    "and x2, x2, #7",
    "cmp x2, #5",
    "b.ls 2f",
    "mov x2, #5",
    "2: bfi x1, x2, #32, #3",
    "msr tcr_el1, x1",
    "adrp x1, {table}",
    "add x1, x1, :lo12:{table}",
    "msr ttbr0_el1, x1",
    "dsb ish",
    "tlbi vmalle1",
    "dsb nsh",
    "isb",
    "ldr x1, ={sctlr}",
    "msr sctlr_el1, x1",
    "isb",
    "ret",
    ".ltorg",
    table = sym LEVEL_1,
    normal = const NORMAL,
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
);
