//! Ports for tests of instruction bodies: flat memory without timing, and one that makes
//! instructions wait and run again.
//!
//! [`FlatPort`] answers at once. [`FlakyPort`] returns `Wait` before requests by a pseudo-random
//! schedule and answers a run again from its step log; it panics when a run asks for something
//! else than the run before, which is how a body that breaks the restart rule of `port` shows.
//!
//! Not modelled: time (a clock that moves on with each time read), caches, store buffers, other
//! cpus. A signal is only recorded.

use emu_sim::{PhysAddr, SimTime};

use crate::port::{DeviceAccess, Fence, Note, Port, Target, TimeOrder, Wait};
use crate::timing::OpTiming;
use crate::wait::{MonitorState, Signal};

/// Flat memory from physical address 0, with records of what left the cpu.
#[derive(Clone, Debug)]
pub struct FlatPort {
    /// Memory; beyond it reads give all ones and writes are lost.
    pub memory: Vec<u8>,
    /// Device accesses, in order.
    pub device_log: Vec<DeviceAccess>,
    /// What device reads answer.
    pub device_value: u64,
    /// Address that no device has.
    pub no_device: Option<u64>,
    /// Signals sent, with their order.
    pub signals: Vec<(Target, Signal, bool)>,
    /// Timer of the cpu.
    pub timer: Option<SimTime>,
    /// Monitor of the cpu.
    pub monitor: MonitorState,
    /// Simulated time; each read adds `time_step`.
    pub now: SimTime,
    /// What a time read adds.
    pub time_step: SimTime,
    /// Fences, in order.
    pub fences: Vec<Fence>,
    /// Notes, in order.
    pub notes: Vec<Note>,
    /// Instructions reported as not implemented, by address.
    pub unimplemented: Vec<u64>,
    versions: Vec<u32>,
    is_code: Vec<bool>,
    code_stored: bool,
}

impl FlatPort {
    /// `size` bytes of zeroes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let pages = size.div_ceil(0x1000);
        FlatPort {
            memory: vec![0; size],
            device_log: Vec::new(),
            device_value: 0,
            no_device: None,
            signals: Vec::new(),
            timer: None,
            monitor: MonitorState::Unarmed,
            now: SimTime::ZERO,
            time_step: SimTime(1000),
            fences: Vec::new(),
            notes: Vec::new(),
            unimplemented: Vec::new(),
            versions: vec![0; pages],
            is_code: vec![false; pages],
            code_stored: false,
        }
    }

    /// Copies bytes into memory, as a loader does.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.set(at + i as u64, *byte);
        }
    }

    /// Little-endian number of 1 to 16 bytes in memory.
    #[must_use]
    pub fn get(&self, at: u64, size: u8) -> u128 {
        (0..u64::from(size))
            .map(|i| u128::from(self.byte(at + i)) << (8 * i))
            .fold(0, |value, byte| value | byte)
    }

    fn byte(&self, at: u64) -> u8 {
        usize::try_from(at).ok().and_then(|at| self.memory.get(at)).copied().unwrap_or(0xff)
    }

    fn set(&mut self, at: u64, byte: u8) {
        let Ok(at) = usize::try_from(at) else { return };
        let Some(slot) = self.memory.get_mut(at) else { return };
        *slot = byte;
        let page = at >> 12;
        if self.is_code[page] {
            self.versions[page] += 1;
            self.code_stored = true;
        }
    }

    fn write(&mut self, pa: PhysAddr, size: u8, value: u128) {
        assert!(pa.line_offset() + u64::from(size) <= 64, "store over two lines at {pa}");
        for i in 0..u64::from(size) {
            self.set(pa.0 + i, (value >> (8 * i)) as u8);
        }
        let line = pa.line();
        if self.monitor == MonitorState::Armed(line) || self.monitor == MonitorState::Reserved(line)
        {
            self.monitor = MonitorState::Triggered;
        }
    }

    fn read(&self, pa: PhysAddr, size: u8) -> u128 {
        assert!(pa.line_offset() + u64::from(size) <= 64, "load over two lines at {pa}");
        self.get(pa.0, size)
    }
}

impl Port for FlatPort {
    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn dispatch(&mut self, _timing: &OpTiming) {}

    fn extra_latency(&mut self, _cycles: u32) {}

    fn serialise(&mut self) {}

    fn branch(&mut self, _mispredicted: bool) {}

    fn logged_translation(&mut self) -> Option<u64> {
        None
    }

    fn translated(&mut self, _entry: u64) {}

    fn begin_walk(&mut self) {}

    fn load(&mut self, pa: PhysAddr, size: u8) -> Result<u64, Wait> {
        assert!(matches!(size, 1 | 2 | 4 | 8), "load of {size} bytes");
        Ok(self.read(pa, size) as u64)
    }

    fn load_wide(&mut self, pa: PhysAddr) -> Result<u128, Wait> {
        Ok(self.read(pa, 16))
    }

    fn store(&mut self, pa: PhysAddr, size: u8, value: u64) -> Result<(), Wait> {
        assert!(matches!(size, 1..=8), "store of {size} bytes");
        self.write(pa, size, u128::from(value));
        Ok(())
    }

    fn store_wide(&mut self, pa: PhysAddr, value: u128) -> Result<(), Wait> {
        self.write(pa, 16, value);
        Ok(())
    }

    fn rmw(
        &mut self,
        pa: PhysAddr,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Result<u128, Wait> {
        let old = self.read(pa, size);
        if let Some(new) = change(old) {
            self.write(pa, size, new);
        }
        Ok(old)
    }

    fn fetch(&mut self, _pa: PhysAddr) -> Result<(), Wait> {
        Ok(())
    }

    fn code_bytes(&mut self, pa: PhysAddr, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = self.byte(pa.0 + i as u64);
        }
    }

    fn code_version(&mut self, page: u64) -> u32 {
        usize::try_from(page).ok().and_then(|page| self.versions.get(page)).copied().unwrap_or(0)
    }

    fn note_code(&mut self, page: u64) {
        let page = usize::try_from(page).ok();
        if let Some(flag) = page.and_then(|page| self.is_code.get_mut(page)) {
            *flag = true;
        }
    }

    fn take_code_store(&mut self) -> bool {
        std::mem::take(&mut self.code_stored)
    }

    fn fence(&mut self, fence: Fence) -> Result<(), Wait> {
        self.fences.push(fence);
        Ok(())
    }

    fn flush_line(&mut self, _pa: PhysAddr) -> Result<(), Wait> {
        Ok(())
    }

    fn device(&mut self, access: DeviceAccess) -> Result<Option<u64>, Wait> {
        self.device_log.push(access);
        if self.no_device == Some(access.addr) {
            return Ok(None);
        }
        let mask = u64::MAX >> (64 - 8 * u32::from(access.size));
        Ok(Some(if access.write.is_some() { 0 } else { self.device_value & mask }))
    }

    fn tell(&mut self, access: DeviceAccess) -> Result<(), Wait> {
        self.device_log.push(access);
        Ok(())
    }

    fn arm_monitor(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        self.monitor = MonitorState::Armed(pa.line());
        Ok(())
    }

    fn load_exclusive(&mut self, pa: PhysAddr, size: u8) -> Result<u128, Wait> {
        self.monitor = MonitorState::Reserved(pa.line());
        Ok(self.read(pa, size))
    }

    fn store_exclusive(&mut self, pa: PhysAddr, size: u8, value: u128) -> Result<bool, Wait> {
        let stands = self.monitor == MonitorState::Reserved(pa.line());
        if stands {
            self.write(pa, size, value);
        }
        self.monitor = MonitorState::Unarmed;
        Ok(stands)
    }

    fn monitor(&self) -> MonitorState {
        self.monitor
    }

    fn disarm_monitor(&mut self) {
        self.monitor = MonitorState::Unarmed;
    }

    fn signal(&mut self, target: Target, signal: Signal, ordered: bool) -> Result<(), Wait> {
        self.signals.push((target, signal, ordered));
        Ok(())
    }

    fn set_timer(&mut self, at: Option<SimTime>) {
        self.timer = at;
    }

    fn time(&mut self, _order: TimeOrder) -> SimTime {
        self.now += self.time_step;
        self.now
    }

    fn report_unimplemented(&mut self, rip: u64, _bytes: &[u8]) {
        if !self.unimplemented.contains(&rip) {
            self.unimplemented.push(rip);
        }
    }
}

/// One finished request: what was asked, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LogEntry {
    Translation(u64),
    Load(PhysAddr, u8, u128),
    Store(PhysAddr, u8, u128),
    Rmw(PhysAddr, u8, u128),
    LoadExclusive(PhysAddr, u8, u128),
    StoreExclusive(PhysAddr, u8, u128, bool),
    Fetch(PhysAddr),
    Fence(Fence),
    FlushLine(PhysAddr),
    Device(DeviceAccess, Option<u64>),
    Tell(DeviceAccess),
    Arm(PhysAddr),
    Signal(Target, Signal),
    Time(SimTime),
}

/// A [`FlatPort`] that makes instructions wait. Call [`FlakyPort::run`] around each.
#[derive(Clone, Debug)]
pub struct FlakyPort {
    /// The memory and records behind.
    pub inner: FlatPort,
    log: Vec<LogEntry>,
    at: usize,
    walk_start: usize,
    /// State of the schedule.
    random: u64,
    /// A request that waits is served when it is asked again.
    is_waiting: bool,
    /// Times that something waited, over all instructions.
    pub waits: u64,
}

impl FlakyPort {
    /// Waits by a schedule made from `seed`.
    #[must_use]
    pub fn new(inner: FlatPort, seed: u64) -> Self {
        FlakyPort {
            inner,
            log: Vec::new(),
            at: 0,
            walk_start: 0,
            random: seed.wrapping_mul(2).wrapping_add(1),
            is_waiting: false,
            waits: 0,
        }
    }

    /// Runs `step` until it does not wait, as the engine runs one instruction.
    ///
    /// # Panics
    /// When a run asks for something else than the run before.
    pub fn run<T>(&mut self, mut step: impl FnMut(&mut Self) -> Result<T, Wait>) -> T {
        loop {
            self.at = 0;
            match step(self) {
                Ok(done) => {
                    assert_eq!(self.at, self.log.len(), "a run asks for less than the one before");
                    self.log.clear();
                    return done;
                }
                Err(Wait) => {
                    assert!(self.is_waiting, "a step waits although no request does");
                }
            }
        }
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.random >> 33
    }

    /// The answer in the log, or the decision to wait, or `None`: perform the request now.
    fn ask(&mut self) -> Result<Option<LogEntry>, Wait> {
        if let Some(entry) = self.log.get(self.at) {
            self.at += 1;
            return Ok(Some(entry.clone()));
        }
        if !self.is_waiting && self.next_random().is_multiple_of(3) {
            self.is_waiting = true;
            self.waits += 1;
            return Err(Wait);
        }
        self.is_waiting = false;
        Ok(None)
    }

    fn record(&mut self, entry: LogEntry) {
        self.log.push(entry);
        self.at = self.log.len();
    }

    fn mismatch(&self, asked: &str) -> ! {
        panic!("run again asks for {asked}, but the log has {:?}", self.log.get(self.at - 1));
    }
}

/// Serves a request of `FlakyPort` from the log, or performs and records it.
macro_rules! serve {
    ($self:ident, $asked:expr, $pattern:pat $(if $guard:expr)? => $answer:expr, $perform:expr) => {
        match $self.ask()? {
            Some($pattern) $(if $guard)? => Ok($answer),
            Some(_) => $self.mismatch(&$asked),
            None => $perform,
        }
    };
}

impl Port for FlakyPort {
    fn note(&mut self, note: Note) {
        self.inner.note(note);
    }

    fn dispatch(&mut self, timing: &OpTiming) {
        self.inner.dispatch(timing);
    }

    fn extra_latency(&mut self, cycles: u32) {
        self.inner.extra_latency(cycles);
    }

    fn serialise(&mut self) {
        self.inner.serialise();
    }

    fn branch(&mut self, mispredicted: bool) {
        self.inner.branch(mispredicted);
    }

    fn logged_translation(&mut self) -> Option<u64> {
        let Some(LogEntry::Translation(entry)) = self.log.get(self.at) else { return None };
        self.at += 1;
        Some(*entry)
    }

    fn translated(&mut self, entry: u64) {
        assert_eq!(self.at, self.log.len(), "a finished walk is not walked again");
        self.log.truncate(self.walk_start);
        self.record(LogEntry::Translation(entry));
    }

    fn begin_walk(&mut self) {
        self.walk_start = self.at;
    }

    fn load(&mut self, pa: PhysAddr, size: u8) -> Result<u64, Wait> {
        serve!(self, format!("load {pa}"),
            LogEntry::Load(at, n, value) if (at, n) == (pa, size) => value as u64, {
            let value = self.inner.load(pa, size)?;
            self.record(LogEntry::Load(pa, size, u128::from(value)));
            Ok(value)
        })
    }

    fn load_wide(&mut self, pa: PhysAddr) -> Result<u128, Wait> {
        serve!(self, format!("load {pa}"),
            LogEntry::Load(at, 16, value) if at == pa => value, {
            let value = self.inner.load_wide(pa)?;
            self.record(LogEntry::Load(pa, 16, value));
            Ok(value)
        })
    }

    fn store(&mut self, pa: PhysAddr, size: u8, value: u64) -> Result<(), Wait> {
        let entry = LogEntry::Store(pa, size, u128::from(value));
        serve!(self, format!("{entry:?}"), logged if logged == entry => (), {
            self.inner.store(pa, size, value)?;
            self.record(entry);
            Ok(())
        })
    }

    fn store_wide(&mut self, pa: PhysAddr, value: u128) -> Result<(), Wait> {
        let entry = LogEntry::Store(pa, 16, value);
        serve!(self, format!("{entry:?}"), logged if logged == entry => (), {
            self.inner.store_wide(pa, value)?;
            self.record(entry);
            Ok(())
        })
    }

    fn rmw(
        &mut self,
        pa: PhysAddr,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Result<u128, Wait> {
        serve!(self, format!("rmw {pa}"),
            LogEntry::Rmw(at, n, old) if (at, n) == (pa, size) => old, {
            let old = self.inner.rmw(pa, size, change)?;
            self.record(LogEntry::Rmw(pa, size, old));
            Ok(old)
        })
    }

    fn fetch(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        serve!(self, format!("fetch {pa}"), LogEntry::Fetch(at) if at == pa => (), {
            self.record(LogEntry::Fetch(pa));
            Ok(())
        })
    }

    fn code_bytes(&mut self, pa: PhysAddr, out: &mut [u8]) {
        self.inner.code_bytes(pa, out);
    }

    fn code_version(&mut self, page: u64) -> u32 {
        self.inner.code_version(page)
    }

    fn note_code(&mut self, page: u64) {
        self.inner.note_code(page);
    }

    fn take_code_store(&mut self) -> bool {
        self.inner.take_code_store()
    }

    fn fence(&mut self, fence: Fence) -> Result<(), Wait> {
        serve!(self, format!("{fence:?}"), LogEntry::Fence(logged) if logged == fence => (), {
            self.inner.fence(fence)?;
            self.record(LogEntry::Fence(fence));
            Ok(())
        })
    }

    fn flush_line(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        serve!(self, format!("flush {pa}"), LogEntry::FlushLine(at) if at == pa => (), {
            self.record(LogEntry::FlushLine(pa));
            Ok(())
        })
    }

    fn device(&mut self, access: DeviceAccess) -> Result<Option<u64>, Wait> {
        serve!(self, format!("{access:?}"),
            LogEntry::Device(logged, value) if logged == access => value, {
            let value = self.inner.device(access)?;
            self.record(LogEntry::Device(access, value));
            Ok(value)
        })
    }

    fn tell(&mut self, access: DeviceAccess) -> Result<(), Wait> {
        serve!(self, format!("{access:?}"), LogEntry::Tell(logged) if logged == access => (), {
            self.inner.tell(access)?;
            self.record(LogEntry::Tell(access));
            Ok(())
        })
    }

    fn arm_monitor(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        serve!(self, format!("arm {pa}"), LogEntry::Arm(at) if at == pa => (), {
            self.inner.arm_monitor(pa)?;
            self.record(LogEntry::Arm(pa));
            Ok(())
        })
    }

    fn load_exclusive(&mut self, pa: PhysAddr, size: u8) -> Result<u128, Wait> {
        serve!(self, format!("load exclusive {pa}"),
            LogEntry::LoadExclusive(at, n, value) if (at, n) == (pa, size) => value, {
            let value = self.inner.load_exclusive(pa, size)?;
            self.record(LogEntry::LoadExclusive(pa, size, value));
            Ok(value)
        })
    }

    fn store_exclusive(&mut self, pa: PhysAddr, size: u8, value: u128) -> Result<bool, Wait> {
        serve!(self, format!("store exclusive {pa}"),
            LogEntry::StoreExclusive(at, n, was, stored)
                if (at, n, was) == (pa, size, value) => stored, {
            let stored = self.inner.store_exclusive(pa, size, value)?;
            self.record(LogEntry::StoreExclusive(pa, size, value, stored));
            Ok(stored)
        })
    }

    fn monitor(&self) -> MonitorState {
        self.inner.monitor()
    }

    fn disarm_monitor(&mut self) {
        self.inner.disarm_monitor();
    }

    fn signal(&mut self, target: Target, signal: Signal, ordered: bool) -> Result<(), Wait> {
        let entry = LogEntry::Signal(target, signal);
        serve!(self, format!("{entry:?}"), logged if logged == entry => (), {
            self.inner.signal(target, signal, ordered)?;
            self.record(entry);
            Ok(())
        })
    }

    fn set_timer(&mut self, at: Option<SimTime>) {
        self.inner.set_timer(at);
    }

    fn time(&mut self, order: TimeOrder) -> SimTime {
        match self.log.get(self.at) {
            Some(LogEntry::Time(now)) => {
                self.at += 1;
                *now
            }
            Some(other) => panic!("run again asks for time, but the log has {other:?}"),
            None => {
                let now = self.inner.time(order);
                self.record(LogEntry::Time(now));
                now
            }
        }
    }

    fn report_unimplemented(&mut self, rip: u64, bytes: &[u8]) {
        self.inner.report_unimplemented(rip, bytes);
    }
}
