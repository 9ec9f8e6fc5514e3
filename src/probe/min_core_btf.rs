//! A minimized BTF of the running kernel, as `bpftool gen min_core_btf` makes it: only the types that an
//! object's programs read, those of modules included.
//!
//! libbpf finds a module's types by BPF_BTF_GET_NEXT_ID, which takes CAP_SYS_ADMIN, and silently goes
//! without them otherwise (`load_module_btfs` of libbpf.c). The shipped unit does without that capability. On
//! a kernel whose btrfs is a module, two files of two subvolumes would then be counted as one.
//! /sys/kernel/btf is readable for everybody.
//!
//! A structure comes with those embedded in it, which decide where its fields are, but not with those it
//! points to. The types keep their ids, because programs pass them to the verifier; the gaps are filled.
//!
//! Format: Documentation/bpf/btf.rst and include/uapi/linux/btf.h of the kernel's sources.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions};
use rustix::fs::MemfdFlags;

use crate::host::BTF_MAGIC;

const KERNEL: &str = "/sys/kernel/btf";
/// Modules that have structures which the programs read (`bpf/kernel.h`), where they are not part of the
/// kernel itself.
const MODULES: [&str; 3] = ["btrfs", "overlay", "xfs"];

/// What a kernel with libaio has (fs/aio.c).
const AIO_CONTEXT: &str = "kioctx";

const VERSION: u8 = 1;
/// Of the header, and of a type without what follows it.
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

/// BTF_KIND_* of the kernel's UAPI.
mod kind {
    pub const INT: u32 = 1;
    pub(crate) const PTR: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const STRUCT: u32 = 4;
    pub(crate) const UNION: u32 = 5;
    pub(crate) const ENUM: u32 = 6;
    pub(crate) const FWD: u32 = 7;
    pub(crate) const TYPEDEF: u32 = 8;
    pub(crate) const VOLATILE: u32 = 9;
    pub(crate) const CONST: u32 = 10;
    pub(crate) const RESTRICT: u32 = 11;
    pub(crate) const FUNC: u32 = 12;
    pub(crate) const FUNC_PROTO: u32 = 13;
    pub(crate) const VAR: u32 = 14;
    pub(crate) const DATASEC: u32 = 15;
    pub(crate) const FLOAT: u32 = 16;
    pub(crate) const DECL_TAG: u32 = 17;
    pub(crate) const TYPE_TAG: u32 = 18;
    pub(crate) const ENUM64: u32 = 19;
}

/// The BTF for an object with types of these `names`, one on each line. None if the kernel's BTF cannot be
/// read or has a kind of type that came later than this program: libbpf then uses the whole of it.
pub fn minimize(names: &str) -> Option<MinimizedBtf> {
    let kernel = Types::read(&Path::new(KERNEL).join("vmlinux"), 1, 0)?;
    let (next_id, next_string) = (kernel.end_id(), kernel.strings().len());
    let modules = MODULES
        .iter()
        .filter_map(|module| Types::read(&Path::new(KERNEL).join(module), next_id, next_string));
    let sources = Sources([kernel].into_iter().chain(modules).collect());
    let mut places = sources.find(names.lines().chain([AIO_CONTEXT]));
    let has_ring_requests = sources.has(&places, "io_cqe");
    let has_aio = sources.has(&places, AIO_CONTEXT);
    // No program reads it.
    places.retain(|&place| !sources.is_named(place, AIO_CONTEXT));
    let bytes = sources.write(&places)?;
    // Refused by kernels before 6.3, which have no need of it.
    let memory = rustix::fs::memfd_create(c"kernel BTF", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| rustix::fs::memfd_create(c"kernel BTF", MemfdFlags::CLOEXEC))
        .ok()?;
    let mut file = File::from(memory);
    file.write_all(&bytes).ok()?;
    Some(MinimizedBtf { file, has_ring_requests, has_aio })
}

/// A file in memory, for as long as an object is being loaded.
pub struct MinimizedBtf {
    file: File,
    /// The hooks of io_uring are given requests as `bpf/ring.h` knows them (6.0).
    pub(super) has_ring_requests: bool,
    /// The kernel was configured with libaio.
    pub(super) has_aio: bool,
}

impl MinimizedBtf {
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// The types of the kernel or of a module, where they lie.
struct Types {
    content: Content,
    strings: Range<usize>,
    /// Where each type begins, from `first_id` on. A module goes on counting where the kernel ends, strings
    /// as well.
    begin: Vec<u32>,
    first_id: u32,
    first_string: usize,
}

enum Content {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::Mapped(map) => map,
            Content::Read(bytes) => bytes,
        }
    }
}

/// A type without what follows it.
#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    info: u32,
    size_or_type: u32,
    rest: &'a [u8],
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// Bytes that follow a type; None: a kind that came later than this program.
fn rest_bytes(info: u32) -> Option<usize> {
    let entries = (info & 0xffff) as usize;
    Some(match kind_of(info) {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * entries,
        kind::ENUM | kind::FUNC_PROTO => 8 * entries,
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => 0,
        kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Types {
    fn read(path: &Path, first_id: u32, first_string: usize) -> Option<Types> {
        let file = File::open(path).ok()?;
        // SAFETY: what the kernel shows there never changes. Since 6.16 it can be mapped, as private memory
        // only.
        let content = match unsafe { MmapOptions::new().map_copy_read_only(&file) } {
            Ok(map) => Content::Mapped(map),
            Err(_) => Content::Read(std::fs::read(path).ok()?),
        };
        Types::new(content, first_id, first_string)
    }

    fn new(content: Content, first_id: u32, first_string: usize) -> Option<Types> {
        let is_known = *content.first_chunk()? == BTF_MAGIC.to_ne_bytes() && content.get(2) == Some(&VERSION);
        if !is_known {
            return None;
        }
        let header = word(&content, 4)? as usize;
        let section = |at| Some((header + word(&content, at)? as usize, word(&content, at + 4)? as usize));
        let ((types, types_bytes), (strings, strings_bytes)) = (section(8)?, section(16)?);
        let end = strings + strings_bytes;
        let described = content.get(types..types + types_bytes)?;
        // Each string ends, at the latest with the section.
        if content.get(strings..end)?.last() != Some(&0) {
            return None;
        }
        let mut begin = Vec::with_capacity(types_bytes / TYPE_BYTES / 2);
        let mut at = 0;
        while at < described.len() {
            begin.push((types + at) as u32);
            at += TYPE_BYTES + rest_bytes(word(described, at + 4)?)?;
        }
        (at == described.len()).then_some(Types {
            strings: strings..end,
            begin,
            first_id,
            first_string,
            content,
        })
    }

    /// One more than the last.
    fn end_id(&self) -> u32 {
        self.first_id + self.begin.len() as u32
    }

    fn strings(&self) -> &[u8] {
        &self.content[self.strings.clone()]
    }

    fn get(&self, id: u32) -> Option<Type<'_>> {
        let at = *self.begin.get(id.checked_sub(self.first_id)? as usize)? as usize;
        let fixed: &[u8; TYPE_BYTES] = self.content[at..].first_chunk()?;
        let field = |i: usize| u32::from_ne_bytes([fixed[i], fixed[i + 1], fixed[i + 2], fixed[i + 3]]);
        let (name, info, size_or_type) = (field(0), field(4), field(8));
        let rest = &self.content[at + TYPE_BYTES..][..rest_bytes(info)?];
        Some(Type { name, info, size_or_type, rest })
    }

    fn name_if(&self, offset: u32, begins: impl Fn(u8) -> bool) -> Option<&[u8]> {
        let first = self.strings().get((offset as usize).checked_sub(self.first_string)?)?;
        if begins(*first) { self.name(offset) } else { None }
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        let rest = self.strings().get((offset as usize).checked_sub(self.first_string)?..)?;
        Some(CStr::from_bytes_until_nul(rest).ok()?.to_bytes())
    }
}

/// A type by where it is described: the number of the source, 0 being the kernel's own, and its number there.
type Place = (usize, u32);

/// Where the types come from: the kernel, then modules.
struct Sources(Vec<Types>);

impl Sources {
    /// The types of these names: the kernel's, and a module's where the kernel has none.
    fn find<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Place> {
        // `name___variant` is one of several ways to look at `name`.
        let mut wanted: HashSet<&[u8]> =
            names.map(|name| name.split_once("___").map_or(name, |(name, _)| name).as_bytes()).collect();
        wanted.remove(&b""[..]);
        let mut begins = [false; 256];
        for name in &wanted {
            begins[usize::from(name[0])] = true;
        }
        let mut places = Vec::new();
        for (number, source) in self.0.iter().enumerate() {
            let mut found = HashSet::new();
            for id in source.first_id..source.end_id() {
                let Some(Type { name, info, .. }) = source.get(id) else { continue };
                if !matches!(kind_of(info), kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64) {
                    continue;
                }
                // Of most of the tens of thousands, the first letter is enough.
                let Some(name) = source.name_if(name, |first| begins[usize::from(first)]) else { continue };
                if let Some(&name) = wanted.get(name) {
                    found.insert(name);
                    places.push((number, id));
                }
            }
            wanted.retain(|name| !found.contains(name));
        }
        places
    }

    /// Whether a type of this name is among these.
    fn has(&self, places: &[Place], name: &str) -> bool {
        places.iter().any(|&place| self.is_named(place, name))
    }

    fn is_named(&self, place: Place, name: &str) -> bool {
        let its = self.get(place).and_then(|found| self.name(place.0, found.name));
        its == Some(name.as_bytes())
    }

    fn get(&self, (source, id): Place) -> Option<Type<'_>> {
        self.0[source].get(id)
    }

    /// What `source` means by a number.
    fn place(&self, source: usize, id: u32) -> Place {
        if id < self.0[0].end_id() { (0, id) } else { (source, id) }
    }

    fn name(&self, source: usize, offset: u32) -> Option<&[u8]> {
        let kernel = &self.0[0];
        if (offset as usize) < kernel.strings().len() {
            kernel.name(offset)
        } else {
            self.0[source].name(offset)
        }
    }

    /// The new id of each type: `roots` and what is embedded in them. The kernel's roots keep theirs.
    fn number(&self, roots: &[Place]) -> Option<HashMap<Place, u32>> {
        let mut numbers: HashMap<Place, u32> =
            roots.iter().filter(|(source, _)| *source == 0).map(|&(source, id)| ((source, id), id)).collect();
        let taken: HashSet<u32> = numbers.values().copied().collect();
        let mut free = (1..).filter(|id| !taken.contains(id));
        let mut seen = HashSet::new();
        let mut open = roots.to_vec();
        while let Some(place) = open.pop() {
            if place == VOID || !seen.insert(place) {
                continue;
            }
            numbers.entry(place).or_insert_with(|| free.next().expect("numbers do not end"));
            let embedded = embedded_in(self.get(place)?)?;
            open.extend(embedded.into_iter().map(|id| self.place(place.0, id)));
        }
        Some(numbers)
    }

    fn write(&self, roots: &[Place]) -> Option<Vec<u8>> {
        let numbers = self.number(roots)?;
        let mut places: Vec<_> = numbers.iter().map(|(&place, &number)| (number, place)).collect();
        places.sort_unstable();
        let mut strings = Strings::default();
        let (mut types, mut next) = (Vec::new(), 1);
        for (number, place) in places {
            for _ in next..number {
                types.extend([0, kind::FWD << 24, 0]);
            }
            self.write_type(place, &numbers, &mut strings, &mut types)?;
            next = number + 1;
        }
        let (types_bytes, strings_bytes) = (4 * types.len() as u32, strings.bytes.len() as u32);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + types_bytes as usize + strings.bytes.len());
        bytes.extend(BTF_MAGIC.to_ne_bytes());
        bytes.extend([VERSION, 0]);
        let header = [HEADER_BYTES as u32, 0, types_bytes, types_bytes, strings_bytes];
        bytes.extend(header.into_iter().chain(types).flat_map(u32::to_ne_bytes));
        bytes.extend(strings.bytes);
        Some(bytes)
    }

    fn write_type(
        &self,
        place: Place,
        numbers: &HashMap<Place, u32>,
        strings: &mut Strings,
        into: &mut Vec<u32>,
    ) -> Option<()> {
        let source = place.0;
        let Type { name, info, size_or_type, rest } = self.get(place)?;
        let number = |id: u32| if id == 0 { Some(0) } else { numbers.get(&self.place(source, id)).copied() };
        let mut text = |offset| Some(strings.add(self.name(source, offset)?));
        let kind = kind_of(info);
        let target = match kind {
            kind::PTR => 0,
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                number(size_or_type)?
            }
            _ => size_or_type,
        };
        into.extend([text(name)?, info, target]);
        let words = rest.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
        for (i, word) in words.enumerate() {
            into.push(match (kind, i % 3) {
                (kind::STRUCT | kind::UNION | kind::ENUM64, 0) => text(word)?,
                (kind::STRUCT | kind::UNION, 1) | (kind::ARRAY, 0 | 1) => number(word)?,
                (kind::ENUM, _) if i % 2 == 0 => text(word)?,
                _ => word,
            });
        }
        Some(())
    }
}

const VOID: Place = (0, 0);

/// The numbers of the types that decide how large this one is. None: it is no type of data.
fn embedded_in(outer: Type) -> Option<Vec<u32>> {
    let Type { info, size_or_type, rest, .. } = outer;
    Some(match kind_of(info) {
        kind::STRUCT | kind::UNION => rest.chunks_exact(12).filter_map(|member| word(member, 4)).collect(),
        kind::ARRAY => vec![word(rest, 0)?, word(rest, 4)?],
        kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => vec![size_or_type],
        kind::INT | kind::PTR | kind::ENUM | kind::ENUM64 | kind::FWD | kind::FLOAT => Vec::new(),
        _ => return None,
    })
}

/// The names of the types, each once.
struct Strings {
    bytes: Vec<u8>,
    at: HashMap<Vec<u8>, u32>,
}

impl Default for Strings {
    /// At the beginning stands the empty one.
    fn default() -> Self {
        Strings { bytes: vec![0], at: HashMap::from([(Vec::new(), 0)]) }
    }
}

impl Strings {
    fn add(&mut self, name: &[u8]) -> u32 {
        if let Some(&at) = self.at.get(name) {
            return at;
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend(name);
        self.bytes.push(0);
        self.at.insert(name.to_vec(), at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands behind a type, with its names as they are.
    enum Part {
        Name(&'static str),
        Word(u32),
    }
    use Part::{Name, Word};

    /// As the kernel writes it. `strings`: how many bytes of them a kernel has whose module this is.
    fn btf(types: Vec<(&'static str, u32, Vec<Part>)>, strings: usize) -> Vec<u8> {
        let mut names = Strings::default();
        let first = u32::try_from(strings).unwrap();
        let mut at = |name: &str| if name.is_empty() { 0 } else { first + names.add(name.as_bytes()) };
        let words: Vec<u32> = types
            .into_iter()
            .flat_map(|(name, info, rest)| {
                let mut words = vec![at(name), info];
                words.extend(rest.into_iter().map(|part| match part {
                    Name(name) => at(name),
                    Word(word) => word,
                }));
                words
            })
            .collect();
        let (types, strings) = (4 * words.len() as u32, names.bytes.len() as u32);
        let mut bytes = BTF_MAGIC.to_ne_bytes().to_vec();
        bytes.extend([VERSION, 0]);
        bytes.extend([24, 0, types, types, strings].into_iter().chain(words).flat_map(u32::to_ne_bytes));
        bytes.extend(names.bytes);
        bytes
    }

    fn int(name: &'static str) -> (&'static str, u32, Vec<Part>) {
        (name, kind::INT << 24, vec![Word(4), Word(32)])
    }

    fn structure(name: &'static str, members: &[(&'static str, u32)]) -> (&'static str, u32, Vec<Part>) {
        let rest = members.iter().flat_map(|&(name, id)| [Name(name), Word(id), Word(0)]);
        (name, kind::STRUCT << 24 | members.len() as u32, [Word(8)].into_iter().chain(rest).collect())
    }

    fn to(kind: u32, id: u32) -> (&'static str, u32, Vec<Part>) {
        ("", kind << 24, vec![Word(id)])
    }

    fn kernel() -> Vec<u8> {
        btf(
            vec![
                int("unused"),                                                        // 1
                structure("far", &[("x", 1)]),                                        // 2
                to(kind::PTR, 2),                                                     // 3
                structure("file", &[("inner", 8), ("far", 3), ("names", 7)]),         // 4
                int("int"),                                                           // 5
                ("mode", kind::ENUM << 24 | 1, vec![Word(4), Name("READ"), Word(7)]), // 6
                ("", kind::ARRAY << 24, vec![Word(0), Word(9), Word(5), Word(3)]),    // 7
                structure("inner", &[("n", 5)]),                                      // 8
                to(kind::CONST, 5),                                                   // 9
            ],
            0,
        )
    }

    fn types(bytes: Vec<u8>, first_id: u32, first_string: usize) -> Types {
        Types::new(Content::Read(bytes), first_id, first_string).unwrap()
    }

    /// Each type: its id, name and kind.
    fn written(sources: &Sources, names: &str) -> Vec<(u32, String, u32)> {
        let minimized = types(sources.write(&sources.find(names.lines())).unwrap(), 1, 0);
        (1..minimized.end_id())
            .map(|id| {
                let found = minimized.get(id).unwrap();
                let name = String::from_utf8(minimized.name(found.name).unwrap().to_vec()).unwrap();
                (id, name, kind_of(found.info))
            })
            .collect()
    }

    fn line(id: u32, name: &str, kind: u32) -> (u32, String, u32) {
        (id, name.to_owned(), kind)
    }

    #[test]
    fn a_structure_comes_with_what_is_embedded_in_it_and_keeps_its_number() {
        let sources = Sources(vec![types(kernel(), 1, 0)]);
        let found = written(&sources, "file___old\nmode\nno_such");
        assert_eq!(found[3], line(4, "file", kind::STRUCT));
        assert_eq!(found[5], line(6, "mode", kind::ENUM));
        let mut rest: Vec<_> = found.iter().map(|(_, name, kind)| (name.as_str(), *kind)).collect();
        rest.sort_unstable();
        let expected = [
            ("", kind::PTR),
            ("", kind::ARRAY),
            ("", kind::CONST),
            ("file", kind::STRUCT),
            ("inner", kind::STRUCT),
            ("int", kind::INT),
            ("mode", kind::ENUM),
        ];
        assert_eq!(rest, expected, "`far` is only pointed to");
    }

    #[test]
    fn members_and_elements_refer_to_the_types_that_they_had() {
        let sources = Sources(vec![types(kernel(), 1, 0)]);
        let minimized = types(sources.write(&sources.find(["file", "mode"].into_iter())).unwrap(), 1, 0);
        let file = minimized.get(4).unwrap();
        let member = |i: usize| {
            let (name, id) = (word(file.rest, 12 * i).unwrap(), word(file.rest, 12 * i + 4).unwrap());
            (minimized.name(name).unwrap(), minimized.get(id).unwrap())
        };
        let (name, inner) = member(0);
        assert_eq!((name, minimized.name(inner.name)), (&b"inner"[..], Some(&b"inner"[..])));
        let (name, far) = member(1);
        assert_eq!((name, kind_of(far.info), far.size_or_type), (&b"far"[..], kind::PTR, 0));
        let (_, names) = member(2);
        let element = minimized.get(word(names.rest, 0).unwrap()).unwrap();
        assert_eq!(kind_of(element.info), kind::CONST);
        assert_eq!(minimized.name(minimized.get(element.size_or_type).unwrap().name), Some(&b"int"[..]));
        assert_eq!(word(names.rest, 8), Some(3), "elements");
        let mode = minimized.get(6).unwrap();
        assert_eq!(minimized.name(word(mode.rest, 0).unwrap()), Some(&b"READ"[..]));
        assert_eq!(word(mode.rest, 4), Some(7), "a value is no number of a type");
    }

    #[test]
    fn a_module_has_what_the_kernel_has_not_and_builds_on_its_types() {
        let kernel = types(kernel(), 1, 0);
        let (id, string) = (kernel.end_id(), kernel.strings().len());
        let own = btf(vec![structure("own", &[("file", 4), ("int", 5)]), structure("mode", &[])], string);
        let module = types(own, id, string);
        let sources = Sources(vec![kernel, module]);
        let found = written(&sources, "own\nmode");
        let named = |wanted: &str| found.iter().filter(|(_, name, _)| name == wanted).collect::<Vec<_>>();
        assert_eq!(named("own").len(), 1);
        assert_eq!(named("file").len(), 1, "it is embedded");
        assert_eq!(named("mode"), [&line(6, "mode", kind::ENUM)], "the kernel's comes first");
        assert!(found.len() < id as usize, "a module's numbers need not be kept");
    }

    #[test]
    fn what_is_not_understood_is_left_to_libbpf() {
        let of = |bytes: Vec<u8>| Types::new(Content::Read(bytes), 1, 0);
        let whole = kernel();
        assert!(of(whole.clone()).is_some());
        assert!(of(Vec::new()).is_none());
        for cut in [1, 3, 23, whole.len() / 2, whole.len() - 1] {
            assert!(of(whole[..cut].to_vec()).is_none(), "{cut} bytes");
        }
        assert!(of(btf(vec![("later", 31 << 24, vec![Word(0)])], 0)).is_none());
        let mut other_version = whole;
        other_version[2] = 2;
        assert!(of(other_version).is_none());
        let refers_to_none = Sources(vec![types(btf(vec![structure("a", &[("b", 77)])], 0), 1, 0)]);
        assert!(refers_to_none.write(&refers_to_none.find(["a"].into_iter())).is_none());
    }
}
