// Unaligned 64-byte vector loads and stores, 256 bytes an iteration; then single vectors, words, bytes.
// Needs AVX-512F.
//
// void *fsprobe_avx512(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_avx512, "ax", @progbits
    .globl fsprobe_avx512
    .hidden fsprobe_avx512
    .type fsprobe_avx512, @function
    .p2align 6
fsprobe_avx512:
    .cfi_startproc
    mov rax, rdi
    mov rcx, rdx
    shr rcx, 8
    jz 3f
2:  vmovdqu64 zmm0, [rsi]
    vmovdqu64 zmm1, [rsi + 64]
    vmovdqu64 zmm2, [rsi + 128]
    vmovdqu64 zmm3, [rsi + 192]
    vmovdqu64 [rdi], zmm0
    vmovdqu64 [rdi + 64], zmm1
    vmovdqu64 [rdi + 128], zmm2
    vmovdqu64 [rdi + 192], zmm3
    add rsi, 256
    add rdi, 256
    dec rcx
    jnz 2b
3:  and edx, 255
8:  cmp edx, 64
    jb 9f
    vmovdqu64 zmm0, [rsi]
    vmovdqu64 [rdi], zmm0
    add rsi, 64
    add rdi, 64
    sub edx, 64
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
    .size fsprobe_avx512, . - fsprobe_avx512
