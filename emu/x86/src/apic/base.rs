//! IA32_APIC_BASE: the mode of the APIC and which changes of it are legal.
//!
//! What a change of mode does to the other registers stands in `local`.

use super::defs::{BASE_ADDRESS_RESET, BASE_BSP, BASE_EN, BASE_EXTD};

/// Mode of the local APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Globally disabled: no registers, no messages.
    Disabled,
    /// Registers in memory, 8-bit IDs.
    XApic,
    /// Registers as MSRs, 32-bit IDs.
    X2Apic,
}

/// Value of IA32_APIC_BASE; its mode bits are always one of the three legal pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApicBase(u64);

impl ApicBase {
    /// Value after power-up: xAPIC mode at the standard address.
    pub(super) const fn reset(is_bsp: bool) -> ApicBase {
        ApicBase(BASE_ADDRESS_RESET | BASE_EN | if is_bsp { BASE_BSP } else { 0 })
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }

    pub(super) const fn mode(self) -> Mode {
        match (self.0 & BASE_EN != 0, self.0 & BASE_EXTD != 0) {
            (false, _) => Mode::Disabled,
            (true, false) => Mode::XApic,
            (true, true) => Mode::X2Apic,
        }
    }

    /// Value after software writes `value`; `None` is #GP.
    ///
    /// Source: [SDM-3] "x2APIC State Transitions": EXTD without EN is invalid, and neither
    /// disabled to x2APIC nor x2APIC to xAPIC is a legal step. Status: spec. The BSP flag keeps
    /// what is written ("R/W" in the MSR table).
    pub(super) const fn after_write(
        self,
        value: u64,
        phys_addr_bits: u32,
        has_x2apic: bool,
    ) -> Option<ApicBase> {
        let address = ((1u64 << phys_addr_bits) - 1) & !0xfff;
        let mut legal = address | BASE_BSP | BASE_EN;
        if has_x2apic {
            legal |= BASE_EXTD;
        }
        if value & !legal != 0 || value & (BASE_EN | BASE_EXTD) == BASE_EXTD {
            return None;
        }
        let next = ApicBase(value);
        match (self.mode(), next.mode()) {
            (Mode::Disabled, Mode::X2Apic) | (Mode::X2Apic, Mode::XApic) => None,
            _ => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISABLED: u64 = 0;
    const INVALID: u64 = BASE_EXTD;
    const XAPIC: u64 = BASE_EN;
    const X2APIC: u64 = BASE_EN | BASE_EXTD;

    #[test]
    fn mode_changes_follow_the_state_diagram() {
        // from, to, legal: all states against all values of (EN, EXTD).
        let table = [
            (DISABLED, DISABLED, true),
            (DISABLED, INVALID, false),
            (DISABLED, XAPIC, true),
            (DISABLED, X2APIC, false),
            (XAPIC, DISABLED, true),
            (XAPIC, INVALID, false),
            (XAPIC, XAPIC, true),
            (XAPIC, X2APIC, true),
            (X2APIC, DISABLED, true),
            (X2APIC, INVALID, false),
            (X2APIC, XAPIC, false),
            (X2APIC, X2APIC, true),
        ];
        for (from, to, legal) in table {
            let value = BASE_ADDRESS_RESET | to;
            let next = ApicBase(BASE_ADDRESS_RESET | from).after_write(value, 48, true);
            assert_eq!(next, legal.then_some(ApicBase(value)), "{from:#x} to {to:#x}");
        }
    }

    #[test]
    fn reserved_bits_fault() {
        let base = ApicBase::reset(true);
        for bit in 0..64 {
            let reserved = bit < 8 || bit == 9 || bit >= 48;
            let value = XAPIC | 1 << bit;
            assert_eq!(base.after_write(value, 48, true).is_none(), reserved, "bit {bit}");
        }
        assert_eq!(base.after_write(X2APIC, 48, false), None, "no x2APIC on this part");
    }

    #[test]
    fn reset_is_xapic_at_the_standard_address() {
        assert_eq!(ApicBase::reset(true).value(), 0xfee0_0900);
        assert_eq!(ApicBase::reset(false).value(), 0xfee0_0800);
        assert_eq!(ApicBase::reset(false).mode(), Mode::XApic);
    }
}
