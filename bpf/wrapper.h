// The names of the kernel's system-call wrappers (__x64_sys_*), for bpf/fentry.h and bpf/kprobe.h, and a call's
// arguments, by number, in the registers with which the thread entered the kernel: all that such a function takes.
#pragma once

#include "kernel.h"
#include "read.h"

#if defined(__TARGET_ARCH_x86)
#define WRAPPER(name) "__x64_sys_" #name
#define REGISTER_1 di
#define REGISTER_2 si
#define REGISTER_3 dx
#define REGISTER_4 r10
#define REGISTER_6 r9
#define REGISTER_1_AT_EXIT REGISTER_1
#define REGISTER_OF_NUMBER orig_ax
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER(name) "__arm64_sys_" #name
#define REGISTER_1 regs[0]
#define REGISTER_2 regs[1]
#define REGISTER_3 regs[2]
#define REGISTER_4 regs[3]
#define REGISTER_6 regs[5]
#define REGISTER_1_AT_EXIT orig_x0 // the first register holds the result by then
#define REGISTER_OF_NUMBER syscallno
#endif

// Through a pointer that the verifier knows, through a helper, and through whichever of the two this kernel has.
#define ARGUMENT(registers, n) ((registers)->REGISTER_##n)
#define READ_ARGUMENT(registers, n) BPF_CORE_READ(registers, REGISTER_##n)
#define CAST_ARGUMENT(registers, n)                                                                                   \
	(typed_cast                                                                                                   \
		 ? ARGUMENT((struct pt_regs *)bpf_rdonly_cast(registers, bpf_core_type_id_kernel(struct pt_regs)), n) \
		 : READ_ARGUMENT(registers, n))

// Those of the current thread; where task_registers says that the helper exists.
static __always_inline struct pt_regs *registers_at_entry(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
}

// Which system call it is.
#define NUMBER_OF_CALL(registers) BPF_CORE_READ(registers, REGISTER_OF_NUMBER)
