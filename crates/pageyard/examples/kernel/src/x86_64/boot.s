# From a loader's 32-bit protected mode, and from a second CPU's real mode, to 64-bit code.

.section .note.Xen, "a", @note
.balign 4
.long 4, 8, 18                          # the entry of a PVH guest
.asciz "Xen"
.quad pvh_start

.section .text
.code32
.globl pvh_start
pvh_start:
    cld
    movl $first_stack, %esp
    movl %ebx, %ebp                     # what the loader says of the machine
    # The first 4 GiB at their addresses, in pages of 2 MiB.
    movl $directories, %edi
    movl $0x83, %eax                    # present, writable, large
1:  movl %eax, (%edi)
    addl $8, %edi
    addl $0x200000, %eax
    jnc 1b
    movl $directories + 3, %eax         # present, writable
    movl $pointers, %edi
    movl $4, %ecx
2:  movl %eax, (%edi)
    addl $4096, %eax
    addl $8, %edi
    loop 2b
    movl $pointers + 3, top
    movl $first_cpu, %ebx

enter_64_bits:
    movl $top, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax                     # entries of 8 bytes
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax                    # long mode
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax               # paging
    movl %eax, %cr0
    lgdt segments_pointer
    ljmp $8, $in_64_bits

.code64
in_64_bits:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %esp, %esp
    movl %ebp, %edi
    movl %ebx, %ebx
    call *%rbx
    ud2

# The second CPU starts at 0x8000, where these bytes are copied to.
.code16
.globl second_start
second_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl second_segments - second_start + 0x8000
    movl %cr0, %eax
    orl $1, %eax                        # protected mode
    movl %eax, %cr0
    ljmpl $24, $second_32_bits
second_segments:
    .word 31
    .long segments
.globl second_end
second_end:

.code32
second_32_bits:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $second_stack, %esp
    movl $second_cpu, %ebx
    jmp enter_64_bits

.code64
# An interrupt of the timer: what a call may change is kept. The stack is aligned, with five words of the processor's and nine here.
.globl timer_entry
timer_entry:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    cld
    call on_timer
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    iretq

.section .rodata
.balign 8
segments:
    .quad 0
    .quad 0x00af9a000000ffff            # 64-bit code
    .quad 0x00cf92000000ffff            # data
    .quad 0x00cf9a000000ffff            # 32-bit code
segments_pointer:
    .word 31
    .quad segments

.section .bss
.balign 4096
top: .skip 4096
pointers: .skip 4096
directories: .skip 4 * 4096
.skip 16384
first_stack:
.skip 16384
second_stack:
