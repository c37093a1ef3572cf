//! emu_mem
