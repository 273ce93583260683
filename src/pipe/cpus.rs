//! On which CPUs writer and reader run.

use crate::sys;
use std::fs;

/// The two CPUs, and what is known of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// The writer's and the reader's; the same twice where there is only one.
    pub pair: [u32; 2],
    /// Whether they are threads of one core; none where the system does not tell.
    pub one_core: Option<bool>,
}

/// The CPUs asked for (one or two), or else the last one allowed for the reader, and for the writer the last
/// before it on another core.
///
/// # Errors
/// Where one asked for is not allowed, or the system does not tell what is.
pub fn choose(asked: &[u32]) -> Result<Cpus, String> {
    let allowed = sys::cpu::allowed().map_err(|e| format!("cannot tell the CPUs allowed: {e}"))?;
    if let Some(cpu) = asked.iter().find(|cpu| !allowed.contains(cpu)) {
        let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
        return Err(format!("CPU {cpu} is not allowed here (--cpus may be of {})", list.join(", ")));
    }
    let pair = match asked {
        [] => usual(&allowed, siblings),
        [one] => [*one, *one],
        [writer, reader, ..] => [*writer, *reader],
    };
    let one_core = match pair {
        [a, b] if a == b => None,
        [a, b] => siblings(a).map(|s| s.contains(&b)),
    };
    Ok(Cpus { pair, one_core })
}

fn usual(allowed: &[u32], siblings: impl Fn(u32) -> Option<Vec<u32>>) -> [u32; 2] {
    let reader = allowed.last().copied().unwrap_or(0);
    let others = || allowed.iter().rev().filter(|cpu| **cpu != reader);
    let threads = siblings(reader).unwrap_or_default();
    let writer = others().find(|cpu| !threads.contains(cpu)).or_else(|| others().next());
    [writer.copied().unwrap_or(reader), reader]
}

/// The CPUs that are threads of the same core, itself included.
fn siblings(cpu: u32) -> Option<Vec<u32>> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    sys::proc::cpu_list(&fs::read_to_string(file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_core_is_preferred_and_one_cpu_is_enough() {
        let threads = |cpu: u32| Some(vec![cpu / 2 * 2, cpu / 2 * 2 + 1]);
        assert_eq!(usual(&[0, 1, 2, 3], threads), [1, 3]);
        assert_eq!(usual(&[2, 3], threads), [2, 3]);
        assert_eq!(usual(&[0, 1], |_| None), [0, 1]);
        assert_eq!(usual(&[5], threads), [5, 5]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(choose(&[u32::MAX]).unwrap_err().contains("not allowed"));
        let allowed = sys::cpu::allowed().unwrap()[0];
        assert_eq!(choose(&[allowed]).unwrap().pair, [allowed; 2]);
    }
}
