// The watched system calls, a line for each: `enum op` and the programs of every mode are made from this table, in
// sync.bpf.c. The other side's table is in src/model/op.rs; CONTRIBUTING.md has the steps of adding one.
#pragma once

// DO(name, number, what its argument names, whether it has arguments, its tracepoint at entry). A call without
// arguments has a wrapper without registers to read, and on x86 fentry cannot attach to it. A shared entry is a program
// written by hand, because nearly always both of its calls are watched.
// clang-format off
#define OPERATIONS(DO)                                                                  \
	DO(fsync, OP_FSYNC, KIND_FILE, ARGUMENTS, SHARED)                               \
	DO(fdatasync, OP_FDATASYNC, KIND_FILE, ARGUMENTS, SHARED)                       \
	DO(sync_file_range, OP_SYNC_FILE_RANGE, KIND_FILE, ARGUMENTS, OWN)              \
	DO(msync, OP_MSYNC, KIND_NO_FILE, ARGUMENTS, OWN)                               \
	DO(syncfs, OP_SYNCFS, KIND_FILESYSTEM, ARGUMENTS, OWN)                          \
	DO(sync, OP_SYNC, KIND_NO_FILE, NO_ARGUMENTS, OWN)

#define OPERATION_NUMBER(name, number, kind, arguments, entry) number,
enum op {
	OPERATIONS(OPERATION_NUMBER)
	OPS
};
#undef OPERATION_NUMBER
// clang-format on
