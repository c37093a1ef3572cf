//! The machine of [`super`] on x86-64 Linux: mappings, signals, frames.
#![expect(unsafe_code, reason = "running single instructions on the host is what this is for")]

use std::ptr::{self, addr_of, addr_of_mut};
use std::{arch, io};

use emu_x86::flat_user::{CODE, CODE_PAGE, FS_BASE, GS_BASE, PAGES};
use libc::{c_int, c_void};

use crate::case::{Case, End, Outcome, SETTABLE_FLAGS};

const PAGE: usize = 0x1000;
/// Opcode of INT3, which fills the code page.
const INT3: u8 = 0xcc;
/// Bytes of the code page that a case may overwrite: the instruction and what follows.
const CODE_ROOM: usize = 32;
/// Changed bytes of memory that one batch can report.
const CHANGES_MAX: usize = 1 << 20;
/// Ticks of the clock until a case counts as stuck.
const TICKS_MAX: u32 = 4;
const TICK_US: libc::suseconds_t = 100_000;
/// Bytes of the handler's stack; frames hold all vector state.
const HANDLER_STACK: usize = 1 << 18;
/// Flags that no case begins with, whatever the one before left: TF, RF and AC.
const FRAME_FLAGS: i64 = 0x5_0100;
/// Vector of INT3.
const BREAKPOINT: u64 = 3;
const PAGE_FAULT: u64 = 14;

/// Frame entries of RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
const GREGS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Offsets in the frame's save area, which has the format of XSAVE.
const MXCSR_AT: usize = 24;
const ST_AT: usize = 32;
const XMM_AT: usize = 160;
const LEGACY_BYTES: usize = 512;
/// x87 and SSE in XSTATE_BV.
const X87_SSE: u64 = 3;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;

/// State after a case, without allocations.
#[derive(Clone, Copy)]
struct Raw {
    end: End,
    gpr: [u64; 16],
    rflags: u64,
    legacy: [u8; LEGACY_BYTES],
    bases: [u64; 2],
    selectors: [u16; 4],
    /// Where its changes of memory lie in the batch's.
    changes: (usize, usize),
}

const NO_RAW: Raw = Raw {
    end: End::Stuck,
    gpr: [0; 16],
    rflags: 0,
    legacy: [0; LEGACY_BYTES],
    bases: [0; 2],
    selectors: [0; 4],
    changes: (0, 0),
};

/// What the handler works on.
struct Batch {
    cases: Vec<Case>,
    raws: Vec<Raw>,
    /// The running case; `None` outside of a batch.
    running: Option<usize>,
    /// Writable views of `PAGES`, and what they held when the case began.
    views: [*mut u8; PAGES.len()],
    before: [[u8; PAGE]; PAGES.len()],
    changes: Vec<(u32, u8)>,
    changes_len: usize,
    ticks: u32,
    home_gregs: [i64; 23],
    home_legacy: [u8; LEGACY_BYTES],
    home_fs: u64,
}

/// The handler has no argument of its own, so this is where it finds its work. One thread, and it
/// touches this only before and after a batch.
static mut BATCH: *mut Batch = ptr::null_mut();

/// The host process, prepared.
pub(super) struct Machine {
    batch: Box<Batch>,
}

impl Machine {
    /// Maps memory and installs the handlers.
    pub(super) fn new() -> io::Result<Self> {
        let views = map_pages()?;
        install()?;
        let batch = Box::new(Batch {
            cases: Vec::new(),
            raws: Vec::new(),
            running: None,
            views,
            before: [[0; PAGE]; PAGES.len()],
            changes: vec![(0, 0); CHANGES_MAX],
            changes_len: 0,
            ticks: 0,
            home_gregs: [0; 23],
            home_legacy: [0; LEGACY_BYTES],
            home_fs: 0,
        });
        Ok(Machine { batch })
    }

    /// Runs cases one after the other.
    pub(super) fn run(&mut self, cases: Vec<Case>) -> io::Result<Vec<Outcome>> {
        let batch = &mut *self.batch;
        batch.raws = vec![NO_RAW; cases.len()];
        batch.cases = cases;
        batch.changes_len = 0;
        batch.running = None;
        if !batch.cases.is_empty() {
            batch.home_fs = get_base(ARCH_GET_FS);
            // SAFETY: this is the one thread; the handler runs within `raise` and is done when it
            // returns, and no reference to the batch is used in between.
            let result = unsafe {
                BATCH = batch;
                set_base(ARCH_SET_GS, GS_BASE);
                libc::raise(libc::SIGUSR1)
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(self.batch.raws.iter().map(|raw| self.outcome(raw)).collect())
    }

    fn outcome(&self, raw: &Raw) -> Outcome {
        let word = |at: usize| u16::from_le_bytes([raw.legacy[at], raw.legacy[at + 1]]);
        let wide = |at: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&raw.legacy[at..at + 16]);
            u128::from_le_bytes(bytes)
        };
        let (start, end) = raw.changes;
        let changes = &self.batch.changes[start..end];
        Outcome {
            end: raw.end,
            gpr: raw.gpr,
            rflags: raw.rflags,
            xmm: std::array::from_fn(|i| wide(XMM_AT + 16 * i)),
            mxcsr: u32::from(word(MXCSR_AT)) | u32::from(word(MXCSR_AT + 2)) << 16,
            fcw: word(0),
            fsw: word(2),
            ftw: raw.legacy[4],
            st: std::array::from_fn(|i| wide(ST_AT + 16 * i) & (u128::MAX >> 48)),
            bases: raw.bases,
            selectors: raw.selectors,
            memory: changes.iter().map(|(at, byte)| (u64::from(*at), *byte)).collect(),
        }
    }
}

/// Maps the pages of a case, and gives the views to write them by.
fn map_pages() -> io::Result<[*mut u8; PAGES.len()]> {
    let mut views = [ptr::null_mut(); PAGES.len()];
    // SAFETY: a new file without a path; the name is terminated.
    let file = unsafe { libc::memfd_create(c"cases".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: the descriptor is this function's own.
    if file < 0 || unsafe { libc::ftruncate(file, (PAGES.len() * PAGE) as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (i, ((page, can_write, can_execute), view)) in PAGES.iter().zip(&mut views).enumerate() {
        let offset = (i * PAGE) as libc::off_t;
        let write = if *can_write { libc::PROT_WRITE } else { 0 };
        let execute = if *can_execute { libc::PROT_EXEC } else { 0 };
        let rights = libc::PROT_READ | write | execute;
        // Populated: a first touch of a page would fault by itself.
        let fixed = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE;
        // SAFETY: the address is refused if anything lies there; nothing but cases uses it.
        let low = unsafe { libc::mmap(*page as *mut c_void, PAGE, rights, fixed, file, offset) };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping where the kernel likes.
        let high =
            unsafe { libc::mmap(ptr::null_mut(), PAGE, rights, libc::MAP_SHARED, file, offset) };
        if low == libc::MAP_FAILED || high == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        *view = high.cast();
        if *can_execute {
            // SAFETY: `high` is a writable page.
            unsafe { ptr::write_bytes(*view, INT3, PAGE) };
        }
    }
    Ok(views)
}

/// Installs the handlers, their stack, and the clock that ends what is stuck.
fn install() -> io::Result<()> {
    let stack = vec![0u8; HANDLER_STACK].leak();
    let alternate =
        libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK };
    let signals = [
        libc::SIGUSR1,
        libc::SIGTRAP,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGVTALRM,
    ];
    let tick = libc::timeval { tv_sec: 0, tv_usec: TICK_US };
    let timer = libc::itimerval { it_interval: tick, it_value: tick };
    // SAFETY: the stack lives as long as the process; the handler has the signature that
    // SA_SIGINFO asks for; all structures are filled.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaddset(&mut action.sa_mask, libc::SIGVTALRM);
        let mut is_installed = libc::sigaltstack(&alternate, ptr::null_mut()) == 0;
        for signal in signals {
            is_installed &= libc::sigaction(signal, &action, ptr::null_mut()) == 0;
        }
        is_installed &= libc::setitimer(libc::ITIMER_VIRTUAL, &timer, ptr::null_mut()) == 0;
        if !is_installed {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// `arch_prctl`, without the C library: no `errno`.
fn arch_prctl(what: u64, value: u64) {
    // SAFETY: the system call reads or writes a base, and writes memory for the two reads alone,
    // whose caller passes a place.
    unsafe {
        arch::asm!("syscall", inout("rax") libc::SYS_arch_prctl => _, in("rdi") what,
            in("rsi") value, out("rcx") _, out("r11") _);
    }
}

fn set_base(what: u64, base: u64) {
    arch_prctl(what, base);
}

fn get_base(what: u64) -> u64 {
    let mut base = 0u64;
    arch_prctl(what, addr_of_mut!(base) as u64);
    base
}

/// Selectors of DS, ES, FS and GS; then null ones are loaded, as processes have.
fn take_selectors() -> [u16; 4] {
    let mut found = [0u16; 4];
    // SAFETY: reads selectors; null is always loadable, and in 64-bit mode it changes nothing but
    // the bases, which the caller sets.
    unsafe {
        arch::asm!("mov {0:x}, ds", "mov {1:x}, es", "mov {2:x}, fs", "mov {3:x}, gs",
            out(reg) found[0], out(reg) found[1], out(reg) found[2], out(reg) found[3]);
        arch::asm!("mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "mov gs, {0:e}",
            in(reg) 0u32);
    }
    found
}

/// All signals come here.
extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: clears flags that a case may have set: AC, NT and ID. The stack is the handler's.
    unsafe {
        arch::asm!("pushfq", "and qword ptr [rsp], {0}", "popfq", in(reg) !0x24_4000i64);
    }
    // SAFETY: the kernel passes a context; `BATCH` was set before the first signal of a batch,
    // and the thread that set it waits in `raise`.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        let batch = *addr_of!(BATCH);
        if signal == libc::SIGVTALRM {
            if batch.is_null() || (*batch).running.is_none() {
                return;
            }
            (*batch).ticks += 1;
            if (*batch).ticks < TICKS_MAX {
                return;
            }
        }
        handle(&mut *batch, signal, context);
    }
}

/// Takes the end of a case, and begins the next.
fn handle(batch: &mut Batch, signal: c_int, context: &mut libc::ucontext_t) {
    let next = match batch.running {
        None => {
            batch.home_gregs = context.uc_mcontext.gregs;
            batch.home_legacy = *legacy(context);
            set_base(ARCH_SET_FS, FS_BASE);
            0
        }
        Some(running) => {
            finish(batch, running, signal, context);
            running + 1
        }
    };
    if next < batch.cases.len() {
        batch.running = Some(next);
        begin(batch, next, context);
    } else {
        batch.running = None;
        context.uc_mcontext.gregs = batch.home_gregs;
        *legacy(context) = batch.home_legacy;
        set_base(ARCH_SET_FS, batch.home_fs);
    }
    batch.ticks = 0;
}

/// The frame's x87 and SSE state, in the format of FXSAVE.
fn legacy(context: &mut libc::ucontext_t) -> &mut [u8; LEGACY_BYTES] {
    // SAFETY: x86-64 frames have this area, followed by the XSAVE header.
    unsafe {
        let area = context.uc_mcontext.fpregs.cast::<u8>();
        // The components are in use: else the kernel would load their initial state.
        *area.add(LEGACY_BYTES).cast::<u64>() |= X87_SSE;
        &mut *area.cast::<[u8; LEGACY_BYTES]>()
    }
}

fn begin(batch: &mut Batch, n: usize, context: &mut libc::ucontext_t) {
    let case = &batch.cases[n];
    for (i, (page, _, is_code)) in PAGES.into_iter().enumerate() {
        let before = &mut batch.before[i];
        if is_code {
            let at = (CODE - page) as usize;
            before.fill(INT3);
            before[at..at + case.code.len()].copy_from_slice(&case.code);
        } else {
            before.fill(0);
        }
        for (at, bytes) in &case.memory {
            if at & !(PAGE as u64 - 1) == page {
                let at = (at - page) as usize;
                before[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        let (from, len) =
            if is_code { ((CODE - CODE_PAGE) as usize, CODE_ROOM) } else { (0, PAGE) };
        // SAFETY: the view is a writable page, and `from + len` lies within a page.
        unsafe {
            ptr::copy_nonoverlapping(before.as_ptr().add(from), batch.views[i].add(from), len);
        }
    }
    let gregs = &mut context.uc_mcontext.gregs;
    for (value, greg) in case.gpr.into_iter().zip(GREGS) {
        gregs[greg as usize] = value as i64;
    }
    gregs[libc::REG_RIP as usize] = CODE as i64;
    let flags = &mut gregs[libc::REG_EFL as usize];
    *flags = *flags & !(SETTABLE_FLAGS as i64 | FRAME_FLAGS) | case.flags as i64;
    let legacy = legacy(context);
    legacy[..MXCSR_AT].fill(0);
    legacy[..2].copy_from_slice(&case.fcw.to_le_bytes());
    legacy[2..4].copy_from_slice(&case.fsw.to_le_bytes());
    legacy[4] = case.ftw;
    legacy[MXCSR_AT..MXCSR_AT + 4].copy_from_slice(&case.mxcsr.to_le_bytes());
    legacy[ST_AT..XMM_AT].fill(0);
    for (i, value) in case.xmm.into_iter().enumerate() {
        legacy[XMM_AT + 16 * i..XMM_AT + 16 * (i + 1)].copy_from_slice(&value.to_le_bytes());
    }
}

fn finish(batch: &mut Batch, n: usize, signal: c_int, context: &mut libc::ucontext_t) {
    let gregs = context.uc_mcontext.gregs;
    let mut raw = NO_RAW;
    raw.end = end(&gregs, signal);
    raw.gpr = GREGS.map(|greg| gregs[greg as usize] as u64);
    raw.rflags = gregs[libc::REG_EFL as usize] as u64;
    raw.legacy = *legacy(context);
    raw.bases = [FS_BASE, GS_BASE];
    if batch.cases[n].moves_segments {
        raw.bases = [get_base(ARCH_GET_FS), get_base(ARCH_GET_GS)];
        raw.selectors = take_selectors();
        set_base(ARCH_SET_FS, FS_BASE);
        set_base(ARCH_SET_GS, GS_BASE);
    }
    let start = batch.changes_len;
    for (i, (page, ..)) in PAGES.into_iter().enumerate() {
        // SAFETY: the view is a readable page; the case has ended.
        let after = unsafe { &*batch.views[i].cast::<[u8; PAGE]>() };
        let before = &batch.before[i];
        if after == before {
            continue;
        }
        for at in 0..PAGE {
            if after[at] != before[at] && batch.changes_len < CHANGES_MAX {
                batch.changes[batch.changes_len] = ((page + at as u64) as u32, after[at]);
                batch.changes_len += 1;
            }
        }
    }
    raw.changes = (start, batch.changes_len);
    batch.raws[n] = raw;
}

/// What the frame says about the end of a case.
fn end(gregs: &[i64; 23], signal: c_int) -> End {
    let greg = |n: c_int| gregs[n as usize] as u64;
    let (rip, vector) = (greg(libc::REG_RIP), greg(libc::REG_TRAPNO));
    if signal == libc::SIGVTALRM {
        return End::Stuck;
    }
    if vector == BREAKPOINT && rip & !(PAGE as u64 - 1) == CODE_PAGE {
        return End::At(rip - 1);
    }
    if rip != CODE {
        // The fetch of the next instruction faulted.
        return End::At(rip);
    }
    let code = greg(libc::REG_ERR) as u32;
    let cr2 = if vector == PAGE_FAULT { greg(libc::REG_CR2) } else { 0 };
    End::Fault(vector as u8, code, cr2)
}
