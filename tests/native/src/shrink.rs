//! Makes a case that differs small: what the difference does not need goes to zero.

use emu_x86::flat_user::STACK;
use emu_x86::state::gpr::RSP;

use crate::case::{Case, FCW, MXCSR};

/// Smallest case found that still differs, as `differs` says.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let mut attempt = |best: &mut Case, change: &dyn Fn(&mut Case)| {
        let mut smaller = best.clone();
        change(&mut smaller);
        if smaller != *best && differs(&smaller) {
            *best = smaller;
        }
    };
    attempt(&mut best, &|case| case.xmm = [0; 16]);
    for n in 0..16 {
        attempt(&mut best, &|case| case.xmm[n] = 0);
        attempt(&mut best, &|case| case.gpr[n] = if n == RSP { STACK } else { 0 });
    }
    attempt(&mut best, &|case| case.flags = 0);
    for bit in 0..12 {
        attempt(&mut best, &|case| case.flags &= !(1 << bit));
    }
    attempt(&mut best, &|case| case.mxcsr = MXCSR);
    attempt(&mut best, &|case| (case.fcw, case.fsw, case.ftw) = (FCW, 0, 0));
    attempt(&mut best, &|case| case.memory.clear());
    for n in (0..best.memory.len()).rev() {
        attempt(&mut best, &|case| {
            case.memory.remove(n);
        });
    }
    for n in 0..best.memory.len() {
        for chunk in (0..best.memory[n].1.len()).step_by(8) {
            attempt(&mut best, &|case| zero(&mut case.memory[n].1, chunk, 8));
            for at in chunk..chunk + 8 {
                attempt(&mut best, &|case| zero(&mut case.memory[n].1, at, 1));
            }
        }
    }
    best
}

fn zero(bytes: &mut [u8], at: usize, len: usize) {
    let end = bytes.len().min(at + len);
    if at < end {
        bytes[at..end].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_difference_needs_stays() {
        let mut case = Case::new(vec![0x90]);
        case.gpr = [5; 16];
        case.flags = 0x41;
        case.memory = vec![(0x20000, vec![7; 20]), (0x21000, vec![1])];
        let small = shrink(&case, |case| {
            let byte = case.memory.first().map(|patch| patch.1[9]);
            case.gpr[3] == 5 && case.flags & 1 != 0 && byte == Some(7)
        });
        assert_eq!((small.gpr[3], small.gpr[2], small.gpr[RSP]), (5, 0, STACK));
        assert_eq!(small.flags, 1);
        assert_eq!(small.memory[0].1.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 7);
    }
}
