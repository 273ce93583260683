// One `rep movsq` of the whole eight-byte words. The last bytes are moved one by one, since a second
// `rep` would add its own start to every length.
//
// void *fsprobe_rep_movsq(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_rep_movsq, "ax", @progbits
    .globl fsprobe_rep_movsq
    .hidden fsprobe_rep_movsq
    .type fsprobe_rep_movsq, @function
    .p2align 6
fsprobe_rep_movsq:
    .cfi_startproc
    mov rax, rdi
    mov rcx, rdx
    shr rcx, 3
    rep movsq
    and edx, 7
    jz 3f
2:  mov cl, [rsi]
    mov [rdi], cl
    inc rsi
    inc rdi
    dec edx
    jnz 2b
3:
    ret
    .cfi_endproc
    .size fsprobe_rep_movsq, . - fsprobe_rep_movsq
