//! Memory as instruction bodies see it: translation by page tables, then write-back memory, the
//! cpu's own redistributor, or a device.
//!
//! Modelled: stage 1 of EL1&0 and of EL2 with the 4 KiB granule and up to 48 bits, blocks, both
//! ranges, top byte ignore, ASIDs, hierarchical permissions, PAN, UAO, WXN, access flag and dirty
//! state by software or hardware; alignment by memory type and `SCTLR_ELx.A`. An access over two
//! lines is two accesses, lower address first; both pages are translated before the first of them.
//!
//! Not modelled: stage 2, VHE, other granules (taken as 4 KiB), 52-bit addresses, the contiguous
//! hint, non-cacheable *RAM* (RAM is always write-back: only the ranges of `CpuConfig::mmio` are
//! devices, but device memory types ask for alignment), SError.
//!
//! Source: \[ArmARM\] "The AArch64 Virtual Memory System Architecture". Status: spec.

use emu_cpu::port::{DeviceAccess, Fence, Order, Port, Space as PortSpace, Update};
use emu_sim::PhysAddr;

use crate::cpu::ArmCpu;
use crate::ctx::{Acc, Atomic, Barrier, BarrierTypes, Ctx, Exception, Exec};
use crate::defs::{Ec, Features, abort, descriptor, fsc, sctlr, tcr};
use crate::sysreg::Cell;
use crate::tlb::{Access, Hit, PageRights, PageSize, Space, Translation};

/// Times that a walk starts again because another cpu changed an entry meanwhile.
const WALK_RETRIES_MAX: u32 = 64;

/// Where a virtual address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Write-back memory.
    Ram(u64),
    /// A device.
    Device(u64),
    /// The cpu's own redistributor, by offset.
    Gic(u64),
}

impl Place {
    const fn offset(self, by: u64) -> Place {
        match self {
            Place::Ram(at) => Place::Ram(at + by),
            Place::Device(at) => Place::Device(at + by),
            Place::Gic(at) => Place::Gic(at + by),
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
    va: u64,
    access: Access,
}

/// How an address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Regime {
    space: Space,
    /// Address of the first table.
    root: u64,
    /// Bits of an input address.
    bits: u32,
    /// Bits of an output address.
    output_bits: u32,
    mair: u64,
    is_hierarchical: bool,
    sets_access: bool,
    sets_dirty: bool,
}

/// What an access needs beyond translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    /// By memory type and SCTLR.A.
    Normal,
    /// To its size: exclusives, atomics, acquire and release.
    Always,
}

/// What one pass over the page tables found.
enum Walk {
    Page(Translation),
    /// A page whose descriptor is still to be changed: address, its value, the new value.
    Update(Translation, u64, u64, u64),
    Fault(u32),
}

/// Bits of output addresses by `TCR_EL1.IPS`.
const OUTPUT_BITS: [u32; 8] = [32, 36, 40, 42, 44, 48, 48, 48];

impl ArmCpu {
    fn is_el2(&self) -> bool {
        self.state.pstate.el == 2
    }

    /// SCTLR of the present regime.
    fn sctlr(&self) -> u64 {
        self.sys[if self.is_el2() { Cell::SctlrEl2 } else { Cell::SctlrEl1 }]
    }

    /// Whether every unaligned access faults. With translation off all memory is device memory.
    #[inline(always)]
    fn is_strict(&self) -> bool {
        self.sctlr() & (sctlr::A | sctlr::M) != sctlr::M
    }

    /// Whether a physical address belongs to a device.
    pub(crate) fn is_device(&self, pa: u64) -> bool {
        self.config.mmio.iter().any(|range| range.contains(&pa))
    }

    fn place(&self, pa: u64) -> Place {
        if let Some(base) = self.identity.gic_frame
            && pa.wrapping_sub(base) < crate::gic::FRAME_SIZE
        {
            Place::Gic(pa - base)
        } else if self.is_device(pa) {
            Place::Device(pa)
        } else {
            Place::Ram(pa)
        }
    }

    /// The kind of a data access at the present level.
    #[inline(always)]
    fn data_access(&self, is_write: bool, acc: Acc) -> Access {
        let pstate = &self.state.pstate;
        let is_user = match pstate.el {
            0 => true,
            1 => acc == Acc::Unprivileged && !pstate.uao,
            _ => false,
        };
        match (is_user, pstate.pan && pstate.el == 1, is_write) {
            (true, _, false) => Access::ReadUser,
            (true, _, true) => Access::WriteUser,
            (false, false, false) => Access::ReadPriv,
            (false, false, true) => Access::WritePriv,
            (false, true, false) => Access::ReadPan,
            (false, true, true) => Access::WritePan,
        }
    }

    fn wxn(&self) -> bool {
        self.sctlr() & sctlr::WXN != 0
    }

    /// ASID in use.
    fn asid(&self) -> u16 {
        let tcr = self.sys[Cell::TcrEl1];
        let ttbr = if tcr & tcr::A1 != 0 { Cell::Ttbr1El1 } else { Cell::Ttbr0El1 };
        self.asid_of(self.sys[ttbr])
    }

    /// ASID in bits 63:48 of a register or operand.
    fn asid_of(&self, value: u64) -> u16 {
        let asid = (value >> 48) as u16;
        if self.sys[Cell::TcrEl1] & tcr::AS != 0 { asid } else { asid & 0xff }
    }

    /// The address without a tag that is ignored.
    fn untagged(&self, va: u64) -> u64 {
        let tcr = self.sys[if self.is_el2() { Cell::TcrEl2 } else { Cell::TcrEl1 }];
        let is_upper = va >> 55 & 1 != 0;
        let ignored = match (self.is_el2(), is_upper) {
            (true, _) => tcr >> 20 & 1 != 0,
            (false, false) => tcr & tcr::TBI0 != 0,
            (false, true) => tcr & tcr::TBI1 != 0,
        };
        if ignored { ((va << 8) as i64 >> 8) as u64 } else { va }
    }

    /// How `va`, which has no tag, is translated; `None` where no table is for it.
    ///
    /// Source: \[ArmARM\] "TCR_EL1": T0SZ 16 to 39 with the 4 KiB granule; other values are taken
    /// as the nearest. Status: spec, assumed.
    fn regime(&self, va: u64) -> Option<Regime> {
        let has_hafdbs = self.has(Features::HAFDBS);
        let width = |tsz: u64| 64 - (tsz as u32 & 63).clamp(16, 39);
        let output_bits =
            |ips: u64| OUTPUT_BITS[(ips & 7) as usize].min(self.config.phys_addr_bits);
        if self.is_el2() {
            let tcr = self.sys[Cell::TcrEl2];
            let bits = width(tcr & 63);
            return (va >> bits == 0).then_some(Regime {
                space: Space { asid: 0, is_el2: true },
                root: self.sys[Cell::Ttbr0El2] & 0x0000_ffff_ffff_fffe,
                bits,
                output_bits: output_bits(tcr >> 16),
                mair: self.sys[Cell::MairEl2],
                is_hierarchical: tcr >> 24 & 1 == 0,
                sets_access: has_hafdbs && tcr >> 21 & 1 != 0,
                sets_dirty: has_hafdbs && tcr >> 22 & 1 != 0,
            });
        }
        let tcr = self.sys[Cell::TcrEl1];
        let is_upper = va >> 55 & 1 != 0;
        let (bits, off, flat, ttbr) = if is_upper {
            (width(tcr >> 16), tcr::EPD1, tcr::HPD1, Cell::Ttbr1El1)
        } else {
            (width(tcr), tcr::EPD0, tcr::HPD0, Cell::Ttbr0El1)
        };
        let top = if is_upper { !va } else { va } >> bits;
        (top == 0 && tcr & off == 0).then_some(Regime {
            space: Space { asid: self.asid(), is_el2: false },
            root: self.sys[ttbr] & 0x0000_ffff_ffff_fffe,
            bits,
            output_bits: output_bits(tcr >> 32),
            mair: self.sys[Cell::MairEl1],
            is_hierarchical: tcr & flat == 0,
            sets_access: has_hafdbs && tcr & tcr::HA != 0,
            sets_dirty: has_hafdbs && tcr & tcr::HD != 0,
        })
    }
}

/// A data or instruction abort at `va`.
fn fault(va: u64, access: Access, status: u32) -> Exception {
    let (class, write) = if access.is_fetch() {
        (Ec::InstructionAbortLower, 0)
    } else {
        (Ec::DataAbortLower, if access.is_write() { abort::WNR } else { 0 })
    };
    Exception { class, iss: status | write, far: Some(va), level: 1, is_after: false }
}

/// The same abort of a cache maintenance instruction: "WnR is set to 1".
fn as_maintenance(trap: crate::ctx::Trap) -> crate::ctx::Trap {
    use crate::ctx::Trap;
    match trap {
        Trap::Fault(e) if e.class == Ec::DataAbortLower => {
            Trap::Fault(Exception { iss: e.iss | abort::CM | abort::WNR, ..e })
        }
        other => other,
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Physical address of an access that needs no further look.
    #[inline(always)]
    fn fast(&self, va: u64, size: u8, access: Access) -> Option<PhysAddr> {
        let size = u64::from(size);
        if va & 63 > 64 - size || va & (size - 1) != 0 && self.cpu.is_strict() {
            return None;
        }
        self.cpu.tlb.micro(va, access).map(PhysAddr)
    }

    /// As `fast`, for an access that must be aligned to its size.
    #[inline(always)]
    fn fast_aligned(&self, va: u64, size: u8, access: Access) -> Option<PhysAddr> {
        if va & u64::from(size - 1) == 0 { self.fast(va, size, access) } else { None }
    }

    /// Reads `size` bytes (1, 2, 4, 8), zero-extended.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    #[inline]
    pub fn read(&mut self, va: u64, size: u8, acc: Acc) -> Exec<u64> {
        let access = self.cpu.data_access(false, acc);
        if matches!(acc, Acc::Acquire | Acc::AcquirePc) {
            return self.read_acquire(va, size, acc, access);
        }
        if let Some(pa) = self.fast(va, size, access) {
            return Ok(self.port.load(pa, size)?);
        }
        self.read_slow(va, size, access)
    }

    /// Writes the low `size` bytes (1, 2, 4, 8) of `value`.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    #[inline]
    pub fn write(&mut self, va: u64, size: u8, value: u64, acc: Acc) -> Exec<()> {
        let access = self.cpu.data_access(true, acc);
        if acc != Acc::Release
            && let Some(pa) = self.fast(va, size, access)
        {
            let value = value & u64::MAX >> (64 - 8 * u32::from(size));
            return Ok(self.port.store(pa, size, value)?);
        }
        self.write_slow(va, size, value, acc, access)
    }

    #[inline(never)]
    fn read_slow(&mut self, va: u64, size: u8, access: Access) -> Exec<u64> {
        let span = self.span(va, size, access, Align::Normal)?;
        self.read_at(span, 0, size)
    }

    /// LDAR waits for older STLR (`engine.md` A3); LDAPR does not.
    fn read_acquire(&mut self, va: u64, size: u8, acc: Acc, access: Access) -> Exec<u64> {
        let order = if acc == Acc::Acquire { Order::Acquire } else { Order::AcquirePc };
        if let Some(pa) = self.fast_aligned(va, size, access) {
            self.port.order(order);
            return Ok(self.port.load(pa, size)?);
        }
        let span = self.span(va, size, access, Align::Always)?;
        self.port.order(order);
        self.read_at(span, 0, size)
    }

    #[inline(never)]
    fn write_slow(&mut self, va: u64, size: u8, value: u64, acc: Acc, on: Access) -> Exec<()> {
        let align = if acc == Acc::Release { Align::Always } else { Align::Normal };
        let span = self.span(va, size, on, align)?;
        if acc == Acc::Release {
            self.port.order(Order::Release);
        }
        self.write_at(span, 0, size, value)
    }

    /// Reads 16 bytes.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn read_wide(&mut self, va: u64) -> Exec<u128> {
        let access = self.cpu.data_access(false, Acc::Plain);
        if let Some(pa) = self.fast(va, 16, access) {
            return Ok(self.port.load_wide(pa)?);
        }
        let span = self.span(va, 16, access, Align::Normal)?;
        if let Place::Ram(pa) = span.first
            && va & 63 <= 48
        {
            return Ok(self.port.load_wide(PhysAddr(pa))?);
        }
        let low = self.read_at(span, 0, 8)?;
        let high = self.read_at(span, 8, 8)?;
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    /// Writes 16 bytes.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn write_wide(&mut self, va: u64, value: u128) -> Exec<()> {
        let access = self.cpu.data_access(true, Acc::Plain);
        if let Some(pa) = self.fast(va, 16, access) {
            return Ok(self.port.store_wide(pa, value)?);
        }
        let span = self.span(va, 16, access, Align::Normal)?;
        if let Place::Ram(pa) = span.first
            && va & 63 <= 48
        {
            return Ok(self.port.store_wide(PhysAddr(pa), value)?);
        }
        self.write_at(span, 0, 8, value as u64)?;
        self.write_at(span, 8, 8, (value >> 64) as u64)
    }

    /// Checks that `size` bytes can be written, before the first store of several.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn probe_write(&mut self, va: u64, size: u8) -> Exec<()> {
        let access = self.cpu.data_access(true, Acc::Plain);
        if self.fast(va, size.next_power_of_two(), access).is_none() {
            self.span(va, size, access, Align::Normal)?;
        }
        Ok(())
    }

    /// Reads `size` bytes (1 to 8, 16 for a pair) and reserves them.
    ///
    /// The reservation is that of the line, in the engine; WFE sees it fall.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn read_exclusive(&mut self, va: u64, size: u8, acquire: bool) -> Exec<u128> {
        let access = self.cpu.data_access(false, Acc::Plain);
        let pa = self.atomic_address(va, size, access)?;
        self.port.order(Atomic { acquire, release: false }.order());
        Ok(self.port.load_exclusive(pa, size)?)
    }

    /// Writes `size` bytes if they are still reserved; returns whether it did.
    ///
    /// Source: \[ArmARM\] "Exclusive access instructions and Non-shareable memory locations": a
    /// store to another address of the line, or of another size, may succeed; here it does.
    /// Status: spec.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn write_exclusive(&mut self, va: u64, size: u8, value: u128, release: bool) -> Exec<bool> {
        let access = self.cpu.data_access(true, Acc::Plain);
        let pa = self.atomic_address(va, size, access)?;
        self.port.order(Atomic { acquire: false, release }.order());
        Ok(self.port.store_exclusive(pa, size, value)?)
    }

    /// Gives up the reservation: CLREX, exception return.
    pub fn clear_exclusive(&mut self) {
        self.port.disarm_monitor();
    }

    /// Reads, and if `change` returns a value writes, `size` bytes (1 to 8, 16 for a pair) with
    /// nothing in between. Returns the old value.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn rmw(
        &mut self,
        va: u64,
        size: u8,
        order: Atomic,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Exec<u128> {
        let access = self.cpu.data_access(true, Acc::Plain);
        let pa = self.atomic_address(va, size, access)?;
        self.port.order(order.order());
        Ok(self.port.rmw(pa, size, change)?)
    }

    /// As [`Ctx::rmw`], for an update that may be made at the line's home, and later if its result
    /// is not wanted.
    ///
    /// # Errors
    /// Data aborts, `Wait`.
    pub fn update(
        &mut self,
        va: u64,
        size: u8,
        order: Atomic,
        update: Update,
        wants_result: bool,
    ) -> Exec<u64> {
        let access = self.cpu.data_access(true, Acc::Plain);
        let pa = self.atomic_address(va, size, access)?;
        self.port.order(order.order());
        Ok(self.port.update(pa, size, update, wants_result)?)
    }

    /// Physical address in memory of an exclusive or atomic access.
    ///
    /// Source: \[ArmARM\] "Unsupported exclusive or atomic access" for devices. Status: spec.
    fn atomic_address(&mut self, va: u64, size: u8, access: Access) -> Exec<PhysAddr> {
        if let Some(pa) = self.fast_aligned(va, size, access) {
            return Ok(pa);
        }
        match self.span(va, size, access, Align::Always)?.first {
            Place::Ram(pa) => Ok(PhysAddr(pa)),
            Place::Device(_) | Place::Gic(_) => Err(fault(va, access, fsc::EXCLUSIVE).into()),
        }
    }

    /// DMB, DSB, ISB, SB.
    ///
    /// # Errors
    /// `Wait`.
    pub fn barrier(&mut self, barrier: Barrier) -> Exec<()> {
        match barrier {
            Barrier::Dmb(BarrierTypes::Stores) => self.port.fence(Fence::Stores)?,
            Barrier::Dmb(types) => {
                let stores = types == BarrierTypes::All;
                self.port.fence(Fence::Accesses { stores })?;
            }
            Barrier::Dsb(BarrierTypes::Loads) => self.port.fence(Fence::Load)?,
            Barrier::Dsb(_) => {
                self.port.fence(Fence::Full)?;
                self.port.fence(Fence::Answers)?;
            }
            Barrier::Isb | Barrier::Sb => {
                self.port.fence(Fence::Load)?;
                self.port.serialise();
            }
        }
        Ok(())
    }

    /// Checks the stack pointer as base of an access.
    ///
    /// # Errors
    /// EC 0x26.
    ///
    /// Source: \[ArmARM\] "SP alignment checking".
    #[inline]
    pub fn check_sp(&self) -> Exec<()> {
        let check = if self.cpu.state.pstate.el == 0 { sctlr::SA0 } else { sctlr::SA };
        if self.cpu.state.x_sp(31) & 15 == 0 || self.cpu.sctlr() & check == 0 {
            return Ok(());
        }
        let class = Ec::SpAlignment;
        Err(Exception { class, iss: 0, far: None, level: 1, is_after: false }.into())
    }

    /// Physical address of an instruction.
    ///
    /// # Errors
    /// Misaligned program counter, instruction aborts, `Wait`.
    pub fn translate_fetch(&mut self, va: u64) -> Exec<u64> {
        if va & 3 != 0 {
            let class = Ec::PcAlignment;
            let far = Some(va);
            return Err(Exception { class, iss: 0, far, level: 1, is_after: false }.into());
        }
        let is_user = self.cpu.state.pstate.el == 0;
        let access = if is_user { Access::ExecUser } else { Access::ExecPriv };
        let pa = self.translate(va, access)?.0;
        match self.cpu.place(pa) {
            Place::Ram(pa) => Ok(pa),
            // No code in devices.
            _ => Err(fault(va, access, fsc::EXTERNAL).into()),
        }
    }

    /// Place of a byte for cache maintenance, which faults as a read.
    pub(crate) fn maintain(&mut self, va: u64, writes: bool) -> Exec<Option<PhysAddr>> {
        let access = self.cpu.data_access(writes, Acc::Plain);
        let pa = self.translate(va, access).map_err(as_maintenance)?.0;
        Ok(match self.cpu.place(pa) {
            Place::Ram(pa) => Some(PhysAddr(pa)),
            _ => None,
        })
    }

    /// DC ZVA: writes the block of 64 bytes with zeroes.
    ///
    /// Source: \[ArmARM\] "DC ZVA": alignment fault on device memory. Status: spec.
    pub(crate) fn zero_block(&mut self, va: u64) -> Exec<()> {
        let access = self.cpu.data_access(true, Acc::Plain);
        let (pa, is_device) = self.translate(va, access)?;
        let is_off = self.cpu.sctlr() & sctlr::M == 0;
        match self.cpu.place(pa & !63) {
            Place::Ram(pa) if !is_device && !is_off => {
                for at in (0..64).step_by(16) {
                    self.port.store_wide(PhysAddr(pa + at), 0)?;
                }
                Ok(())
            }
            _ => Err(fault(va, access, fsc::ALIGNMENT).into()),
        }
    }

    fn span(&mut self, va: u64, size: u8, access: Access, align: Align) -> Exec<Span> {
        let is_aligned = va & (u64::from(size).next_power_of_two() - 1) == 0;
        let unaligned = fault(va, access, fsc::ALIGNMENT);
        if !is_aligned {
            let in_16 = (va & 15) + u64::from(size) <= 16;
            let may = align == Align::Normal || self.cpu.has(Features::LSE2) && in_16;
            if self.cpu.is_strict() || !may {
                return Err(unaligned.into());
            }
        }
        let in_page = 0x1000 - (va & 0xfff);
        let (pa, is_device) = self.translate(va, access)?;
        if is_device && !is_aligned {
            return Err(unaligned.into());
        }
        let first = self.cpu.place(pa);
        if in_page >= u64::from(size) {
            return Ok(Span { first, first_len: size, second: first, size, va, access });
        }
        let next = va.wrapping_add(in_page);
        let (pa, is_device) = self.translate(next, access)?;
        if is_device {
            return Err(fault(next, access, fsc::ALIGNMENT).into());
        }
        let (first_len, second) = (in_page as u8, self.cpu.place(pa));
        Ok(Span { first, first_len, second, size, va, access })
    }

    /// Reads bytes `at..at + len` of a span, at most 8.
    fn read_at(&mut self, span: Span, at: u8, len: u8) -> Exec<u64> {
        let mut value = 0;
        let mut done = 0;
        while done < len {
            let (place, room) = span.piece(at + done);
            let n = room.min(len - done);
            value |= self.read_piece(&span, place, n)? << (8 * u32::from(done));
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
            self.write_piece(&span, place, n, value >> (8 * u32::from(done)))?;
            done += n;
        }
        Ok(())
    }

    /// Accesses a device.
    ///
    /// # Errors
    /// A synchronous external abort where nobody answers, of loads and, as each waits for its
    /// answer, of stores too.
    ///
    /// Source: \[ArmARM\] "External aborts"; which of them are synchronous is IMPLEMENTATION
    /// DEFINED. Status: spec for loads, assumed for stores.
    fn device(&mut self, span: &Span, access: DeviceAccess) -> Exec<u64> {
        let value = self.port.device(access)?;
        value.ok_or_else(|| fault(span.va, span.access, fsc::EXTERNAL).into())
    }

    /// Reads 1 to 8 bytes of one line.
    fn read_piece(&mut self, span: &Span, place: Place, len: u8) -> Exec<u64> {
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
                    let space = PortSpace::Memory;
                    let access = DeviceAccess { space, addr, size, write: None };
                    value |= self.device(span, access)? << (8 * u32::from(at));
                }
                Ok(value & mask)
            }
            Place::Gic(offset) => self.read_gic_frame(offset, len),
        }
    }

    /// Writes 1 to 8 bytes of one line.
    fn write_piece(&mut self, span: &Span, place: Place, len: u8, value: u64) -> Exec<()> {
        if let Place::Gic(offset) = place {
            let mask = u64::MAX >> (64 - 8 * u32::from(len));
            return self.write_gic_frame(offset, len, value & mask);
        }
        for (at, size) in powers(len) {
            let value = value >> (8 * u32::from(at)) & u64::MAX >> (64 - 8 * u32::from(size));
            match place.offset(u64::from(at)) {
                Place::Ram(pa) => self.port.store(PhysAddr(pa), size, value)?,
                Place::Device(addr) | Place::Gic(addr) => {
                    let (space, write) = (PortSpace::Memory, Some(value));
                    self.device(span, DeviceAccess { space, addr, size, write })?;
                }
            }
        }
        Ok(())
    }

    /// Translates a virtual address to a physical one, with whether it is of a device type.
    ///
    /// The TLB does not change while an instruction runs (`tlb`), so a run again asks the step log
    /// at the same misses.
    ///
    /// # Errors
    /// Aborts, `Wait`.
    fn translate(&mut self, va: u64, access: Access) -> Exec<(u64, bool)> {
        if self.cpu.sctlr() & sctlr::M == 0 {
            // "Flat" with translation off.
            let pa = self.cpu.untagged(va);
            if pa >> self.cpu.config.phys_addr_bits != 0 {
                return Err(fault(va, access, fsc::ADDRESS_SIZE).into());
            }
            self.note_data(va, pa, access, u8::MAX, true);
            return Ok((pa, false));
        }
        let page = self.find_page(va, access).map_err(|miss| match miss {
            Miss::Wait => crate::ctx::Trap::Wait,
            Miss::Fault(status) => fault(va, access, status).into(),
        })?;
        let (pa, rights) = (page.physical(self.cpu.untagged(va)), page.rights());
        if !rights.is_device {
            self.note_data(va, pa, access, rights.allowed(self.cpu.wxn()), rights.is_dirty);
        }
        Ok((pa, rights.is_device))
    }

    /// Looks a page up in the TLB, the step log, the tables.
    fn find_page(&mut self, va: u64, access: Access) -> Result<Translation, Miss> {
        let va = self.cpu.untagged(va);
        let Some(regime) = self.cpu.regime(va) else { return Err(Miss::Fault(fsc::TRANSLATION)) };
        let (space, is_code) = (regime.space, access.is_fetch());
        let found = match self.cpu.tlb.find(va, space, is_code) {
            Some(Hit::First(page)) => Some((page, false)),
            Some(Hit::Second(page)) => Some((page, true)),
            None => None,
        };
        if let Some((page, is_second)) = found
            && is_allowed(page, self.cpu.wxn(), access)
        {
            if is_second {
                self.port.extra_latency(self.cpu.tlb.second_latency());
                self.cpu.tlb.note_fill(va, space, is_code, page);
            }
            return Ok(page);
        }
        let page = match self.port.logged_translation() {
            Some(bits) => Translation::from_bits(bits),
            None => {
                let page = self.walk(&regime, va, access)?;
                self.port.translated(page.bits());
                page
            }
        };
        self.cpu.tlb.note_fill(va, space, is_code, page);
        Ok(page)
    }

    fn note_data(&mut self, va: u64, pa: u64, access: Access, allowed: u8, is_dirty: bool) {
        if !access.is_fetch() && matches!(self.cpu.place(pa), Place::Ram(_)) {
            self.cpu.tlb.note_micro(va, pa, allowed, is_dirty);
        }
    }

    /// Walks the page tables until a pass needs no more updates.
    ///
    /// "A walk that would fault or set A/D drains the store buffer first and walks again"
    /// (`engine.md` section 5).
    fn walk(&mut self, regime: &Regime, va: u64, access: Access) -> Result<Translation, Miss> {
        self.port.begin_walk();
        let mut is_drained = false;
        for _ in 0..WALK_RETRIES_MAX {
            match self.walk_once(regime, va, access)? {
                Walk::Page(page) => return Ok(page),
                _ if !is_drained => {
                    self.port.fence(Fence::Full)?;
                    is_drained = true;
                }
                Walk::Fault(status) => return Err(Miss::Fault(status)),
                Walk::Update(page, at, expected, new) => {
                    let expected = u128::from(expected);
                    let mut change = |old: u128| (old == expected).then_some(u128::from(new));
                    if self.port.rmw(PhysAddr(at), 8, &mut change)? == expected {
                        return Ok(page);
                    }
                }
            }
        }
        // Another cpu changes the descriptor without end; the walk's own order decides nothing.
        Err(Miss::Fault(fsc::ACCESS_FLAG | 3))
    }

    /// Source: \[ArmARM\] "Translation table walk", "Hierarchical control of data access
    /// permissions". Status: spec.
    fn walk_once(&mut self, regime: &Regime, va: u64, access: Access) -> Result<Walk, Miss> {
        let levels = (regime.bits - 12).div_ceil(9);
        let first = 4 - levels;
        let beyond = |pa: u64| pa >> regime.output_bits != 0;
        // The first table may be a short one, aligned to its size.
        let short = regime.bits - (12 + 9 * (levels - 1)) + 3;
        let mut table = regime.root & !((1 << short.max(6)) - 1);
        if beyond(table) {
            return Ok(Walk::Fault(fsc::ADDRESS_SIZE));
        }
        let mut inherited = 0;
        for level in first..4 {
            let shift = 12 + 9 * (3 - level);
            let bits = if level == first { regime.bits - shift } else { 9 };
            let at = table + (va >> shift & ((1 << bits) - 1)) * 8;
            let entry = self.port.load(PhysAddr(at), 8)?;
            let is_table = entry & descriptor::TABLE != 0;
            let is_valid = entry & descriptor::VALID != 0 && (is_table || matches!(level, 1 | 2));
            if !is_valid {
                return Ok(Walk::Fault(fsc::TRANSLATION | level));
            }
            if beyond(entry & descriptor::ADDRESS) {
                return Ok(Walk::Fault(fsc::ADDRESS_SIZE | level));
            }
            if level == 3 || !is_table {
                let wxn = self.cpu.wxn();
                return Ok(leaf(regime, level, at, entry, inherited, (access, wxn)));
            }
            if regime.is_hierarchical {
                inherited |= entry;
            }
            table = entry & descriptor::ADDRESS;
        }
        Ok(Walk::Fault(fsc::TRANSLATION | 3))
    }

    /// Translates for AT: the value of PAR_EL1.
    ///
    /// Source: \[ArmARM\] "PAR_EL1". Status: spec.
    pub(crate) fn probe_translation(&mut self, va: u64, access: Access) -> Exec<u64> {
        const RES1: u64 = 1 << 11;
        if self.cpu.sctlr() & sctlr::M == 0 {
            return Ok(RES1 | va & descriptor::ADDRESS);
        }
        match self.find_page(va, access) {
            Ok(page) => {
                let (attributes, shareability) = page.memory();
                let pa = page.physical(self.cpu.untagged(va)) & descriptor::ADDRESS;
                Ok(u64::from(attributes) << 56 | pa | RES1 | u64::from(shareability) << 7)
            }
            Err(Miss::Fault(status)) => Ok(RES1 | u64::from(status) << 1 | 1),
            Err(Miss::Wait) => Err(crate::ctx::Trap::Wait),
        }
    }

    /// ASID of an operand of TLBI.
    pub(crate) fn tlbi_asid(&self, x: u64) -> u16 {
        self.cpu.asid_of(x)
    }
}

/// Why no translation is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Miss {
    Wait,
    /// Fault status.
    Fault(u32),
}

impl From<emu_cpu::port::Wait> for Miss {
    fn from(_: emu_cpu::port::Wait) -> Miss {
        Miss::Wait
    }
}

/// Ends a walk at a page or block descriptor; `inherited` has the permission bits of the tables.
fn leaf(
    regime: &Regime,
    level: u32,
    at: u64,
    entry: u64,
    inherited: u64,
    (access, wxn): (Access, bool),
) -> Walk {
    let is_el2 = regime.space.is_el2;
    let may_dirty = regime.sets_dirty && entry & descriptor::DBM != 0;
    let is_clean = entry & descriptor::READ_ONLY != 0;
    let no_exec = entry & descriptor::UXN != 0 || inherited & descriptor::TABLE_UXN != 0;
    let memory = (regime.mair >> (8 * (entry >> 2 & 7))) as u8;
    let rights = PageRights {
        is_writable: (!is_clean || may_dirty) && inherited & descriptor::TABLE_READ_ONLY == 0,
        is_user: !is_el2
            && entry & descriptor::USER != 0
            && inherited & descriptor::TABLE_NO_USER == 0,
        is_uxn: no_exec,
        is_pxn: if is_el2 {
            no_exec
        } else {
            entry & descriptor::PXN != 0 || inherited & descriptor::TABLE_PXN != 0
        },
        is_dirty: !is_clean || access.is_write(),
        is_global: is_el2 || entry & descriptor::NG == 0,
        is_device: memory >> 4 == 0,
    };
    let has_access = entry & descriptor::AF != 0;
    if !has_access && !regime.sets_access {
        return Walk::Fault(fsc::ACCESS_FLAG | level);
    }
    if rights.allowed(wxn) >> access as u8 & 1 == 0 {
        return Walk::Fault(fsc::PERMISSION | level);
    }
    let size = [PageSize::Huge, PageSize::Medium, PageSize::Small][level as usize - 1];
    let frame = entry & descriptor::ADDRESS & !((1 << size.shift()) - 1);
    let page = Translation::new(frame, size, rights, (memory, (entry >> 8 & 3) as u8));
    let mut new = entry | descriptor::AF;
    if access.is_write() && is_clean {
        new &= !descriptor::READ_ONLY;
    }
    if new == entry { Walk::Page(page) } else { Walk::Update(page, at, entry, new) }
}

fn is_allowed(page: Translation, wxn: bool, access: Access) -> bool {
    let rights = page.rights();
    rights.allowed(wxn) >> access as u8 & 1 != 0 && (rights.is_dirty || !access.is_write())
}

impl Span {
    /// Place of byte `at`, and how many bytes from there lie in the same line.
    fn piece(self, at: u8) -> (Place, u8) {
        let (place, left) = if at < self.first_len {
            (self.first.offset(u64::from(at)), self.first_len - at)
        } else {
            (self.second.offset(u64::from(at - self.first_len)), self.size - at)
        };
        let (Place::Ram(addr) | Place::Device(addr) | Place::Gic(addr)) = place;
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
