//! Whether bytes are a `rep movs`, and whether a program's code holds any.

use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest instruction there is.
pub const LONGEST: usize = 15;

/// Bytes of code that are read at once.
const PART: usize = 1 << 18;

/// Whether the instruction at the start of these bytes is `rep movs` of any width.
pub fn is_rep_movs(bytes: &[u8]) -> bool {
    let mut is_repeated = false;
    let mut bytes = bytes.iter().take(LONGEST).peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            // With movs both repeat.
            0xf2 | 0xf3 => is_repeated = true,
            // Widths and segments.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 => {}
            // REX counts only right before the instruction.
            0x40..=0x4f => return is_repeated && matches!(bytes.next(), Some(0xa4 | 0xa5)),
            0xa4 | 0xa5 => return is_repeated,
            _ => return false,
        }
    }
    false
}

/// Whether the last of these bytes end a `rep movs` of any width.
pub fn ends_rep_movs(before: &[u8]) -> bool {
    let ends = |len: usize| {
        let tail = before.len().checked_sub(len).map(|at| &before[at..]);
        tail.is_some_and(|tail| {
            is_rep_movs(tail) && !tail[..len - 1].iter().any(|b| [0xa4, 0xa5].contains(b))
        })
    };
    (2..=4).any(ends)
}

/// Whether a file's code may hold a `rep movs`: its bytes stand there, as an instruction or by chance inside others.
/// None where that cannot be told.
pub fn may_copy(path: &Path) -> Option<bool> {
    let file = File::open(path).ok()?;
    let mut head = vec![0; 1 << 16];
    let len = file.read_at(&mut head, 0).ok()?;
    let head = &head[..len];
    let header = FileHeader64::<object::Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let parts = header.program_headers(endian, head).ok()?.iter();
    let code = parts.filter(|part| part.p_type(endian) == PT_LOAD && part.p_flags(endian).0 & PF_X.0 != 0);
    for part in code {
        if code_may_copy(&file, part.p_offset(endian), part.p_filesz(endian))? {
            return Some(true);
        }
    }
    Some(false)
}

fn code_may_copy(file: &File, start: u64, size: u64) -> Option<bool> {
    let mut bytes = vec![0; PART + LONGEST];
    let mut done = 0;
    while done < size {
        let len = file.read_at(&mut bytes, start.checked_add(done)?).ok().filter(|len| *len > 0)?;
        let here = &bytes[..len.min(usize::try_from(size - done).unwrap_or(usize::MAX))];
        // an instruction on the border is met again whole
        if (0..here.len().min(PART)).any(|at| matches!(here[at], 0xf2 | 0xf3) && is_rep_movs(&here[at..])) {
            return Some(true);
        }
        done += (len as u64).min(PART as u64);
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instructions_are_told() {
        for bytes in
            [&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xa5], &[0xf3, 0xa5, 0x90], &[0x66, 0xf3, 0xa5], &[0xf2, 0xa4]]
        {
            assert!(is_rep_movs(bytes), "{bytes:x?}");
        }
        for bytes in [
            &[][..],
            &[0xa4],
            &[0xf3],
            &[0xf3, 0xaa],             // rep stosb
            &[0xf3, 0x48, 0xab],       // rep stosq
            &[0xf3, 0x0f, 0x6f, 0x06], // movdqu
            &[0xf3, 0x0f, 0x1e, 0xfa], // endbr64
            &[0xf3, 0x90, 0xa4],       // pause, movsb
            &[0xf3, 0x48, 0x48, 0xa5], // not what a compiler writes
        ] {
            assert!(!is_rep_movs(bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn what_ends_before_is_told() {
        for bytes in [&[0x90, 0xf3, 0xa4][..], &[0xf3, 0x48, 0xa5], &[0x66, 0xf3, 0xa5]] {
            assert!(ends_rep_movs(bytes), "{bytes:x?}");
        }
        for bytes in [&[][..], &[0xa4], &[0xf3, 0xa4, 0x90], &[0xf3, 0xa4, 0xa4], &[0xf3, 0xaa]] {
            assert!(!ends_rep_movs(bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn code_is_searched_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code");
        for (size, at) in [(PART + 100, PART - 1), (PART, PART - 2), (3 * PART, 2 * PART + 5)] {
            let mut code = vec![0x90; size];
            std::fs::write(&path, &code).unwrap();
            assert_eq!(code_may_copy(&File::open(&path).unwrap(), 0, size as u64), Some(false));
            code[at..at + 2].copy_from_slice(&[0xf3, 0xa4]);
            std::fs::write(&path, &code).unwrap();
            let file = File::open(&path).unwrap();
            assert_eq!(code_may_copy(&file, 0, size as u64), Some(true), "{size} {at}");
            assert_eq!(code_may_copy(&file, 0, at as u64 + 1), Some(false), "cut at its end");
        }
        assert_eq!(may_copy(&path), None, "no program");
        assert_eq!(may_copy(&folder.path().join("none")), None);
        assert_eq!(may_copy(Path::new("/proc/self/exe")), Some(true), "fsprobe has copy routines of its own");
    }

    proptest! {
        #[test]
        fn bytes_of_any_content_are_told(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert!(!is_rep_movs(&bytes) || bytes.iter().any(|byte| [0xa4, 0xa5].contains(byte)));
        }
    }
}
