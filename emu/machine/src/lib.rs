//! emu_machine
