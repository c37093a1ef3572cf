//! Cases and outcomes as bytes, between the runner and its child. Little-endian, no versions: both
//! ends are one binary.

use crate::case::{Case, End, Outcome};

/// Appends to a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.extend_from_slice(&bytes);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }
}

/// Takes a message apart.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    /// The next `N` bytes; zeroes behind the end, which only a broken child sends.
    fn get<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.get())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.get())
    }

    fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.get())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.u32() as usize;
        let len = len.min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes.to_vec()
    }
}

/// Writes a case.
pub(crate) fn write_case(to: &mut Writer, case: &Case) {
    to.bytes(&case.code);
    case.gpr.iter().for_each(|value| to.u64(*value));
    to.u64(case.flags);
    case.xmm.iter().for_each(|value| to.put(value.to_le_bytes()));
    to.u32(case.mxcsr);
    to.u32(u32::from(case.fcw));
    to.u32(u32::from(case.fsw));
    to.u32(u32::from(case.ftw));
    to.u32(u32::from(case.moves_segments));
    to.u32(case.memory.len() as u32);
    for (at, bytes) in &case.memory {
        to.u64(*at);
        to.bytes(bytes);
    }
}

/// Reads a case.
pub(crate) fn read_case(from: &mut Reader<'_>) -> Case {
    let code = from.bytes();
    let gpr = std::array::from_fn(|_| from.u64());
    let flags = from.u64();
    let xmm = std::array::from_fn(|_| from.u128());
    let mxcsr = from.u32();
    let [fcw, fsw, ftw, moves] = std::array::from_fn(|_| from.u32());
    let patches = from.u32();
    let memory = (0..patches).map(|_| (from.u64(), from.bytes())).collect();
    Case {
        code,
        gpr,
        flags,
        xmm,
        mxcsr,
        fcw: fcw as u16,
        fsw: fsw as u16,
        ftw: ftw as u8,
        moves_segments: moves != 0,
        memory,
    }
}

/// Writes an outcome.
pub(crate) fn write_outcome(to: &mut Writer, outcome: &Outcome) {
    let (kind, vector, code, address) = match outcome.end {
        End::At(rip) => (0, 0, 0, rip),
        End::Fault(vector, code, cr2) => (1, u32::from(vector), code, cr2),
        End::Stuck => (2, 0, 0, 0),
        End::Lost => (3, 0, 0, 0),
    };
    to.u32(kind);
    to.u32(vector);
    to.u32(code);
    to.u64(address);
    outcome.gpr.iter().for_each(|value| to.u64(*value));
    to.u64(outcome.rflags);
    outcome.xmm.iter().for_each(|value| to.put(value.to_le_bytes()));
    to.u32(outcome.mxcsr);
    to.u32(u32::from(outcome.fcw));
    to.u32(u32::from(outcome.fsw));
    to.u32(u32::from(outcome.ftw));
    outcome.st.iter().for_each(|value| to.put(value.to_le_bytes()));
    outcome.bases.iter().for_each(|value| to.u64(*value));
    outcome.selectors.iter().for_each(|value| to.u32(u32::from(*value)));
    to.u32(outcome.memory.len() as u32);
    for (at, byte) in &outcome.memory {
        to.u32(*at as u32);
        to.put([*byte]);
    }
}

/// Reads an outcome.
pub(crate) fn read_outcome(from: &mut Reader<'_>) -> Outcome {
    let [kind, vector, code] = std::array::from_fn(|_| from.u32());
    let address = from.u64();
    let end = match kind {
        0 => End::At(address),
        1 => End::Fault(vector as u8, code, address),
        2 => End::Stuck,
        _ => End::Lost,
    };
    let gpr = std::array::from_fn(|_| from.u64());
    let rflags = from.u64();
    let xmm = std::array::from_fn(|_| from.u128());
    let mxcsr = from.u32();
    let [fcw, fsw, ftw] = std::array::from_fn(|_| from.u32());
    let st = std::array::from_fn(|_| from.u128());
    let bases = std::array::from_fn(|_| from.u64());
    let selectors = std::array::from_fn(|_| from.u32() as u16);
    let changes = from.u32();
    let memory = (0..changes).map(|_| (u64::from(from.u32()), from.get::<1>()[0])).collect();
    Outcome {
        end,
        gpr,
        rflags,
        xmm,
        mxcsr,
        fcw: fcw as u16,
        fsw: fsw as u16,
        ftw: ftw as u8,
        st,
        bases,
        selectors,
        memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_sent() {
        let mut case = Case::new(vec![0x90, 0xcc]);
        case.gpr[3] = 77;
        case.xmm[15] = 1 << 127;
        case.memory.push((0x20000, vec![1, 2, 3]));
        let mut writer = Writer::default();
        write_case(&mut writer, &case);
        assert_eq!(read_case(&mut Reader(&writer.0)), case);

        let mut outcome = Outcome::lost(&case);
        outcome.end = End::Fault(14, 6, 0x22000);
        outcome.memory = vec![(0x20001, 9)];
        let mut writer = Writer::default();
        write_outcome(&mut writer, &outcome);
        assert_eq!(read_outcome(&mut Reader(&writer.0)), outcome);
    }
}
