// The few kernel types the programs read, written by hand: libbpf moves each field to where the running kernel
// has it (CO-RE), so no generated header is needed. Also the handful of UAPI constants, so that building needs no
// kernel headers.
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE (1 << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define PF_FORKNOEXEC 0x00000040 // it still runs the program of the process that forked it
#define PF_IO_WORKER 0x00000010 // since 5.12; before, these are kernel threads
#define PF_KTHREAD 0x00200000

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define FUSE_SUPER_MAGIC 0x65735546
#define BTRFS_SUPER_MAGIC 0x9123683E
#define S_SYNC 1 // of an inode's flags
#define SB_SYNCHRONOUS 16

#define O_DSYNC 010000
#define RWF_DURABLE (0x2 | 0x4) // RWF_DSYNC, RWF_SYNC

struct bpf_spin_lock {
	u32 val;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	u64 hash_len;
	const unsigned char *name;
};

struct super_block {
	u32 s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	u32 i_nlink;
	u32 i_flags;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	u32 i_rdev;
};

struct address_space {
	struct inode *host;
	u32 wb_err;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct vfsmount mnt;
	int mnt_id;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	u32 f_flags;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct mm_struct {
	unsigned long start_stack;
	struct file *exe_file;
};

struct user_namespace {
	int level;
};

struct pid_namespace {
	struct user_namespace *user_ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; // one for each namespace, from the initial one on
};

struct fs_struct {
	struct path pwd;
};

struct task_struct {
	unsigned int flags;
	unsigned int on_cpu; // an int; a u8 in 7.2: libbpf fits the size of what has no sign
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 self_exec_id; // goes up when it executes another program
	u64 start_boottime;
	struct pid *thread_pid;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct mm_struct *mm;
	struct signal_struct *signal;
};

// Since 5.14, and before.
struct task_struct___state {
	unsigned int __state;
};

struct task_struct___long_state {
	long state;
};

struct gendisk {
	int major;
	int first_minor;
};

// Since 5.15 the queue knows its disk; before, each request does.
struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
};

struct request___disk {
	struct gendisk *rq_disk;
};

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long ax;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long r9;
	unsigned long orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
#endif
};

// io_uring, since 6.0.
struct io_cqe {
	s32 fd;
};

struct io_rsrc_node {
	unsigned long file_ptr;
};

struct io_rsrc_data {
	u32 nr;
	struct io_rsrc_node **nodes;
};

// Since 6.13.
struct io_file_table {
	struct io_rsrc_data data;
};

struct io_ring_ctx {
	u32 flags; // 64 bits in some kernels; only the lower half is looked at
	struct io_file_table file_table;
};

// Before.
struct io_file_table___files {
	void *files;
};

struct io_ring_ctx___files {
	u32 nr_user_files;
	struct io_file_table___files file_table;
};

struct io_kiocb {
	struct file *file; // once it is known
	u8 opcode;
	struct io_cqe cqe;
	u64 flags; // 32 bits before 6.9; only the lower half is looked at
	struct io_ring_ctx *ctx;
	struct io_kiocb *link; // what is begun when this has ended
};

// What a request begins with, by its kind.
struct io_sync {
	s64 len; // 0: up to the end
	s64 off;
	s32 flags;
};

struct kiocb {
	s64 ki_pos; // -1: where the file stands
};

struct io_rw {
	struct kiocb kiocb;
	u32 flags;
};

struct io_uring_cqe {
	s32 res;
};

// overlayfs since 6.13: the private data of an open file.
struct ovl_file {
	struct file *realfile;
};

// The private data of an open directory.
struct ovl_dir_file {
	struct file *realfile;
};

struct btrfs_root {
	u32 anon_dev;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct xfs_inode {
	struct inode i_vnode;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

// Only a type that begins with a pointer, to read one through bpf_rdonly_cast.
struct hlist_node;
struct hlist_head {
	struct hlist_node *first;
};

// How kprobe.multi follows a function to its return, before 6.14.
struct rethook;
struct fprobe {
	struct rethook *rethook;
};

#pragma clang attribute pop

// These need the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
