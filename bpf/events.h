// The ring: only what is rare. A file that is seen for the first time, or renamed, with its name, and single syncs
// that no row or no histogram could take.
#pragma once

#include "identity.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} events SEC(".maps");

// Where a name is put together, so that it takes no more of the ring than it needs. One for each operation: a program
// never runs twice at a time on one processor, but those of two operations may.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OPS);
	__type(key, u32);
	__type(value, struct file_event);
} names SEC(".maps");

// Puts the name that a file has at this moment, its components from itself up to the mount's root, into the event that
// was begun for an operation, and sends it. Not static: see lookup.h. The file's address stands where the name will.
__noinline int put_name(u32 op)
{
	struct file_event *event = bpf_map_lookup_elem(&names, &op);
	struct file *file;
	struct vfsmount *mount;
	struct dentry *dentry, *parent, *root;
	u32 length;
	u64 size;

	if (!event)
		return 0;
	file = *(struct file **)event->name;
	event->mode = BPF_CORE_READ(file, f_inode, i_mode);
	event->complete = 0;
	event->length = 0;
	mount = BPF_CORE_READ(file, f_path.mnt);
	event->mount_id =
		BPF_CORE_READ((struct mount *)((void *)mount - bpf_core_field_offset(struct mount, mnt)), mnt_id);
	root = BPF_CORE_READ(mount, mnt_root);
	dentry = BPF_CORE_READ(file, f_path.dentry);
	// The length is kept in memory, where the verifier does not follow it: so it looks at the end once, and not for
	// each number of components.
	for (int i = 0; i < NAME_COMPONENTS; i++) {
		length = *(volatile u32 *)&event->length;
		parent = BPF_CORE_READ(dentry, d_parent);
		// A file in memory (memfd) is its own parent, and has a name all the same.
		if (dentry == root || (dentry == parent && i)) {
			event->complete = 1;
			break;
		}
		if (length >= NAME_BYTES)
			break;
		long n = bpf_probe_read_kernel_str(&event->name[length & (NAME_BYTES - 1)], NAME_COMPONENT_BYTES,
						   BPF_CORE_READ(dentry, d_name.name));
		if (n <= 0)
			break;
		event->length = length + n;
		dentry = parent;
	}
	size = __builtin_offsetof(struct file_event, name) + *(volatile u32 *)&event->length;
	asm volatile("" : "+r"(size)); // so that what is compared is what is passed on, as the verifier wants it
	if (size > sizeof(*event))
		return 0;
	if (bpf_ringbuf_output(&events, event, size, 0)) {
		count(names_dropped);
		return 0;
	}
	return 1;
}

// Sends a file's name. Not inlined: it runs once for each name.
// Five arguments at most: 7.2 counts them in the function's type.
static __noinline bool send_name(struct identity *id, struct file *file, s32 fd, u32 slot, u32 sequence)
{
	u32 op = id->op;
	struct file_event *event = bpf_map_lookup_elem(&names, &op);
	struct inode_key key = {};

	if (!event)
		return false;
	event->type = EVENT_FILE;
	event->slot = slot;
	event->id = *id;
	event->sequence = sequence;
	event->fd = fd;
	event->tid = bpf_get_current_pid_tgid();
	event->below = 0;
	read_inode_key(&key, file);
	if (is_on_overlay(&key)) {
		read_device_key(&key, file);
		event->below = device_of(&key);
	}
	*(struct file **)event->name = file;
	return put_name(op);
}

// A file of two names that is synced by each in turn sends them this often only.
#define MOST_NAMES 64

// Sends the name of a row's file, if it is new: at its first sync, and at the first after it was renamed.
static __always_inline void tell_name(struct row *row, u64 name, struct file *file, s32 fd, u32 slot)
{
	if (row->names && (row->name == name || row->names >= MOST_NAMES))
		return;
	if (!send_name(&row->id, file, fd, slot, row->sequence))
		return;
	row->name = name;
	row->names++;
}

// Sends one finished sync. slot is NO_SLOT if user space is to count it for the identity.
static __always_inline bool send_one(struct identity *id, u32 slot, u32 sequence, u64 latency, s64 result)
{
	struct sync_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return false;
	event->type = EVENT_SYNC;
	event->slot = slot;
	event->id = *id;
	event->sequence = sequence;
	event->result = result;
	event->latency_ns = latency;
	bpf_ringbuf_submit(event, 0);
	return true;
}

static __noinline bool send_sync(struct identity *id, u64 latency, s64 result)
{
	return send_one(id, NO_SLOT, 0, latency, result);
}

static __noinline void send_latency(u32 slot, struct row *row, u64 latency, s64 result)
{
	if (!send_one(&row->id, slot, row->sequence, latency, result))
		count(latencies_dropped);
}
