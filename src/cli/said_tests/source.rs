//! Where the figures come from: the program's constants, as its source has them, and the defaults of options.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use syn::visit::Visit;

use crate::cli::{options, root};
use crate::engine::engines::Engines;
use crate::model::Engine;

pub(super) fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// As if it stood on one line.
pub(super) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The constant of that name in a file below src/: a number, seconds, an array's length. Nearly all are
/// private to their file, and should stay so.
pub(super) fn of(file: &str, name: &str) -> f64 {
    static FILES: Mutex<BTreeMap<String, BTreeMap<String, f64>>> = Mutex::new(BTreeMap::new());
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let constants = files.entry(file.to_owned()).or_insert_with(|| constants(file));
    *constants
        .get(name)
        .unwrap_or_else(|| panic!("there is no constant {name} in src/{file} that can be read"))
}

/// Those whose value can be read.
fn constants(file: &str) -> BTreeMap<String, f64> {
    struct Constants<'a>(BTreeMap<String, &'a syn::Expr>);
    impl<'a> Visit<'a> for Constants<'a> {
        fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
            self.0.insert(item.ident.to_string(), &item.expr);
            if let syn::Expr::Struct(fields) = &*item.expr {
                for field in &fields.fields {
                    if let syn::Member::Named(name) = &field.member {
                        self.0.insert(format!("{}.{name}", item.ident), &field.expr);
                    }
                }
            }
        }
    }
    let parsed = syn::parse_file(&read(&format!("src/{file}"))).expect(file);
    let mut constants = Constants(BTreeMap::new());
    constants.visit_file(&parsed);
    let known = &constants.0;
    known.iter().filter_map(|(name, expression)| Some((name.clone(), value(expression, known)?))).collect()
}

fn value(expression: &syn::Expr, constants: &BTreeMap<String, &syn::Expr>) -> Option<f64> {
    use syn::{BinOp, Expr, Lit};
    let of = |expression: &Expr| value(expression, constants);
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            Lit::Float(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Path(path) => of(constants.get(&path.path.get_ident()?.to_string())?),
        Expr::Paren(inner) => of(&inner.expr),
        Expr::Cast(cast) => of(&cast.expr),
        Expr::Array(array) => Some(array.elems.len() as f64),
        Expr::Binary(binary) => {
            let (left, right) = (of(&binary.left)?, of(&binary.right)?);
            match binary.op {
                BinOp::Shl(_) => Some(left * right.exp2()),
                BinOp::Mul(_) => Some(left * right),
                BinOp::Add(_) => Some(left + right),
                _ => None,
            }
        }
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let number = of(call.args.first()?)?;
            match &*function.path.segments.last()?.ident.to_string() {
                "from_secs" => Some(number),
                "from_millis" => Some(number * 1e-3),
                "from_micros" => Some(number * 1e-6),
                _ => None,
            }
        }
        _ => None,
    }
}

/// An enumerator of bpf/record.h.
pub(super) fn record(name: &str) -> f64 {
    let header = read("bpf/record.h");
    let rest = header.split(&format!("\t{name} = ")).nth(1).unwrap_or_else(|| panic!("no {name}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The default of an option, as it is typed.
pub(super) fn default(action: &str, option: &str) -> String {
    let command = root::command();
    let action = command.find_subcommand(action).unwrap_or_else(|| panic!("no action {action}"));
    let argument = action.get_arguments().find(|argument| argument.get_long() == Some(option));
    let values = argument.unwrap_or_else(|| panic!("no --{option}")).get_default_values();
    values.iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(",")
}

pub(super) fn default_seconds(action: &str, option: &str) -> f64 {
    options::duration(&default(action, option)).unwrap().as_secs_f64()
}

/// Of these engines: titles, and names.
pub(super) fn engines(wanted: impl Fn(&Engine) -> bool) -> [Vec<String>; 2] {
    let engines = Engines::builtin();
    let engines = engines.profiles().iter().map(|profile| &profile.engine);
    let (titles, names) = engines
        .filter(|engine| wanted(engine))
        .map(|engine| (engine.title.clone(), engine.name.clone()))
        .unzip();
    [titles, names]
}

pub(super) fn variants(file: &str, name: &str) -> f64 {
    let text = syn::parse_file(&read(&format!("src/{file}"))).unwrap();
    let of = text.items.iter().find_map(|item| match item {
        syn::Item::Enum(item) if item.ident == name => Some(item.variants.len()),
        _ => None,
    });
    of.expect(name) as f64
}
