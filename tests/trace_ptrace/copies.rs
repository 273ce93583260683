//! Reads at known offsets through the standard library: for tests/trace_ptrace.rs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

#[repr(align(4096))]
struct Pages([u8; 8192]);

fn main() {
    let name = std::env::args().nth(1).unwrap();
    let threads = [0x10usize, 0x20].map(|offset| {
        let mut file = File::open(&name).unwrap();
        std::thread::spawn(move || {
            let mut pages = Box::new(Pages([0; 8192]));
            for _ in 0..50 {
                file.read_exact_at(&mut pages.0[offset..offset + 4096], 0x1000).unwrap();
            }
            file.seek(SeekFrom::Start(3)).unwrap();
            file.read_exact(&mut pages.0[offset..offset + 100]).unwrap();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
