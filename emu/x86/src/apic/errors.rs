//! The error status register: errors logged since the last write, and those software sees.

/// ESR with the log behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorStatus {
    visible: u32,
    logged: u32,
}

impl ErrorStatus {
    /// Value that software reads.
    pub(super) const fn visible(self) -> u32 {
        self.visible
    }

    /// Logs `bits`; returns whether an error interrupt is due.
    ///
    /// Source: [SDM-3] "Error Handling": a write of the ESR "rearms" the error interrupt.
    /// Status: spec for that; that a masked error interrupt is not made up for when it is
    /// unmasked later is assumed.
    pub(super) fn log(&mut self, bits: u32) -> bool {
        let armed = self.logged == 0;
        self.logged |= bits;
        armed
    }

    /// Moves the log into the visible register and re-arms the interrupt.
    ///
    /// Source: [SDM-3] "Error Handling". Status: spec.
    pub(super) fn latch(&mut self) {
        *self = ErrorStatus { visible: self.logged, logged: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_shows_what_came_since_the_write_before() {
        let mut esr = ErrorStatus::default();
        assert!(esr.log(0x20));
        assert!(!esr.log(0x80), "one interrupt until re-armed");
        assert_eq!(esr.visible(), 0, "not visible before a write");
        esr.latch();
        assert_eq!(esr.visible(), 0xa0);
        assert!(esr.log(0x40), "the write re-armed");
        esr.latch();
        assert_eq!(esr.visible(), 0x40);
        esr.latch();
        assert_eq!(esr.visible(), 0);
    }
}
