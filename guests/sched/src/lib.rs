//! guests_sched
