// fsynctop's own calls: never traced. Some of them are the self-test of the probes, and are counted separately.
#pragma once

#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "watch.h"

const volatile u32 self_tgid;

// The thread whose calls are the test: other threads of the process sync for reasons of their own.
u32 self_tid;

// Neither of the two is inlined: they are rare. `number`: the call's. `address`: the open file's, if there is one. Not
// static: see lookup.h.
__noinline int enter_own(u32 number, u64 address, u32 kind)
{
	struct file *file = (struct file *)address;
	struct call *call = call_again(number);
	struct inode_key key;
	struct identity id = {};

	if (!call)
		return 0;
	id.kind = kind;
	if (file && kind == KIND_FILE) {
		read_inode_key(&key, file);
		identify_file(&id, file, &key);
	}
	call->slot = SELF_SLOT;
	call->id = id;
	call->start_ns = 1;
	if (watch_waits)
		try_storage();
	return 0;
}

static __noinline void leave_own(struct call *call, u32 op)
{
	struct task_struct *task = current_task();

	if (TASK_READ(task, pid) != self_tid)
		return;
	counters.self_file[op] = call->id;
	count(self_test[op]);
}
