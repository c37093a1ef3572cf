//! `scenario`: the text of a scenario file.

use crate::read_error;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match emu_lab::scenario::load_file("x.toml", text, &[]) {
        Ok(cases) => assert!(cases.iter().all(|case| !case.label().is_empty())),
        Err(error) => read_error(&error),
    }
}
