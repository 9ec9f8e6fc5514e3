// Two ways to read the kernel's structures: through typed pointers, which are plain loads (5.11 and, beyond the
// descriptor table, 6.2), else by a helper call for each field.
#pragma once

#include "kernel.h"

extern void *bpf_rdonly_cast(const void *pointer, u32 btf_id) __ksym __weak;

const volatile bool typed_task;                     // bpf_get_current_task_btf exists and is trusted (5.11)
const volatile bool task_registers;                 // bpf_task_pt_regs exists (5.15)
#define typed_cast bpf_ksym_exists(bpf_rdonly_cast) // 6.2
// In this order, because whether a function exists is an instruction, and reading a variable two.
#define typed_tasks (typed_cast || typed_task)

static __always_inline struct task_struct *current_task(void)
{
	if (typed_tasks)
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

// The same where it is rare. Reading from it costs more, loading the program less: for each pointer that a trusted one
// leads to, the verifier searches all types of the kernel by name, which takes it a millisecond.
static __always_inline struct task_struct *current_task_rarely(void)
{
	if (typed_cast)
		return bpf_rdonly_cast((void *)bpf_get_current_task(), bpf_core_type_id_kernel(struct task_struct));
	return current_task();
}

// A field of the current task or of what its typed pointers lead to.
#define TASK_READ(source, field) (typed_tasks ? (source)->field : BPF_CORE_READ(source, field))

// A pointer's bits, as a number to the verifier. The type is one that begins with a u64.
static __always_inline u64 word_at(const void *address)
{
	struct qstr *typed = bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct qstr));
	return typed->hash_len;
}
