//! For tests: a sandbox that refuses system calls, as a container's seccomp profile does.

/// What the kernel does about a call.
#[derive(Debug, Clone, Copy)]
pub enum Refusal {
    /// It answers with this error.
    Error(libc::c_int),
    /// It ends the process.
    Kill,
}

/// Runs `test` in a thread of its own in which the kernel refuses `calls` so; none, said aloud, where no such filter
/// can be set.
pub fn in_a_thread<R: Send>(
    calls: &[libc::c_long],
    refusal: Refusal,
    test: impl FnOnce() -> R + Send,
) -> Option<R> {
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| install(calls, refusal).then(test));
        filtered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sets the filter for the calling thread.
fn install(calls: &[libc::c_long], refusal: Refusal) -> bool {
    let answer = match refusal {
        Refusal::Error(number) => libc::SECCOMP_RET_ERRNO | number as u32,
        Refusal::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let word = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    // The call's number is the first field of what the filter sees.
    let mut filter = vec![word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (index, &call) in calls.iter().enumerate() {
        let to_refusal = (calls.len() - index) as u8;
        filter.push(word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_refusal, call as u32));
    }
    filter.push(word(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(word(libc::BPF_RET | libc::BPF_K, 0, answer));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers, and a program of as many words as it says, which the kernel copies.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed {
        eprintln!("skipped, no seccomp filter here: {}", std::io::Error::last_os_error());
    }
    !failed
}
