//! Generator of small ELF files: one good image, and that image damaged in every way we refuse.
//!
//! The good image has two segments, symbols, points and a source note, laid out by hand so that
//! each damage is a patch at a known place.

/// Offset of the program header table in the generated file.
pub(crate) const PHOFF: usize = 64;
/// Entry point of the generated image.
pub(crate) const ENTRY: u64 = 0x10_0010;
/// Bytes of one program header.
const PHENT: usize = 56;

/// A file with the reason that a refusal must name.
pub(crate) struct Bad {
    /// What is wrong with it.
    pub(crate) name: &'static str,
    /// Text that the message must contain.
    pub(crate) expect: &'static str,
    /// The file.
    pub(crate) bytes: Vec<u8>,
}

/// Overwrites a part of a file.
pub(crate) fn patch(bytes: &mut [u8], at: usize, with: &[u8]) {
    bytes[at..at + with.len()].copy_from_slice(with);
}

fn word(bytes: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        bytes.extend(value.to_le_bytes());
    }
}

fn half(bytes: &mut Vec<u8>, values: &[u32]) {
    for value in values {
        bytes.extend(value.to_le_bytes());
    }
}

/// A section to be placed: name, type, link, entry size, content.
struct Section {
    name: &'static str,
    kind: u32,
    link: u32,
    entry: u64,
    content: Vec<u8>,
}

fn symbols() -> (Vec<u8>, Vec<u8>) {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for (name, info, value, size) in [
        ("start", 0x12u8, 0x10_0010u64, 0x20u64),
        ("helper", 0x12, 0x10_0030, 0x10),
        ("CROSSCALL_COUNTERS", 0x11, 0x20_0000, 0x40),
    ] {
        half(&mut table, &[u32::try_from(strings.len()).expect("small")]);
        table.extend([info, 0, 1, 0]);
        word(&mut table, &[value, size]);
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    (table, strings)
}

fn sections() -> Vec<Section> {
    let (table, strings) = symbols();
    let mut points = 0x10_0014u64.to_le_bytes().to_vec();
    points.extend(b"idle_wait\0\0\0\0\0\0\0");
    let mut note = Vec::new();
    half(&mut note, &[10, 44, 1]);
    note.extend(b"crosscall\0\0\0");
    note.extend([0xab; 32]);
    note.extend(b"rustc 1.96.0");
    let plain = |name, kind, content| Section { name, kind, link: 0, entry: 0, content };
    vec![
        plain("", 0, Vec::new()),
        plain(".crosscall.points", 1, points),
        plain(".note.crosscall", 7, note),
        Section { name: ".symtab", kind: 2, link: 4, entry: 24, content: table },
        plain(".strtab", 3, strings),
        plain(".shstrtab", 3, Vec::new()),
    ]
}

/// Makes the good image: code at 1 MiB, data with zeros behind it at 2 MiB.
pub(crate) fn good() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    word(&mut bytes, &[ENTRY, PHOFF as u64, 0]);
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 6, 0, 5, 0]);
    half(&mut bytes, &[1, 5]);
    word(&mut bytes, &[0x100, 0x10_0000, 0x10_0000, 0x40, 0x40, 0x1000]);
    half(&mut bytes, &[1, 6]);
    word(&mut bytes, &[0x140, 0x20_0000, 0x20_0000, 0x10, 0x100, 0x1000]);
    bytes.resize(0x100, 0);
    bytes.extend([0x90; 0x40]);
    bytes.extend([0x55; 0x10]);
    let (mut headers, mut names) = (Vec::new(), vec![0u8]);
    for mut section in sections() {
        let name = if section.name.is_empty() { 0 } else { names.len() };
        if name != 0 {
            names.extend(section.name.as_bytes());
            names.push(0);
        }
        if section.name == ".shstrtab" {
            section.content = names.clone();
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let (at, len) = (bytes.len() as u64, section.content.len() as u64);
        half(&mut headers, &[u32::try_from(name).expect("small"), section.kind]);
        word(&mut headers, &[0, 0, at, len]);
        half(&mut headers, &[section.link, 0]);
        word(&mut headers, &[1, section.entry]);
        bytes.extend(section.content);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let shoff = bytes.len() as u64;
    patch(&mut bytes, 40, &shoff.to_le_bytes());
    bytes.extend(headers);
    bytes
}

/// Offset of a field of section header `index`.
pub(crate) fn section_field(bytes: &[u8], index: usize, field: usize) -> usize {
    let shoff: [u8; 8] = bytes[40..48].try_into().expect("eight bytes");
    usize::try_from(u64::from_le_bytes(shoff)).expect("small") + index * 64 + field
}

/// Makes every file that the loader refuses.
pub(crate) fn bad() -> Vec<Bad> {
    let mut all = bad_identities();
    all.extend(bad_segments());
    all.extend(bad_sections());
    all
}

fn patched(name: &'static str, expect: &'static str, at: usize, with: &[u8]) -> Bad {
    let mut bytes = good();
    patch(&mut bytes, at, with);
    Bad { name, expect, bytes }
}

fn bad_identities() -> Vec<Bad> {
    let cut = |name, expect, len| Bad { name, expect, bytes: good()[..len].to_vec() };
    vec![
        cut("empty", "not an ELF file", 0),
        cut("magic_only", "the ELF identification ends at 0x10, the file at 0x4", 4),
        cut("header_cut", "the ELF header ends at 0x40, the file at 0x3f", 63),
        cut("program_headers_cut", "the program header table ends at 0xb0", 0xaf),
        cut("content_cut", "the content of segment 1 ends at 0x150", 0x14f),
        cut("sections_cut", "the section header table ends at", good().len() - 1),
        patched("script", "begins with [23, 21, 2f, 62]", 0, b"#!/b"),
        patched("class_32", "32-bit ELF", 4, &[1]),
        patched("class_9", "ELF class 9 does not exist", 4, &[9]),
        patched("big_endian", "big-endian ELF", 5, &[2]),
        patched("encoding_0", "ELF data encoding 0", 5, &[0]),
        patched("object", "relocatable object", 16, &[1, 0]),
        patched("pie", "position-independent", 16, &[3, 0]),
        patched("core_dump", "core dump", 16, &[4, 0]),
        patched("riscv", "ELF machine 243 (RISC-V)", 18, &[243, 0]),
        patched("arm64", "ELF machine 183 (arm64), the machine executes x86-64", 18, &[183, 0]),
    ]
}

fn bad_segments() -> Vec<Bad> {
    let first = |field: usize| PHOFF + field;
    let second = |field: usize| PHOFF + PHENT + field;
    let word = |value: u64| value.to_le_bytes();
    let mut zero = good();
    patch(&mut zero, first(0), &[0]);
    patch(&mut zero, second(0), &[0]);
    vec![
        patched("no_program_headers", "no segment to load", 56, &[0, 0]),
        Bad { name: "nothing_to_load", expect: "no segment to load", bytes: zero },
        patched("program_headers_many", "65535 program headers, at most", 56, &[0xff, 0xff]),
        patched("program_header_size", "e_phentsize is 32 bytes", 54, &[32, 0]),
        patched("program_headers_far", "the program header table ends at", 32, &word(1 << 40)),
        patched("program_headers_wrap", "ends at 0xffffffffffffffff", 32, &word(u64::MAX - 8)),
        patched("interpreter", "dynamic linker", second(0), &[3]),
        patched("file_over_memory", "only 0x10 in memory", first(40), &word(0x10)),
        patched("offset_far", "the content of segment 0 ends at", first(8), &word(1 << 50)),
        patched("offset_wraps", "the content of segment 0 ends", first(8), &word(u64::MAX)),
        patched("address_wraps", "passes the last address", second(24), &word(u64::MAX - 8)),
        patched("memory_wraps", "passes the last address", second(40), &word(u64::MAX)),
        patched("overlap", "segments 0 and 1 overlap at 0x10003f", second(24), &word(0x10_003f)),
        patched("entry_nowhere", "entry point 0x666 lies in no", 24, &word(0x666)),
        patched("entry_in_data", "is not executable", 24, &word(0x20_0000)),
    ]
}

fn bad_sections() -> Vec<Bad> {
    let base = good();
    let at = |index, field| section_field(&base, index, field);
    let word = |value: u64| value.to_le_bytes();
    vec![
        patched("section_size", "e_shentsize is 40 bytes", 58, &[40, 0]),
        patched("sections_far", "the section header table ends at", 40, &word(1 << 60)),
        patched("symbols_far", "the symbol table ends at", at(3, 24), &word(1 << 60)),
        patched("symbols_many", "symbols, at most", at(3, 32), &word(u64::MAX)),
        patched("symbol_size", "entry size of the symbol table is 16", at(3, 56), &word(16)),
        patched("string_link", "section 77, which does not exist", at(3, 40), &[77]),
        patched("strings_far", "the string table of the symbols", at(4, 24), &word(1 << 33)),
        patched("names_far", "the section name table ends at", at(5, 24), &word(1 << 33)),
        patched("points_far", "the section of points ends at", at(1, 32), &word(1 << 33)),
        patched("points_cut", ".crosscall.points: entry at 0x0 is cut", at(1, 32), &word(7)),
    ]
}
