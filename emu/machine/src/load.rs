//! Images: bytes in, segments with symbols and points out, or the reason why not.
//!
//! Modelled: ELF64, little-endian ET_EXEC for x86-64 and arm64, loaded at `p_paddr`; symbols of
//! `.symtab`; points and source hash (guest contract of the project); Linux kernels of arm64 and
//! raw binaries (`flat`). Not modelled: relocation, dynamic linking, Multiboot, PVH, bzImage,
//! compressed sections, debug information.
//!
//! Every table entry is read on its own by goblin after its place was checked here: its
//! whole-file parser reads dynamic tables and relocations that an image must not have, and
//! allocates by their claims. What is allocated here is bounded by the bytes of the file.

mod error;
mod flat;
mod points;
mod symbols;

pub use error::LoadError;
pub use flat::is_linux;
pub use points::{MAX_POINT_NAME_BYTES, MAX_POINTS, Point};
pub use symbols::{MAX_NAME_BYTES, Symbol, Symbols};

use emu_sim::PhysAddr;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Elf;
use goblin::elf::header::{self, Header};
use goblin::elf::program_header::{PF_W, PF_X, PT_INTERP, PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{SHT_NOBITS, SHT_SYMTAB, SectionHeader};
use goblin::elf::sym::Symtab;
use goblin::elf64::header::SIZEOF_EHDR;
use goblin::elf64::program_header::SIZEOF_PHDR;
use goblin::elf64::section_header::SIZEOF_SHDR;
use goblin::elf64::sym::SIZEOF_SYM;
use guests_abi::{block, note, points as points_abi};
use topology::{Isa, RamRange};

/// Largest file that is read, in bytes.
pub const MAX_IMAGE_BYTES: u64 = 1 << 30;
/// Most program headers of a file.
pub const MAX_PROGRAM_HEADERS: usize = 1024;
/// Most sections of a file.
pub const MAX_SECTIONS: usize = 1 << 16;
/// Most symbols of a file.
pub const MAX_SYMBOLS: usize = 1 << 21;

const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };

/// A piece of memory that the image fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index in the program header table, for messages.
    pub index: usize,
    /// First byte.
    pub base: PhysAddr,
    /// Initial bytes; what follows up to `size` is zero.
    pub bytes: Vec<u8>,
    /// Bytes of memory, at least `bytes.len()`.
    pub size: u64,
    /// Address as linked.
    pub virtual_base: u64,
    /// Whether it holds code.
    pub is_executable: bool,
    /// Whether the guest means to write it.
    pub is_writable: bool,
}

impl Segment {
    /// Returns the last byte of the segment.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.base.0 + (self.size - 1)
    }

    /// Whether the segment holds the physical address.
    #[must_use]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.base.0) < self.size
    }
}

/// A range that no image may load into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// First byte.
    pub base: u64,
    /// Last byte.
    pub last: u64,
    /// What it is, as messages name it.
    pub name: &'static str,
}

/// Sources and compiler of an image, from its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// SHA-256 over the sources.
    pub source_hash: [u8; note::HASH_BYTES],
    /// Text of `rustc -V`.
    pub compiler: String,
}

/// A program ready to be put into memory.
#[derive(Clone, Debug)]
pub struct Image {
    /// What executes it.
    pub isa: Isa,
    /// First instruction.
    pub entry: PhysAddr,
    /// Segments by address; they do not overlap.
    pub segments: Vec<Segment>,
    /// Symbols.
    pub symbols: Symbols,
    /// Points by address.
    pub points: Vec<Point>,
    /// What the image says about its sources.
    pub origin: Option<Origin>,
}

impl Image {
    /// Reads an image from the bytes of a file.
    ///
    /// `isa` is what the machine executes; `None` accepts every ISA that some machine has.
    ///
    /// Errors: every way in which a file can be foreign, cut off or lying; see [`LoadError`].
    pub fn from_elf(bytes: &[u8], isa: Option<Isa>) -> Result<Image, LoadError> {
        let header = parse_header(bytes)?;
        if header.e_type != header::ET_EXEC {
            return Err(LoadError::Kind { found: header.e_type });
        }
        let found = parse_isa(&header, isa)?;
        let headers = parse_program_headers(bytes, &header)?;
        let segments = load_segments(bytes, &headers)?;
        check_entry(header.e_entry, &segments)?;
        let sections = parse_sections(bytes, &header)?;
        let mut image = Image {
            isa: found,
            entry: PhysAddr(header.e_entry),
            segments,
            symbols: parse_symbols(bytes, &sections)?,
            points: Vec::new(),
            origin: None,
        };
        image.read_own_sections(bytes, &header, &sections)?;
        Ok(image)
    }

    /// Checks that the machine executes the image's instructions.
    ///
    /// Errors: `Isa`.
    pub(crate) fn check_isa(&self, machine: Isa) -> Result<(), LoadError> {
        let found = match self.isa {
            Isa::X86_64 => header::EM_X86_64,
            Isa::Aarch64 => header::EM_AARCH64,
        };
        let allowed = Some(machine);
        if self.isa == machine { Ok(()) } else { Err(LoadError::Isa { found, allowed }) }
    }

    /// Checks that the image fits into the memory of a machine.
    ///
    /// `ram` is in address order and may touch; `reserved` is what the hand-over needs.
    ///
    /// Errors: `Reserved`, `OutsideRam`.
    pub fn check_placement(
        &self,
        ram: &[RamRange],
        reserved: &[Reserved],
    ) -> Result<(), LoadError> {
        for segment in &self.segments {
            let (base, last) = (segment.base.0, segment.last());
            if let Some(range) = reserved.iter().find(|r| r.base <= last && base <= r.last) {
                return Err(LoadError::Reserved {
                    segment: segment.index,
                    base,
                    last,
                    name: range.name,
                    range: (range.base, range.last),
                });
            }
            let mut at = base;
            loop {
                let holder = ram.iter().find(|range| at.wrapping_sub(range.base) < range.size);
                let Some(range) = holder else {
                    let index = segment.index;
                    return Err(LoadError::OutsideRam { segment: index, base, last, missing: at });
                };
                let range_last = range.base + (range.size - 1);
                if last <= range_last {
                    break;
                }
                at = range_last + 1;
            }
        }
        Ok(())
    }

    /// Returns the header of the exported counters.
    #[must_use]
    pub fn counters(&self) -> Option<Symbol<'_>> {
        self.symbols.find(block::COUNTERS_SYMBOL)
    }

    /// Returns the header of the exported samples.
    #[must_use]
    pub fn samples(&self) -> Option<Symbol<'_>> {
        self.symbols.find(block::SAMPLES_SYMBOL)
    }

    /// Returns the names of the points, sorted, each once.
    #[must_use]
    pub fn point_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.points.iter().map(|point| point.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn read_own_sections(
        &mut self,
        bytes: &[u8],
        header: &Header,
        sections: &[SectionHeader],
    ) -> Result<(), LoadError> {
        let names = match sections.get(usize::from(header.e_shstrndx)) {
            Some(section) => section_bytes(bytes, section, "the section name table")?,
            None => &[],
        };
        for section in sections {
            let name = name_at(names, section.sh_name);
            if name == Some(points_abi::SECTION) {
                let content = section_bytes(bytes, section, "the section of points")?;
                self.points = points::parse_points(content)?;
            } else if name == Some(note::SECTION) {
                let content = section_bytes(bytes, section, "the note of the sources")?;
                self.origin = note::parse(content).map(|(hash, compiler)| Origin {
                    source_hash: hash,
                    compiler: compiler.to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl Symbols {
    /// Reads the symbols of a file that need not be an image: of an ELF file of any kind, such as
    /// `vmlinux`, or of lines of address, kind and name, such as `System.map`.
    ///
    /// Errors: as for an image, but for what only matters in one; `SymbolList`.
    pub fn read(bytes: &[u8]) -> Result<Symbols, LoadError> {
        if !bytes.starts_with(header::ELFMAG) {
            return Symbols::from_lines(bytes);
        }
        let header = parse_header(bytes)?;
        parse_symbols(bytes, &parse_sections(bytes, &header)?)
    }
}

/// Returns a range of the file, or `Truncated` with what it was for.
fn file_range<'a>(
    bytes: &'a [u8],
    what: &str,
    offset: u64,
    size: u64,
) -> Result<&'a [u8], LoadError> {
    let end = offset.saturating_add(size);
    let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    range
        .filter(|_| offset.checked_add(size).is_some())
        .and_then(|(from, to)| bytes.get(from..to))
        .ok_or_else(|| LoadError::Truncated { what: what.to_owned(), end, len: bytes.len() as u64 })
}

/// Turns what goblin cannot read into an error of ours; places were checked before.
fn unreadable(what: &'static str) -> impl Fn(goblin::error::Error) -> LoadError {
    move |error| LoadError::Malformed { what, why: error.to_string() }
}

/// Checks the identity of the file before anything else is believed.
fn parse_header(bytes: &[u8]) -> Result<Header, LoadError> {
    let len = bytes.len() as u64;
    if len > MAX_IMAGE_BYTES {
        return Err(LoadError::TooLarge { len });
    }
    if !bytes.starts_with(header::ELFMAG) {
        return Err(LoadError::NotElf { found: bytes[..bytes.len().min(4)].to_vec() });
    }
    let ident = file_range(bytes, "the ELF identification", 0, 16)?;
    if ident[header::EI_CLASS] != header::ELFCLASS64 {
        return Err(LoadError::Class { found: ident[header::EI_CLASS] });
    }
    if ident[header::EI_DATA] != header::ELFDATA2LSB {
        return Err(LoadError::Encoding { found: ident[header::EI_DATA] });
    }
    file_range(bytes, "the ELF header", 0, SIZEOF_EHDR as u64)?;
    Elf::parse_header(bytes).map_err(unreadable("the ELF header"))
}

fn parse_isa(header: &Header, allowed: Option<Isa>) -> Result<Isa, LoadError> {
    let found = match header.e_machine {
        header::EM_X86_64 => Some(Isa::X86_64),
        header::EM_AARCH64 => Some(Isa::Aarch64),
        _ => None,
    };
    match found {
        Some(isa) if allowed.is_none_or(|allowed| allowed == isa) => Ok(isa),
        _ => Err(LoadError::Isa { found: header.e_machine, allowed }),
    }
}

/// Checks that a table's entries have the size that ELF64 gives them.
fn check_entry_size(field: &'static str, found: u64, allowed: usize) -> Result<(), LoadError> {
    let allowed = allowed as u64;
    if found == allowed { Ok(()) } else { Err(LoadError::EntrySize { field, found, allowed }) }
}

/// Checks that a count is within a bound with a name.
fn check_count(what: &'static str, found: u64, allowed: usize) -> Result<usize, LoadError> {
    match usize::try_from(found) {
        Ok(count) if count <= allowed => Ok(count),
        _ => Err(LoadError::TooMany { what, found, allowed: allowed as u64 }),
    }
}

fn parse_program_headers(bytes: &[u8], header: &Header) -> Result<Vec<ProgramHeader>, LoadError> {
    let count = u64::from(header.e_phnum);
    let count = check_count("program headers", count, MAX_PROGRAM_HEADERS)?;
    if count == 0 {
        return Err(LoadError::NothingToLoad);
    }
    check_entry_size("e_phentsize", u64::from(header.e_phentsize), SIZEOF_PHDR)?;
    let size = (count * SIZEOF_PHDR) as u64;
    let table = file_range(bytes, "the program header table", header.e_phoff, size)?;
    ProgramHeader::parse(table, 0, count, CTX).map_err(unreadable("the program header table"))
}

/// Copies the loadable segments and checks them against each other.
fn load_segments(bytes: &[u8], headers: &[ProgramHeader]) -> Result<Vec<Segment>, LoadError> {
    let mut segments = Vec::new();
    let mut loaded = 0u64;
    for (index, header) in headers.iter().enumerate() {
        if header.p_type == PT_INTERP {
            return Err(LoadError::Interpreter);
        }
        if header.p_type != PT_LOAD || header.p_memsz == 0 && header.p_filesz == 0 {
            continue;
        }
        let (file, memory) = (header.p_filesz, header.p_memsz);
        if file > memory {
            return Err(LoadError::FileLargerThanMemory { segment: index, file, memory });
        }
        let address = header.p_paddr;
        if address.checked_add(memory - 1).is_none() {
            return Err(LoadError::AddressOverflow { segment: index, address, size: memory });
        }
        let what = format!("the content of segment {index}");
        let content = file_range(bytes, &what, header.p_offset, file)?;
        // A file whose segments share bytes could ask for a thousand times its own size.
        loaded += file;
        if loaded > bytes.len() as u64 {
            let why = "they hold more bytes than the file, so they share some".to_owned();
            return Err(LoadError::Malformed { what: "segments", why });
        }
        segments.push(Segment {
            index,
            base: PhysAddr(address),
            bytes: content.to_vec(),
            size: memory,
            virtual_base: header.p_vaddr,
            is_executable: header.p_flags & PF_X != 0,
            is_writable: header.p_flags & PF_W != 0,
        });
    }
    if segments.is_empty() {
        return Err(LoadError::NothingToLoad);
    }
    segments.sort_by_key(|segment| (segment.base, segment.index));
    for pair in segments.windows(2) {
        if pair[1].base.0 <= pair[0].last() {
            let segments = (pair[0].index, pair[1].index);
            return Err(LoadError::Overlap { segments, address: pair[1].base.0 });
        }
    }
    Ok(segments)
}

fn check_entry(entry: u64, segments: &[Segment]) -> Result<(), LoadError> {
    match segments.iter().find(|segment| segment.holds(entry)) {
        Some(segment) if segment.is_executable => Ok(()),
        holder => Err(LoadError::Entry { entry, is_data: holder.is_some() }),
    }
}

/// Reads the section table; a file without one has no symbols, which is legal.
fn parse_sections(bytes: &[u8], header: &Header) -> Result<Vec<SectionHeader>, LoadError> {
    const WHAT: &str = "the section header table";
    if header.e_shoff == 0 {
        return Ok(Vec::new());
    }
    check_entry_size("e_shentsize", u64::from(header.e_shentsize), SIZEOF_SHDR)?;
    let first = file_range(bytes, WHAT, header.e_shoff, SIZEOF_SHDR as u64)?;
    let first = SectionHeader::parse_from(first, 0, 1, CTX).map_err(unreadable(WHAT))?;
    // Counts that do not fit are kept in the size of section 0.
    let count = match header.e_shnum {
        0 => first.first().map_or(0, |section| section.sh_size),
        count => u64::from(count),
    };
    let count = check_count("sections", count, MAX_SECTIONS)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let size = (count * SIZEOF_SHDR) as u64;
    let table = file_range(bytes, WHAT, header.e_shoff, size)?;
    SectionHeader::parse_from(table, 0, count, CTX).map_err(unreadable(WHAT))
}

/// Returns the bytes of a section; one without bytes in the file is empty.
fn section_bytes<'a>(
    bytes: &'a [u8],
    section: &SectionHeader,
    what: &str,
) -> Result<&'a [u8], LoadError> {
    if section.sh_type == SHT_NOBITS {
        return Ok(&[]);
    }
    file_range(bytes, what, section.sh_offset, section.sh_size)
}

/// Returns a name of a string table.
fn name_at(names: &[u8], at: usize) -> Option<&str> {
    let tail = names.get(at..)?;
    let tail = &tail[..tail.len().min(MAX_NAME_BYTES)];
    let end = tail.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&tail[..end]).ok()
}

fn parse_symbols(bytes: &[u8], sections: &[SectionHeader]) -> Result<Symbols, LoadError> {
    const WHAT: &str = "the symbol table";
    let Some(section) = sections.iter().find(|section| section.sh_type == SHT_SYMTAB) else {
        return Ok(Symbols::default());
    };
    check_entry_size("entry size of the symbol table", section.sh_entsize, SIZEOF_SYM)?;
    let count = check_count("symbols", section.sh_size / SIZEOF_SYM as u64, MAX_SYMBOLS)?;
    let table = section_bytes(bytes, section, WHAT)?;
    let Some(strings) = sections.get(section.sh_link as usize) else {
        let why = format!("its string table is section {}, which does not exist", section.sh_link);
        return Err(LoadError::Malformed { what: WHAT, why });
    };
    let strings = section_bytes(bytes, strings, "the string table of the symbols")?;
    let table = Symtab::parse(table, 0, count, CTX).map_err(unreadable(WHAT))?;
    let rows = table.iter().map(|sym| symbols::Raw {
        name: u32::try_from(sym.st_name).unwrap_or(u32::MAX),
        info: sym.st_info,
        section: u16::try_from(sym.st_shndx).unwrap_or(u16::MAX),
        value: sym.st_value,
        size: sym.st_size,
    });
    Ok(Symbols::from_raw(strings.to_vec(), rows))
}
