//! The idle CPU near a target: `select_idle_sibling`.
//!
//! The search is a function over a [`View`] of the CPUs, so that the order of the looks is the
//! same on the host, in the tests, and in the kernel, where each look reads remote lines.

variants! {
    /// How far the search goes; boot switch `sis`.
    Sis {
        /// Target, prev and the recently used CPU; no scan.
        TargetOnly = "target_only",
        /// The whole LLC.
        Full = "full",
        /// A part of the LLC that shrinks with its utilisation (6.0 on).
        Util = "util",
    }
}

variants! {
    /// What CPUs that run nothing but SCHED_IDLE tasks count as; boot switch `sched_idle_cpu`.
    SchedIdleCpu {
        /// Busy.
        Off = "off",
        /// Idle as target or prev; in scans the second choice (3c29e651e16d, 5.4).
        Fallback = "fallback",
        /// Idle (17346452b25b, 5.6 on).
        Always = "always",
    }
}

/// What the search asks.
pub trait View {
    /// Whether the CPU runs its idle task and nothing is on its way to it.
    fn is_idle(&mut self, cpu: usize) -> bool;
    /// Whether the CPU has tasks, all of them SCHED_IDLE.
    fn is_sched_idle(&mut self, cpu: usize) -> bool;
    /// Whether two CPUs share the LLC.
    fn shares_cache(&mut self, a: usize, b: usize) -> bool;
    /// Whether the wakee may use the CPU.
    fn is_allowed(&mut self, cpu: usize) -> bool;
    /// Whether some core of the LLC of `cpu` is said to be idle; `false` without SMT.
    fn has_idle_cores(&mut self, cpu: usize) -> bool;
    /// Withdraws what [`View::has_idle_cores`] says.
    fn clear_idle_cores(&mut self, cpu: usize);
    /// Whether two CPUs are in the same cluster.
    fn shares_cluster(&mut self, a: usize, b: usize) -> bool;
    /// The next CPU of the LLC of `target` behind `cpu` that the wakee may use, wrapping; the scan
    /// begins behind `target` (for `None`) and ends with it. With clusters, that of `target` is
    /// scanned first, in the same way.
    fn next_of_llc(&mut self, target: usize, cpu: Option<usize>) -> Option<usize>;
    /// Takes the threads of the core of `cpu` out of the scan.
    fn leave_out_core(&mut self, cpu: usize);
    /// The next thread of the core of `first` behind `cpu`, in order of number, from the lowest
    /// for `None`.
    fn next_of_core(&mut self, first: usize, cpu: Option<usize>) -> Option<usize>;
    /// CPUs that the scan may look at (`sis=util`), or all. None at all: nor is there an idle core.
    fn scan_budget(&mut self, target: usize) -> Option<u32>;
}

/// What the waker knows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The CPU to look around.
    pub target: usize,
    /// Where the wakee last ran.
    pub prev: usize,
    /// A CPU it used before that.
    pub recent: usize,
    /// The waker is a kernel thread of one CPU, that of prev, with nothing else to run there.
    pub is_prev_of_lone_kthread: bool,
    /// Whether cores have several threads.
    pub has_smt: bool,
    /// Whether LLCs have clusters, which the search prefers; boot switch `sis_cluster`.
    pub has_cluster: bool,
}

/// The CPU for the wakee.
pub fn select(sis: Sis, sched_idle: SchedIdleCpu, facts: Facts, view: &mut impl View) -> usize {
    let Facts { target, prev, recent, .. } = facts;
    if is_available(sched_idle, view, target) {
        return target;
    }
    // With clusters these two are the last resort, unless they are in the target's.
    let is_near = |view: &mut _, cpu| !facts.has_cluster || View::shares_cluster(view, cpu, target);
    let mut fallback = None;
    if prev != target && view.shares_cache(prev, target) && is_available(sched_idle, view, prev) {
        if is_near(view, prev) {
            return prev;
        }
        fallback = Some(prev);
    }
    if facts.is_prev_of_lone_kthread {
        return prev;
    }
    if recent != prev
        && recent != target
        && view.shares_cache(recent, target)
        && view.is_allowed(recent)
        && is_available(sched_idle, view, recent)
    {
        if is_near(view, recent) {
            return recent;
        }
        fallback = fallback.or(Some(recent));
    }
    if sis == Sis::TargetOnly {
        return fallback.unwrap_or(target);
    }
    let has_idle_core = facts.has_smt && view.has_idle_cores(target);
    // An idle thread of prev's core, unless a whole core is to be had.
    if facts.has_smt
        && !has_idle_core
        && view.shares_cache(prev, target)
        && let Some(cpu) = idle_thread(sched_idle, view, prev)
    {
        return cpu;
    }
    let budget = if sis == Sis::Util { view.scan_budget(target) } else { None };
    let found = match budget {
        Some(0) => None,
        _ if has_idle_core => idle_core(sched_idle, view, target),
        budget => idle_of_llc(sched_idle, view, target, budget),
    };
    found.or(fallback).unwrap_or(target)
}

/// Idle, or as good as idle where a single CPU is looked at.
#[inline]
fn is_available(sched_idle: SchedIdleCpu, view: &mut impl View, cpu: usize) -> bool {
    view.is_idle(cpu) || sched_idle != SchedIdleCpu::Off && view.is_sched_idle(cpu)
}

/// What a look in a scan found.
enum Look {
    Hit,
    SecondChoice,
    Busy,
}

fn look(sched_idle: SchedIdleCpu, view: &mut impl View, cpu: usize) -> Look {
    if view.is_idle(cpu) {
        return Look::Hit;
    }
    match sched_idle {
        SchedIdleCpu::Off => Look::Busy,
        SchedIdleCpu::Fallback if view.is_sched_idle(cpu) => Look::SecondChoice,
        SchedIdleCpu::Always if view.is_sched_idle(cpu) => Look::Hit,
        _ => Look::Busy,
    }
}

fn idle_thread(sched_idle: SchedIdleCpu, view: &mut impl View, prev: usize) -> Option<usize> {
    let mut second_choice = None;
    let mut at = view.next_of_core(prev, None);
    while let Some(cpu) = at {
        if cpu != prev && view.is_allowed(cpu) {
            match look(sched_idle, view, cpu) {
                Look::Hit => return Some(cpu),
                Look::SecondChoice => second_choice = second_choice.or(Some(cpu)),
                Look::Busy => {}
            }
        }
        at = view.next_of_core(prev, Some(cpu));
    }
    second_choice
}

/// A core all of whose threads are idle, else an idle thread met on the way. Without such a core
/// the hint is withdrawn.
fn idle_core(sched_idle: SchedIdleCpu, view: &mut impl View, target: usize) -> Option<usize> {
    let mut idle_cpu = None;
    let mut at = view.next_of_llc(target, None);
    while let Some(first) = at {
        let mut is_core_idle = true;
        let mut thread = view.next_of_core(first, None);
        while let Some(cpu) = thread {
            let is_idle = view.is_idle(cpu);
            is_core_idle &= is_idle;
            if idle_cpu.is_none()
                && (is_idle || sched_idle != SchedIdleCpu::Off && view.is_sched_idle(cpu))
                && view.is_allowed(cpu)
            {
                idle_cpu = Some(cpu);
            }
            thread = view.next_of_core(first, Some(cpu));
        }
        if is_core_idle {
            return Some(first);
        }
        view.leave_out_core(first);
        at = view.next_of_llc(target, Some(first));
    }
    view.clear_idle_cores(target);
    idle_cpu
}

fn idle_of_llc(
    sched_idle: SchedIdleCpu,
    view: &mut impl View,
    target: usize,
    mut budget: Option<u32>,
) -> Option<usize> {
    let mut second_choice = None;
    let mut at = view.next_of_llc(target, None);
    while let Some(cpu) = at {
        if let Some(left) = &mut budget {
            if *left == 0 {
                break;
            }
            *left -= 1;
        }
        match look(sched_idle, view, cpu) {
            Look::Hit => return Some(cpu),
            Look::SecondChoice => second_choice = second_choice.or(Some(cpu)),
            Look::Busy => {}
        }
        at = view.next_of_llc(target, Some(cpu));
    }
    second_choice
}

/// CPUs of an LLC that a scan may look at (`sis=util`): `weight` CPUs, whose utilisations add up
/// to `sum_util` of 1024 each; `imbalance_pct` of the LLC's domain.
pub const fn scan_budget(weight: u32, sum_util: u64, imbalance_pct: u64) -> u32 {
    let full = weight as u64 * 1024;
    let x = if sum_util > full { 1024 } else { sum_util / weight as u64 };
    // y = 1 - (x * pct / 100)^2, in 1024ths.
    let taken = x * x * imbalance_pct * imbalance_pct / (10_000 * 1024);
    if taken >= 1024 { 0 } else { ((1024 - taken) * weight as u64 / 1024) as u32 }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// 16 CPUs in 2 LLCs; with `smt` CPU n and n + 4 of an LLC are threads of a core.
    struct Cpus {
        smt: bool,
        idle: Vec<usize>,
        sched_idle: Vec<usize>,
        allowed: Vec<usize>,
        idle_cores: bool,
        budget: Option<u32>,
        /// Clusters of two CPUs.
        clusters: bool,
        looked: Vec<usize>,
        left_out: Vec<usize>,
    }

    impl Cpus {
        fn busy() -> Cpus {
            Cpus {
                smt: false,
                idle: Vec::new(),
                sched_idle: Vec::new(),
                allowed: (0..16).collect(),
                idle_cores: false,
                budget: None,
                clusters: false,
                looked: Vec::new(),
                left_out: Vec::new(),
            }
        }

        fn idle(cpus: &[usize]) -> Cpus {
            Cpus { idle: cpus.to_vec(), ..Cpus::busy() }
        }

        fn select(&mut self, sis: Sis, sched_idle: SchedIdleCpu, target: usize) -> usize {
            let facts = Facts {
                target,
                prev: target,
                recent: target,
                is_prev_of_lone_kthread: false,
                has_smt: self.smt,
                has_cluster: self.clusters,
            };
            select(sis, sched_idle, facts, self)
        }
    }

    impl View for Cpus {
        fn is_idle(&mut self, cpu: usize) -> bool {
            self.looked.push(cpu);
            self.idle.contains(&cpu)
        }
        fn is_sched_idle(&mut self, cpu: usize) -> bool {
            self.sched_idle.contains(&cpu)
        }
        fn shares_cache(&mut self, a: usize, b: usize) -> bool {
            a / 8 == b / 8
        }
        fn shares_cluster(&mut self, a: usize, b: usize) -> bool {
            a / 2 == b / 2
        }
        fn is_allowed(&mut self, cpu: usize) -> bool {
            self.allowed.contains(&cpu)
        }
        fn has_idle_cores(&mut self, _: usize) -> bool {
            self.idle_cores
        }
        fn clear_idle_cores(&mut self, _: usize) {
            self.idle_cores = false;
        }
        fn next_of_llc(&mut self, target: usize, cpu: Option<usize>) -> Option<usize> {
            let first = target / 8 * 8;
            let wrapped = (1..=8).map(|step| first + (target + step) % 8);
            let mut scan: Vec<_> = wrapped.collect();
            if self.clusters {
                scan.sort_by_key(|&at| at / 2 != target / 2);
            }
            let mut behind = scan.into_iter().skip_while(|&at| cpu.is_some_and(|cpu| at != cpu));
            if cpu.is_some() {
                behind.next();
            }
            behind.find(|at| self.allowed.contains(at) && !self.left_out.contains(at))
        }
        fn leave_out_core(&mut self, cpu: usize) {
            self.left_out.extend([cpu / 8 * 8 + cpu % 4, cpu / 8 * 8 + cpu % 4 + 4]);
        }
        fn next_of_core(&mut self, first: usize, cpu: Option<usize>) -> Option<usize> {
            let lowest = if self.smt { first / 8 * 8 + first % 4 } else { first };
            match cpu {
                None => Some(lowest),
                Some(cpu) if self.smt && cpu == lowest => Some(lowest + 4),
                Some(_) => None,
            }
        }
        fn scan_budget(&mut self, _: usize) -> Option<u32> {
            self.budget
        }
    }

    #[test]
    fn the_scan_starts_behind_the_target_and_stays_in_its_llc() {
        let mut cpus = Cpus::idle(&[1, 6, 9]);
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 3), 6);
        assert_eq!(cpus.looked, [3, 4, 5, 6]);
        let mut cpus = Cpus::idle(&[9]);
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 3), 3);
        assert_eq!(cpus.looked, [3, 4, 5, 6, 7, 0, 1, 2, 3]);
        let mut cpus = Cpus::idle(&[6]);
        assert_eq!(cpus.select(Sis::TargetOnly, SchedIdleCpu::Off, 3), 3);
        let mut cpus = Cpus { allowed: [3, 7].into(), ..Cpus::idle(&[6, 7]) };
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 3), 7);
    }

    #[test]
    fn prev_and_the_recent_cpu_come_before_the_scan() {
        let facts = Facts {
            target: 3,
            prev: 5,
            recent: 6,
            is_prev_of_lone_kthread: false,
            has_smt: false,
            has_cluster: false,
        };
        let chosen = |facts, idle: &[usize]| {
            select(Sis::Full, SchedIdleCpu::Off, facts, &mut Cpus::idle(idle))
        };
        assert_eq!(chosen(facts, &[3, 4, 5, 6]), 3);
        assert_eq!(chosen(facts, &[4, 5, 6]), 5);
        assert_eq!(chosen(facts, &[4, 6]), 6);
        assert_eq!(chosen(Facts { is_prev_of_lone_kthread: true, ..facts }, &[4, 6]), 5);
        // Neither counts in another LLC.
        assert_eq!(chosen(Facts { prev: 13, recent: 14, ..facts }, &[4, 13, 14]), 4);
        // With clusters (2 and 3 are one) those of others are taken when nothing else is idle.
        let clusters = Facts { has_cluster: true, ..facts };
        assert_eq!(chosen(Facts { prev: 2, ..clusters }, &[2, 4]), 2);
        let clustered = |idle: &[usize]| {
            let mut cpus = Cpus { clusters: true, ..Cpus::idle(idle) };
            select(Sis::Full, SchedIdleCpu::Off, clusters, &mut cpus)
        };
        assert_eq!(clustered(&[2, 4, 5, 6]), 2);
        assert_eq!(clustered(&[4, 5, 6]), 4);
        let none = |prev, recent| Facts { prev, recent, ..clusters };
        let fallback = |facts| {
            let mut cpus = Cpus { clusters: true, budget: Some(0), ..Cpus::idle(&[5, 6]) };
            select(Sis::Util, SchedIdleCpu::Off, facts, &mut cpus)
        };
        assert_eq!([fallback(none(5, 6)), fallback(none(1, 6)), fallback(none(1, 1))], [5, 6, 3]);
    }

    #[test]
    fn a_cpu_with_sched_idle_tasks_counts_by_the_variant() {
        // D5: in scan order first a sched-idle CPU, then an idle one. D6: no idle one. D7: prev.
        let cases = [
            ("D5", SchedIdleCpu::Off, &[6][..], &[5][..], 6),
            ("D5", SchedIdleCpu::Fallback, &[6], &[5], 6),
            ("D5", SchedIdleCpu::Always, &[6], &[5], 5),
            ("D6", SchedIdleCpu::Off, &[], &[5], 3),
            ("D6", SchedIdleCpu::Fallback, &[], &[5], 5),
            ("D6", SchedIdleCpu::Always, &[], &[5], 5),
            ("D7", SchedIdleCpu::Off, &[6], &[3], 6),
            ("D7", SchedIdleCpu::Fallback, &[6], &[3], 3),
            ("D7", SchedIdleCpu::Always, &[6], &[3], 3),
        ];
        for (id, variant, idle, sched_idle, expected) in cases {
            let mut cpus = Cpus { sched_idle: sched_idle.to_vec(), ..Cpus::idle(idle) };
            assert_eq!(cpus.select(Sis::Full, variant, 3), expected, "{id} {variant:?}");
        }
    }

    #[test]
    fn whole_cores_come_first_while_the_hint_says_there_are_some() {
        // Core of 2: threads 2 and 6; CPU 5 is the idle half of a busy core.
        let smt = |idle: &[usize], idle_cores| Cpus { smt: true, idle_cores, ..Cpus::idle(idle) };
        let mut cpus = smt(&[5, 2, 6], true);
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 0), 2);
        assert!(cpus.idle_cores);
        let mut cpus = smt(&[5], true);
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 0), 5);
        assert!(!cpus.idle_cores, "no core was idle");
        // Without the hint the sibling of prev is looked at before the LLC.
        let mut cpus = smt(&[2, 4], false);
        assert_eq!(cpus.select(Sis::Full, SchedIdleCpu::Off, 0), 4);
        assert_eq!(cpus.looked, [0, 4]);
    }

    #[test]
    fn the_budget_shrinks_with_the_square_of_the_utilisation() {
        let cases = [
            (16, 0, 117, 16),
            (16, 16 * 512, 117, 10),
            (16, 16 * 800, 117, 2),
            (16, 16 * 876, 117, 0),
            (16, 16 * 2000, 117, 0),
            (128, 128 * 512, 117, 84),
        ];
        for (weight, sum_util, pct, expected) in cases {
            assert_eq!(scan_budget(weight, sum_util, pct), expected, "{weight} {sum_util}");
        }
        let mut cpus = Cpus { budget: Some(3), ..Cpus::idle(&[6]) };
        assert_eq!(cpus.select(Sis::Util, SchedIdleCpu::Off, 3), 6);
        assert_eq!(cpus.looked, [3, 4, 5, 6]);
        let mut cpus = Cpus { budget: Some(2), ..Cpus::idle(&[6]) };
        assert_eq!(cpus.select(Sis::Util, SchedIdleCpu::Off, 3), 3);
        assert_eq!(cpus.looked, [3, 4, 5]);
        let mut cpus = Cpus { budget: Some(0), ..Cpus::idle(&[4]) };
        assert_eq!(cpus.select(Sis::Util, SchedIdleCpu::Off, 3), 3);
        assert_eq!(cpus.looked, [3]);
    }
}
