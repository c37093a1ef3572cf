//! Memory as instruction bodies see it: translation by page tables, then write-back memory, the
//! local APIC's page, or a device.
//!
//! Modelled: paging off, 32-bit (with 4 MiB pages), PAE, 4-level and 5-level paging; NX, WP, SMEP,
//! SMAP, global pages, PCIDs; accessed and dirty bits as locked updates; error codes with reserved
//! bits. An access over two lines is two accesses, lower address first; both pages are translated
//! before the first of them.
//!
//! Not modelled: protection keys, PSE-36, the four PDPTE registers of PAE (entries are read by
//! each walk, as AMD does), uncached and write-combining *RAM* (PAT and PCD are kept but RAM is
//! always write-back: only the ranges of `CpuConfig::mmio` are devices), atomicity of a locked
//! access over two lines (it is a read and a write between fences), #AC of CR0.AM.

use emu_cpu::port::{DeviceAccess, Fence, Port, Space};
use emu_sim::PhysAddr;

use crate::apic;
use crate::cpu::X86Cpu;
use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{cr0, cr4, efer, pf, pte};
use crate::state::SegReg;
use crate::tlb::{Access, Hit, PageRights, PageSize, Protection, Translation};

/// Times that a walk starts again because another cpu changed an entry meanwhile.
const WALK_RETRIES_MAX: u32 = 64;

/// Where a linear address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Write-back memory.
    Ram(u64),
    /// A device.
    Device(u64),
    /// The local APIC's page, by offset.
    Apic(u64),
}

impl Place {
    const fn offset(self, by: u64) -> Place {
        match self {
            Place::Ram(at) => Place::Ram(at + by),
            Place::Device(at) => Place::Device(at + by),
            Place::Apic(at) => Place::Apic(at + by),
        }
    }
}

/// Two parts of an access that crosses a page; the second is empty when it does not.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Place,
    /// Bytes in the first page.
    first_len: u8,
    second: Place,
    size: u8,
}

/// How the present mode translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheme {
    levels: u32,
    /// Bytes of an entry: 4 or 8.
    entry_size: u8,
    has_nx: bool,
}

impl X86Cpu {
    /// Whether CR0.PG is set.
    #[must_use]
    pub(crate) fn is_paging(&self) -> bool {
        self.state.cr0 & cr0::PG != 0
    }

    /// Whether an address has the form that 64-bit mode wants.
    ///
    /// Source: [SDM-1] "Canonical Addressing".
    #[must_use]
    pub fn is_canonical(&self, lin: u64) -> bool {
        let unused = if self.state.cr4 & cr4::LA57 != 0 { 64 - 57 } else { 64 - 48 };
        ((lin << unused) as i64 >> unused) as u64 == lin
    }

    pub(crate) fn protection(&self) -> Protection {
        Protection {
            write_protect: self.state.cr0 & cr0::WP != 0,
            smep: self.state.cr4 & cr4::SMEP != 0,
            smap: self.state.cr4 & cr4::SMAP != 0,
        }
    }

    fn pcid(&self) -> u16 {
        if self.state.cr4 & cr4::PCIDE != 0 { (self.state.cr3 & 0xfff) as u16 } else { 0 }
    }

    fn scheme(&self) -> Scheme {
        let has_nx = self.state.efer & efer::NXE != 0;
        if self.state.efer & efer::LMA != 0 {
            let levels = if self.state.cr4 & cr4::LA57 != 0 { 5 } else { 4 };
            Scheme { levels, entry_size: 8, has_nx }
        } else if self.state.cr4 & cr4::PAE != 0 {
            Scheme { levels: 3, entry_size: 8, has_nx }
        } else {
            Scheme { levels: 2, entry_size: 4, has_nx: false }
        }
    }

    /// Whether a physical address belongs to a device.
    pub(crate) fn is_device(&self, pa: u64) -> bool {
        self.config.mmio.iter().any(|range| range.contains(&pa))
    }

    fn place(&self, pa: u64) -> Place {
        let page = self.apic.page_address().0;
        if pa & !0xfff == page && self.apic.mode() == apic::Mode::XApic {
            Place::Apic(pa & 0xfff)
        } else if self.is_device(pa) {
            Place::Device(pa)
        } else {
            Place::Ram(pa)
        }
    }
}

/// What one pass over the page tables found.
enum Walk {
    Page(Translation),
    /// A page whose accessed or dirty bits are still to be set: entry, its value, bits to set.
    Update(Translation, [Option<(u64, u64, u64)>; 5]),
    Fault(u32),
}

impl<P: Port> Ctx<'_, P> {
    /// Reads `size` bytes (1, 2, 4, 8) at an offset in a segment.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    #[inline]
    pub fn read(&mut self, seg: SegReg, offset: u64, size: u8) -> Exec<u64> {
        let lin = self.linear(seg, offset, size, false)?;
        let access = self.read_access();
        if lin & 63 <= 64 - u64::from(size)
            && let Some(pa) = self.cpu.tlb.micro(lin, access)
        {
            return Ok(self.port.load(PhysAddr(pa), size)?);
        }
        self.read_slow(seg, lin, size, access)
    }

    /// Reads `size` bytes (1, 2, 4, 8) that the same instruction writes back: what faults, faults
    /// as a write.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    #[inline]
    pub fn read_to_write(&mut self, seg: SegReg, offset: u64, size: u8) -> Exec<u64> {
        let lin = self.linear(seg, offset, size, true)?;
        let access = self.write_access();
        if lin & 63 <= 64 - u64::from(size)
            && let Some(pa) = self.cpu.tlb.micro(lin, access)
        {
            return Ok(self.port.load(PhysAddr(pa), size)?);
        }
        self.read_slow(seg, lin, size, access)
    }

    /// Writes the low `size` bytes (1, 2, 4, 8) of `value` at an offset in a segment.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    #[inline]
    pub fn write(&mut self, seg: SegReg, offset: u64, size: u8, value: u64) -> Exec<()> {
        let lin = self.linear(seg, offset, size, true)?;
        let access = self.write_access();
        if lin & 63 <= 64 - u64::from(size)
            && let Some(pa) = self.cpu.tlb.micro(lin, access)
        {
            let value = value & u64::MAX >> (64 - 8 * u32::from(size));
            return Ok(self.port.store(PhysAddr(pa), size, value)?);
        }
        self.write_slow(seg, lin, size, access, value)
    }

    /// Checks that an operand's linear address is a multiple of `to`.
    ///
    /// # Errors
    /// #GP(0) when it is not; #GP or #SS of the segment.
    pub(crate) fn check_alignment(&self, seg: SegReg, offset: u64, to: u64) -> Exec<()> {
        let lin = self.linear(seg, offset, 1, false)?;
        if lin & (to - 1) == 0 { Ok(()) } else { Err(Exception::gp(0).into()) }
    }

    /// Checks that an operand's linear address has the form that 64-bit mode wants.
    ///
    /// # Errors
    /// #GP or #SS when it has not; #GP or #SS of the segment.
    pub(crate) fn check_canonical(&self, seg: SegReg, offset: u64) -> Exec<()> {
        let lin = self.linear(seg, offset, 1, false)?;
        if self.cpu.is_64 && !self.cpu.is_canonical(lin) {
            return Err(not_canonical(seg).into());
        }
        Ok(())
    }

    /// Reads 16 bytes; with `aligned`, they must be aligned.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    pub fn read_wide(&mut self, seg: SegReg, offset: u64, aligned: bool) -> Exec<u128> {
        let lin = self.linear(seg, offset, 16, false)?;
        if aligned && lin & 15 != 0 {
            return Err(Exception::gp(0).into());
        }
        let access = self.read_access();
        let span = self.span(seg, lin, 16, access)?;
        if let Place::Ram(pa) = span.first
            && lin & 63 <= 48
        {
            return Ok(self.port.load_wide(PhysAddr(pa))?);
        }
        let low = self.read_at(span, 0, 8)?;
        let high = self.read_at(span, 8, 8)?;
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    /// Writes 16 bytes; with `aligned`, they must be aligned.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    pub fn write_wide(&mut self, seg: SegReg, offset: u64, aligned: bool, value: u128) -> Exec<()> {
        let lin = self.linear(seg, offset, 16, true)?;
        if aligned && lin & 15 != 0 {
            return Err(Exception::gp(0).into());
        }
        let access = self.write_access();
        let span = self.span(seg, lin, 16, access)?;
        if let Place::Ram(pa) = span.first
            && lin & 63 <= 48
        {
            return Ok(self.port.store_wide(PhysAddr(pa), value)?);
        }
        self.write_at(span, 0, 8, value as u64)?;
        self.write_at(span, 8, 8, (value >> 64) as u64)
    }

    /// Checks that `len` bytes can be written at an offset in a segment, without writing.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    pub fn probe_write(&mut self, seg: SegReg, offset: u64, len: u32) -> Exec<()> {
        self.probe(seg, offset, len, true)
    }

    /// Checks that `len` bytes can be read at an offset in a segment, without reading.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    pub fn probe_read(&mut self, seg: SegReg, offset: u64, len: u32) -> Exec<()> {
        self.probe(seg, offset, len, false)
    }

    fn probe(&mut self, seg: SegReg, offset: u64, len: u32, writes: bool) -> Exec<()> {
        if len == 0 {
            return Ok(());
        }
        let last = u64::from(len) - 1;
        let first_lin = self.linear(seg, offset, 1, writes)?;
        self.linear(seg, self.cpu.wrap_offset(offset, last), 1, writes)?;
        let access = if writes { self.write_access() } else { self.read_access() };
        self.translate_in(seg, first_lin, access)?;
        let mut page = (first_lin & !0xfff).wrapping_add(0x1000);
        while page.wrapping_sub(first_lin) <= last {
            self.translate_in(seg, self.cpu.wrap_linear(page), access)?;
            page = page.wrapping_add(0x1000);
        }
        Ok(())
    }

    /// Reads `size` bytes (1 to 8, 16) at an offset in a segment and writes what `change` returns,
    /// with nothing in between. Returns the old value.
    ///
    /// # Errors
    /// #GP, #SS, #PF, `Wait`.
    pub fn rmw(
        &mut self,
        seg: SegReg,
        offset: u64,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Exec<u128> {
        let lin = self.linear(seg, offset, size, true)?;
        let access = self.write_access();
        if lin & 63 <= 64 - u64::from(size)
            && let Some(pa) = self.cpu.tlb.micro(lin, access)
        {
            return Ok(self.port.rmw(PhysAddr(pa), size, change)?);
        }
        let span = self.span(seg, lin, size, access)?;
        if let Place::Ram(pa) = span.first
            && lin & 63 <= 64 - u64::from(size)
        {
            return Ok(self.port.rmw(PhysAddr(pa), size, change)?);
        }
        self.rmw_split(span, size, change)
    }

    /// A locked access over two lines, or to a device: not atomic.
    fn rmw_split(
        &mut self,
        span: Span,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Exec<u128> {
        self.port.fence(Fence::Full)?;
        let low_len = size.min(8);
        let mut old = u128::from(self.read_at(span, 0, low_len)?);
        if size > 8 {
            old |= u128::from(self.read_at(span, 8, size - 8)?) << 64;
        }
        if let Some(new) = change(old) {
            self.write_at(span, 0, low_len, new as u64)?;
            if size > 8 {
                self.write_at(span, 8, size - 8, (new >> 64) as u64)?;
            }
        }
        Ok(old)
    }

    /// Reads the stack at stack pointer `rsp`, which is taken as wide as the stack segment says.
    ///
    /// # Errors
    /// #SS, #PF, `Wait`.
    #[inline]
    pub fn stack_read(&mut self, rsp: u64, size: u8) -> Exec<u64> {
        self.read(SegReg::Ss, rsp & self.cpu.stack_mask(), size)
    }

    /// Writes the stack at stack pointer `new_rsp`, which is taken as wide as the stack segment
    /// says. The register is not changed: see `X86Cpu::set_rsp`.
    ///
    /// # Errors
    /// #SS, #PF, `Wait`.
    #[inline]
    pub fn stack_write(&mut self, new_rsp: u64, size: u8, value: u64) -> Exec<()> {
        self.write(SegReg::Ss, new_rsp & self.cpu.stack_mask(), size, value)
    }

    /// Reads `size` bytes at a linear address, for descriptor tables and the like.
    ///
    /// # Errors
    /// #GP(0) when not canonical, #PF, `Wait`.
    pub fn read_linear(&mut self, lin: u64, size: u8, access: Access) -> Exec<u64> {
        self.read_slow(SegReg::Ds, self.cpu.wrap_linear(lin), size, access)
    }

    /// Writes `size` bytes at a linear address.
    ///
    /// # Errors
    /// #GP(0) when not canonical, #PF, `Wait`.
    pub fn write_linear(&mut self, lin: u64, size: u8, access: Access, value: u64) -> Exec<()> {
        self.write_slow(SegReg::Ds, self.cpu.wrap_linear(lin), size, access, value)
    }

    /// Translates an address of data without touching it.
    ///
    /// # Errors
    /// #GP or #SS when not canonical, #PF, `Wait`.
    pub(crate) fn translate_in(&mut self, seg: SegReg, lin: u64, access: Access) -> Exec<Place> {
        if self.cpu.is_64 && !self.cpu.is_canonical(lin) {
            return Err(not_canonical(seg).into());
        }
        let pa = self.translate(lin, access)?;
        Ok(self.cpu.place(pa))
    }

    #[inline(never)]
    fn read_slow(&mut self, seg: SegReg, lin: u64, size: u8, access: Access) -> Exec<u64> {
        let span = self.span(seg, lin, size, access)?;
        self.read_at(span, 0, size)
    }

    #[inline(never)]
    fn write_slow(
        &mut self,
        seg: SegReg,
        lin: u64,
        size: u8,
        access: Access,
        value: u64,
    ) -> Exec<()> {
        let span = self.span(seg, lin, size, access)?;
        self.write_at(span, 0, size, value)
    }

    fn span(&mut self, seg: SegReg, lin: u64, size: u8, access: Access) -> Exec<Span> {
        let in_page = 0x1000 - (lin & 0xfff);
        let first = self.translate_in(seg, lin, access)?;
        if in_page >= u64::from(size) {
            return Ok(Span { first, first_len: size, second: first, size });
        }
        let next = self.cpu.wrap_linear(lin.wrapping_add(in_page));
        let second = self.translate_in(seg, next, access)?;
        Ok(Span { first, first_len: in_page as u8, second, size })
    }

    /// Reads bytes `at..at + len` of a span, at most 8.
    fn read_at(&mut self, span: Span, at: u8, len: u8) -> Exec<u64> {
        let mut value = 0;
        let mut done = 0;
        while done < len {
            let (place, room) = span.piece(at + done);
            let n = room.min(len - done);
            value |= self.read_piece(place, n)? << (8 * u32::from(done));
            done += n;
        }
        Ok(value)
    }

    /// Writes bytes `at..at + len` of a span, at most 8.
    fn write_at(&mut self, span: Span, at: u8, len: u8, value: u64) -> Exec<()> {
        let mut done = 0;
        while done < len {
            let (place, room) = span.piece(at + done);
            let n = room.min(len - done);
            self.write_piece(place, n, value >> (8 * u32::from(done)))?;
            done += n;
        }
        Ok(())
    }

    /// Reads 1 to 8 bytes of one line.
    fn read_piece(&mut self, place: Place, len: u8) -> Exec<u64> {
        let mask = u64::MAX >> (64 - 8 * u32::from(len));
        match place {
            Place::Ram(pa) if len.is_power_of_two() => Ok(self.port.load(PhysAddr(pa), len)?),
            Place::Ram(pa) => {
                // A wider load inside the line covers an odd number of bytes at once.
                let start = pa.min((pa & !0x3f) + 56);
                let shift = 8 * (pa - start) as u32;
                Ok(self.port.load(PhysAddr(start), 8)? >> shift & mask)
            }
            Place::Device(addr) => {
                let mut value = 0;
                for (at, size) in powers(len) {
                    let addr = addr + u64::from(at);
                    let access = DeviceAccess { space: Space::Memory, addr, size, write: None };
                    value |= self.read_device(access)? << (8 * u32::from(at));
                }
                Ok(value & mask)
            }
            Place::Apic(offset) => self.apic_read(offset, len),
        }
    }

    /// Writes 1 to 8 bytes of one line: one store, whatever their number (L13).
    fn write_piece(&mut self, place: Place, len: u8, value: u64) -> Exec<()> {
        let mask = u64::MAX >> (64 - 8 * u32::from(len));
        match place {
            Place::Ram(pa) => self.port.store(PhysAddr(pa), len, value & mask)?,
            Place::Device(addr) => {
                for (at, size) in powers(len) {
                    let part =
                        value >> (8 * u32::from(at)) & u64::MAX >> (64 - 8 * u32::from(size));
                    let (addr, write) = (addr + u64::from(at), Some(part));
                    let space = Space::Memory;
                    self.port.device(DeviceAccess { space, addr, size, write })?;
                }
            }
            Place::Apic(offset) => self.apic_write(offset, len, value & mask)?,
        }
        Ok(())
    }

    /// Translates a linear address to a physical one.
    ///
    /// The TLB does not change while an instruction runs (`tlb`), so a run again asks the step log
    /// at the same misses.
    ///
    /// # Errors
    /// #PF, `Wait`.
    pub(crate) fn translate(&mut self, lin: u64, access: Access) -> Exec<u64> {
        let protection = self.cpu.protection();
        if !self.cpu.is_paging() {
            let pa = lin & 0xffff_ffff;
            self.note_data(lin, pa, access, u8::MAX, true);
            return Ok(pa);
        }
        let (pcid, is_code) = (self.cpu.pcid(), access.is_fetch());
        let found = match self.cpu.tlb.find(lin, pcid, is_code) {
            Some(Hit::First(page)) => Some((page, false)),
            Some(Hit::Second(page)) => Some((page, true)),
            None => None,
        };
        if let Some((page, is_second)) = found
            && is_allowed(page, protection, access)
        {
            if is_second {
                self.port.extra_latency(self.cpu.tlb.second_latency());
                self.cpu.tlb.note_fill(lin, pcid, is_code, page);
            }
            return Ok(self.use_page(lin, page, protection, access));
        }
        let page = match self.port.logged_translation() {
            Some(bits) => Translation::from_bits(bits),
            None => {
                let page = self.walk(lin, access)?;
                self.port.translated(page.bits());
                page
            }
        };
        self.cpu.tlb.note_fill(lin, pcid, is_code, page);
        Ok(self.use_page(lin, page, protection, access))
    }

    fn use_page(&mut self, lin: u64, page: Translation, on: Protection, access: Access) -> u64 {
        let pa = page.physical(lin);
        let rights = page.rights();
        self.note_data(lin, pa, access, rights.allowed(on), rights.is_dirty);
        pa
    }

    fn note_data(&mut self, lin: u64, pa: u64, access: Access, allowed: u8, is_dirty: bool) {
        if !access.is_fetch() && matches!(self.cpu.place(pa), Place::Ram(_)) {
            self.cpu.tlb.note_micro(lin, pa, allowed, is_dirty);
        }
    }

    /// Walks the page tables until a pass needs no more updates.
    ///
    /// "A walk that would fault or set A/D drains the store buffer first and walks again"
    /// (`engine.md` section 5).
    fn walk(&mut self, lin: u64, access: Access) -> Exec<Translation> {
        self.port.begin_walk();
        let mut is_drained = false;
        for _ in 0..WALK_RETRIES_MAX {
            match self.walk_once(lin, access)? {
                Walk::Page(page) => return Ok(page),
                _ if !is_drained => {
                    self.port.fence(Fence::Full)?;
                    is_drained = true;
                }
                Walk::Fault(code) => return Err(Exception::pf(lin, code).into()),
                Walk::Update(page, updates) => {
                    if self.update(updates)? {
                        return Ok(page);
                    }
                }
            }
        }
        // Another cpu changes the entries without end; the walk's own order decides nothing here.
        Err(Exception::pf(lin, fault_code(self.cpu, access, pf::P)).into())
    }

    /// Sets accessed and dirty bits; returns whether all entries were still as they were read.
    fn update(&mut self, updates: [Option<(u64, u64, u64)>; 5]) -> Exec<bool> {
        let size = self.cpu.scheme().entry_size;
        for (at, expected, bits) in updates.into_iter().flatten() {
            let mut change =
                |old: u128| (old == u128::from(expected)).then_some(u128::from(expected | bits));
            if self.port.rmw(PhysAddr(at), size, &mut change)? != u128::from(expected) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Source: [SDM-3] "4-Level Paging and 5-Level Paging", "PAE Paging", "32-Bit Paging".
    fn walk_once(&mut self, lin: u64, access: Access) -> Exec<Walk> {
        let scheme = self.cpu.scheme();
        let bits_per_level = if scheme.entry_size == 4 { 10 } else { 9 };
        let mut table = self.cpu.root(scheme);
        let mut rights =
            PageRights { is_writable: true, is_user: true, is_dirty: true, ..Default::default() };
        let mut updates = [None; 5];
        for level in (1..=scheme.levels).rev() {
            let shift = 12 + bits_per_level * (level - 1);
            let index_mask =
                if level == 3 && scheme.levels == 3 { 3 } else { (1 << bits_per_level) - 1 };
            let at = table + (lin >> shift & index_mask) * u64::from(scheme.entry_size);
            let entry = self.port.load(PhysAddr(at), scheme.entry_size)?;
            if entry & pte::P == 0 {
                return Ok(Walk::Fault(fault_code(self.cpu, access, 0)));
            }
            let is_leaf = self.cpu.is_leaf(scheme, level, entry);
            if entry & self.cpu.reserved(scheme, level, is_leaf) != 0 {
                return Ok(Walk::Fault(fault_code(self.cpu, access, pf::P | pf::RSVD)));
            }
            let is_pdpte = level == 3 && scheme.levels == 3;
            if !is_pdpte {
                rights.is_writable &= entry & pte::W != 0;
                rights.is_user &= entry & pte::U != 0;
                rights.is_noexec |= scheme.has_nx && entry & pte::NX != 0;
                let wanted = if is_leaf && access.is_write() { pte::A | pte::D } else { pte::A };
                if entry & wanted != wanted {
                    updates[level as usize - 1] = Some((at, entry, wanted));
                }
            }
            if is_leaf {
                rights.is_dirty = access.is_write() || entry & pte::D != 0;
                rights.is_global = self.cpu.state.cr4 & cr4::PGE != 0 && entry & pte::G != 0;
                return Ok(self.finish_walk(
                    entry,
                    page_size(scheme, level),
                    rights,
                    updates,
                    access,
                ));
            }
            table = entry & FRAME_MASK;
        }
        Ok(Walk::Fault(fault_code(self.cpu, access, 0)))
    }

    fn finish_walk(
        &self,
        entry: u64,
        size: PageSize,
        rights: PageRights,
        updates: [Option<(u64, u64, u64)>; 5],
        access: Access,
    ) -> Walk {
        if rights.allowed(self.cpu.protection()) >> access as u8 & 1 == 0 {
            return Walk::Fault(fault_code(self.cpu, access, pf::P));
        }
        let frame = entry & FRAME_MASK & !((1 << size.shift()) - 1);
        let page = Translation::new(frame, size, rights);
        if updates.iter().all(Option::is_none) {
            Walk::Page(page)
        } else {
            Walk::Update(page, updates)
        }
    }
}

/// Physical address in an entry.
const FRAME_MASK: u64 = 0x000f_ffff_ffff_f000;

impl X86Cpu {
    fn root(&self, scheme: Scheme) -> u64 {
        match scheme.levels {
            2 => self.state.cr3 & 0xffff_f000,
            3 => self.state.cr3 & 0xffff_ffe0,
            _ => self.state.cr3 & FRAME_MASK,
        }
    }

    /// Whether an entry maps a page.
    fn is_leaf(&self, scheme: Scheme, level: u32, entry: u64) -> bool {
        match (scheme.levels, level) {
            (_, 1) => true,
            (2, 2) => entry & pte::PS != 0 && self.state.cr4 & cr4::PSE != 0,
            (_, 2) => entry & pte::PS != 0,
            (4 | 5, 3) => entry & pte::PS != 0,
            _ => false,
        }
    }

    /// Bits of an entry that must be 0.
    ///
    /// Source: [SDM-3] "Reserved bits" of the figures "Formats of CR3 and Paging-Structure
    /// Entries" of each mode. Status: spec.
    fn reserved(&self, scheme: Scheme, level: u32, is_leaf: bool) -> u64 {
        if scheme.entry_size == 4 {
            // Without PSE-36, bits 21:13 of a 4 MiB entry.
            return if level == 2 && is_leaf { 0x003f_e000 } else { 0 };
        }
        let beyond = FRAME_MASK & !((1u64 << self.config.phys_addr_bits) - 1);
        let nx = if scheme.has_nx { 0 } else { pte::NX };
        let low = match (scheme.levels, level, is_leaf) {
            // PDPTE of PAE: bits 1, 2, 8:5 and 63.
            (3, 3, _) => return beyond | 0x1e6 | 0xfff0_0000_0000_0000,
            (_, 1, _) => 0,
            (_, 2, true) => 0x001f_e000,
            (_, 3, true) if self.has_1g() => 0x3fff_e000,
            (_, 2, false) => 0,
            (_, 3, false) => 0,
            // 1 GiB pages that are not there, and PS in the upper levels.
            _ => pte::PS,
        };
        let high = if scheme.levels == 3 { 0x7ff0_0000_0000_0000 } else { 0 };
        beyond | nx | low | high
    }

    fn has_1g(&self) -> bool {
        self.config.features.contains(crate::defs::Features::PAGE_1G)
    }
}

fn page_size(scheme: Scheme, level: u32) -> PageSize {
    match (scheme.entry_size, level) {
        (_, 1) => PageSize::Small,
        (4, _) => PageSize::Four,
        (_, 2) => PageSize::Medium,
        _ => PageSize::Huge,
    }
}

fn is_allowed(page: Translation, on: Protection, access: Access) -> bool {
    let rights = page.rights();
    rights.allowed(on) >> access as u8 & 1 != 0 && (rights.is_dirty || !access.is_write())
}

/// Source: [SDM-3] "Page-Fault Exceptions": "I/D flag ... set only if" NX or SMEP can forbid the
/// fetch.
fn fault_code(cpu: &X86Cpu, access: Access, base: u32) -> u32 {
    let has_nx = cpu.state.cr4 & cr4::PAE != 0 && cpu.state.efer & efer::NXE != 0;
    let shows_fetch = has_nx || cpu.state.cr4 & cr4::SMEP != 0;
    let mut code = base;
    if access.is_write() {
        code |= pf::W;
    }
    if access.is_user() {
        code |= pf::U;
    }
    if access.is_fetch() && shows_fetch {
        code |= pf::I;
    }
    code
}

fn not_canonical(seg: SegReg) -> Exception {
    if seg == SegReg::Ss { Exception::ss(0) } else { Exception::gp(0) }
}

impl Span {
    /// Place of byte `at`, and how many bytes from there lie in the same line.
    fn piece(self, at: u8) -> (Place, u8) {
        let (place, left) = if at < self.first_len {
            (self.first.offset(u64::from(at)), self.first_len - at)
        } else {
            (self.second.offset(u64::from(at - self.first_len)), self.size - at)
        };
        let (Place::Ram(addr) | Place::Device(addr) | Place::Apic(addr)) = place;
        (place, left.min((64 - (addr & 63)) as u8))
    }
}

/// Splits 1 to 8 bytes into naturally sized parts: offset and size, ascending.
fn powers(len: u8) -> impl Iterator<Item = (u8, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| at + size <= len)?;
        at += size;
        Some((at - size, size))
    })
}
