//! Which file of a room imports which other, and which other rooms, as its `use` items, its paths and its
//! macros say. Of files, what only tests import is left out, and so is what a `mod.rs` merely re-exports: an
//! import of that is one of the file where it comes from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use syn::visit::{self, Visit};

/// The names of the modules on the way, from the crate's root.
type Module = Vec<String>;

/// By file, the files that it imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The files of one room, a folder of src.
pub struct Room {
    name: String,
    files: BTreeMap<Module, (String, syn::File)>,
}

impl Room {
    pub fn new(name: &str) -> Room {
        Room { name: name.to_owned(), files: BTreeMap::new() }
    }

    /// `path` is relative to src.
    pub fn add(&mut self, path: &Path, source: &str) {
        let shown = path.to_str().unwrap().to_owned();
        let file = syn::parse_file(source).unwrap_or_else(|error| panic!("{shown}: {error}"));
        let mut module: Module = shown.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        self.files.insert(module, (shown, file));
    }

    pub fn imports(&self) -> Imports {
        let found: BTreeMap<&Module, Found> =
            self.files.iter().map(|(module, (_, file))| (module, Found::of(module, file))).collect();
        let of_tests: BTreeSet<&Module> = found.values().flat_map(|found| &found.test_modules).collect();
        let mut imports = Imports::new();
        for (module, found_here) in &found {
            if of_tests.contains(*module) {
                continue;
            }
            let others = imports.entry(self.files[*module].0.clone()).or_default();
            for path in &found_here.paths {
                if let Some(other) = self.resolve(path, &found, 0).filter(|other| other != *module) {
                    others.insert(self.files[&other].0.clone());
                }
            }
        }
        imports
    }

    /// The other rooms that its files name, in their tests too.
    pub fn others(&self) -> BTreeSet<String> {
        let named = self.files.iter().flat_map(|(module, (_, file))| Found::of(module, file).rooms);
        named.filter(|other| *other != self.name).collect()
    }

    /// The module, by file, in which the last name of a path is defined.
    fn resolve(&self, path: &Module, found: &BTreeMap<&Module, Found>, depth: usize) -> Option<Module> {
        if path.first() != Some(&self.name) || depth > 8 {
            return None;
        }
        let length = (1..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(length);
        let here = &found[&module.to_vec()];
        let Some(name) = rest.first() else { return Some(module.to_vec()) };
        let defined_elsewhere = here.re_exports.iter().find_map(|(re_exported, origin)| match re_exported {
            Some(re_exported) => (re_exported == name).then(|| self.resolve(origin, found, depth + 1))?,
            None => {
                let origin = self.resolve(origin, found, depth + 1)?;
                defines(&self.files[&origin].1, name).then_some(origin)
            }
        });
        Some(defined_elsewhere.unwrap_or_else(|| module.to_vec()))
    }
}

/// What stands in one file.
struct Found {
    /// Of the module whose items are looked at: the file's, or one inside it.
    module: Module,
    /// The file is a `mod.rs`: it may re-export.
    children: BTreeSet<String>,
    is_in_tests: bool,
    paths: Vec<Module>,
    /// The first names of all paths, those in tests too.
    rooms: BTreeSet<String>,
    /// The name by which something is re-exported (None: everything that is there), and where it comes from.
    re_exports: Vec<(Option<String>, Module)>,
    test_modules: Vec<Module>,
}

impl Found {
    fn of(module: &Module, file: &syn::File) -> Found {
        let declared = file.items.iter().filter_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
            _ => None,
        });
        let children = declared.collect();
        let mut found = Found {
            module: module.clone(),
            children,
            is_in_tests: false,
            paths: Vec::new(),
            rooms: BTreeSet::new(),
            re_exports: Vec::new(),
            test_modules: Vec::new(),
        };
        found.visit_file(file);
        found
    }

    /// From the crate's root. None: of another crate, or of something that was imported, which was seen
    /// there.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut rest = path.iter();
        let mut absolute = match rest.next()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last()?.1.to_vec(),
            child if self.children.contains(child) => [&self.module[..], &path[..1]].concat(),
            _ => return None,
        };
        for name in rest {
            match name.as_str() {
                "super" => drop(absolute.pop()),
                "self" => {}
                _ => absolute.push(name.clone()),
            }
        }
        Some(absolute)
    }

    fn add(&mut self, path: Module) {
        self.rooms.extend(path.first().cloned());
        if !self.is_in_tests {
            self.paths.push(path);
        }
    }

    fn add_use(&mut self, item: &syn::ItemUse, tree: &syn::UseTree, path: &mut Vec<String>) {
        let mut leaf = |path: &[String], name: Option<String>| {
            let Some(absolute) = self.absolute(path) else { return };
            match &item.vis {
                syn::Visibility::Inherited => self.add(absolute),
                _ => {
                    self.rooms.extend(absolute.first().cloned());
                    self.re_exports.push((name, absolute));
                }
            }
        };
        match tree {
            syn::UseTree::Path(deeper) => {
                path.push(deeper.ident.to_string());
                self.add_use(item, &deeper.tree, path);
                path.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(item, tree, path)),
            syn::UseTree::Glob(_) => leaf(path, None),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                leaf(path, path.iter().rfind(|name| *name != "self").cloned());
                path.pop();
            }
            syn::UseTree::Rename(renamed) => {
                path.push(renamed.ident.to_string());
                leaf(path, Some(renamed.rename.to_string()));
                path.pop();
            }
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(item, &item.tree, &mut Vec::new());
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        let was_in_tests = self.is_in_tests;
        if is_for_tests(&item.attrs) {
            self.test_modules.push(self.module.clone());
            self.is_in_tests = true;
        }
        let children = std::mem::take(&mut self.children);
        visit::visit_item_mod(self, item);
        self.children = children;
        self.is_in_tests = was_in_tests;
        self.module.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.absolute(&names).into_iter().for_each(|path| self.add(path));
        }
        visit::visit_path(self, path);
    }

    /// Its tokens are no paths yet; those that begin at the crate's root are told by their text.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let text = item.tokens.to_string().replace(' ', "");
        for path in text.split("crate::").skip(1) {
            let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
            self.add(path[..end.unwrap_or(path.len())].split("::").map(str::to_owned).collect());
        }
        visit::visit_macro(self, item);
    }

    // `pub(in path)` and the like import nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn defines(file: &syn::File, name: &str) -> bool {
    file.items.iter().any(|item| match item {
        syn::Item::Const(item) => item.ident == name,
        syn::Item::Enum(item) => item.ident == name,
        syn::Item::Fn(item) => item.sig.ident == name,
        syn::Item::Mod(item) => item.ident == name,
        syn::Item::Static(item) => item.ident == name,
        syn::Item::Struct(item) => item.ident == name,
        syn::Item::Trait(item) => item.ident == name,
        syn::Item::Type(item) => item.ident == name,
        syn::Item::Union(item) => item.ident == name,
        _ => false,
    })
}

/// The shortest circle through each file, each circle once.
pub fn circles(imports: &Imports) -> Vec<String> {
    let mut circles = BTreeMap::new();
    for start in imports.keys() {
        if let Some(circle) = shortest_way_back(imports, start) {
            let members: BTreeSet<&str> = circle.iter().copied().collect();
            circles.entry(members).or_insert_with(|| [&circle[..], &[start]].concat().join(" -> "));
        }
    }
    circles.into_values().collect()
}

fn shortest_way_back<'a>(imports: &'a Imports, start: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in imports.get(way[way.len() - 1]).into_iter().flatten() {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back([&way[..], &[next]].concat());
            }
        }
    }
    None
}
