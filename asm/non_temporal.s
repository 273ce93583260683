// Stores past the caches: 64 bytes an iteration, 16 at a time with `movntdq`, which wants dst aligned to
// 16, so that bytes before and after are moved in the ordinary way. SSE2 only, which every x86-64 has.
//
// void *fsprobe_non_temporal(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_non_temporal, "ax", @progbits
    .globl fsprobe_non_temporal
    .hidden fsprobe_non_temporal
    .type fsprobe_non_temporal, @function
    .p2align 6
fsprobe_non_temporal:
    .cfi_startproc
    mov rax, rdi
    mov rcx, rdi
    neg rcx
    and ecx, 15
    cmp rcx, rdx
    cmova rcx, rdx
    sub rdx, rcx
    jrcxz 3f
2:  mov r8b, [rsi]
    mov [rdi], r8b
    inc rsi
    inc rdi
    dec ecx
    jnz 2b
3:  mov rcx, rdx
    shr rcx, 6
    jz 9f
8:  movdqu xmm0, [rsi]
    movdqu xmm1, [rsi + 16]
    movdqu xmm2, [rsi + 32]
    movdqu xmm3, [rsi + 48]
    movntdq [rdi], xmm0
    movntdq [rdi + 16], xmm1
    movntdq [rdi + 32], xmm2
    movntdq [rdi + 48], xmm3
    add rsi, 64
    add rdi, 64
    dec rcx
    jnz 8b
    sfence
9:  and edx, 63
    mov ecx, edx
    shr ecx, 3
    jz 5f
4:  mov r8, [rsi]
    mov [rdi], r8
    add rsi, 8
    add rdi, 8
    dec ecx
    jnz 4b
5:  and edx, 7
    jz 7f
6:  mov cl, [rsi]
    mov [rdi], cl
    inc rsi
    inc rdi
    dec edx
    jnz 6b
7:
    ret
    .cfi_endproc
    .size fsprobe_non_temporal, . - fsprobe_non_temporal
