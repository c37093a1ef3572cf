//! Images without a table of segments: the Linux kernel's `Image` for arm64, and raw binaries.
//!
//! Modelled: uncompressed images of kernels with pages of 4 KiB. Not modelled: compressed ones
//! (`Image.gz`, EFI zboot), bzImage of x86.
//! Source: Linux, `Documentation/arch/arm64/booting.rst`, "Call the kernel image". Status: spec.

use std::ops::Range;

use emu_sim::PhysAddr;
use topology::{Isa, Machine};

use super::{Image, LoadError, MAX_IMAGE_BYTES, Segment, Symbols};

/// "ARM\x64" at its place in the header.
const MAGIC: &[u8] = b"ARM\x64";
const MAGIC_AT: usize = 56;
const HEADER_BYTES: usize = 64;
/// Where a kernel lies that does not give its size.
const OLD_TEXT_OFFSET: u64 = 0x8_0000;
/// The base that `text_offset` counts from is a multiple of this.
const ALIGN: u64 = 2 << 20;
/// `flags`: big-endian, page size.
const BIG_ENDIAN: u64 = 1;
const PAGE_SIZE_SHIFT: u32 = 1;
const PAGES_4K: u64 = 1;

/// Whether a file is an arm64 Linux kernel image.
#[must_use]
pub fn is_linux(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT..).is_some_and(|rest| rest.starts_with(MAGIC))
}

impl Image {
    /// Reads an arm64 Linux kernel image; it is put into the RAM that begins at `ram`.
    ///
    /// # Errors
    /// What the header says that no machine can do; a file that is no such image.
    pub fn from_linux(bytes: &[u8], ram: u64) -> Result<Image, LoadError> {
        check_size(bytes)?;
        if !is_linux(bytes) || bytes.len() < HEADER_BYTES {
            return Err(LoadError::Linux { why: "its magic is missing".to_owned() });
        }
        let field = |at: usize| {
            let bytes = bytes[at..at + 8].iter().rev();
            bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let (text_offset, size, flags) = (field(8), field(16), field(24));
        if flags & BIG_ENDIAN != 0 {
            return Err(LoadError::Linux { why: "big-endian; build a little-endian one".into() });
        }
        let pages = flags >> PAGE_SIZE_SHIFT & 3;
        if pages > PAGES_4K {
            let kib = 4 << (2 * (pages - 1));
            let why =
                format!("built for pages of {kib} KiB, cpus have 4 KiB (CONFIG_ARM64_4K_PAGES)");
            return Err(LoadError::Linux { why });
        }
        let (text_offset, size) =
            if size == 0 { (OLD_TEXT_OFFSET, bytes.len() as u64) } else { (text_offset, size) };
        let base = ram.next_multiple_of(ALIGN).checked_add(text_offset);
        let size = size.max(bytes.len() as u64);
        match base.filter(|base| base.checked_add(size).is_some()) {
            Some(base) => Ok(flat(Isa::Aarch64, base, bytes, size)),
            None => Err(LoadError::AddressOverflow { segment: 0, address: text_offset, size }),
        }
    }

    /// Takes a file as it is: it is put at `address` and starts at its first byte.
    ///
    /// # Errors
    /// An empty or too large file, an address near the last.
    pub fn from_raw(bytes: &[u8], isa: Isa, address: u64) -> Result<Image, LoadError> {
        check_size(bytes)?;
        let size = bytes.len() as u64;
        if size == 0 {
            return Err(LoadError::NothingToLoad);
        }
        if address.checked_add(size).is_none() {
            return Err(LoadError::AddressOverflow { segment: 0, address, size });
        }
        Ok(flat(isa, address, bytes, size))
    }
}

/// A RAM disk begins at a multiple of this behind the image.
const INITRD_ALIGN: u64 = 2 << 20;

impl Image {
    /// Reads a file in the form that it has, or as it is with an address `at`.
    ///
    /// # Errors
    /// Those of the form.
    pub fn read(bytes: &[u8], machine: &Machine, at: Option<u64>) -> Result<Image, LoadError> {
        match at {
            Some(address) => Image::from_raw(bytes, machine.isa, address),
            None if machine.isa == Isa::Aarch64 && is_linux(bytes) => {
                Image::from_linux(bytes, machine.ram().first().map_or(0, |range| range.base))
            }
            None => Image::from_elf(bytes, Some(machine.isa)),
        }
    }

    /// Puts a RAM disk behind the last segment; returns where it lies.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Range<u64>, LoadError> {
        check_size(bytes)?;
        let size = (bytes.len() as u64).max(1);
        let index = self.segments.len();
        let end = self.segments.last().map_or(0, Segment::last);
        let address = end.checked_next_multiple_of(INITRD_ALIGN).unwrap_or(u64::MAX);
        let Some(after) = address.checked_add(size) else {
            return Err(LoadError::AddressOverflow { segment: index, address, size });
        };
        let bytes = bytes.to_vec();
        self.segments.push(Segment {
            index,
            base: PhysAddr(address),
            bytes,
            size,
            virtual_base: address,
            is_executable: false,
            is_writable: false,
        });
        Ok(address..after)
    }
}

fn check_size(bytes: &[u8]) -> Result<(), LoadError> {
    let len = bytes.len() as u64;
    if len > MAX_IMAGE_BYTES { Err(LoadError::TooLarge { len }) } else { Ok(()) }
}

/// An image of one segment, entered at its first byte.
fn flat(isa: Isa, base: u64, bytes: &[u8], size: u64) -> Image {
    let segment = Segment {
        index: 0,
        base: PhysAddr(base),
        bytes: bytes.to_vec(),
        size,
        virtual_base: base,
        is_executable: true,
        is_writable: true,
    };
    Image {
        isa,
        entry: PhysAddr(base),
        segments: vec![segment],
        symbols: Symbols::default(),
        points: Vec::new(),
        origin: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: u64 = 0x8000_0000;

    fn header(text_offset: u64, size: u64, flags: u64) -> Vec<u8> {
        let words = [0x1400_0010_u64, text_offset, size, flags, 0, 0, 0];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(MAGIC);
        bytes.resize(100, 7);
        bytes
    }

    #[test]
    fn a_kernel_lies_where_its_header_says() {
        let place = |offset, size, flags| {
            let image = Image::from_linux(&header(offset, size, flags), RAM).expect("a kernel");
            let segment = &image.segments[0];
            assert_eq!((image.entry, segment.bytes.len()), (segment.base, 100));
            (segment.base.0, segment.size)
        };
        assert_eq!(place(0, 0x20_0000, 0xa), (RAM, 0x20_0000));
        assert_eq!(place(0x8_0000, 0x1000, 0), (RAM + 0x8_0000, 0x1000));
        assert_eq!(place(9, 0, 0), (RAM + OLD_TEXT_OFFSET, 100), "before Linux 3.17");
        assert_eq!(place(0, 1, 2), (RAM, 100), "never less than the file");
    }

    #[test]
    fn what_cannot_run_is_refused_with_the_reason() {
        let refused = |bytes: &[u8]| match Image::from_linux(bytes, RAM) {
            Ok(image) => panic!("{:x?}", image.segments),
            Err(error) => error.to_string(),
        };
        assert!(refused(&header(0, 1, 1)).contains("big-endian"));
        assert!(refused(&header(0, 1, 4)).contains("16 KiB"));
        assert!(refused(&header(0, 1, 6)).contains("64 KiB"));
        assert!(refused(&header(0, u64::MAX, 2)).contains("passes the last address"));
        assert!(refused(&header(u64::MAX, 1, 2)).contains("passes the last address"));
        assert!(refused(&header(0, 1, 2)[..60]).contains("magic"));
        assert!(refused(&[]).contains("magic"));
        assert_eq!(Image::from_raw(&[], Isa::Aarch64, 0).err(), Some(LoadError::NothingToLoad));
        assert!(Image::from_raw(&[0; 8], Isa::Aarch64, u64::MAX - 3).is_err());
    }
}
