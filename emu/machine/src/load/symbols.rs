//! Symbols of an image: address to name for reports, name to address for exported tables.
//!
//! Modelled: what `.symtab` defines in loaded code and data, absolute symbols by name only; lists
//! of symbols as `nm` prints them. Not modelled: dynamic symbols, versions, demangling, line
//! numbers.
//! Memory is bounded by the file: names stay in one copy of the string table.

use super::{LoadError, MAX_SYMBOLS, check_count};

/// One defined symbol without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    address: u64,
    size: u64,
    name: u32,
    name_len: u32,
    /// Absolute symbols are numbers, not places: reports do not use them.
    is_absolute: bool,
    /// Higher is the better name for an address: function over object over label.
    rank: u8,
}

/// A symbol as handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name, not demangled.
    pub name: &'a str,
    /// Address as linked (virtual).
    pub address: u64,
    /// Bytes, 0 where the image does not say.
    pub size: u64,
}

/// The symbols of one image.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    strings: Vec<u8>,
    /// By address, best name first.
    by_address: Vec<Entry>,
    /// Indices into `by_address`, by name.
    by_name: Vec<u32>,
}

/// Longest name that is kept, in bytes; longer ones are cut.
pub const MAX_NAME_BYTES: usize = 1024;

/// How many earlier symbols are tried when the nearest one ends before the address.
const MAX_ENCLOSING_TRIES: usize = 16;

/// One row of the symbol table as the file has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) name: u32,
    pub(super) info: u8,
    pub(super) section: u16,
    pub(super) value: u64,
    pub(super) size: u64,
}

const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
/// A section of a list, which names none.
const SHN_LISTED: u16 = 1;

/// Address, kind and name of a line.
fn line_of(line: &[u8]) -> Option<(u64, u8, &str)> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let value = u64::from_str_radix(words.next()?, 16).ok()?;
    let [kind] = *words.next()?.as_bytes() else { return None };
    Some((value, kind, words.next()?))
}

impl Symbols {
    /// Builds the tables from rows of `.symtab` and its string table.
    pub(super) fn from_raw(strings: Vec<u8>, rows: impl Iterator<Item = Raw>) -> Self {
        let mut symbols = Symbols { strings, ..Symbols::default() };
        symbols.by_address = rows.filter_map(|row| symbols.entry(row)).collect();
        let mut entries = std::mem::take(&mut symbols.by_address);
        entries.sort_by(|a, b| {
            let key = |e: &Entry| (e.address, std::cmp::Reverse(e.rank), e.size);
            key(a).cmp(&key(b)).then_with(|| symbols.text(a).cmp(symbols.text(b)))
        });
        entries.dedup_by(|a, b| a.address == b.address && symbols.text(a) == symbols.text(b));
        let mut by_name: Vec<u32> = (0u32..).take(entries.len()).collect();
        by_name.sort_by(|&a, &b| {
            let text = |i: u32| symbols.text(&entries[i as usize]);
            text(a).cmp(text(b)).then(a.cmp(&b))
        });
        symbols.by_address = entries;
        symbols.by_name = by_name;
        symbols
    }

    /// Builds the tables from lines of address, kind by its letter, and name; what follows these is
    /// ignored.
    ///
    /// Source: GNU nm's manual, "nm": a for absolute, t and w for code, u for undefined.
    pub(super) fn from_lines(text: &[u8]) -> Result<Self, LoadError> {
        let (mut strings, mut rows) = (Vec::new(), Vec::new());
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Some((value, kind, name)) = line_of(line) else {
                return Err(LoadError::SymbolList { line: number + 1 });
            };
            let (info, section) = match kind.to_ascii_lowercase() {
                b'a' => (STT_NOTYPE, SHN_ABS),
                b't' | b'w' => (STT_FUNC, SHN_LISTED),
                b'u' => (STT_NOTYPE, SHN_UNDEF),
                _ => (STT_OBJECT, SHN_LISTED),
            };
            let at = u32::try_from(strings.len()).unwrap_or(u32::MAX);
            strings.extend(name.bytes().chain([0]));
            rows.push(Raw { name: at, info, section, value, size: 0 });
            check_count("symbols", rows.len() as u64, MAX_SYMBOLS)?;
        }
        Ok(Symbols::from_raw(strings, rows.into_iter()))
    }

    /// Keeps functions, objects and labels that are defined and have a readable name.
    fn entry(&self, row: Raw) -> Option<Entry> {
        let rank = match row.info & 15 {
            rank @ (STT_NOTYPE | STT_OBJECT | STT_FUNC) => rank,
            _ => return None,
        };
        let tail = self.strings.get(row.name as usize..)?;
        let tail = &tail[..tail.len().min(MAX_NAME_BYTES)];
        let name = &tail[..tail.iter().position(|&byte| byte == 0).unwrap_or(tail.len())];
        // "$x", "$d" mark changes between code and data on Arm; they name nothing.
        let is_mapping = name.first() == Some(&b'$');
        if row.section == SHN_UNDEF || name.is_empty() || is_mapping {
            return None;
        }
        std::str::from_utf8(name).ok()?;
        Some(Entry {
            address: row.value,
            size: row.size,
            name: row.name,
            name_len: u32::try_from(name.len()).ok()?,
            is_absolute: row.section == SHN_ABS,
            rank,
        })
    }

    fn text(&self, entry: &Entry) -> &str {
        let from = entry.name as usize;
        let bytes = self.strings.get(from..from + entry.name_len as usize).unwrap_or(&[]);
        std::str::from_utf8(bytes).unwrap_or("")
    }

    fn symbol(&self, entry: &Entry) -> Symbol<'_> {
        Symbol { name: self.text(entry), address: entry.address, size: entry.size }
    }

    /// Returns the symbol that holds `address` and the offset in it.
    ///
    /// A symbol with a size holds that many bytes, one without holds all up to the next symbol.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(Symbol<'_>, u64)> {
        let end = self.by_address.partition_point(|entry| entry.address <= address);
        let mut tries = 0;
        let mut group = end;
        let mut is_nearest = true;
        while group > 0 && tries < MAX_ENCLOSING_TRIES {
            let base = self.by_address[group - 1].address;
            let start = self.by_address[..group].partition_point(|entry| entry.address < base);
            let offset = address - base;
            let places = self.by_address[start..group].iter().filter(|e| !e.is_absolute);
            for entry in places.clone() {
                let holds = offset < entry.size || (entry.size == 0 && is_nearest);
                if holds {
                    return Some((self.symbol(entry), offset));
                }
            }
            is_nearest &= places.count() == 0;
            group = start;
            tries += 1;
        }
        None
    }

    /// Returns the symbol of that name; of several the one with the lowest address.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Symbol<'_>> {
        let text = |i: u32| self.text(&self.by_address[i as usize]);
        let first = self.by_name.partition_point(|&i| text(i) < name);
        let index = *self.by_name.get(first)?;
        (text(index) == name).then(|| self.symbol(&self.by_address[index as usize]))
    }

    /// Returns all symbols by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.by_address.iter().map(|entry| self.symbol(entry))
    }

    /// Returns how many symbols there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Whether the image has no symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Writes `address` as `name+0x12`, or as a number where no symbol holds it.
    #[must_use]
    pub fn describe(&self, address: u64) -> String {
        match self.at(address) {
            Some((symbol, 0)) => symbol.name.to_owned(),
            Some((symbol, offset)) => format!("{}+{offset:#x}", symbol.name),
            None => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Raw, Symbols};

    fn symbols() -> Symbols {
        let strings = b"\0start\0big\0inner\0label\0limit\0$x\0".to_vec();
        let row = |name, info, section, value, size| Raw { name, info, section, value, size };
        let rows = [
            row(1, 0x12, 1, 0x100, 0x10),
            row(7, 0x12, 1, 0x200, 0x100),
            row(11, 0x01, 1, 0x220, 0x8),
            row(17, 0x00, 1, 0x400, 0),
            row(23, 0x10, 0xfff1, 0x401, 0),
            row(29, 0x00, 1, 0x404, 0),
            row(1, 0x12, 0, 0x900, 0x10),
            row(9999, 0x12, 1, 0x900, 0x10),
        ];
        Symbols::from_raw(strings, rows.into_iter())
    }

    #[test]
    fn address_finds_the_innermost_symbol_that_covers_it() {
        let symbols = symbols();
        let at = |address| symbols.at(address).map(|(symbol, offset)| (symbol.name, offset));
        assert_eq!(at(0xff), None);
        assert_eq!(at(0x100), Some(("start", 0)));
        assert_eq!(at(0x10f), Some(("start", 0xf)));
        assert_eq!(at(0x110), None);
        assert_eq!(at(0x227), Some(("inner", 7)));
        assert_eq!(at(0x228), Some(("big", 0x28)));
        assert_eq!(at(0x403), Some(("label", 3)));
        assert_eq!(at(0x400), Some(("label", 0)));
        assert_eq!(symbols.describe(0x228), "big+0x28");
        assert_eq!(symbols.describe(0x10), "0x10");
    }

    #[test]
    fn a_list_gives_code_a_name_before_data_and_refuses_other_lines() {
        let list = b"ffff800008000000 T _text\nffff800008000000 D data\n\
            ffff800008000010 t local\t[module]\n12 A number\n U absent\n";
        let why = Symbols::from_lines(list).expect_err("an undefined symbol has no address");
        assert!(why.to_string().contains("line 5"), "{why}");
        let symbols = Symbols::from_lines(&list[..list.len() - 10]).expect("a list");
        assert_eq!(symbols.describe(0xffff_8000_0800_000c), "_text+0xc");
        assert_eq!(symbols.describe(0xffff_8000_0800_0010), "local");
        assert_eq!(symbols.describe(0x13), "0x13");
        assert_eq!(symbols.find("number").map(|s| s.address), Some(0x12));
        assert!(Symbols::from_lines(b"").expect("an empty list").is_empty());
        for bad in ["nothing", "12 TT name", "12 T", "xyz T name", "\u{e4}"] {
            assert!(Symbols::from_lines(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn name_finds_defined_symbols_only() {
        let symbols = symbols();
        assert_eq!(symbols.find("start").map(|s| (s.address, s.size)), Some((0x100, 0x10)));
        assert_eq!(symbols.find("limit").map(|s| s.address), Some(0x401));
        assert_eq!(symbols.find("star"), None);
        assert_eq!(symbols.len(), 5);
    }
}
