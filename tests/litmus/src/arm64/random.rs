//! Random tests: a few accesses of every kind on few variables, with barriers and dependencies
//! between them, small enough for the judge to enumerate.
//!
//! Every store has a value of its own, and every register that a load fills is observed.

use std::fmt::Write as _;

use crate::plan::Draw;

/// Accesses of a test, at most.
const ACCESSES_MAX: u64 = 8;
/// Names of variables, and the registers that hold their addresses.
const VARIABLES: [(&str, u8); 3] = [("x", 10), ("y", 11), ("z", 12)];

/// Values that have been stored.
#[derive(Debug, Default)]
struct Values {
    last: u16,
    /// Whether something adds; sums of several are too many values.
    has_add: bool,
}

/// A thread on its way.
#[derive(Debug, Default)]
struct Thread {
    cells: Vec<String>,
    /// Registers of loads, W1 first.
    loads: u8,
    observed: Vec<u8>,
}

/// The text of the test of a seed.
#[must_use]
pub fn text(seed: u64) -> String {
    let mut draw = Draw::new(seed, 3);
    let count = 2 + draw.below(5).saturating_sub(2).min(2);
    let variables = 1 + draw.by_scale(2) % 3 + u64::from(count < 4) / 2;
    let mut threads: Vec<Thread> = (0..count).map(|_| Thread::default()).collect();
    let accesses = count + 1 + draw.below(ACCESSES_MAX - count);
    let mut values = Values::default();
    for n in 0..accesses {
        let thread = if n < count { n } else { draw.below(count) };
        let variable = VARIABLES[draw.below(variables.max(2)) as usize].1;
        threads[thread as usize].access(variable, &mut values, &mut draw);
    }
    print(seed, &threads)
}

fn print(seed: u64, threads: &[Thread]) -> String {
    let mut text = format!("AArch64 random-{seed}\n{{\n");
    for n in 0..threads.len() {
        let cells = VARIABLES.map(|(name, base)| format!("{n}:X{base}={name};"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", cells.join(" "));
    }
    text.push_str("}\n");
    let mut row = |cell: &dyn Fn(usize, &Thread) -> String| {
        let cells: Vec<String> = threads
            .iter()
            .enumerate()
            .map(|(n, t)| {
                let width = t.cells.iter().map(String::len).max().unwrap_or(0);
                format!(" {:width$} ", cell(n, t))
            })
            .collect();
        let _ = writeln!(text, "{};", cells.join("|"));
    };
    row(&|n, _| format!("P{n}"));
    for at in 0..threads.iter().map(|t| t.cells.len()).max().unwrap_or(0) {
        row(&|_, t| t.cells.get(at).cloned().unwrap_or_default());
    }
    text.push_str("locations [x; y; z;");
    for (n, thread) in threads.iter().enumerate() {
        for register in &thread.observed {
            let _ = write!(text, " {n}:X{register};");
        }
    }
    text.push_str("]\nexists (true)\n");
    text
}

impl Thread {
    fn push(&mut self, cell: impl Into<String>) {
        self.cells.push(cell.into());
    }

    fn new_load(&mut self) -> u8 {
        self.loads += 1;
        self.observed.push(self.loads);
        self.loads
    }

    /// What stands between two accesses, and the address of the second.
    fn link(&mut self, base: u8, draw: &mut Draw) -> u8 {
        let from = self.loads;
        match draw.below(10) {
            0 => self.push(["DMB SY", "DMB LD", "DMB ST"][draw.below(3) as usize]),
            1 => self.push(["DSB SY", "DSB LD", "DSB ST", "ISB"][draw.below(4) as usize]),
            2 if from > 0 => {
                let label = self.cells.len();
                self.push(format!("CBNZ W{from},L{label}"));
                self.push(format!("L{label}: {}", ["ISB", "MOV W9,#0"][draw.below(2) as usize]));
            }
            3 | 4 if from > 0 => {
                self.push(format!("EOR W9,W{from},W{from}"));
                self.push(format!("ADD X13,X{base},W9,SXTW"));
                return 13;
            }
            _ => {}
        }
        base
    }

    /// W0 = a new value, that may depend on the last load.
    fn value(&mut self, values: &mut Values, draw: &mut Draw) {
        values.last += 1;
        let value = values.last;
        if self.loads > 0 && draw.below(4) == 0 {
            self.push(format!("EOR W9,W{},W{}", self.loads, self.loads));
            self.push(format!("ADD W0,W9,#{value}"));
        } else {
            self.push(format!("MOV W0,#{value}"));
        }
    }

    fn access(&mut self, base: u8, values: &mut Values, draw: &mut Draw) {
        if self.observed.len() + 2 > crate::program::RECORDED_MAX {
            return;
        }
        let base = if self.cells.is_empty() { base } else { self.link(base, draw) };
        let order = ["", "A", "L", "AL"][draw.below(4) as usize];
        match draw.below(12) {
            0..4 => {
                let mnemonic = ["LDR", "LDR", "LDAR", "LDAPR"][draw.below(4) as usize];
                let to = self.new_load();
                self.push(format!("{mnemonic} W{to},[X{base}]"));
            }
            4..8 => {
                self.value(values, draw);
                let mnemonic = ["STR", "STR", "STLR"][draw.below(3) as usize];
                self.push(format!("{mnemonic} W0,[X{base}]"));
            }
            8 => {
                self.value(values, draw);
                let to = self.new_load();
                self.push(format!("SWP{order} W0,W{to},[X{base}]"));
            }
            9 => {
                self.value(values, draw);
                let to = self.new_load();
                self.push(format!("MOV W{to},#{}", draw.below(2)));
                self.push(format!("CAS{order} W{to},W0,[X{base}]"));
            }
            10 if !std::mem::replace(&mut values.has_add, true) => {
                self.push("MOV W0,#16");
                if draw.below(2) == 0 {
                    self.push(format!("STADD{} W0,[X{base}]", order.trim_start_matches('A')));
                } else {
                    let to = self.new_load();
                    self.push(format!("LDADD{order} W0,W{to},[X{base}]"));
                }
            }
            _ => {
                self.value(values, draw);
                let to = self.new_load();
                let status = self.new_load();
                let (load, store) = (["", "A"], ["", "L"]);
                self.push(format!("LD{}XR W{to},[X{base}]", load[draw.below(2) as usize]));
                self.push(format!("ST{}XR W{status},W0,[X{base}]", store[draw.below(2) as usize]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::judge::Allowed;

    #[test]
    fn random_tests_are_read_and_enumerated() {
        let (mut tests, mut states) = (0, 0);
        for seed in 0..40 {
            let text = text(seed);
            let test = crate::syntax::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            if let Ok(allowed) = Allowed::of(&test) {
                tests += 1;
                states += allowed.states.len();
            }
        }
        assert!(tests >= 36 && states > 400, "{tests} tests, {states} states");
    }
}
