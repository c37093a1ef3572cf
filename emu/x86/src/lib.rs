//! emu_x86
