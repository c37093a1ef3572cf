//! Register map of the test device: one uncached page of aligned 8-byte registers.
//!
//! Any other access reads 0, writes nothing and is reported once. Registers that select
//! something for the next access ([`Register::SampleId`], [`Register::CpuSelect`],
//! [`Register::LineAddress`]) latch it *per CPU*, so that two CPUs never mix their pairs.

/// Bytes of the device's page.
pub const PAGE_BYTES: u64 = 4096;

/// Value of [`Register::Id`]: `"XCAL"` in the upper half, the version in the lower.
pub const ID_VALUE: u64 = 0x5843_414c_0000_0001;

/// A register of the test device; the value is its byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Register {
    /// Reads [`ID_VALUE`].
    Id = 0x00,
    /// Reads the number of CPUs.
    CpuCount = 0x08,
    /// Writing appends the low byte to the console.
    Console = 0x10,
    /// Writing ends the run with a code of [`crate::exit`].
    Exit = 0x18,
    /// Writing begins the region of interest with that id; forks and start offsets happen here.
    RegionBegin = 0x20,
    /// Writing ends the region of interest with that id.
    RegionEnd = 0x28,
    /// Writing selects the sample id of this CPU's next [`Register::SampleValue`].
    SampleId = 0x30,
    /// Writing records one value under the selected id.
    SampleValue = 0x38,
    /// Writing selects the CPU that [`Register::CpuState`] reports to this CPU.
    CpuSelect = 0x40,
    /// Reads the [`RunState`] of the selected CPU.
    CpuState = 0x48,
    /// Writing sets the address that this CPU's next [`Register::LineClass`] describes.
    LineAddress = 0x50,
    /// Writing declares a class, see [`line_class_word`].
    LineClass = 0x58,
    /// Reads the seed of the run; valid after region begin, since forks share the boot.
    Seed = 0x60,
}

impl Register {
    /// All registers in order of offset.
    pub const ALL: [Register; 13] = [
        Register::Id,
        Register::CpuCount,
        Register::Console,
        Register::Exit,
        Register::RegionBegin,
        Register::RegionEnd,
        Register::SampleId,
        Register::SampleValue,
        Register::CpuSelect,
        Register::CpuState,
        Register::LineAddress,
        Register::LineClass,
        Register::Seed,
    ];

    /// Byte offset in the device's page.
    pub const fn offset(self) -> u64 {
        self as u64
    }

    /// The register at a byte offset, if there is one.
    pub const fn from_offset(offset: u64) -> Option<Register> {
        if !offset.is_multiple_of(8) || offset > Register::Seed.offset() {
            return None;
        }
        Some(Register::ALL[(offset / 8) as usize])
    }
}

/// What a CPU is doing, as [`Register::CpuState`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RunState {
    /// Executes instructions (or the machine holds or delays it at a point).
    Running = 0,
    /// Waits in HLT.
    Hlt = 1,
    /// Waits in MWAIT, MWAITX or UMWAIT with an armed monitor.
    Mwait = 2,
    /// Waits in WFI.
    Wfi = 3,
    /// Waits in WFE.
    Wfe = 4,
    /// Waits in an idle state that a read of an I/O port entered.
    PortIdle = 5,
    /// Waits for its start: INIT without SIPI, or off in PSCI.
    Off = 6,
}

impl RunState {
    /// The state that a register value stands for, if there is one.
    pub const fn from_value(value: u64) -> Option<RunState> {
        Some(match value {
            0 => RunState::Running,
            1 => RunState::Hlt,
            2 => RunState::Mwait,
            3 => RunState::Wfi,
            4 => RunState::Wfe,
            5 => RunState::PortIdle,
            6 => RunState::Off,
            _ => return None,
        })
    }

    /// Whether the CPU is in an idle wait that an interrupt or a store can end.
    pub const fn is_wait(self) -> bool {
        !matches!(self, RunState::Running | RunState::Off)
    }
}

/// Value for [`Register::LineClass`]: the class in bits 7..0, the length in bytes above.
pub const fn line_class_word(class: crate::class::LineClass, length_bytes: u64) -> u64 {
    length_bytes << 8 | class as u64
}

/// Class and length in bytes of a [`Register::LineClass`] value; `None` for an unknown class.
pub fn line_class_from_word(word: u64) -> Option<(crate::class::LineClass, u64)> {
    let class = crate::class::LineClass::from_value((word & 0xff) as u8)?;
    Some((class, word >> 8))
}

/// Ids of the regions of interest that the guest kernel marks.
pub mod region {
    /// The measured part of a benchmark.
    pub const BENCH: u64 = 1;
    /// The operation of a scenario.
    pub const SCENARIO: u64 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::LineClass;

    #[test]
    fn every_register_is_found_at_its_offset_and_nothing_else_is() {
        for register in Register::ALL {
            assert_eq!(Register::from_offset(register.offset()), Some(register));
        }
        for offset in [0x04, 0x61, 0x68, 0xff8] {
            assert_eq!(Register::from_offset(offset), None);
        }
    }

    #[test]
    fn run_states_round_trip() {
        for value in 0..7 {
            assert_eq!(RunState::from_value(value).map(|state| state as u64), Some(value));
        }
        assert_eq!(RunState::from_value(7), None);
    }

    #[test]
    fn line_class_words_round_trip() {
        let word = line_class_word(LineClass::Csq, 64);
        assert_eq!(line_class_from_word(word), Some((LineClass::Csq, 64)));
        assert_eq!(line_class_from_word(0xff), None);
    }
}
