//! The earliest of many times that change one by one: a tournament tree.

/// Times by index; `u64::MAX` is never.
#[derive(Clone, Debug)]
pub(crate) struct Earliest {
    /// Node `n` holds the least of nodes `2n` and `2n + 1`; leaves are the second half.
    tree: Vec<u64>,
    leaves: usize,
}

/// The earliest time, whose it is, and the earliest of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Two {
    pub(crate) first: u64,
    pub(crate) at: usize,
    pub(crate) second: u64,
}

impl Earliest {
    pub(crate) fn new(count: usize) -> Earliest {
        let leaves = count.next_power_of_two();
        Earliest { tree: vec![u64::MAX; 2 * leaves], leaves }
    }

    pub(crate) fn get(&self, i: usize) -> u64 {
        self.tree[self.leaves + i]
    }

    pub(crate) fn set(&mut self, i: usize, time: u64) {
        let mut n = self.leaves + i;
        self.tree[n] = time;
        while n > 1 {
            n /= 2;
            let least = self.tree[2 * n].min(self.tree[2 * n + 1]);
            if self.tree[n] == least {
                break;
            }
            self.tree[n] = least;
        }
    }

    /// The earliest time.
    pub(crate) fn first(&self) -> u64 {
        self.tree[1]
    }

    pub(crate) fn two(&self) -> Two {
        let (mut n, mut second) = (1, u64::MAX);
        while n < self.leaves {
            let (left, right) = (self.tree[2 * n], self.tree[2 * n + 1]);
            let other = if left <= right { right } else { left };
            n = if left <= right { 2 * n } else { 2 * n + 1 };
            second = second.min(other);
        }
        Two { first: self.tree[n], at: n - self.leaves, second }
    }

    /// Indices whose time is below `limit`, ascending.
    pub(crate) fn below(&self, limit: u64, out: &mut Vec<usize>) {
        out.clear();
        self.collect(1, limit, out);
    }

    fn collect(&self, n: usize, limit: u64, out: &mut Vec<usize>) {
        if self.tree[n] >= limit {
            return;
        }
        if n >= self.leaves {
            out.push(n - self.leaves);
        } else {
            self.collect(2 * n, limit, out);
            self.collect(2 * n + 1, limit, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan_after_every_change() {
        let chance = emu_sim::Chance::new(1);
        for count in [1, 2, 3, 7, 64, 65, 130] {
            let mut tree = Earliest::new(count);
            let mut plain = vec![u64::MAX; count];
            for n in 0..500 {
                let i = chance.below(count as u64, 0, 0, n) as usize;
                let t = chance.below(40, 0, 1, n);
                let t = if t == 0 { u64::MAX } else { t };
                tree.set(i, t);
                plain[i] = t;
                let two = tree.two();
                let first = plain.iter().copied().min().unwrap_or(u64::MAX);
                assert_eq!((two.first, plain[two.at], tree.first()), (first, first, first));
                let others = (0..count).filter(|c| *c != two.at).map(|c| plain[c]);
                assert_eq!(two.second, others.min().unwrap_or(u64::MAX));
                let mut below = Vec::new();
                tree.below(20, &mut below);
                let scan: Vec<usize> = (0..count).filter(|c| plain[*c] < 20).collect();
                assert_eq!(below, scan);
            }
        }
    }
}
