// The functions of the kernel that are a system call's: each takes the registers of the caller.
#pragma once

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define WRAPPER(name) "__x64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->di)
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER(name) "__arm64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->regs[0])
#endif
