//! The figures of a row as fields of a JSON object, and their schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::rows::max_ns;
use crate::model::figures::{Figure, Source, Value};
use crate::model::{Errors, Interval, Op, Stats};
use crate::text::{errno, seconds};

pub(crate) struct Figures {
    op: Option<Op>,
    stats: Stats,
    over: Duration,
}

impl Figures {
    /// `op`: None for several together.
    pub(crate) fn of(op: Option<Op>, stats: &Stats, m: &Interval) -> Figures {
        Figures { op, stats: stats.clone(), over: m.span.duration }
    }
}

/// The object that a figure is in, if it is not the row itself, and its name there.
fn place(figure: Figure) -> (Option<&'static str>, &'static str) {
    let path = figure.line().json;
    path.split_once('.').map_or((None, path), |(object, name)| (Some(object), name))
}

/// The figures of the row itself one by one, and those of an object together where its first stands.
fn objects() -> Vec<Vec<Figure>> {
    let mut objects: Vec<Vec<Figure>> = Vec::new();
    for &figure in Figure::ALL.iter().filter(|figure| !figure.line().json.is_empty()) {
        let object = place(figure).0;
        let known = objects.iter_mut().find(|of| object.is_some() && place(of[0]).0 == object);
        match known {
            Some(of) => of.push(figure),
            None => objects.push(vec![figure]),
        }
    }
    objects
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        static OBJECTS: LazyLock<Vec<Vec<Figure>>> = LazyLock::new(objects);
        for figures in OBJECTS.iter() {
            match place(figures[0]).0 {
                Some(object) => map.serialize_entry(object, &Object(self, figures))?,
                None => self.write(figures, &mut map)?,
            }
        }
        map.end()
    }
}

struct Object<'a>(&'a Figures, &'a [Figure]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write(self.1, &mut map)?;
        map.end()
    }
}

impl Figures {
    fn write<M: SerializeMap>(&self, figures: &[Figure], map: &mut M) -> Result<(), M::Error> {
        let source = Source { op: self.op, stats: &self.stats, over: self.over };
        for &figure in figures {
            let value = figure.of(&source);
            if value != Value::Absent || !figure.line().is_optional {
                map.serialize_entry(place(figure).1, &Json(value))?;
            }
        }
        Ok(())
    }
}

struct Json<'a>(Value<'a>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Absent => to.serialize_none(),
            Value::Count(n) | Value::Bytes(n) => to.serialize_u64(n),
            Value::Rate(n, over) => (n as f64 / over.as_secs_f64()).serialize(to),
            Value::Time(ns) | Value::Quantile(_, ns, _) => seconds(ns).serialize(to),
            Value::Mean(sum, n) => (sum as f64 / n as f64 / 1e9).serialize(to),
            Value::Max(max) => max_ns(max).map(seconds).serialize(to),
            Value::InFlight(mean) => mean.serialize(to),
            Value::Errors(errors) | Value::ErrorNames(errors) => by_name(errors).serialize(to),
            Value::Flag(flag) => flag.serialize(to),
            Value::Word(word) => word.serialize(to),
        }
    }
}

pub(crate) fn by_name(errors: &Errors) -> BTreeMap<String, u64> {
    errors.iter().map(|(&number, &n)| (errno(number), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Completions, fixture};
    use serde_json::json;

    /// Made of a row that has each figure.
    fn schema_of(figure: Figure) -> serde_json::Value {
        let completions = Completions { posted: true, reaped: false };
        let stats = Stats { bytes: 1, completions, ..fixture::stats(&[(1, 1)]) };
        let source = Source { op: Some(Op::IoUringDsyncWrite), stats: &stats, over: Duration::from_secs(1) };
        let is_nullable = place(figure).0.is_some();
        let kind = |name: &str| if is_nullable { json!([name, "null"]) } else { json!(name) };
        let mut schema = match figure.of(&source) {
            Value::Count(_) | Value::Bytes(_) => json!({ "type": kind("integer"), "minimum": 0 }),
            Value::Flag(_) => json!({ "type": kind("boolean") }),
            Value::Errors(_) | Value::ErrorNames(_) => json!({ "$ref": "#/$defs/errors" }),
            Value::Word(_) => json!({ "type": kind("string"), "enum": ["posted", "reaped", "mixed"] }),
            Value::Absent => panic!("{figure:?} has no value"),
            Value::Rate(..)
            | Value::Time(_)
            | Value::Mean(..)
            | Value::Quantile(..)
            | Value::Max(_)
            | Value::InFlight(_) => json!({ "type": kind("number"), "minimum": 0 }),
        };
        if !figure.line().schema.is_empty() {
            schema["description"] = json!(figure.line().schema);
        }
        schema
    }

    /// A definition as it stands in the schema: its fields in the order in which they are written.
    fn definition(description: &str, fields: &[(&str, serde_json::Value, bool)]) -> String {
        let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
        let all: Vec<String> =
            fields.iter().map(|(name, schema, _)| format!("\"{name}\": {}", pretty(schema))).collect();
        let required: Vec<String> =
            fields.iter().filter(|field| field.2).map(|field| format!("\"{}\"", field.0)).collect();
        let inside = |lines: &[String]| lines.join(",\n").replace('\n', "\n  ");
        let description = match description {
            "" => String::new(),
            text => format!("  \"description\": \"{text}\",\n"),
        };
        format!(
            "{{\n{description}  \"type\": \"object\",\n  \"properties\": {{\n    {}\n  }},\n  \"required\": [\n    {}\n  ]\n}}",
            inside(&all).replace('\n', "\n  "),
            inside(&required).replace('\n', "\n  "),
        )
    }

    #[test]
    fn the_schema_has_the_figures_of_the_table() {
        let mut own = Vec::new();
        let mut schema = std::fs::read_to_string("docs/json.schema.json").unwrap();
        let mut replace = |name: &str, definition: &str| {
            let from = schema.find(&format!("\n    \"{name}\": {{")).expect(name);
            let to = from + schema[from..].find("\n    }").unwrap() + "\n    }".len();
            let definition = definition.replace('\n', "\n    ");
            schema.replace_range(from..to, &format!("\n    \"{name}\": {definition}"));
        };
        for figures in objects() {
            let field = |&figure: &Figure| (place(figure).1, schema_of(figure), !figure.line().is_optional);
            let fields = figures.iter().map(field);
            match place(figures[0]).0 {
                Some(object) => {
                    let why = "Null where there was no sync, or no histogram is kept";
                    replace(object, &definition(why, &fields.collect::<Vec<_>>()));
                    own.push((object, json!({ "$ref": format!("#/$defs/{object}") }), true));
                }
                None => own.extend(fields),
            }
        }
        replace("figures", &definition("", &own));
        fixture::assert_expected("docs/json.schema.json", &schema);
    }
}
