//! Needs root and a kernel with BTF: fsynctop on real kernels, servers and filesystems. One program, because
//! linking one for each file takes longer than running many of them.

#[path = "../common/mod.rs"]
mod common;

mod alone;
mod beside;
