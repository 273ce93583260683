//! Bytes that tell where they belong: each depends on a seed and on its position in the stream.

/// An odd constant with well-spread bits: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes of a word.
const WORD: usize = 8;

fn word(seed: u64, index: u64) -> [u8; WORD] {
    let mixed = (index ^ seed).wrapping_add(1).wrapping_mul(SPREAD);
    (mixed ^ (mixed >> 29)).to_le_bytes()
}

/// Writes what stands in the stream from `position` on.
pub fn fill(seed: u64, position: u64, bytes: &mut [u8]) {
    let skipped = (position % WORD as u64) as usize;
    let mut index = position / WORD as u64;
    let (head, rest) = bytes.split_at_mut(bytes.len().min((WORD - skipped) % WORD));
    if !head.is_empty() {
        head.copy_from_slice(&word(seed, index)[skipped..skipped + head.len()]);
        index += 1;
    }
    for part in rest.chunks_mut(WORD) {
        part.copy_from_slice(&word(seed, index)[..part.len()]);
        index += 1;
    }
}

/// The position of the first byte that is not what stands in the stream from `position` on, which repeats
/// every `period` bytes. `scratch` is as long as what is compared at once, at least a byte.
pub fn first_wrong(seed: u64, position: u64, period: u64, bytes: &[u8], scratch: &mut [u8]) -> Option<u64> {
    let mut done = 0;
    while done < bytes.len() {
        let at = position + done as u64;
        let in_period = at % period;
        let left = usize::try_from(period - in_period).unwrap_or(usize::MAX);
        let len = (bytes.len() - done).min(left).min(scratch.len());
        let (expected, found) = (&mut scratch[..len], &bytes[done..done + len]);
        fill(seed, in_period, expected);
        if expected != found {
            let wrong = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0);
            return Some(at + wrong as u64);
        }
        done += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_make_the_whole_and_one_wrong_byte_is_found(
            at in 0usize..300, len in 1usize..300, seed: u64, flip in 1u8..,
        ) {
            let mut whole = vec![0; 700];
            fill(seed, 0, &mut whole);
            let mut piece = vec![0; len];
            fill(seed, at as u64, &mut piece);
            prop_assert_eq!(&piece[..], &whole[at..at + len]);
            let mut scratch = [0; 64];
            prop_assert_eq!(first_wrong(seed, at as u64, u64::MAX, &piece, &mut scratch), None);
            piece[len / 2] ^= flip;
            let wrong = first_wrong(seed, at as u64, u64::MAX, &piece, &mut scratch);
            prop_assert_eq!(wrong, Some((at + len / 2) as u64));
        }
    }

    #[test]
    fn a_stream_may_repeat() {
        let mut once = [0; 40];
        fill(3, 0, &mut once);
        let twice = [once, once].concat();
        let mut scratch = [0; 64];
        assert_eq!(first_wrong(3, 0, 40, &twice, &mut scratch), None);
        assert_eq!(first_wrong(3, 0, 80, &twice, &mut scratch), Some(40));
    }
}
