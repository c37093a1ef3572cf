//! Rust text with comments and literals blanked out, and the functions in it.
//!
//! A lexer of a page, not a parser: it knows comments (nested ones too), strings (raw and byte
//! strings too), characters apart from lifetimes, and how brackets nest.

use std::ops::Range;

/// Replaces comments, strings and characters by spaces; lines and columns stay.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = token_end(bytes, at);
        let is_code = end == at + 1 && bytes[at].is_ascii();
        for &byte in &bytes[at..end] {
            out.push(if is_code || byte == b'\n' { byte } else { b' ' });
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of what starts at `at`: a comment, a literal, or one byte of anything else.
fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        return rest.iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n);
    }
    if rest.starts_with(b"/*") {
        return at + block_comment(rest);
    }
    if rest[0] == b'"' {
        return at + quoted(rest, b'"');
    }
    if rest[0] == b'r' && (!after_word || bytes[at - 1] == b'b') {
        let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            return at + raw_string(rest, hashes);
        }
    }
    if rest[0] == b'\'' && is_char_literal(rest) {
        return at + quoted(rest, b'\'');
    }
    at + 1
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut n) = (0_usize, 0);
    while n < rest.len() {
        match &rest[n..] {
            [b'/', b'*', ..] => (depth, n) = (depth + 1, n + 2),
            [b'*', b'/', ..] if depth == 1 => return n + 2,
            [b'*', b'/', ..] => (depth, n) = (depth - 1, n + 2),
            _ => n += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut n = 1;
    while n < rest.len() {
        match rest[n] {
            b'\\' => n += 2,
            byte if byte == quote => return n + 1,
            _ => n += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], hashes: usize) -> usize {
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let start = 2 + hashes;
    rest[start..]
        .windows(close.len())
        .position(|w| w == close)
        .map_or(rest.len(), |n| start + n + close.len())
}

/// `'a'` and `'\n'`, but not the lifetime `'a`.
fn is_char_literal(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(&byte) if byte.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => rest.iter().take(6).skip(2).any(|&b| b == b'\''),
        None => false,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Does `code` have `word`, with no word character on either side?
pub(super) fn has_word(code: &str, word: &str) -> bool {
    words(code, word).next().is_some()
}

/// The places of `word` in `code`, with no word character on either side.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let end = at + word.len();
        (at == 0 || !is_word(bytes[at - 1])) && bytes.get(end).is_none_or(|&b| !is_word(b))
    })
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Lines from the one with `fn` to the closing brace, from 0.
    pub(super) lines: Range<usize>,
}

/// All functions with a body in blanked text.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name: String = code[at + 2..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // Without a name it is the type of a function pointer.
        if name.is_empty() {
            continue;
        }
        if let Some(body) = braces_after(code, at) {
            found.push(Function { name, lines: line_of(code, at)..line_of(code, body.end) + 1 });
        }
    }
    found
}

/// Line ranges, from 0, of modules under `#[cfg(test)]` in blanked text.
pub(super) fn test_modules(code: &str) -> Vec<Range<usize>> {
    let starts = code.match_indices("#[cfg(test)]").map(|(at, mark)| at + mark.len());
    starts
        .filter(|&at| code[at..].trim_start().trim_start_matches("pub ").starts_with("mod "))
        .filter_map(|at| braces_after(code, at))
        .map(|body| line_of(code, body.start)..line_of(code, body.end) + 1)
        .collect()
}

/// The first block in braces after `at`, unless an item ends before it.
fn braces_after(code: &str, at: usize) -> Option<Range<usize>> {
    let (mut depth, mut start) = (0_i32, None);
    for (n, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 && start.is_none() => (start, depth) = (Some(n), 1),
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b';' if depth == 0 && start.is_none() => return None,
            _ => {}
        }
        if let Some(start) = start.filter(|_| depth == 0) {
            return Some(start..n);
        }
    }
    None
}

fn line_of(code: &str, at: usize) -> usize {
    code.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
}
