//! Reasons to refuse an image.
//!
//! Every text says what was found, what is allowed, and the way out. The file's name is added by
//! the layer that read the file.

use std::error::Error;
use std::fmt;

use topology::Isa;

/// Why an image cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is larger than [`super::MAX_IMAGE_BYTES`].
    TooLarge {
        /// Bytes of the file.
        len: u64,
    },
    /// The file does not begin with the ELF magic.
    NotElf {
        /// Its first bytes, as many as there are up to four.
        found: Vec<u8>,
    },
    /// An arm64 Linux kernel image that cannot run.
    Linux {
        /// What is wrong with it.
        why: String,
    },
    /// A 32-bit ELF, or a class that does not exist.
    Class {
        /// `e_ident[EI_CLASS]`.
        found: u8,
    },
    /// A big-endian ELF, or an encoding that does not exist.
    Encoding {
        /// `e_ident[EI_DATA]`.
        found: u8,
    },
    /// Not an executable with fixed addresses.
    Kind {
        /// `e_type`.
        found: u16,
    },
    /// Code of another instruction set, or of one that no machine has.
    Isa {
        /// `e_machine`.
        found: u16,
        /// What the machine executes; `None` where the caller accepts both.
        allowed: Option<Isa>,
    },
    /// A header entry has another size than ELF64 gives it.
    EntrySize {
        /// Field of the ELF header.
        field: &'static str,
        /// Its value in bytes.
        found: u64,
        /// The only legal value.
        allowed: u64,
    },
    /// Something reaches beyond the end of the file.
    Truncated {
        /// What does.
        what: String,
        /// First byte after it, as the file claims; saturated.
        end: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// More of something than the loader accepts.
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        found: u64,
        /// How many are allowed.
        allowed: u64,
    },
    /// A list of symbols with something else in it.
    SymbolList {
        /// Its line, counted from 1.
        line: usize,
    },
    /// No segment has anything to load.
    NothingToLoad,
    /// A program that wants a dynamic linker.
    Interpreter,
    /// A segment holds more bytes in the file than in memory.
    FileLargerThanMemory {
        /// Index in the program header table.
        segment: usize,
        /// `p_filesz`.
        file: u64,
        /// `p_memsz`.
        memory: u64,
    },
    /// A segment reaches beyond the last address.
    AddressOverflow {
        /// Index in the program header table.
        segment: usize,
        /// `p_paddr`.
        address: u64,
        /// `p_memsz`.
        size: u64,
    },
    /// Two segments share memory.
    Overlap {
        /// Indices in the program header table.
        segments: (usize, usize),
        /// First shared address.
        address: u64,
    },
    /// The entry point is in no executable segment.
    Entry {
        /// `e_entry`.
        entry: u64,
        /// Whether it lies in a segment that is not executable.
        is_data: bool,
    },
    /// A segment covers a range that the machine or the hand-over uses.
    Reserved {
        /// Index in the program header table.
        segment: usize,
        /// First byte of the segment.
        base: u64,
        /// Its last byte.
        last: u64,
        /// Name of the range.
        name: &'static str,
        /// The reserved range, first and last byte.
        range: (u64, u64),
    },
    /// A segment lies where the machine has no memory.
    OutsideRam {
        /// Index in the program header table.
        segment: usize,
        /// First byte of the segment.
        base: u64,
        /// Its last byte.
        last: u64,
        /// First address of it without memory.
        missing: u64,
    },
    /// A section that tools read does not have its documented form.
    Malformed {
        /// Section or table.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Name of an instruction set in messages.
fn isa_name(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "x86-64",
        Isa::Aarch64 => "arm64",
    }
}

/// Names of the `e_machine` values that people meet.
fn machine_name(value: u16) -> &'static str {
    match value {
        3 => "32-bit x86",
        8 => "MIPS",
        20 | 21 => "PowerPC",
        22 => "s390",
        40 => "32-bit Arm",
        62 => "x86-64",
        183 => "arm64",
        243 => "RISC-V",
        258 => "LoongArch",
        _ => "unknown",
    }
}

/// Names of the `e_type` values.
fn kind_name(value: u16) -> &'static str {
    match value {
        1 => "relocatable object",
        2 => "executable",
        3 => "shared object or position-independent executable",
        4 => "core dump",
        _ => "unknown type",
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { .. }
            | Self::NotElf { .. }
            | Self::Linux { .. }
            | Self::Class { .. }
            | Self::Encoding { .. }
            | Self::Kind { .. }
            | Self::Isa { .. } => self.fmt_identity(f),
            Self::EntrySize { .. }
            | Self::Truncated { .. }
            | Self::TooMany { .. }
            | Self::SymbolList { .. }
            | Self::Malformed { .. } => self.fmt_tables(f),
            _ => self.fmt_segments(f),
        }
    }
}

impl LoadError {
    /// Messages about what the file is.
    fn fmt_identity(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { len } => write!(
                f,
                "the file has {len} bytes, allowed are {}; strip its debug sections",
                super::MAX_IMAGE_BYTES
            ),
            Self::NotElf { found } => write!(
                f,
                "not an ELF file: it begins with {found:02x?}, not with [7f, 45, 4c, 46]; \
                 give a linked 64-bit ELF executable, a Linux Image of arm64, or --load-at"
            ),
            Self::Linux { why } => write!(f, "arm64 Linux image: {why}"),
            Self::Class { found: 1 } => f.write_str(
                "32-bit ELF, only 64-bit is loaded; compile for x86_64-none-elf or \
                 aarch64-none-elf (-m64)",
            ),
            Self::Class { found } => write!(
                f,
                "ELF class {found} does not exist, only 2 (64-bit) is loaded; the file is \
                 damaged or no ELF"
            ),
            Self::Encoding { found: 2 } => f.write_str(
                "big-endian ELF, only little-endian is loaded; compile with -mlittle-endian",
            ),
            Self::Encoding { found } => write!(
                f,
                "ELF data encoding {found} does not exist, only 1 (little-endian) is loaded; \
                 the file is damaged or no ELF"
            ),
            Self::Kind { found } => write!(
                f,
                "ELF type {found} ({}) has no fixed load addresses, only type 2 (executable) \
                 is loaded; link with -no-pie and -static",
                kind_name(*found)
            ),
            Self::Isa { found, allowed: Some(allowed) } => write!(
                f,
                "code for ELF machine {found} ({}), the machine executes {}; choose another \
                 machine or compile for this one",
                machine_name(*found),
                isa_name(*allowed)
            ),
            Self::Isa { found, allowed: None } => write!(
                f,
                "code for ELF machine {found} ({}), machines execute 62 (x86-64) or 183 \
                 (arm64); compile for one of these",
                machine_name(*found)
            ),
            _ => Ok(()),
        }
    }

    /// Messages about header tables and sections.
    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntrySize { field, found, allowed } => {
                write!(f, "{field} is {found} bytes, ELF64 has {allowed}; the file is damaged")
            }
            Self::Truncated { what, end, len } => write!(
                f,
                "{what} ends at {end:#x}, the file at {len:#x}; the file is cut off or \
                 damaged, copy or link it again"
            ),
            Self::TooMany { what, found, allowed } => {
                write!(f, "{found} {what}, at most {allowed} are loaded; link with fewer")
            }
            Self::SymbolList { line } => write!(
                f,
                "line {line} is not an address, a kind and a name; give an ELF file or a System.map"
            ),
            Self::Malformed { what, why } => {
                write!(f, "{what}: {why}; rebuild the image or strip that section")
            }
            _ => Ok(()),
        }
    }

    /// Messages about segments and the entry point.
    fn fmt_segments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToLoad => f.write_str(
                "no segment to load (PT_LOAD with a size); link the file, an object file is \
                 not enough",
            ),
            Self::Interpreter => f.write_str(
                "the program asks for a dynamic linker (PT_INTERP), which a bare machine does \
                 not have; link with -static and without a C library",
            ),
            Self::FileLargerThanMemory { segment, file, memory } => write!(
                f,
                "segment {segment} has {file:#x} bytes in the file but only {memory:#x} in \
                 memory; the file is damaged"
            ),
            Self::AddressOverflow { segment, address, size } => write!(
                f,
                "segment {segment} at {address:#x} with {size:#x} bytes passes the last \
                 address; the file is damaged or its linker script is wrong"
            ),
            Self::Overlap { segments: (a, b), address } => write!(
                f,
                "segments {a} and {b} overlap at {address:#x}; give them separate physical \
                 addresses in the linker script"
            ),
            Self::Entry { entry, is_data: true } => write!(
                f,
                "entry point {entry:#x} lies in a segment that is not executable; set ENTRY() \
                 to a symbol in .text"
            ),
            Self::Entry { entry, is_data: false } => write!(
                f,
                "entry point {entry:#x} lies in no loaded segment; set ENTRY() to a symbol \
                 whose address is its physical address"
            ),
            Self::Reserved { segment, base, last, name, range: (from, to) } => write!(
                f,
                "segment {segment} ({base:#x}-{last:#x}) overlaps {name} ({from:#x}-{to:#x}); \
                 load it at 0x100000 or above"
            ),
            Self::OutsideRam { segment, base, last, missing } => write!(
                f,
                "segment {segment} ({base:#x}-{last:#x}) needs memory at {missing:#x}, where \
                 the machine has none; load it lower or raise memory.per_node"
            ),
            _ => Ok(()),
        }
    }
}

impl Error for LoadError {}
