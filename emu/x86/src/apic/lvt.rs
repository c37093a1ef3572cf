//! The local vector table: what each entry keeps of a write, and what it asks for.

use super::defs::{
    DELIVERY_MASK, DELIVERY_SHIFT, Delivery, LVT_BUSY, LVT_LEVEL, LVT_MASKED, LVT_POLARITY,
    LVT_REMOTE_IRR, LVT_TIMER_DEADLINE, LVT_TIMER_PERIODIC, LVT_VECTOR, LvtEntry, Trigger,
};

const ENTRIES: usize = 7;

/// The entries, each as software reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lvt {
    entries: [u32; ENTRIES],
    has_tsc_deadline: bool,
}

/// What an unmasked entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) vector: u8,
    pub(super) delivery: Delivery,
    pub(super) trigger: Trigger,
}

impl Lvt {
    /// Table after power-up and after INIT: all masked.
    pub(super) const fn reset(has_tsc_deadline: bool) -> Lvt {
        Lvt { entries: [LVT_MASKED; ENTRIES], has_tsc_deadline }
    }

    pub(super) const fn get(&self, entry: LvtEntry) -> u32 {
        self.entries[entry as usize]
    }

    /// Bits that software can set.
    ///
    /// Source: [SDM-3] figure "Local Vector Table (LVT)". Status: spec.
    pub(super) const fn writable(&self, entry: LvtEntry) -> u32 {
        let all = LVT_VECTOR | LVT_MASKED;
        match entry {
            LvtEntry::Timer if self.has_tsc_deadline => {
                all | LVT_TIMER_PERIODIC | LVT_TIMER_DEADLINE
            }
            LvtEntry::Timer => all | LVT_TIMER_PERIODIC,
            LvtEntry::Cmci | LvtEntry::Thermal | LvtEntry::Performance => all | DELIVERY_MASK,
            LvtEntry::Lint0 | LvtEntry::Lint1 => all | DELIVERY_MASK | LVT_POLARITY | LVT_LEVEL,
            LvtEntry::Error => all,
        }
    }

    /// Bits that x2APIC mode accepts in a write: the writable and the read-only ones.
    pub(super) const fn defined(&self, entry: LvtEntry) -> u32 {
        let remote_irr = match entry {
            LvtEntry::Lint0 | LvtEntry::Lint1 => LVT_REMOTE_IRR,
            _ => 0,
        };
        self.writable(entry) | LVT_BUSY | remote_irr
    }

    /// Stores a write; the entry stays masked while the APIC is software disabled.
    ///
    /// Source: [SDM-3] "Local APIC State After It Has Been Software Disabled": "The mask bits
    /// for all the LVT entries are set. Attempts to reset these bits will be ignored."
    /// Status: spec. An illegal vector is found when the entry fires, not here ("may").
    pub(super) fn set(&mut self, entry: LvtEntry, value: u32, is_enabled: bool) {
        let forced = if is_enabled { 0 } else { LVT_MASKED };
        let kept = self.get(entry) & LVT_REMOTE_IRR;
        self.entries[entry as usize] = value & self.writable(entry) | kept | forced;
    }

    pub(super) fn mask(&mut self, entry: LvtEntry) {
        self.entries[entry as usize] |= LVT_MASKED;
    }

    pub(super) fn mask_all(&mut self) {
        for entry in &mut self.entries {
            *entry |= LVT_MASKED;
        }
    }

    /// What `entry` asks for when its source fires; `None` when masked or reserved.
    ///
    /// Source: [SDM-3] "Local Vector Table": the trigger bit counts for fixed delivery only, NMI,
    /// SMI and INIT are always edges, ExtINT always a level; LINT1 "should always be set to 0"
    /// (edge). Status: spec; that lowest priority and start-up do nothing is assumed.
    pub(super) fn request(&self, entry: LvtEntry) -> Option<Request> {
        let value = self.get(entry);
        if value & LVT_MASKED != 0 {
            return None;
        }
        let has_mode = self.writable(entry) & DELIVERY_MASK != 0;
        let delivery =
            if has_mode { Delivery::from_bits(value >> DELIVERY_SHIFT)? } else { Delivery::Fixed };
        if matches!(delivery, Delivery::LowestPriority | Delivery::StartUp) {
            return None;
        }
        let is_level = entry == LvtEntry::Lint0 && value & LVT_LEVEL != 0;
        let trigger = if is_level { Trigger::Level } else { Trigger::Edge };
        Some(Request { vector: value as u8, delivery, trigger })
    }

    /// Marks that a level interrupt of `entry` waits for its EOI; false when it did already.
    pub(super) fn begin_level(&mut self, entry: LvtEntry) -> bool {
        let value = &mut self.entries[entry as usize];
        let first = *value & LVT_REMOTE_IRR == 0;
        *value |= LVT_REMOTE_IRR;
        first
    }

    /// Ends the level interrupts of `vector`.
    pub(super) fn end_level(&mut self, vector: u8) {
        let value = &mut self.entries[LvtEntry::Lint0 as usize];
        if *value as u8 == vector {
            *value &= !LVT_REMOTE_IRR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: u32, of: LvtEntry) -> Option<Request> {
        let mut lvt = Lvt::reset(true);
        lvt.set(of, value, true);
        lvt.request(of)
    }

    #[test]
    fn an_entry_asks_for_what_its_delivery_mode_says() {
        let table = [
            (0x0_0031, Some(Delivery::Fixed)),
            (0x0_0131, None),
            (0x0_0231, Some(Delivery::Smi)),
            (0x0_0331, None),
            (0x0_0400, Some(Delivery::Nmi)),
            (0x0_0500, Some(Delivery::Init)),
            (0x0_0600, None),
            (0x0_0700, Some(Delivery::ExtInt)),
            (0x1_0400, None),
        ];
        for (value, want) in table {
            for of in [LvtEntry::Lint0, LvtEntry::Lint1, LvtEntry::Performance] {
                assert_eq!(entry(value, of).map(|r| r.delivery), want, "{value:#x} {of:?}");
            }
            let fixed = (value & LVT_MASKED == 0).then_some(Delivery::Fixed);
            for of in [LvtEntry::Timer, LvtEntry::Error] {
                assert_eq!(entry(value, of).map(|r| r.delivery), fixed, "{value:#x} {of:?}");
            }
        }
    }

    #[test]
    fn only_lint0_is_level_triggered() {
        let trigger = |of| entry(LVT_LEVEL | 0x31, of).map(|r| r.trigger);
        assert_eq!(trigger(LvtEntry::Lint0), Some(Trigger::Level));
        for of in [LvtEntry::Lint1, LvtEntry::Thermal, LvtEntry::Timer, LvtEntry::Error] {
            assert_eq!(trigger(of), Some(Trigger::Edge), "{of:?}");
        }
    }

    #[test]
    fn masks_hold_while_software_disabled() {
        let mut lvt = Lvt::reset(false);
        lvt.set(LvtEntry::Timer, 0x40, false);
        assert_eq!(lvt.get(LvtEntry::Timer), 0x1_0040);
        lvt.set(LvtEntry::Timer, 0x40, true);
        assert_eq!(lvt.get(LvtEntry::Timer), 0x40);
        lvt.mask_all();
        assert_eq!(lvt.get(LvtEntry::Timer), 0x1_0040);
    }
}
