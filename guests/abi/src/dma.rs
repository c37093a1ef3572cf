//! Register map of the DMA engine: one uncached page of aligned 8-byte registers.
//!
//! A transfer is what `Source`, `Destination` and `Length` say when `Doorbell` is written; whoever
//! shares the engine writes the four under a lock. Transfers are done in the order of the
//! doorbells; `Completed` counts them. At the end of each the interrupt goes up, until it is
//! acknowledged in `Status`. Any other access reads 0, writes nothing and is reported once.

/// `compatible` of the engine in the FDT; its `reg` is where it is.
pub const COMPATIBLE: &str = "crosscall,dma-engine";

/// Bytes of the engine's page.
pub const PAGE_BYTES: u64 = 4096;

/// Value of [`Register::Id`]: `"XDMA"` in the upper half, the version in the lower.
pub const ID_VALUE: u64 = 0x5844_4d41_0000_0001;

/// Longest transfer, bytes.
pub const LENGTH_MAX: u64 = 16 << 20;

/// Transfers that wait behind the one under way, at most.
pub const QUEUE_MAX: usize = 64;

/// Lines under way at the same time.
pub const COPIES_MAX: u64 = 32;

/// A register of the engine; the value is its byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Register {
    /// Reads [`ID_VALUE`].
    Id = 0x00,
    /// Physical address of the first byte to read, a multiple of 64.
    Source = 0x08,
    /// Physical address of the first byte to write, a multiple of 64.
    Destination = 0x10,
    /// Bytes, a multiple of 64, at most [`LENGTH_MAX`].
    Length = 0x18,
    /// Writing queues a transfer, or sets [`ERROR`].
    Doorbell = 0x20,
    /// Reads [`BUSY`], [`INTERRUPT`], [`ERROR`]; writing the last two as 1 clears them.
    Status = 0x28,
    /// Reads the number of transfers that are complete since reset.
    Completed = 0x30,
    /// Whom the interrupt goes to: x86-64, APIC ID in bits 31..0, vector in bits 39..32, as a
    /// message to the local APIC. On arm64 it is a level on a shared interrupt, which the GIC
    /// routes, and this register is not used.
    Route = 0x38,
    /// Reads the [`Error`] behind [`ERROR`], or 0.
    Error = 0x40,
}

/// Bit of [`Register::Status`]: a transfer is under way.
pub const BUSY: u64 = 1 << 0;
/// Bit of [`Register::Status`]: the interrupt is up.
pub const INTERRUPT: u64 = 1 << 1;
/// Bit of [`Register::Status`]: a doorbell was in vain.
pub const ERROR: u64 = 1 << 2;

/// Why a doorbell was in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Error {
    /// `Length` is 0, no multiple of 64, or too long.
    Length = 1,
    /// `Source` or `Destination` is no multiple of 64.
    Alignment = 2,
    /// Some of it is no RAM.
    Address = 3,
    /// [`QUEUE_MAX`] transfers wait.
    Full = 4,
}

impl Register {
    /// All registers in order of offset.
    pub const ALL: [Register; 9] = [
        Register::Id,
        Register::Source,
        Register::Destination,
        Register::Length,
        Register::Doorbell,
        Register::Status,
        Register::Completed,
        Register::Route,
        Register::Error,
    ];

    /// The register at a byte offset, if there is one.
    pub fn from_offset(offset: u64) -> Option<Register> {
        Register::ALL.into_iter().find(|register| *register as u64 == offset)
    }
}
