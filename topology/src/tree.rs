//! The file as a tree in which every value knows its place, and the overrides put into it.
//!
//! A tree of our own instead of derived deserialisers: those stop at the first fault and forget
//! where a value stood once it is read. Overrides and core files become part of the same tree, so
//! one set of rules serves all of them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value stands: a source and a byte range in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the value is a stand-in for one that was already reported.
    pub(crate) is_poisoned: bool,
}

/// A text that values come from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Name in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_override: bool,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    List(Vec<Item>),
    Table(Table),
}

impl Value {
    /// Names the type for a message.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// A table in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) item: Item,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    /// Puts `over` on top of this table: tables merge, everything else is replaced.
    ///
    /// A plain value on a figure (a table with `v`) replaces the whole figure.
    pub(crate) fn merge(&mut self, over: Table) {
        for entry in over.entries {
            match self.get_mut(&entry.key) {
                None => self.entries.push(entry),
                Some(old) => match (&mut old.item.value, entry.item.value) {
                    (Value::Table(below), Value::Table(above)) => below.merge(above),
                    (_, value) => old.item = Item { value, place: entry.item.place },
                },
            }
        }
    }
}

/// A fault found while reading: place, message.
pub(crate) type RawFault = (Place, String);

/// Parses a TOML text; what can be read is returned beside the syntax faults.
pub(crate) fn parse(source: usize, text: &str) -> (Table, Vec<RawFault>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let faults = errors.iter().map(|error| {
        let span = error.span().unwrap_or(0..0);
        (place(source, &span), error.message().lines().collect::<Vec<_>>().join(", "))
    });
    let faults = faults.collect();
    (convert_table(source, table.into_inner()), faults)
}

fn place(source: usize, span: &std::ops::Range<usize>) -> Place {
    Place { source, start: span.start, end: span.end, is_poisoned: false }
}

fn convert_table(source: usize, table: DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, item)| Entry {
            key_place: place(source, &key.span()),
            key: key.into_inner().into_owned(),
            item: convert(source, item),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_place.start);
    Table { entries }
}

fn convert(source: usize, item: Spanned<DeValue<'_>>) -> Item {
    let place = place(source, &item.span());
    let value = match item.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(int) => i64::from_str_radix(int.as_str(), int.radix())
            .map_or_else(|_| Value::Text(int.as_str().to_string()), Value::Int),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map_or_else(|_| Value::Text(float.as_str().to_string()), Value::Float),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(list) => {
            Value::List(list.into_iter().map(|item| convert(source, item)).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(source, table)),
    };
    Item { value, place }
}

/// Parses `KEY=V` as one dotted key; a value that is no TOML is a string.
pub(crate) fn parse_override(source: usize, text: &str) -> Result<(Vec<String>, Item), RawFault> {
    let whole = place(source, &(0..text.len()));
    let Some((key, value)) = text.split_once('=') else {
        return Err((whole, "an override has the form KEY=VALUE".to_string()));
    };
    let path: Vec<String> = key.trim().split('.').map(|part| part.trim().to_string()).collect();
    if path.iter().any(String::is_empty) {
        return Err((whole, format!("`{}` is not a dotted key", key.trim())));
    }
    let value = value.trim();
    let parsed = DeValue::parse(value).ok().map(|item| convert(source, item).value);
    let value = parsed.unwrap_or_else(|| Value::Text(value.to_string()));
    Ok((path, Item { value, place: whole }))
}

/// Puts an override into the tree, making the tables on its way.
pub(crate) fn apply(root: &mut Table, path: &[String], item: Item) -> Result<(), RawFault> {
    let place = item.place;
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut table = root;
    for (depth, key) in way.iter().enumerate() {
        if table.get(key).is_none() {
            let value = Value::Table(Table::default());
            let item = Item { value, place };
            table.entries.push(Entry { key: key.clone(), key_place: place, item });
        }
        match table.get_mut(key).map(|entry| &mut entry.item.value) {
            Some(Value::Table(next)) => table = next,
            _ => return Err((place, format!("`{}` is not a table", path[..=depth].join(".")))),
        }
    }
    let mut over = item;
    relocate(&mut over, place);
    match table.get_mut(last) {
        Some(entry) => entry.item = over,
        None => {
            let key = last.clone();
            table.entries.push(Entry { key, key_place: place, item: over });
        }
    }
    Ok(())
}

/// Gives every value inside an override the place of the whole override.
fn relocate(item: &mut Item, place: Place) {
    item.place = place;
    match &mut item.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, place)),
        Value::Table(table) => table.entries.iter_mut().for_each(|entry| {
            entry.key_place = place;
            relocate(&mut entry.item, place);
        }),
        _ => {}
    }
}
