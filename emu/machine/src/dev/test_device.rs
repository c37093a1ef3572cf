//! The test device of the guest contract: console, exit, regions, samples, run states, classes.
//!
//! Modelled: the register map of `guests_abi::device`, with the pairs of registers latched per
//! CPU. Not modelled: anything slow; an access costs what an uncached access costs.
//! An access that is no aligned 8-byte access of a register in its direction reads 0, writes
//! nothing and is reported once per offset and direction.

use emu_sim::CpuId;
use guests_abi::class::LineClass;
use guests_abi::device::{ID_VALUE, PAGE_BYTES, Register, line_class_from_word};

/// What a read of the device gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// This value.
    Value(u64),
    /// The run state of that CPU, as `guests_abi::device::RunState`; only the machine knows it.
    RunState(CpuId),
    /// No register: the value is 0, and this is the first time.
    Report(BadAccess),
}

/// What a write to the device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing beyond the device.
    None,
    /// Appends a byte to the console.
    Console(u8),
    /// Ends the run with this code.
    Exit(u64),
    /// Begins a region of interest.
    RegionBegin(u64),
    /// Ends a region of interest.
    RegionEnd(u64),
    /// Records a value.
    Sample {
        /// Series.
        id: u64,
        /// Value.
        value: u64,
    },
    /// Declares the class of the lines that hold `len` bytes from `address`.
    DeclareLines {
        /// First byte, physical.
        address: u64,
        /// Bytes.
        len: u64,
        /// Class.
        class: LineClass,
    },
    /// No register or no such value: nothing happens, and this is the first time.
    Report(BadAccess),
}

/// An access that the device does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAccess {
    /// Who made it.
    pub cpu: CpuId,
    /// Byte offset in the device's page.
    pub offset: u64,
    /// Bytes accessed.
    pub size: u32,
    /// The value written, `None` for a read.
    pub written: Option<u64>,
}

/// What one CPU has selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Latch {
    sample_id: u64,
    cpu_select: u64,
    line_address: u64,
}

/// One bit for each byte offset of the page.
type OffsetSet = [u64; 64];

/// The test device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestDevice {
    seed: u64,
    latches: Vec<Latch>,
    reported_reads: OffsetSet,
    reported_writes: OffsetSet,
}

impl TestDevice {
    /// Makes the device of a machine with `cpus` CPUs.
    #[must_use]
    pub fn new(cpus: usize, seed: u64) -> Self {
        TestDevice {
            seed,
            latches: vec![Latch::default(); cpus],
            reported_reads: [0; 64],
            reported_writes: [0; 64],
        }
    }

    /// Changes what the seed register reads; a fork at region begin does this.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Reads `size` bytes at `offset` into the page for `cpu`.
    pub fn read(&mut self, cpu: CpuId, offset: u64, size: u32) -> Read {
        let latch = self.latches.get(cpu.index()).copied().unwrap_or_default();
        let register = Register::from_offset(offset).filter(|_| size == 8);
        match register {
            Some(Register::Id) => Read::Value(ID_VALUE),
            Some(Register::CpuCount) => Read::Value(self.latches.len() as u64),
            Some(Register::SampleId) => Read::Value(latch.sample_id),
            Some(Register::CpuSelect) => Read::Value(latch.cpu_select),
            Some(Register::LineAddress) => Read::Value(latch.line_address),
            Some(Register::Seed) => Read::Value(self.seed),
            Some(Register::CpuState) if latch.cpu_select < self.latches.len() as u64 => {
                // The latched number was just compared with a table that indices of 32 bits span.
                Read::RunState(CpuId(u32::try_from(latch.cpu_select).unwrap_or(u32::MAX)))
            }
            _ => {
                let access = BadAccess { cpu, offset, size, written: None };
                if is_new(&mut self.reported_reads, offset) {
                    Read::Report(access)
                } else {
                    Read::Value(0)
                }
            }
        }
    }

    /// Writes `size` bytes at `offset` into the page for `cpu`.
    pub fn write(&mut self, cpu: CpuId, offset: u64, size: u32, value: u64) -> Effect {
        let register = Register::from_offset(offset).filter(|_| size == 8);
        if let (Some(register), Some(latch)) = (register, self.latches.get_mut(cpu.index())) {
            match register {
                Register::Console => return Effect::Console(value.to_le_bytes()[0]),
                Register::Exit => return Effect::Exit(value),
                Register::RegionBegin => return Effect::RegionBegin(value),
                Register::RegionEnd => return Effect::RegionEnd(value),
                Register::SampleValue => return Effect::Sample { id: latch.sample_id, value },
                Register::SampleId => latch.sample_id = value,
                Register::CpuSelect => latch.cpu_select = value,
                Register::LineAddress => latch.line_address = value,
                Register::LineClass => {
                    let address = latch.line_address;
                    if let Some((class, len)) = line_class_from_word(value) {
                        return Effect::DeclareLines { address, len, class };
                    }
                    return self.report_write(cpu, offset, size, value);
                }
                Register::Id | Register::CpuCount | Register::CpuState | Register::Seed => {
                    return self.report_write(cpu, offset, size, value);
                }
            }
            return Effect::None;
        }
        self.report_write(cpu, offset, size, value)
    }

    fn report_write(&mut self, cpu: CpuId, offset: u64, size: u32, value: u64) -> Effect {
        if is_new(&mut self.reported_writes, offset) {
            Effect::Report(BadAccess { cpu, offset, size, written: Some(value) })
        } else {
            Effect::None
        }
    }
}

/// Puts an offset into the set; false when it was there.
fn is_new(set: &mut OffsetSet, offset: u64) -> bool {
    let offset = (offset % PAGE_BYTES) as usize;
    let (word, bit) = (&mut set[offset / 64], 1 << (offset % 64));
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

#[cfg(test)]
mod tests {
    use super::{BadAccess, Effect, Read, TestDevice};
    use emu_sim::CpuId;
    use guests_abi::class::LineClass;
    use guests_abi::device::{ID_VALUE, Register, line_class_word};

    const CPU0: CpuId = CpuId(0);
    const CPU1: CpuId = CpuId(1);

    fn write(device: &mut TestDevice, cpu: CpuId, register: Register, value: u64) -> Effect {
        device.write(cpu, register.offset(), 8, value)
    }

    #[test]
    fn constant_registers_read_what_the_contract_says() {
        let mut device = TestDevice::new(384, 7);
        let mut read = |register: Register| device.read(CPU0, register.offset(), 8);
        assert_eq!(read(Register::Id), Read::Value(ID_VALUE));
        assert_eq!(read(Register::CpuCount), Read::Value(384));
        assert_eq!(read(Register::Seed), Read::Value(7));
    }

    #[test]
    fn writes_become_effects() {
        let mut device = TestDevice::new(2, 0);
        let mut effect = |register, value| write(&mut device, CPU0, register, value);
        assert_eq!(effect(Register::Console, 0x1_41), Effect::Console(b'A'));
        assert_eq!(effect(Register::Exit, 3), Effect::Exit(3));
        assert_eq!(effect(Register::RegionBegin, 1), Effect::RegionBegin(1));
        assert_eq!(effect(Register::RegionEnd, 1), Effect::RegionEnd(1));
    }

    #[test]
    fn pairs_are_latched_per_cpu() {
        let mut device = TestDevice::new(2, 0);
        assert_eq!(write(&mut device, CPU0, Register::SampleId, 5), Effect::None);
        assert_eq!(write(&mut device, CPU1, Register::SampleId, 6), Effect::None);
        let sample = write(&mut device, CPU0, Register::SampleValue, 99);
        assert_eq!(sample, Effect::Sample { id: 5, value: 99 });

        assert_eq!(write(&mut device, CPU0, Register::CpuSelect, 1), Effect::None);
        let state = device.read(CPU0, Register::CpuState.offset(), 8);
        assert_eq!(state, Read::RunState(CPU1));
        let state = device.read(CPU1, Register::CpuState.offset(), 8);
        assert_eq!(state, Read::RunState(CPU0));

        write(&mut device, CPU1, Register::LineAddress, 0x20_0040);
        let word = line_class_word(LineClass::Csq, 64);
        let effect = write(&mut device, CPU1, Register::LineClass, word);
        let lines = Effect::DeclareLines { address: 0x20_0040, len: 64, class: LineClass::Csq };
        assert_eq!(effect, lines);
    }

    #[test]
    fn anything_else_reads_zero_and_is_reported_once() {
        let mut device = TestDevice::new(2, 0);
        for (offset, size) in [(0x68, 8), (0x04, 4), (0x01, 8), (0xff8, 8), (0x10, 8)] {
            let access = BadAccess { cpu: CPU0, offset, size, written: None };
            assert_eq!(device.read(CPU0, offset, size), Read::Report(access));
            assert_eq!(device.read(CPU1, offset, size), Read::Value(0));
        }
        for (offset, size) in [(0x00, 8), (0x14, 4), (0x70, 8)] {
            let access = BadAccess { cpu: CPU1, offset, size, written: Some(9) };
            assert_eq!(device.write(CPU1, offset, size, 9), Effect::Report(access));
            assert_eq!(device.write(CPU1, offset, size, 9), Effect::None);
        }
        let effect = write(&mut device, CPU0, Register::LineClass, 0xff);
        assert!(matches!(effect, Effect::Report(_)));
        write(&mut device, CPU0, Register::CpuSelect, 2);
        let read = device.read(CPU0, Register::CpuState.offset(), 8);
        assert!(matches!(read, Read::Report(_)));
    }
}
