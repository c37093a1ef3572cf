//! Placements: which cpus of a machine run the threads of a test.

use topology::{Isa, Machine};

/// How far apart the threads of a test are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// Siblings of one core, then those of the next.
    Smt,
    /// Cores of one LLC.
    Llc,
    /// LLCs of one package by turns.
    Package,
    /// Packages by turns.
    Socket,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Smt, Self::Llc, Self::Package, Self::Socket];

    /// Returns as many cpus as there are threads, cpu 0 among them, or `None` when the machine
    /// has not that many in this relation.
    #[must_use]
    pub fn cpus(self, machine: &Machine, threads: usize) -> Option<Vec<usize>> {
        let place = |c: usize| &machine.cpus[c];
        let mut all: Vec<usize> = (0..machine.cpus.len()).collect();
        all.sort_by_key(|c| (place(*c).core, place(*c).smt));
        let first = place(0);
        let is_one_llc = machine.llcs.iter().filter(|l| l.package == first.package).count() < 2;
        let is_one_package = machine.llcs.iter().all(|l| l.package == first.package);
        let is_smt = machine.cores.iter().all(|c| c.cpus.len() > 1);
        let chosen = match self {
            Self::Smt => deal(&all, |_| 0),
            _ => {
                all.retain(|c| place(*c).smt == 0);
                match self {
                    Self::Llc => {
                        all.retain(|c| place(*c).llc == first.llc);
                        deal(&all, |_| 0)
                    }
                    Self::Package => {
                        all.retain(|c| place(*c).package == first.package);
                        deal(&all, |c| place(c).llc)
                    }
                    _ => deal(&all, |c| place(c).package),
                }
            }
        };
        let exists = match self {
            Self::Smt => is_smt,
            Self::Llc => true,
            Self::Package => !is_one_llc,
            Self::Socket => !is_one_package,
        };
        (exists && chosen.len() >= threads).then(|| chosen[..threads].to_vec())
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smt => "smt",
            Self::Llc => "llc",
            Self::Package => "package",
            Self::Socket => "socket",
        }
    }
}

/// Takes one cpu of each group by turns.
fn deal(cpus: &[usize], group: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for &cpu in cpus {
        match groups.iter_mut().find(|(key, _)| *key == group(cpu)) {
            Some((_, members)) => members.push(cpu),
            None => groups.push((group(cpu), vec![cpu])),
        }
    }
    let longest = groups.iter().map(|(_, m)| m.len()).max().unwrap_or(0);
    (0..longest).flat_map(|i| groups.iter().filter_map(move |(_, m)| m.get(i).copied())).collect()
}

/// The machine that tests run on unless another is named: two packages of two LLCs of four cores,
/// on x86 of two siblings.
///
/// # Panics
/// When the generated machines of `topology` no longer know these parameters.
#[must_use]
pub fn default_machine(isa: Isa) -> Machine {
    let (name, smt) = match isa {
        Isa::X86_64 => ("smp-32", "smp.smt=2"),
        Isa::Aarch64 => ("smp-arm-16", "smp.smt=1"),
    };
    let shape = ["smp.packages=2", smt, "smp.llc_width=4"].map(str::to_owned);
    Machine::load(name, &shape).unwrap_or_else(|report| panic!("{report}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_machines_have_every_distance_for_four_threads() {
        for (isa, placement) in
            [Isa::X86_64, Isa::Aarch64].into_iter().flat_map(|i| Placement::ALL.map(|p| (i, p)))
        {
            let machine = default_machine(isa);
            if isa == Isa::Aarch64 && placement == Placement::Smt {
                assert_eq!(placement.cpus(&machine, 2), None);
                continue;
            }
            let cpus = placement.cpus(&machine, 4).unwrap();
            assert!(cpus.contains(&0), "{placement:?}: {cpus:?}");
            let of = |f: fn(&topology::CpuPlace) -> usize| {
                let mut all: Vec<usize> = cpus.iter().map(|c| f(&machine.cpus[*c])).collect();
                all.sort_unstable();
                all.dedup();
                all.len()
            };
            let shape = (of(|c| c.core), of(|c| c.llc), of(|c| c.package));
            let expected = match placement {
                Placement::Smt => (2, 1, 1),
                Placement::Llc => (4, 1, 1),
                Placement::Package => (4, 2, 1),
                Placement::Socket => (4, 2, 2),
            };
            assert_eq!(shape, expected, "{placement:?}: {cpus:?}");
        }
    }
}
