//! Hand-over on x86: page tables, GDT, stack, FDT and the state of CPU 0.
//!
//! Modelled: the entry state of the guest contract (`guests_abi::layout`): 64-bit mode, all RAM
//! and the device hole identity-mapped with 1 GiB and 2 MiB pages, flat GDT, empty IDT. Not
//! modelled: memory types other than write-back and uncached.
//!
//! Low memory: GDT at 0x1000, stack below 0x8000, page tables from 0x8000 on. The FDT lies at the
//! top of "the first RAM range", read as the range of node 0 that begins at 1 MiB: the range
//! below 640 KiB is too small for it on large machines.

use emu_sim::{PAGE_SIZE, PhysAddr};
use guests_abi::layout;
use topology::{DEVICE_HOLE, Isa, Machine, RamRange};

use super::{Handover, HandoverError};
use crate::load::Reserved;

/// Where the GDT lies.
const GDT_BASE: u64 = layout::BOOT_TABLES_BASE;
/// Top of the stack of CPU 0.
const STACK_TOP: u64 = 0x8000;
/// Where the page tables begin, the root first.
const TABLES_BASE: u64 = STACK_TOP;

const _: () = assert!(GDT_BASE + PAGE_SIZE <= STACK_TOP - layout::BOOT_STACK_BYTES);

/// Null, 64-bit code, data; the accessed bits are set, as after a load.
const GDT: [u64; 3] = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

const GIB: u64 = 1 << 30;
const LARGE: u64 = 1 << 21;
const ENTRIES: u64 = 512;

mod entry {
    pub(super) const PRESENT: u64 = 1 << 0;
    pub(super) const WRITABLE: u64 = 1 << 1;
    pub(super) const WRITE_THROUGH: u64 = 1 << 3;
    pub(super) const CACHE_DISABLE: u64 = 1 << 4;
    pub(super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    pub(super) const PAGE: u64 = 1 << 7;
    /// A table. Accessed already: walks of the hand-over tables then never write them.
    pub(super) const TABLE: u64 = PRESENT | WRITABLE | ACCESSED;
    /// A write-back page.
    pub(super) const RAM: u64 = TABLE | DIRTY | PAGE;
    /// An uncached page.
    pub(super) const DEVICE: u64 = RAM | CACHE_DISABLE | WRITE_THROUGH;
}

/// Registers of CPU 0 at entry; all others are 0, or as after reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct X86Entry {
    /// First instruction.
    pub rip: u64,
    /// Top of the stack.
    pub rsp: u64,
    /// Address of the FDT.
    pub rdi: u64,
    /// PE, MP, ET, NE, WP, PG.
    pub cr0: u64,
    /// Root page table.
    pub cr3: u64,
    /// PAE, OSFXSR, OSXMMEXCPT.
    pub cr4: u64,
    /// LME, LMA.
    pub efer: u64,
    /// Only the bit that is always one: IF = 0, DF = 0.
    pub rflags: u64,
    /// Linear address of the GDT.
    pub gdt_base: u64,
    /// Last byte of the GDT, relative.
    pub gdt_limit: u16,
    /// 64-bit code selector, CPL 0.
    pub cs: u16,
    /// Selector of DS, ES, SS, FS and GS.
    pub ds: u16,
    /// Descriptor of `cs`.
    pub cs_descriptor: u64,
    /// Descriptor of `ds`.
    pub ds_descriptor: u64,
}

/// Computes memory and registers at hand-over for an image that starts at `start`.
///
/// Errors: `Isa`, `NoRoom`, `Tables`, all of them facts of the machine and its command line.
pub fn x86(
    machine: &Machine,
    start: PhysAddr,
    fdt: Vec<u8>,
) -> Result<Handover<X86Entry>, HandoverError> {
    if machine.isa != Isa::X86_64 {
        return Err(HandoverError::Isa);
    }
    let ram = machine.ram();
    let fdt_base = place_fdt(&ram, fdt.len() as u64)?;
    let fdt_last = fdt_base + (fdt.len() as u64).max(1) - 1;
    let tables = page_tables(&ram)?;
    let gdt: Vec<u8> = GDT.iter().flat_map(|descriptor| descriptor.to_le_bytes()).collect();
    let gdt_limit = u16::try_from(gdt.len() - 1).unwrap_or(u16::MAX);
    let name = "the tables and the stack of the hand-over";
    let low = Reserved { base: 0, last: layout::BOOT_TABLES_END - 1, name };
    let high = Reserved { base: fdt_base, last: fdt_last, name: "the device tree" };
    Ok(Handover {
        entry: X86Entry {
            rip: start.0,
            rsp: STACK_TOP,
            rdi: fdt_base,
            cr0: 0x8001_0033,
            cr3: TABLES_BASE,
            cr4: 0x620,
            efer: 0x500,
            rflags: 2,
            gdt_base: GDT_BASE,
            gdt_limit,
            cs: layout::BOOT_CS,
            ds: layout::BOOT_DS,
            cs_descriptor: GDT[usize::from(layout::BOOT_CS / 8)],
            ds_descriptor: GDT[usize::from(layout::BOOT_DS / 8)],
        },
        memory: vec![
            (PhysAddr(GDT_BASE), gdt),
            (PhysAddr(TABLES_BASE), tables),
            (PhysAddr(fdt_base), fdt),
        ],
        reserved: vec![low, high],
    })
}

/// Finds the page on which the FDT begins.
fn place_fdt(ram: &[RamRange], size: u64) -> Result<u64, HandoverError> {
    let range = ram.iter().find(|range| range.base == layout::HIGH_RAM_BASE);
    let have = range.map_or(0, |range| range.size);
    let room = have.checked_sub(size).ok_or(HandoverError::NoRoom { need: size, have })?;
    let base = (layout::HIGH_RAM_BASE + room) & !(PAGE_SIZE - 1);
    if base < layout::HIGH_RAM_BASE {
        return Err(HandoverError::NoRoom { need: size, have });
    }
    Ok(base)
}

/// RAM ranges merged where they touch; the hole below 1 MiB counts as RAM, since nothing is lost
/// by mapping it.
fn merged(ram: &[RamRange]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for range in ram {
        let end = range.base + range.size;
        match ranges.last_mut() {
            Some(last) if range.base <= last.1.max(layout::HIGH_RAM_BASE) => last.1 = end,
            _ => ranges.push((range.base, end)),
        }
    }
    ranges
}

/// Tables under construction: the root first, then tables in order of creation.
struct Tables {
    pages: Vec<[u64; ENTRIES as usize]>,
}

impl Tables {
    fn address(index: usize) -> u64 {
        TABLES_BASE + index as u64 * PAGE_SIZE
    }

    /// Returns the table that an entry points to, made when the entry is empty.
    fn below(&mut self, table: usize, slot: u64) -> usize {
        let entry = self.pages[table][slot as usize];
        if entry != 0 {
            return ((entry & !0xfff) - TABLES_BASE) as usize / PAGE_SIZE as usize;
        }
        self.pages.push([0; ENTRIES as usize]);
        let index = self.pages.len() - 1;
        self.pages[table][slot as usize] = Self::address(index) | entry::TABLE;
        index
    }

    /// Maps `from..to` to itself, in 1 GiB pages where they are full, else in 2 MiB pages.
    fn map(&mut self, from: u64, to: u64, flags: u64) {
        let mut at = from & !(LARGE - 1);
        let end = to.next_multiple_of(LARGE);
        while at < end {
            let table = self.below(0, at / GIB / ENTRIES % ENTRIES);
            let slot = at / GIB % ENTRIES;
            if at.is_multiple_of(GIB) && end - at >= GIB {
                self.pages[table][slot as usize] = at | flags;
                at += GIB;
                continue;
            }
            let table = self.below(table, slot);
            self.pages[table][(at / LARGE % ENTRIES) as usize] = at | flags;
            at += LARGE;
        }
    }
}

fn page_tables(ram: &[RamRange]) -> Result<Vec<u8>, HandoverError> {
    let have = layout::BOOT_TABLES_END - TABLES_BASE;
    let ranges = merged(ram);
    // Counted before they are made: a huge machine must not cost the host its memory.
    let whole: u64 =
        ranges.iter().map(|(from, to)| to.div_ceil(ENTRIES * GIB) - from / (ENTRIES * GIB)).sum();
    let need = whole.saturating_mul(PAGE_SIZE);
    if need > have {
        return Err(HandoverError::Tables { need, have });
    }
    let mut tables = Tables { pages: vec![[0; ENTRIES as usize]] };
    for (from, to) in ranges {
        tables.map(from, to, entry::RAM);
    }
    tables.map(DEVICE_HOLE.start, DEVICE_HOLE.end, entry::DEVICE);
    let need = tables.pages.len() as u64 * PAGE_SIZE;
    if need > have {
        return Err(HandoverError::Tables { need, have });
    }
    Ok(tables.pages.iter().flatten().flat_map(|entry| entry.to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::{GIB, HandoverError, STACK_TOP, TABLES_BASE, page_tables, place_fdt};
    use topology::RamRange;

    fn ram(ranges: &[(u64, u64)]) -> Vec<RamRange> {
        ranges.iter().map(|&(base, size)| RamRange { base, size, node: 0 }).collect()
    }

    /// Walks the tables as the cpu does: physical address and flags, or nothing.
    fn walk(tables: &[u8], address: u64) -> Option<(u64, u64)> {
        let mut table = TABLES_BASE;
        for shift in [39, 30, 21] {
            let at = table - TABLES_BASE + (address >> shift & 511) * 8;
            let at = usize::try_from(at).expect("small");
            let entry = u64::from_le_bytes(tables[at..at + 8].try_into().expect("eight"));
            if entry & 1 == 0 {
                return None;
            }
            if entry & 0x80 != 0 {
                let size = 1u64 << shift;
                return Some(((entry & !(size - 1)) | address & (size - 1), entry & 0xfff));
            }
            table = entry & !0xfff;
        }
        None
    }

    #[test]
    fn ram_is_mapped_write_back_and_the_hole_uncached() {
        let ranges = ram(&[(0, 0xa_0000), (0x10_0000, 3 * GIB / 2 - 0x10_0000), (4 * GIB, GIB)]);
        let tables = page_tables(&ranges).expect("fits");
        assert_eq!(tables.len(), 4 * 4096 - 4096);
        for address in [0, 0x9_ffff, GIB - 1, GIB, 3 * GIB / 2 - 1, 4 * GIB, 5 * GIB - 1] {
            assert_eq!(walk(&tables, address), Some((address, 0xe3)), "{address:#x}");
        }
        for address in [3 * GIB, 0xfec0_0000, 0xfee0_0020, 0xfed8_0010, 4 * GIB - 1] {
            assert_eq!(walk(&tables, address), Some((address, 0xfb)), "{address:#x}");
        }
        for address in [3 * GIB / 2, 3 * GIB - 1, 5 * GIB, 1 << 39] {
            assert_eq!(walk(&tables, address), None, "{address:#x}");
        }
    }

    #[test]
    fn a_thousand_nodes_of_a_gibibyte_fit_and_absurd_sizes_are_refused() {
        let many = ram(&[(0, 0xa_0000), (0x10_0000, 3 * GIB - 0x10_0000), (4 * GIB, 1021 * GIB)]);
        let tables = page_tables(&many).expect("fits");
        assert_eq!(walk(&tables, 1024 * GIB), Some((1024 * GIB, 0xe3)));
        let found = page_tables(&ram(&[(0, 1 << 60)]));
        assert!(matches!(found, Err(HandoverError::Tables { .. })));
    }

    #[test]
    fn the_fdt_lies_page_aligned_at_the_top_of_the_range_at_1_mib() {
        let ranges = ram(&[(0, 0xa_0000), (0x10_0000, GIB - 0x10_0000)]);
        assert_eq!(place_fdt(&ranges, 0x5001), Ok(GIB - 0x6000));
        assert_eq!(place_fdt(&ranges, 0x1000), Ok(GIB - 0x1000));
        let found = place_fdt(&ranges, GIB);
        assert_eq!(found, Err(HandoverError::NoRoom { need: GIB, have: GIB - 0x10_0000 }));
        assert!(STACK_TOP.is_multiple_of(16));
    }
}
