// 64 bytes an iteration in eight 64-bit integer registers, four loads before four stores; the rest by
// words, then by bytes. No vectors and no `rep`: what a kernel can do on any x86-64.
//
// void *fsprobe_mov_unrolled(void *dst: rdi, const void *src: rsi, size_t len: rdx), as memcpy:
// the areas do not overlap, and rax is dst.

    .section .text.fsprobe_mov_unrolled, "ax", @progbits
    .globl fsprobe_mov_unrolled
    .hidden fsprobe_mov_unrolled
    .type fsprobe_mov_unrolled, @function
    .p2align 6
fsprobe_mov_unrolled:
    .cfi_startproc
    mov rax, rdi
    mov r11, rdx
    shr r11, 6
    jz 3f
2:  mov rcx, [rsi]
    mov r8, [rsi + 8]
    mov r9, [rsi + 16]
    mov r10, [rsi + 24]
    mov [rdi], rcx
    mov [rdi + 8], r8
    mov [rdi + 16], r9
    mov [rdi + 24], r10
    mov rcx, [rsi + 32]
    mov r8, [rsi + 40]
    mov r9, [rsi + 48]
    mov r10, [rsi + 56]
    mov [rdi + 32], rcx
    mov [rdi + 40], r8
    mov [rdi + 48], r9
    mov [rdi + 56], r10
    add rsi, 64
    add rdi, 64
    dec r11
    jnz 2b
3:  and edx, 63
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
    .size fsprobe_mov_unrolled, . - fsprobe_mov_unrolled
