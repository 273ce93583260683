// Unaligned 32-byte vector loads and stores, 128 bytes an iteration; then single vectors, words, bytes.
// Needs AVX.
//
// void *fsprobe_avx2(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_avx2, "ax", @progbits
    .globl fsprobe_avx2
    .hidden fsprobe_avx2
    .type fsprobe_avx2, @function
    .p2align 6
fsprobe_avx2:
    .cfi_startproc
    mov rax, rdi
    mov rcx, rdx
    shr rcx, 7
    jz 3f
2:  vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovdqu ymm2, [rsi + 64]
    vmovdqu ymm3, [rsi + 96]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + 32], ymm1
    vmovdqu [rdi + 64], ymm2
    vmovdqu [rdi + 96], ymm3
    add rsi, 128
    add rdi, 128
    dec rcx
    jnz 2b
3:  and edx, 127
8:  cmp edx, 32
    jb 9f
    vmovdqu ymm0, [rsi]
    vmovdqu [rdi], ymm0
    add rsi, 32
    add rdi, 32
    sub edx, 32
    jmp 8b
9:  vzeroupper
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
    .size fsprobe_avx2, . - fsprobe_avx2
