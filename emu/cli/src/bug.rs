//! What a bug of the model prints: the assertion, its place, and how to see it again.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::print_line_to_stderr;

/// Commit that this was built from, where the build says it.
pub(crate) const COMMIT: Option<&str> = option_env!("CROSSCALL_COMMIT");

static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Replaces the message of a panic. The exit code stays 101.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    // Other host threads fall with the first one; theirs is no news.
    if IS_REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    let place = info.location().map_or_else(String::new, |place| format!(" ({place})"));
    message(&text, &place, std::env::args()).iter().for_each(|line| print_line_to_stderr(line));
}

/// The lines to print for an assertion at a place, in a run of this command.
fn message(text: &str, place: &str, command: impl Iterator<Item = String>) -> [String; 4] {
    let words: Vec<String> = command.map(|word| quoted(&word)).collect();
    [
        format!("crosscall: bug of the model: {text}{place}"),
        format!("  version {}, commit {}", env!("CARGO_PKG_VERSION"), COMMIT.unwrap_or("unknown")),
        format!("  replay: {}", words.join(" ")),
        "  please report it with these lines and the image".to_owned(),
    ]
}

/// Quotes a word for a shell where it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./:,+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bug_names_its_place_and_how_to_see_it_again() {
        let command = ["crosscall", "run", "my image", "--seed", "7"].map(str::to_owned);
        let lines = super::message("late message", " (emu/x.rs:1:2)", command.into_iter());
        assert_eq!(lines[0], "crosscall: bug of the model: late message (emu/x.rs:1:2)");
        let version = format!("  version {}, commit ", env!("CARGO_PKG_VERSION"));
        assert!(lines[1].starts_with(&version), "{lines:?}");
        assert_eq!(lines[2], "  replay: crosscall run 'my image' --seed 7");
        assert!(lines[3].contains("report"));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(super::quoted("--guest=a=b"), "--guest=a=b");
        assert_eq!(super::quoted("it's here"), r"'it'\''s here'");
        assert_eq!(super::quoted(""), "''");
    }
}
