//! Needs root: relocated with a minimized BTF of the kernel, the programs are the same, instruction by
//! instruction, as with the whole of it.

use std::path::Path;

use crate::common::needs;
use fsynctop::probe::{OBJECT, OBJECT_TYPES, WAIT_OBJECT, WAIT_OBJECT_TYPES, min_core_btf};
use libbpf_rs::libbpf_sys::{BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE};
use libbpf_rs::{ObjectBuilder, PrintLevel, set_print};

/// In the first instruction of two that load 64 bits (BPF_LD | BPF_IMM | BPF_DW).
const LOAD_64_BITS: u8 = 0x18;

type Instruction = (u8, u8, i16, i32);

/// The instructions of each program that loads on any kernel of today, as libbpf leaves them.
fn fitted(object: &[u8], types: Option<&Path>) -> Vec<(String, Vec<Instruction>)> {
    let mut builder = ObjectBuilder::default();
    if let Some(types) = types {
        builder.btf_custom_path(types).unwrap();
    }
    let mut open = builder.open_memory(object).unwrap();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let other_modes = ["fentry", "fexit", "kprobe", "kretprobe"];
        program.set_autoload(!other_modes.iter().any(|prefix| name.starts_with(prefix)));
    }
    let object = open.load().unwrap();
    let programs = object.progs().filter(|program| program.autoload());
    let instructions = |program: libbpf_rs::Program| {
        let maps = [BPF_PSEUDO_MAP_FD as u8, BPF_PSEUDO_MAP_VALUE as u8];
        let plain = program.insns().iter().map(|i| {
            // A map's descriptor is another one each time.
            let imm = if i.code == LOAD_64_BITS && maps.contains(&i.src_reg()) { 0 } else { i.imm };
            (i.code, i.src_reg() << 4 | i.dst_reg(), i.off, imm)
        });
        plain.collect()
    };
    programs.map(|program| (program.name().to_string_lossy().into_owned(), instructions(program))).collect()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_minimized_btf_relocates_the_programs_as_the_whole_one_does() {
    needs(&[]);
    set_print(Some((PrintLevel::Warn, |_, message| eprint!("{message}"))));
    for (object, types) in [(OBJECT, OBJECT_TYPES), (WAIT_OBJECT, WAIT_OBJECT_TYPES)] {
        let minimized = min_core_btf::minimize(types).expect("the kernel shows its types");
        let bytes = std::fs::metadata(minimized.path()).unwrap().len();
        assert!((1..2_000_000).contains(&bytes), "{bytes} bytes are not minimized");
        let (with_all, with_minimized) = (fitted(object, None), fitted(object, Some(&minimized.path())));
        assert!(with_all.len() > 5 && with_all.iter().all(|(_, instructions)| instructions.len() > 10));
        for ((name, all), (other_name, minimized)) in with_all.iter().zip(&with_minimized) {
            assert_eq!(name, other_name);
            assert_eq!(all, minimized, "{name}");
        }
        assert_eq!(with_all.len(), with_minimized.len());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_structure_that_the_kernel_does_not_have_is_in_no_minimized_btf() {
    needs(&[]);
    let minimized =
        min_core_btf::minimize("super_block\nno_such_structure").expect("the kernel shows its types");
    let btf = libbpf_rs::btf::Btf::from_path(minimized.path()).unwrap();
    let found = btf.type_by_name::<libbpf_rs::btf::types::Struct>("super_block").unwrap();
    let kernels = libbpf_rs::btf::Btf::from_vmlinux().unwrap();
    let same = kernels.type_by_name::<libbpf_rs::btf::types::Struct>("super_block").unwrap();
    assert_eq!(found.type_id(), same.type_id(), "programs name it by its number");
    assert_eq!(found.len(), same.len());
    assert!(btf.type_by_name::<libbpf_rs::btf::types::Struct>("no_such_structure").is_none());
    assert!(btf.type_by_name::<libbpf_rs::btf::types::Struct>("net_device").is_none(), "it is not asked for");
}
