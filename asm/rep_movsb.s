// One `rep movsb` of the whole length.
//
// void *fsprobe_rep_movsb(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_rep_movsb, "ax", @progbits
    .globl fsprobe_rep_movsb
    .hidden fsprobe_rep_movsb
    .type fsprobe_rep_movsb, @function
    .p2align 6
fsprobe_rep_movsb:
    .cfi_startproc
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret
    .cfi_endproc
    .size fsprobe_rep_movsb, . - fsprobe_rep_movsb
