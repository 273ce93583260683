//! Programs and libraries as files: addresses, functions, lines, and how to find a caller.

pub mod unwind;

use addr2line::{Loader, demangle_auto};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use std::borrow::Cow;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use unwind::{Frames, Rule};

/// Where separate debug information lies, by build id.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// Sources of libraries that inline themselves into programs: the line of interest is the one that calls them.
const INLINED: [&str; 3] = ["/rustc/", "/usr/include/", "/usr/lib/"];

/// A loaded part of a file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

#[derive(Debug)]
struct Function {
    address: u64,
    size: u64,
    name: String,
}

/// A program or library.
#[derive(Debug)]
pub struct Module {
    file: File,
    segments: Vec<Segment>,
    /// Sorted by address.
    functions: Vec<Function>,
    frames: Option<Frames>,
    debug_file: Option<PathBuf>,
}

impl Module {
    /// Reads the tables of a file; what is no ELF file has none.
    pub fn of(file: File) -> Module {
        let mut module = Module { file, segments: vec![], functions: vec![], frames: None, debug_file: None };
        let Ok(file) = module.file.try_clone() else { return module };
        let cache = ReadCache::new(file);
        let Ok(elf) = object::File::parse(&cache) else { return module };
        let segment = |segment: object::Segment<'_, '_, _>| {
            let (offset, size) = segment.file_range();
            Segment { offset, size, address: segment.address() }
        };
        module.segments = elf.segments().map(segment).collect();
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        module.functions = functions
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some(Function { address: symbol.address(), size: symbol.size(), name })
            })
            .collect();
        module.functions.sort_by_key(|function| function.address);
        let section = |name| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.uncompressed_data().ok()?.into_owned()))
        };
        module.frames = section(".eh_frame").map(|table| Frames::new(table, section(".eh_frame_hdr")));
        module.debug_file = elf.build_id().ok().flatten().and_then(debug_file);
        module
    }

    /// The file's bytes at a position; fewer at its end.
    pub fn bytes<'a>(&self, offset: u64, into: &'a mut [u8]) -> &'a [u8] {
        let read = self.file.read_at(into, offset).unwrap_or(0);
        &into[..read]
    }

    /// The address, as the file's own tables count, of a position in it.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let holds = |s: &&Segment| offset >= s.offset && offset - s.offset < s.size;
        let segment = self.segments.iter().find(holds)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// The function that holds an address, its name as the linker knows it.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|function| function.address <= address);
        // A few of the same start may have a size that ends before.
        let near = self.functions[..after].iter().rev().take(8);
        let mut holding = near.filter(|function| address - function.address < function.size);
        holding.next().map(|function| function.name.as_str())
    }

    /// How to find the caller of what stands at an address.
    pub fn rule(&mut self, address: u64) -> Option<Rule> {
        self.frames.as_mut()?.rule(address)
    }

    /// Its debug information, which may be large.
    pub fn lines(&self) -> Lines {
        // By the open descriptor: the name may lead elsewhere by now.
        let own = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let files = self.debug_file.iter().chain([&own]);
        Lines(files.filter_map(|file| Loader::new(file).ok()).collect())
    }
}

fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("{DEBUG_FOLDER}/{first:02x}/{rest}.debug"));
    path.exists().then_some(path)
}

/// Debug information of a module.
pub struct Lines(Vec<Loader>);

impl Lines {
    /// Function, and file and line, of an address: of the innermost call that is the program's own.
    pub fn of(&self, address: u64) -> (Option<String>, Option<String>) {
        self.0.iter().find_map(|loader| place(loader, address)).unwrap_or_default()
    }
}

fn place(loader: &Loader, address: u64) -> Option<(Option<String>, Option<String>)> {
    let mut frames = loader.find_frames(address).ok()?;
    let mut chosen = None;
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
        let Some(file) = frame.location.as_ref().and_then(|location| location.file) else { continue };
        let line = frame.location.as_ref().and_then(|location| location.line);
        let line = line.map_or(file.to_owned(), |line| format!("{file}:{line}"));
        let is_inlined = INLINED.iter().any(|start| file.starts_with(start));
        if chosen.is_none() || !is_inlined {
            chosen = Some((function, Some(line)));
        }
        if !is_inlined {
            break;
        }
    }
    chosen
}

/// A linker's name as its language writes it. A name of C stays: some, such as `w`, would be read as one of a type of C++.
pub fn demangled(name: &str) -> String {
    if !["_Z", "__Z", "_R"].iter().any(|prefix| name.starts_with(prefix)) {
        return name.to_owned();
    }
    demangle_auto(Cow::Borrowed(name), None).into_owned()
}

/// Whether a function moves bytes, or calls the kernel, for whoever called it: a part of a C library or of a
/// language's runtime, so that its caller is the place of interest.
pub fn is_plumbing(module: &str, function: Option<&str>) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    let is_libc = ["libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "libc.musl"]
        .iter()
        .any(|start| file.starts_with(start));
    is_libc || function.is_some_and(|name| is_copier(name) || is_of_go(name))
}

/// Names of statically linked C libraries (glibc's and musl's).
fn is_copier(name: &str) -> bool {
    const MOVERS: [&str; 4] = ["memcpy", "memmove", "mempcpy", "memcpy_chk"];
    const CALLS: [&str; 13] = [
        "read", "pread", "pread64", "readv", "preadv", "write", "pwrite", "pwrite64", "writev", "pwritev",
        "recv", "recvfrom", "send",
    ];
    let bare = name.trim_start_matches('_');
    let call = bare.strip_prefix("libc_").unwrap_or(bare).trim_end_matches("_nocancel");
    let stdio = ["IO_", "fread", "fwrite", "fgets", "getdelim", "syscall_cp", "stdio_", "syscall"];
    MOVERS.iter().any(|mover| bare.starts_with(mover))
        || CALLS.contains(&call)
        || stdio.iter().any(|start| bare.starts_with(start))
}

fn is_of_go(name: &str) -> bool {
    const ROOMS: [&str; 6] = [
        "runtime.memmove",
        "internal/runtime/syscall.",
        "runtime/internal/syscall.",
        "syscall.",
        "internal/poll.",
        "os.(*File).",
    ];
    ROOMS.iter().any(|room| name.starts_with(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_read() {
        let mut module = Module::of(File::open("/proc/self/exe").unwrap());
        let known = module.functions.iter().find(|f| f.name.contains("this_program_is_read"));
        let (address, name) = known.map(|f| (f.address, f.name.clone())).expect("tests keep their symbols");
        assert_eq!(module.function(address), Some(name.as_str()));
        assert!(demangled(&name).contains("symbols::tests"), "{name}");
        for of_c in ["w", "i", "f", "St", "N3fooE", "main", ""] {
            assert_eq!(demangled(of_c), of_c);
        }
        assert!(module.rule(address).is_some(), "Rust writes call frame information");
        let segment = module.segments.iter().find(|s| address - s.address.min(address) < s.size).unwrap();
        assert_eq!(module.address(address - segment.address + segment.offset), Some(address));
    }

    #[test]
    fn files_of_any_content_have_no_tables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut own = std::fs::read("/proc/self/exe").unwrap();
        own.truncate(5000);
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &own] {
            std::fs::write(&path, bytes).unwrap();
            let mut module = Module::of(File::open(&path).unwrap());
            assert_eq!(module.rule(0x1000), None);
            assert_eq!(module.function(0x1000), None);
            assert_eq!(module.lines().of(0x1000), (None, None));
        }
    }

    #[test]
    fn plumbing_is_told_from_programs() {
        for (module, function) in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", None),
            ("/app", Some("__memmove_avx_unaligned_erms")),
            ("/app", Some("__libc_read")),
            ("/app", Some("_IO_file_xsgetn")),
            ("/app", Some("os.(*File).Read")),
        ] {
            assert!(is_plumbing(module, function), "{module} {function:?}");
        }
        for (module, function) in
            [("/app", None), ("/libcrypto.so.3", Some("read_all")), ("/app", Some("main"))]
        {
            assert!(!is_plumbing(module, function), "{module} {function:?}");
        }
    }
}
