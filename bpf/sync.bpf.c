// The programs of the sync calls and of writes. What a sync costs is summed up in rows (record.h), which user space
// reads; single calls are sent only where no row could take them. enter.h has the entry of a call, leave.h its exit,
// write.h both of writes.
#include "aio.h"
#include "calls.h"
#include "fentry.h"
#include "fill.h"
#include "follow.h"
#include "kernel.h"
#include "kprobe.h"
#include "net.h"
#include "operations.h"
#include "record.h"
#include "ring.h"
#include "tracepoint.h"
#include "write.h"
#include "writeback.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct contract *contract; // only for its type

// Of each operation, the programs of every mode; user space loads those of the mode that is attached.
OPERATIONS(TRACEPOINTS)
OPERATIONS(FENTRIES)
OPERATIONS(KPROBES)
WRITES(FENTRY_WRITES)
WRITES(KPROBE_WRITES)
FILLS(TRACEPOINT_FILLS)
FILLS(FENTRY_FILLS)
FILLS(KPROBE_FILLS)
FILLS(EXIT_FILLS)
