//! From a place in a function to its caller: by the call frame information that compilers write (`.eh_frame`),
//! else by the frame pointer.

use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
    X86_64,
};
use std::collections::HashMap;

/// Where a function keeps what its caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Whether the frame's top is told from BP; else from SP.
    from_bp: bool,
    /// What is added to that.
    top: i64,
    /// Where BP is kept, from the top on; none where it is still in BP.
    bp: Option<i64>,
}

impl Rule {
    /// What a function with a frame pointer does.
    pub const FRAME_POINTER: Rule = Rule { from_bp: true, top: 16, bp: Some(-16) };
}

/// Registers of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The instruction; that after the call, for all frames but the innermost.
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

impl Frame {
    /// The caller's frame; `stack` is memory from `base` on. None where that does not reach.
    pub fn caller(self, rule: Rule, base: u64, stack: &[u8]) -> Option<Frame> {
        let from = if rule.from_bp { self.bp } else { self.sp };
        let top = from.checked_add_signed(rule.top)?;
        // A caller's frame lies above; so a chain that is none ends.
        if top <= self.sp {
            return None;
        }
        let word = |at: u64| {
            let at = usize::try_from(at.checked_sub(base)?).ok()?;
            let bytes = stack.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let ip = word(top.checked_sub(8)?)?;
        let bp = match rule.bp {
            Some(offset) => word(top.checked_add_signed(offset)?)?,
            None => self.bp,
        };
        Some(Frame { ip, sp: top, bp })
    }
}

/// A module's call frame information, with the rules found so far.
#[derive(Debug)]
pub struct Frames {
    table: Vec<u8>,
    index: Option<Vec<u8>>,
    bases: BaseAddresses,
    known: HashMap<u64, Option<Rule>>,
}

impl Frames {
    /// The section `.eh_frame` and its index, each with its address.
    pub fn new(table: (u64, Vec<u8>), index: Option<(u64, Vec<u8>)>) -> Frames {
        let mut bases = BaseAddresses::default().set_eh_frame(table.0);
        if let Some((address, _)) = &index {
            bases = bases.set_eh_frame_hdr(*address);
        }
        Frames { table: table.1, index: index.map(|(_, bytes)| bytes), bases, known: HashMap::new() }
    }

    /// How to find the caller of what stands at an address.
    pub fn rule(&mut self, address: u64) -> Option<Rule> {
        if let Some(rule) = self.known.get(&address) {
            return *rule;
        }
        let rule = self.find(address);
        self.known.insert(address, rule);
        rule
    }

    fn find(&self, address: u64) -> Option<Rule> {
        let table = EhFrame::new(&self.table, LittleEndian);
        let parsed;
        let description = match &self.index {
            Some(index) => {
                parsed = EhFrameHdr::new(index, LittleEndian).parse(&self.bases, 8).ok()?;
                let index = parsed.table()?;
                index.fde_for_address(&table, &self.bases, address, EhFrame::cie_from_offset).ok()?
            }
            None => table.fde_for_address(&self.bases, address, EhFrame::cie_from_offset).ok()?,
        };
        let mut context = UnwindContext::new();
        let row = description.unwind_info_for_address(&table, &self.bases, &mut context, address).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let from_bp = match *register {
            X86_64::RBP => true,
            X86_64::RSP => false,
            _ => return None,
        };
        let bp = match row.register(X86_64::RBP) {
            Some(RegisterRule::Offset(offset)) => Some(offset),
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
            _ => return None,
        };
        Some(Rule { from_bp, top: *offset, bp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn callers_are_found_by_either_register() {
        let base = 0x7000;
        let stack = stack(&[1, 0x9000, 0x4444, 3]);
        let frame = Frame { ip: 1, sp: base, bp: base + 8 };
        let by_sp = Rule { from_bp: false, top: 24, bp: None };
        assert_eq!(
            frame.caller(by_sp, base, &stack),
            Some(Frame { ip: 0x4444, sp: base + 24, bp: base + 8 })
        );
        let by_bp = frame.caller(Rule::FRAME_POINTER, base, &stack);
        assert_eq!(by_bp, Some(Frame { ip: 0x4444, sp: base + 24, bp: 0x9000 }));
        assert_eq!(by_bp.unwrap().caller(Rule::FRAME_POINTER, base, &stack), None, "beyond what was kept");
    }

    proptest! {
        #[test]
        fn frames_of_any_content_end(
            words in proptest::collection::vec(any::<u64>(), 0..64),
            sp: u64, bp: u64, base: u64, from_bp: bool, top: i64, at: i64,
        ) {
            let stack = stack(&words);
            let mut frame = Some(Frame { ip: 0, sp, bp });
            let rule = Rule { from_bp, top, bp: Some(at) };
            for _ in 0..100 {
                frame = frame.and_then(|frame| frame.caller(rule, base, &stack));
            }
        }

        #[test]
        fn tables_of_any_content_are_survived(
            table in proptest::collection::vec(any::<u8>(), 0..300),
            index in proptest::collection::vec(any::<u8>(), 0..100),
            address: u64,
        ) {
            let _ = Frames::new((0x1000, table.clone()), None).rule(address);
            let _ = Frames::new((0x1000, table), Some((0x2000, index))).rule(address);
        }
    }
}
