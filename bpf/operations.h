// What is counted, a line for each: `enum op` and the programs of every mode are made from these tables, in
// sync.bpf.c. The other side's table is in src/model/op.rs; CONTRIBUTING.md has the steps of adding one.
#pragma once

// The sync calls. DO(name, number, what its argument names, whether it has arguments, its tracepoint at entry). A call
// without arguments has a wrapper without registers to read, and on x86 fentry cannot attach to it. A shared entry is a
// program written by hand, because nearly always both of its calls are watched.
// clang-format off
#define OPERATIONS(DO)                                                                  \
	DO(fsync, OP_FSYNC, KIND_FILE, ARGUMENTS, SHARED)                               \
	DO(fdatasync, OP_FDATASYNC, KIND_FILE, ARGUMENTS, SHARED)                       \
	DO(sync_file_range, OP_SYNC_FILE_RANGE, KIND_FILE, ARGUMENTS, OWN)              \
	DO(msync, OP_MSYNC, KIND_NO_FILE, ARGUMENTS, OWN)                               \
	DO(syncfs, OP_SYNCFS, KIND_FILESYSTEM, ARGUMENTS, OWN)                          \
	DO(sync, OP_SYNC, KIND_NO_FILE, NO_ARGUMENTS, OWN)

// The calls that write (write.h). DO(name, the flags of one write among its arguments, its offset among them).
#define WRITES(DO)                                                                      \
	DO(write, NO_FLAGS, NO_OFFSET)                                                  \
	DO(pwrite64, NO_FLAGS, OFFSET)                                                  \
	DO(writev, NO_FLAGS, NO_OFFSET)                                                 \
	DO(pwritev, NO_FLAGS, OFFSET)                                                   \
	DO(pwritev2, FLAGS, OFFSET)

// The other calls by which a file gets its data, or room for it (fill.h), where all writes are watched. DO(name, what
// it is counted as, which argument is the descriptor).
#define FILLS(DO)                                                                       \
	DO(sendfile64, OP_WRITE, 1)                                                     \
	DO(splice, OP_WRITE, 3)                                                         \
	DO(copy_file_range, OP_WRITE, 3)                                                \
	DO(fallocate, OP_FALLOCATE, 1)

#define OPERATION_NUMBER(name, number, kind, arguments, entry) number,
enum op {
	OPERATIONS(OPERATION_NUMBER)
	OP_DSYNC_WRITE, // writes that are durable when they return
	OP_WRITE,       // other writes: those that failed, or all
	OP_IO_URING_FSYNC,
	OP_IO_URING_FDATASYNC,
	OP_IO_URING_SYNC_FILE_RANGE,
	OP_IO_URING_DSYNC_WRITE,
	OP_IO_URING_WRITE,
	OP_AIO_FSYNC,
	OP_AIO_FDATASYNC,
	OP_AIO_DSYNC_WRITE,
	OP_AIO_WRITE,
	OP_WRITEBACK, // no call: what the kernel could not write later (writeback.h)
	OP_FALLOCATE, // room for what is written later, where all writes are watched
	OP_PART_WRITE, // as OP_WRITE, and the next two as the others, of a part of a file (parts.h)
	OP_IO_URING_PART_WRITE,
	OP_AIO_PART_WRITE,
	OPS
};
#undef OPERATION_NUMBER

#define ONE_MORE(...) +1
enum watched_calls {
	WATCHED_SYNCS = 0 OPERATIONS(ONE_MORE),
	WATCHED_WRITES = 0 WRITES(ONE_MORE) FILLS(ONE_MORE),
};
#undef ONE_MORE
// clang-format on
