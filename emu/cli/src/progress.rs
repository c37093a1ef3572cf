//! Progress of long work, on a terminal only: share done, time left, guest instructions a second.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emu_lab::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows progress on stderr.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: Mutex<Option<ProgressBar>>,
    instructions: AtomicU64,
}

impl Bar {
    pub(crate) fn new() -> Bar {
        Bar { bar: Mutex::new(None), instructions: AtomicU64::new(0) }
    }

    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        act(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, total: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let known = "{prefix} {wide_bar} {pos}/{len} {eta} left, {msg}";
        let unknown = "{prefix} {spinner} {elapsed} {msg}";
        let template = if total > 0 { known } else { unknown };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style);
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.instructions.store(0, Ordering::Relaxed);
        self.with(|slot| *slot = Some(bar));
    }

    fn advance(&self, steps: u64, instructions: u64) {
        let total = self.instructions.fetch_add(instructions, Ordering::Relaxed) + instructions;
        self.with(|slot| {
            if let Some(bar) = slot {
                bar.inc(steps);
                let seconds = bar.elapsed().as_secs_f64().max(1e-3);
                bar.set_message(format!("{:.1} MIPS", total as f64 / 1e6 / seconds));
            }
        });
    }

    fn end(&self) {
        self.with(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }
}
