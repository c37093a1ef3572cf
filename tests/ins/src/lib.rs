//! Rows of `.ins` files: `text | bytes | before => after  # reason`, one a line.
//!
//! - **text** is what iced's Intel formatter makes of the bytes, several instructions with `; `
//!   between them.
//! - **bytes**, and all numbers, are hexadecimal without prefix.
//! - **before** and **after** are words `name=value`. What they mean is the reader's: see the tests
//!   that read the files. Here are the words that all of them share.
//!
//! A line that starts with `#` is a comment; one that starts with a word of [`Reader::HEADS`], as
//! in `mode 32`, holds for the rows behind it.

pub mod registers;

use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

/// Names of general registers in encoding order.
pub const GPR: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// Flags with a letter.
pub const FLAGS: [(char, u64); 10] = [
    ('o', 1 << 11),
    ('s', 1 << 7),
    ('z', 1 << 6),
    ('a', 1 << 4),
    ('p', 1 << 2),
    ('c', 1 << 0),
    ('d', 1 << 10),
    ('i', 1 << 9),
    ('t', 1 << 8),
    ('n', 1 << 14),
];

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// First column.
    pub text: &'a str,
    /// Second column.
    pub bytes: Vec<u8>,
    /// What stands before `=>`.
    pub before: &'a str,
    /// What stands behind it.
    pub after: &'a str,
    bytes_text: &'a str,
    reason: &'a str,
}

impl<'a> Row<'a> {
    /// Splits a line.
    ///
    /// # Errors
    /// What is missing, or no number, as text.
    pub fn parse(line: &'a str) -> Result<Self, String> {
        let (row, reason) = line.split_once('#').unwrap_or((line, ""));
        let mut columns = row.splitn(3, '|').map(str::trim);
        let mut column = |name: &str| columns.next().ok_or(format!("no column {name}"));
        let (text, bytes_text, effect) = (column("text")?, column("bytes")?, column("effect")?);
        let (before, after) = effect.split_once("=>").ok_or("no =>")?;
        let bytes: Result<Vec<u8>, _> =
            bytes_text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16)).collect();
        let bytes = bytes.map_err(|e| format!("bytes: {e}"))?;
        let (before, after, reason) = (before.trim(), after.trim(), reason.trim());
        Ok(Row { text, bytes, before, after, bytes_text, reason })
    }

    /// The row as a line, with another text.
    #[must_use]
    pub fn line(&self, text: &str) -> String {
        let before = if self.before.is_empty() { "" } else { " " };
        let reason =
            if self.reason.is_empty() { String::new() } else { format!("  # {}", self.reason) };
        let (bytes, after) = (self.bytes_text, self.after);
        format!("{text} | {bytes} |{before}{} => {after}{reason}", self.before)
    }
}

/// A hexadecimal number.
///
/// # Errors
/// As text.
pub fn number(text: &str) -> Result<u128, String> {
    u128::from_str_radix(text, 16).map_err(|e| format!("{text}: {e}"))
}

/// The flags of letters; `-` is none.
///
/// # Errors
/// The letter that is none, as text.
pub fn flag_bits(letters: &str) -> Result<u64, String> {
    let bit = |letter| {
        let known = FLAGS.iter().find(|row| row.0 == letter);
        known.map(|row| row.1).ok_or(format!("no flag {letter}"))
    };
    letters.chars().filter(|c| *c != '-').try_fold(0, |all, c| Ok(all | bit(c)?))
}

/// The letters of flags; `-` is none.
#[must_use]
pub fn letters(rflags: u64) -> String {
    let set: String = FLAGS.iter().filter(|row| rflags & row.1 != 0).map(|row| row.0).collect();
    if set.is_empty() { "-".to_owned() } else { set }
}

/// Address and size of a word of memory: `b[20000]`, and `w`, `d`, `q`, `x` for 2, 4, 8 and 16
/// bytes. `None` when it is another word.
#[must_use]
pub fn memory(name: &str) -> Option<(u64, usize)> {
    let (size, at) = name.strip_suffix(']')?.split_once('[')?;
    let log2 = ["b", "w", "d", "q", "x"].iter().position(|known| *known == size)?;
    Some((u64::from_str_radix(at, 16).ok()?, 1 << log2))
}

/// What iced's formatter makes of bytes.
#[must_use]
pub fn disassemble(bytes: &[u8], bits: u8, at: u64) -> String {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    options.set_branch_leading_zeros(false);
    let decoder = Decoder::with_ip(u32::from(bits), bytes, at, DecoderOptions::NONE);
    let texts = decoder.into_iter().map(|instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        text
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// What a test makes of the files of a folder.
pub trait Reader {
    /// First words of lines that hold for the rows behind them.
    const HEADS: &'static [&'static str];

    /// A file begins.
    fn start(&mut self);

    /// A line of `HEADS`: its first word, and the rest.
    ///
    /// # Errors
    /// What is wrong with it.
    fn head(&mut self, word: &str, value: &str) -> Result<(), String>;

    /// What the text of a row should be.
    fn text(&self, row: &Row<'_>) -> String;

    /// Whether a row holds.
    ///
    /// # Errors
    /// What does not.
    fn check(&mut self, row: &Row<'_>) -> Result<(), String>;

    /// Checks all `.ins` files of a folder. With the variable `BLESS`, texts are rewritten.
    ///
    /// # Panics
    /// With all rows that do not hold, and when there is none.
    fn check_folder(&mut self, folder: &Path) {
        let is_blessing = std::env::var_os("BLESS").is_some();
        let (mut failures, mut rows) = (Vec::new(), 0);
        for (name, content) in files(folder) {
            self.start();
            let mut blessed = String::new();
            for (i, line) in content.lines().map(str::trim_end).enumerate() {
                let mut new_line = line.to_owned();
                let (word, value) = line.split_once(' ').unwrap_or((line, ""));
                let result = if Self::HEADS.contains(&word) {
                    self.head(word, value.trim())
                } else if line.is_empty() || line.starts_with('#') {
                    Ok(())
                } else {
                    rows += 1;
                    Row::parse(line).and_then(|row| {
                        let text = self.text(&row);
                        new_line = row.line(&text);
                        if !is_blessing && text != row.text {
                            return Err(format!("the text should be `{text}`"));
                        }
                        self.check(&row)
                    })
                };
                if let Err(error) = result {
                    failures.push(format!("{name}:{}: {line}\n    {error}", i + 1));
                }
                blessed.push_str(&new_line);
                blessed.push('\n');
            }
            if is_blessing && blessed != content {
                std::fs::write(folder.join(&name), blessed).expect("the file can be written");
            }
        }
        assert!(rows > 0, "no rows in {}", folder.display());
        let failed = failures.len();
        assert!(failures.is_empty(), "{failed} of {rows} rows:\n{}", failures.join("\n"));
    }
}

/// Name and content of the `.ins` files of a folder, by name.
///
/// # Panics
/// When one cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".ins"))
        .collect();
    names.sort();
    let read = |name: String| {
        let content = std::fs::read_to_string(folder.join(&name)).expect("the file is text");
        (name, content)
    };
    names.into_iter().map(read).collect()
}
