// The names of the kernel's system-call wrappers (__x64_sys_*), for bpf/fentry.h and bpf/kprobe.h, and the first
// argument in the caller's registers, which is all that such a function takes.
#pragma once

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define WRAPPER(name) "__x64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->di)
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER(name) "__arm64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->regs[0])
#endif
