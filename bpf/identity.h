// From a descriptor to the file: the kernel's own structures are read at the moment of the call, because the number of
// a descriptor may stand for another file a moment later.
#pragma once

#include "kernel.h"
#include "read.h"
#include "record.h"

extern int LINUX_KERNEL_VERSION __kconfig;

// No table has room for fewer descriptors (NR_OPEN_DEFAULT of include/linux/fdtable.h, which is BITS_PER_LONG).
#define LEAST_FDS 64

static __always_inline struct file *file_of(struct task_struct *task, u32 fd)
{
	struct fdtable *table;
	struct file **slot, *file;

	if (typed_tasks) {
		table = task->files->fdt;
		if (fd >= LEAST_FDS && fd >= table->max_fds)
			return 0;
		slot = table->fd + fd;
	} else {
		table = BPF_CORE_READ(task, files, fdt);
		if (fd >= LEAST_FDS && fd >= BPF_CORE_READ(table, max_fds))
			return 0;
		slot = BPF_CORE_READ(table, fd) + fd;
	}
	if (typed_cast)
		return (struct file *)word_at(slot);
	return bpf_probe_read_kernel(&file, sizeof(file), slot) ? 0 : file;
}

// Tells a file's names apart: a dentry's hash, which its directory has a part in, and length. A rename changes it.
static __always_inline u64 name_hash(struct file *file)
{
	if (typed_cast) {
		struct file *typed = bpf_rdonly_cast(file, bpf_core_type_id_kernel(struct file));
		return typed->f_path.dentry->d_name.hash_len;
	}
	return BPF_CORE_READ(file, f_path.dentry, d_name.hash_len);
}

// Where struct ovl_dir_file has its `realfile`, from 5.10 to 7.2.
#define OVERLAY_DIRECTORY_REAL_FILE 24

// The open file below one of an overlay, by their addresses. Versions and numbers stand in for the module's BTF, which
// is not there yet if overlayfs is loaded after the programs. Not static, as those below: see lookup.h.
__noinline u64 file_below(u64 address)
{
	struct file *file = (struct file *)address;
	void *private = BPF_CORE_READ(file, private_data);
	struct file *real = private; // before 6.13 that is all there is, for a regular file

	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFDIR) {
		if (bpf_core_field_exists(struct ovl_dir_file, realfile))
			return (u64)BPF_CORE_READ((struct ovl_dir_file *)private, realfile);
		bpf_probe_read_kernel(&real, sizeof(real), private + OVERLAY_DIRECTORY_REAL_FILE);
	} else if (bpf_core_type_exists(struct ovl_file)) {
		real = BPF_CORE_READ((struct ovl_file *)private, realfile);
	} else if (LINUX_KERNEL_VERSION >= (6 << 16 | 13 << 8)) {
		bpf_probe_read_kernel(&real, sizeof(real), private);
	}
	return (u64)real;
}

// overlayfs gives each of its inodes generation 0 and hands numbers out again at once; the generation of the file
// below tells one life from the next.
__noinline u32 overlay_generation(u64 address)
{
	struct file *below = (struct file *)file_below(address);

	return BPF_CORE_READ(below, f_inode, i_generation);
}

// An overlay may lie on another one; this deep, at most (FILESYSTEM_MAX_STACK_DEPTH of include/linux/fs.h).
#define OVERLAYS 2

// The superblock of the layer that a file of an overlay lies on. What two servers in containers share is that one's
// device; each overlay has a number of its own, which is no device's. 0: there is none.
__noinline u64 super_below(u64 address)
{
	struct super_block *sb;
	struct file *file;
	u64 below = 0;

	for (int i = 0; i < OVERLAYS; i++) {
		address = file_below(address);
		file = (struct file *)address;
		sb = BPF_CORE_READ(file, f_inode, i_sb);
		if (!sb)
			break;
		below = (u64)sb;
		if (BPF_CORE_READ(sb, s_magic) != OVERLAYFS_SUPER_MAGIC)
			break;
	}
	return below;
}

// btrfs numbers inodes per subvolume; the subvolume's own device number (what stat shows) tells them apart.
__noinline u32 btrfs_device(u64 address, u32 device)
{
	void *inode = (void *)address;

	if (bpf_core_field_exists(struct btrfs_inode, vfs_inode) &&
	    bpf_core_field_exists(struct btrfs_root, anon_dev)) {
		struct btrfs_inode *own = inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);
		u32 subvolume = BPF_CORE_READ(own, root, anon_dev);
		if (subvolume)
			return subvolume;
	}
	return device;
}

// An open file's inode: its address and its superblock's with what can differ when an address is used again. Read
// without following any further pointer, at every sync.
struct inode_key {
	u64 inode;
	u64 address; // the same, but a number to the verifier, which may be computed with
	u64 sb;
	u64 number;
	u64 generation;
};

static __always_inline void read_inode_key(struct inode_key *key, struct file *file)
{
	if (typed_cast) {
		struct file *typed = bpf_rdonly_cast(file, bpf_core_type_id_kernel(struct file));
		u64 address = word_at(&typed->f_inode);
		struct inode *inode = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct inode));

		key->inode = (u64)inode;
		key->address = address;
		key->sb = (u64)inode->i_sb;
		key->number = inode->i_ino;
		key->generation = inode->i_generation;
	} else {
		struct inode *inode = BPF_CORE_READ(file, f_inode);

		key->inode = key->address = (u64)inode;
		key->sb = (u64)BPF_CORE_READ(inode, i_sb);
		key->number = BPF_CORE_READ(inode, i_ino);
		key->generation = BPF_CORE_READ(inode, i_generation);
	}
}

// The filesystem's own device number: 32 bits of it.
static __always_inline u64 device_of(const struct inode_key *key)
{
	if (typed_cast) {
		struct super_block *typed =
			bpf_rdonly_cast((void *)key->sb, bpf_core_type_id_kernel(struct super_block));
		return typed->s_dev;
	}
	struct super_block *sb = (void *)key->sb;
	return BPF_CORE_READ(sb, s_dev);
}

static __always_inline bool is_on_overlay(const struct inode_key *key)
{
	struct super_block *sb = (void *)key->sb;

	if (typed_cast) {
		struct super_block *typed = bpf_rdonly_cast(sb, bpf_core_type_id_kernel(struct super_block));
		return typed->s_magic == OVERLAYFS_SUPER_MAGIC;
	}
	return BPF_CORE_READ(sb, s_magic) == OVERLAYFS_SUPER_MAGIC;
}

// The key of the filesystem that a file's content goes to, of which only the superblock counts.
static __always_inline void read_device_key(struct inode_key *key, struct file *file)
{
	read_inode_key(key, file);
	key->inode = key->number = key->generation = 0;
	if (is_on_overlay(key)) {
		u64 below = super_below((u64)file);
		if (below)
			key->sb = below;
	}
}

// Fills device, inode, generation and flags. False: the key is not enough to know this file again.
static __always_inline bool identify_file(struct identity *id, struct file *file, const struct inode_key *key)
{
	struct super_block *sb = (void *)key->sb;
	struct inode *inode = (void *)key->inode;
	unsigned long magic;
	u16 mode;

	if (typed_cast) {
		struct super_block *typed = bpf_rdonly_cast(sb, bpf_core_type_id_kernel(struct super_block));
		id->of.file.device = typed->s_dev;
		magic = typed->s_magic;
	} else {
		id->of.file.device = BPF_CORE_READ(sb, s_dev);
		magic = BPF_CORE_READ(sb, s_magic);
	}
	id->of.file.inode = key->number;
	id->of.file.generation = key->generation;
	if (magic == BTRFS_SUPER_MAGIC)
		id->of.file.device = btrfs_device(key->address, id->of.file.device);
	if (id->of.file.generation)
		return magic != BTRFS_SUPER_MAGIC; // a snapshot's copy of a file has its number and generation
	mode = BPF_CORE_READ(inode, i_mode);
	if (magic == OVERLAYFS_SUPER_MAGIC && (mode & S_IFMT) == S_IFREG)
		id->of.file.generation = overlay_generation((u64)file);
	if (!id->of.file.generation)
		id->flags |= IDENTITY_WEAK;
	return magic != OVERLAYFS_SUPER_MAGIC && magic != BTRFS_SUPER_MAGIC;
}
