//! emu_cpu
