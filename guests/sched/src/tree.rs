//! The queue of a run queue: entities in order of virtual time, each knowing the earliest deadline
//! below it.
//!
//! A treap: a search tree by virtual time that is at the same time a heap by a mixed number, which
//! keeps it as shallow as one that was filled at random. Linux has a red-black tree; depth and
//! lines touched are nearly the same, and the code is a third. Entities of the same virtual time
//! are in the order in which they came.

/// A node: an entity of the kernel, or a row of a test. A copy is the same node.
pub trait Node: Copy {
    /// Whether both are one node.
    fn is(self, other: Self) -> bool;
    /// Virtual time, ns; it wraps.
    fn vruntime_ns(self) -> u64;
    /// Number given to the node when it came; orders what has the same virtual time, and wraps.
    fn ticket(self) -> u32;
    /// Virtual deadline, ns; it wraps.
    fn deadline_ns(self) -> u64;
    /// Earliest deadline of the node and all below it, as it was set last.
    fn min_deadline_ns(self) -> u64;
    /// Sets it.
    fn set_min_deadline_ns(self, deadline_ns: u64);
    /// The tree of what comes before.
    fn left(self) -> Option<Self>;
    /// Sets it.
    fn set_left(self, node: Option<Self>);
    /// The tree of what comes behind.
    fn right(self) -> Option<Self>;
    /// Sets it.
    fn set_right(self, node: Option<Self>);
}

/// Whether the virtual time `a` is before `b`.
#[inline]
pub const fn is_earlier(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// The earlier of two virtual times.
#[inline]
pub const fn earlier(a: u64, b: u64) -> u64 {
    if is_earlier(b, a) { b } else { a }
}

/// The later of two virtual times.
#[inline]
pub const fn later(a: u64, b: u64) -> u64 {
    if is_earlier(a, b) { b } else { a }
}

/// Whether a node comes before another one.
#[inline]
pub fn is_before<N: Node>(a: N, b: N) -> bool {
    match a.vruntime_ns().wrapping_sub(b.vruntime_ns()) as i64 {
        0 => (a.ticket().wrapping_sub(b.ticket()) as i32) < 0,
        lead => lead < 0,
    }
}

/// Rank in the heap: the ticket, mixed so that its order shows no more.
fn rank<N: Node>(node: N) -> u32 {
    let mixed = node.ticket().wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77);
    mixed ^ mixed >> 13
}

/// Brings what the node knows of the nodes below it up to date.
fn sum_up<N: Node>(node: N) {
    let mut least = node.deadline_ns();
    for below in [node.left(), node.right()].into_iter().flatten() {
        least = earlier(least, below.min_deadline_ns());
    }
    node.set_min_deadline_ns(least);
}

/// Enters a node, which is in no tree; returns the root.
pub fn insert<N: Node>(root: Option<N>, node: N) -> N {
    match root {
        Some(root) if rank(root) >= rank(node) => {
            if is_before(node, root) {
                root.set_left(Some(insert(root.left(), node)));
            } else {
                root.set_right(Some(insert(root.right(), node)));
            }
            sum_up(root);
            root
        }
        _ => {
            let (left, right) = split(root, node);
            node.set_left(left);
            node.set_right(right);
            sum_up(node);
            node
        }
    }
}

/// Parts a tree into what comes before a node and what comes behind it.
fn split<N: Node>(root: Option<N>, at: N) -> (Option<N>, Option<N>) {
    let Some(root) = root else {
        return (None, None);
    };
    let parts = if is_before(at, root) {
        let (before, behind) = split(root.left(), at);
        root.set_left(behind);
        (before, Some(root))
    } else {
        let (before, behind) = split(root.right(), at);
        root.set_right(before);
        (Some(root), behind)
    };
    sum_up(root);
    parts
}

/// Takes a node out, whose virtual time is what it was entered with; returns the root.
pub fn remove<N: Node>(root: Option<N>, node: N) -> Option<N> {
    let root = root?;
    if root.is(node) {
        return join(root.left(), root.right());
    }
    if is_before(node, root) {
        root.set_left(remove(root.left(), node));
    } else {
        root.set_right(remove(root.right(), node));
    }
    sum_up(root);
    Some(root)
}

/// Makes one tree of two, of which the first comes before the second.
fn join<N: Node>(before: Option<N>, behind: Option<N>) -> Option<N> {
    let (Some(a), Some(b)) = (before, behind) else {
        return before.or(behind);
    };
    let root = if rank(a) >= rank(b) {
        a.set_right(join(a.right(), behind));
        a
    } else {
        b.set_left(join(before, b.left()));
        b
    };
    sum_up(root);
    Some(root)
}

/// The first node in order.
pub fn first<N: Node>(root: Option<N>) -> Option<N> {
    let mut node = root?;
    while let Some(left) = node.left() {
        node = left;
    }
    Some(node)
}

/// The node of the earliest deadline among those that are eligible: all up to some virtual time.
pub fn earliest_deadline<N: Node>(root: Option<N>, is_eligible: impl Fn(N) -> bool) -> Option<N> {
    let (mut at, mut best) = (root, None::<(N, u64)>);
    let mut improve = |node: N, deadline: u64| {
        if best.is_none_or(|(_, least)| is_earlier(deadline, least)) {
            best = Some((node, deadline));
        }
    };
    while let Some(node) = at {
        if !is_eligible(node) {
            at = node.left();
            continue;
        }
        // With the node, everything to its left is eligible.
        if let Some(left) = node.left() {
            improve(left, left.min_deadline_ns());
        }
        improve(node, node.deadline_ns());
        at = node.right();
    }
    let (mut node, deadline) = best?;
    // The best is that node, or somewhere below: to its left if it was reached as a left tree.
    while node.deadline_ns() != deadline {
        let left = node.left().filter(|left| left.min_deadline_ns() == deadline);
        node = left.or(node.right())?;
    }
    Some(node)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::cell::Cell;
    use std::vec::Vec;

    #[derive(Default)]
    struct Row {
        vruntime: u64,
        ticket: u32,
        deadline: u64,
        min_deadline: Cell<u64>,
        left: Cell<Option<usize>>,
        right: Cell<Option<usize>>,
    }

    #[derive(Clone, Copy)]
    struct At<'a>(&'a [Row], usize);

    impl At<'_> {
        fn row(&self) -> &Row {
            &self.0[self.1]
        }
    }

    impl Node for At<'_> {
        fn is(self, other: Self) -> bool {
            self.1 == other.1
        }
        fn vruntime_ns(self) -> u64 {
            self.row().vruntime
        }
        fn ticket(self) -> u32 {
            self.row().ticket
        }
        fn deadline_ns(self) -> u64 {
            self.row().deadline
        }
        fn min_deadline_ns(self) -> u64 {
            self.row().min_deadline.get()
        }
        fn set_min_deadline_ns(self, deadline_ns: u64) {
            self.row().min_deadline.set(deadline_ns);
        }
        fn left(self) -> Option<Self> {
            self.row().left.get().map(|at| At(self.0, at))
        }
        fn set_left(self, node: Option<Self>) {
            self.row().left.set(node.map(|node| node.1));
        }
        fn right(self) -> Option<Self> {
            self.row().right.get().map(|at| At(self.0, at))
        }
        fn set_right(self, node: Option<Self>) {
            self.row().right.set(node.map(|node| node.1));
        }
    }

    /// Numbers from one seed.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    /// Virtual times around the wrap, many of them equal.
    fn rows(count: usize) -> Vec<Row> {
        let mut numbers = Numbers(1);
        (0..count)
            .map(|at| Row {
                vruntime: numbers.below(count as u64 / 2).wrapping_sub(100),
                ticket: (at as u32).wrapping_sub(50),
                deadline: numbers.below(1000).wrapping_sub(300),
                ..Row::default()
            })
            .collect()
    }

    fn in_order<'a>(root: Option<At<'a>>, to: &mut Vec<usize>) -> usize {
        let Some(node) = root else { return 0 };
        let left = in_order(node.left(), to);
        to.push(node.1);
        let right = in_order(node.right(), to);
        1 + left.max(right)
    }

    fn key(row: &Row) -> (i64, i32) {
        (row.vruntime as i64, row.ticket as i32)
    }

    #[test]
    fn nodes_stand_in_order_whatever_comes_and_goes_and_the_tree_stays_shallow() {
        let rows = rows(1500);
        let mut numbers = Numbers(7);
        let (mut root, mut inside) = (None, Vec::new());
        for step in 0..6000 {
            let at = numbers.below(rows.len() as u64) as usize;
            if let Some(place) = inside.iter().position(|&other| other == at) {
                root = remove(root, At(&rows, at));
                inside.swap_remove(place);
            } else {
                root = Some(insert(root, At(&rows, at)));
                inside.push(at);
            }
            if step % 97 != 0 {
                continue;
            }
            let mut found = Vec::new();
            let depth = in_order(root, &mut found);
            inside.sort_by_key(|&at| key(&rows[at]));
            assert_eq!(found, inside);
            assert_eq!(first(root).map(|node| node.1), inside.first().copied());
            assert!(depth <= 32, "{depth} levels for {} nodes", inside.len());
        }
    }

    #[test]
    fn a_queue_filled_in_order_is_shallow_too() {
        let rows: Vec<Row> =
            (0..1280).map(|at| Row { vruntime: at, ticket: at as u32, ..Row::default() }).collect();
        let root = (0..rows.len()).fold(None, |root, at| Some(insert(root, At(&rows, at))));
        let depth = in_order(root, &mut Vec::new());
        assert!(depth <= 32, "{depth}");
    }

    #[test]
    fn the_earliest_deadline_is_that_of_a_search_through_all() {
        let rows = rows(400);
        let mut numbers = Numbers(3);
        let mut root = None;
        let mut inside = Vec::new();
        for at in 0..rows.len() {
            root = Some(insert(root, At(&rows, at)));
            inside.push(at);
            if at % 3 == 0 {
                let out = inside.swap_remove(numbers.below(inside.len() as u64) as usize);
                root = remove(root, At(&rows, out));
            }
            let limit = numbers.below(220).wrapping_sub(105);
            let is_eligible = |row: &Row| !is_earlier(limit, row.vruntime);
            let found = earliest_deadline(root, |node: At<'_>| is_eligible(node.row()));
            let eligible = inside.iter().map(|&at| &rows[at]).filter(|row| is_eligible(row));
            let best = eligible.map(|row| row.deadline as i64).min();
            assert_eq!(found.map(|node| node.deadline_ns() as i64), best, "limit {limit}");
            assert!(found.is_none_or(|node| is_eligible(node.row())));
        }
    }
}
