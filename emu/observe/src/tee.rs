//! Several observers on one run.

use crate::event::{Observer, Record, Wanted};

/// Both observers see everything that either wants.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn wanted(&self) -> Wanted {
        let (a, b) = (self.0.wanted(), self.1.wanted());
        Wanted { wakes: a.wakes || b.wakes, lines: a.lines || b.lines, steps: a.steps || b.steps }
    }

    fn record(&mut self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }
}

/// An observer that may be absent.
impl<A: Observer> Observer for Option<A> {
    fn wanted(&self) -> Wanted {
        self.as_ref().map_or_else(Wanted::default, Observer::wanted)
    }

    fn record(&mut self, record: &Record) {
        if let Some(observer) = self {
            observer.record(record);
        }
    }
}

/// An observer that stays with its owner.
impl<A: Observer> Observer for &mut A {
    fn wanted(&self) -> Wanted {
        (**self).wanted()
    }

    fn record(&mut self, record: &Record) {
        (**self).record(record);
    }
}
