//! A list that many CPUs push to without a lock, and one takes whole: `llist`.
//!
//! Nodes are part of what they stand for: a call descriptor, a task that is to be woken.

use crate::arch::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::arch::atomic::{AtomicPtr, AtomicU32};
use crate::points::point;

/// A node; `flags` are the owner's.
#[repr(C)]
pub(crate) struct Node {
    next: AtomicPtr<Node>,
    pub(crate) flags: AtomicU32,
}

impl Node {
    /// A node on no list.
    pub(crate) const fn new() -> Node {
        Node { next: AtomicPtr::new(core::ptr::null_mut()), flags: AtomicU32::new(0) }
    }
}

/// The head of a list: its newest node.
#[repr(transparent)]
pub(crate) struct Head(AtomicPtr<Node>);

impl Head {
    /// Puts a node on the list; returns whether the list was empty. The node stays valid until
    /// who takes the list is done with it.
    #[inline]
    pub(crate) fn push(&self, node: &Node) -> bool {
        point!(call_push);
        let mut first = self.0.load(Relaxed);
        loop {
            node.next.store(first, Relaxed);
            let newest = core::ptr::from_ref(node).cast_mut();
            match self.0.compare_exchange(first, newest, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(seen) => first = seen,
            }
        }
        point!(call_pushed);
        first.is_null()
    }

    /// Whether the list looks empty to a plain load.
    #[inline]
    pub(crate) fn looks_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Takes all nodes, oldest first.
    #[inline]
    pub(crate) fn take(&self) -> List {
        point!(csq_take);
        let newest = self.0.swap(core::ptr::null_mut(), AcqRel);
        List::reversed(newest)
    }
}

/// Nodes that one CPU has for itself, in order.
pub(crate) struct List {
    first: *mut Node,
    last: *mut Node,
}

impl List {
    /// No nodes.
    pub(crate) const fn new() -> List {
        List { first: core::ptr::null_mut(), last: core::ptr::null_mut() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Takes the first node off; its `next` is read before it is handed out.
    #[expect(unsafe_code, reason = "walks a list of raw pointers")]
    pub(crate) fn pop(&mut self) -> Option<&'static Node> {
        // SAFETY: null, or a node that was pushed and that its owner keeps until it is released.
        let node = unsafe { self.first.as_ref()? };
        self.first = node.next.load(Relaxed);
        Some(node)
    }

    /// Puts a node behind the last one.
    #[expect(unsafe_code, reason = "walks a list of raw pointers")]
    pub(crate) fn append(&mut self, node: &Node) {
        let node = core::ptr::from_ref(node).cast_mut();
        // SAFETY: `node` was just a reference, and so was the last one, which is not released.
        unsafe {
            (*node).next.store(core::ptr::null_mut(), Relaxed);
            match self.first.is_null() {
                true => self.first = node,
                false => (*self.last).next.store(node, Relaxed),
            }
        }
        self.last = node;
    }

    #[expect(unsafe_code, reason = "walks a list of raw pointers")]
    fn reversed(newest: *mut Node) -> List {
        let (mut left, mut reversed) = (newest, core::ptr::null_mut());
        // SAFETY: a pushed node stays valid until it is released.
        while let Some(node) = unsafe { left.as_ref() } {
            let next = node.next.load(Relaxed);
            // One node needs no new link.
            if next != reversed {
                node.next.store(reversed, Relaxed);
            }
            (reversed, left) = (left, next);
        }
        List { first: reversed, last: newest }
    }
}
