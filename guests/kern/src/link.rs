//! A shared pointer to something that is never freed.

use crate::arch;
use crate::arch::atomic::AtomicPtr;
use crate::arch::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// An optional reference, loaded and stored as one word.
///
/// Only `&'static` goes in, so what comes out is valid. Order is the business of the lock (or
/// the owner) that guards the link.
#[repr(transparent)]
pub(crate) struct Link<T: 'static>(AtomicPtr<T>);

impl<T> Link<T> {
    /// A link to nothing.
    pub(crate) const fn none() -> Link<T> {
        Link(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// A link that leads somewhere.
    pub(crate) fn to(to: &'static T) -> Link<T> {
        Link(AtomicPtr::new(core::ptr::from_ref(to).cast_mut()))
    }

    /// What the link leads to.
    #[inline]
    #[expect(unsafe_code, reason = "makes a reference of a pointer")]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or a `&'static T` that `set` was given.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// What the link leads to, where the caller knows that it leads somewhere.
    #[inline]
    #[expect(unsafe_code, reason = "spares a test on every path of the scheduler")]
    pub(crate) fn get_some(&self) -> &'static T {
        // SAFETY: callers ask for links that boot has set and nobody clears.
        unsafe { &*self.0.load(Relaxed) }
    }

    /// What the link leads to, as soon as it leads somewhere.
    #[inline]
    pub(crate) fn wait_some(&self) -> &'static T {
        loop {
            if let Some(to) = self.get() {
                return to;
            }
            arch::wait_change_pointer(&self.0, core::ptr::null_mut());
        }
    }

    /// Leads the link to `to` if it leads nowhere; returns whether it did. Acquires what who
    /// cleared it wrote before.
    #[inline]
    pub(crate) fn try_fill(&self, to: &'static T) -> bool {
        let to = core::ptr::from_ref(to).cast_mut();
        self.0.compare_exchange(core::ptr::null_mut(), to, Acquire, Relaxed).is_ok()
    }

    /// Leads the link nowhere, by an atomic of full order.
    #[inline]
    pub(crate) fn clear(&self) {
        self.0.swap(core::ptr::null_mut(), SeqCst);
    }

    /// Leads the link elsewhere if it leads to `from`, ordered with everything.
    ///
    /// Errors: where it leads instead.
    pub(crate) fn compare_exchange(
        &self,
        from: Option<&'static T>,
        to: Option<&'static T>,
    ) -> Result<(), Option<&'static T>> {
        let pointer = |to: Option<&'static T>| {
            to.map_or(core::ptr::null_mut(), |to| core::ptr::from_ref(to).cast_mut())
        };
        let result = self.0.compare_exchange(pointer(from), pointer(to), SeqCst, Relaxed);
        result.map(drop).map_err(|_| self.get())
    }

    /// Leads the link elsewhere.
    #[inline]
    pub(crate) fn set(&self, to: Option<&'static T>) {
        let to = to.map_or(core::ptr::null_mut(), |to| core::ptr::from_ref(to).cast_mut());
        self.0.store(to, Relaxed);
    }
}
