//! Typed reading of the tree: every wrong or missing value is noted and reading goes on.
//!
//! A value that cannot be read is replaced by a *poisoned* stand-in, and faults at poisoned places
//! are dropped, so one slip gives one message. A scope remembers which keys were asked for; at its
//! end the others are unknown, and get the nearest known name.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::model::{Figure, Kind};
use crate::report::{Fault, OVERRIDE, Report, near};
use crate::tree::{Entry, Item, Place, Source, Table, Value};
use crate::units::{self, Dim, Quantity};

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> At<T> {
    /// Whether the value was really read, not replaced after a fault.
    pub(crate) fn is_known(&self) -> bool {
        !self.place.is_poisoned
    }
}

/// One table being read.
pub(crate) struct Scope<'t> {
    pub(crate) table: &'t Table,
    /// Dotted path with a final dot, empty for the root.
    pub(crate) path: String,
    pub(crate) place: Place,
    /// Provenance for bare numbers below, from this table or one above.
    default: Option<(Kind, String)>,
    asked: RefCell<BTreeSet<String>>,
}

/// Reads values and collects faults, figures and used sources.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) sources: Vec<Source>,
    pub(crate) faults: Vec<(Place, String, String)>,
    pub(crate) figures: Vec<Figure>,
    /// Texts behind source keys.
    pub(crate) citations: Vec<(String, At<String>)>,
    used_citations: BTreeSet<String>,
}

impl Reader {
    /// Makes a reader whose first source is the file itself.
    pub(crate) fn over(source: Source) -> Reader {
        Reader { sources: vec![source], ..Reader::default() }
    }

    /// Notes a fault unless its place is a stand-in.
    pub(crate) fn fault(
        &mut self,
        place: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if !place.is_poisoned {
            self.faults.push((place, message.into(), help.into()));
        }
    }

    fn poisoned<T>(&self, value: T, place: Place) -> At<T> {
        At { value, place: Place { is_poisoned: true, ..place } }
    }

    /// Opens the root.
    pub(crate) fn root<'t>(&self, table: &'t Table) -> Scope<'t> {
        let place = Place { source: 0, start: 0, end: 0, is_poisoned: false };
        let (path, asked) = (String::new(), RefCell::default());
        Scope { table, path, place, default: None, asked }
    }

    /// Closes a scope: every key that nobody asked for is a fault.
    pub(crate) fn close(&mut self, scope: Scope<'_>) {
        let asked = scope.asked.into_inner();
        for entry in &scope.table.entries {
            if asked.contains(&entry.key) {
                continue;
            }
            let names = asked.iter().map(String::as_str);
            let help = match near(&entry.key, names.clone()) {
                Some(name) => format!("did you mean `{}{name}`?", scope.path),
                None => format!("known here: {}", names.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown key `{}{}`", scope.path, entry.key);
            self.fault(entry.key_place, message, help);
        }
    }

    /// Opens a table below `scope` if it is there.
    pub(crate) fn table<'t>(&mut self, scope: &Scope<'t>, key: &str) -> Option<Scope<'t>> {
        let entry = scope.find(key)?;
        self.open(scope, entry)
    }

    /// Opens a table below `scope` that must be there.
    pub(crate) fn need_table<'t>(&mut self, scope: &Scope<'t>, key: &str) -> Option<Scope<'t>> {
        if scope.find(key).is_none() {
            self.missing(scope, key, "add the table");
        }
        self.table(scope, key)
    }

    /// Opens all tables below `scope`, whose keys are names that the file chose.
    pub(crate) fn named<'t>(
        &mut self,
        scope: &Scope<'t>,
        key: &str,
    ) -> Vec<(At<String>, Scope<'t>)> {
        match self.table(scope, key) {
            Some(outer) => self.named_in(&outer),
            None => Vec::new(),
        }
    }

    /// Opens all tables in `outer` except under keys that were asked for before.
    pub(crate) fn named_in<'t>(&mut self, outer: &Scope<'t>) -> Vec<(At<String>, Scope<'t>)> {
        let mut found = Vec::new();
        for entry in &outer.table.entries {
            if !outer.asked.borrow_mut().insert(entry.key.clone()) {
                continue;
            }
            if self.sources[entry.key_place.source].is_override {
                let names = outer.table.entries.iter().filter(|other| {
                    other.key != entry.key && other.key_place.source != entry.key_place.source
                });
                let names: Vec<&str> = names.map(|other| other.key.as_str()).collect();
                let help = format!("known: {}", names.join(", "));
                let message = format!("no `{}{}`", outer.path, entry.key);
                self.fault(entry.key_place, message, help);
                continue;
            }
            if let Some(inner) = self.open(outer, entry) {
                found.push((At { value: entry.key.clone(), place: entry.key_place }, inner));
            }
        }
        found
    }

    fn open<'t>(&mut self, scope: &Scope<'t>, entry: &'t Entry) -> Option<Scope<'t>> {
        let Value::Table(table) = &entry.item.value else {
            self.wrong(scope, &entry.key, &entry.item, "a table");
            return None;
        };
        let mut inner = Scope {
            table,
            path: format!("{}{}.", scope.path, entry.key),
            place: entry.key_place,
            default: scope.default.clone(),
            asked: RefCell::default(),
        };
        if !is_figure(table) && (table.get("kind").is_some() || table.get("src").is_some()) {
            inner.default = self.provenance(&inner);
        }
        Some(inner)
    }

    fn missing(&mut self, scope: &Scope<'_>, key: &str, help: &str) {
        self.fault(scope.place, format!("`{}{key}` is missing", scope.path), help);
    }

    fn wrong(&mut self, scope: &Scope<'_>, key: &str, item: &Item, wanted: &str) {
        let found = item.value.noun();
        let message = format!("`{}{key}` is {found}, must be {wanted}", scope.path);
        self.fault(item.place, message, "");
    }

    /// Reads an optional string.
    pub(crate) fn text(&mut self, scope: &Scope<'_>, key: &str) -> Option<At<String>> {
        let entry = scope.find(key)?;
        if let Value::Text(text) = &entry.item.value {
            return Some(At { value: text.clone(), place: entry.item.place });
        }
        self.wrong(scope, key, &entry.item, "a string");
        Some(self.poisoned(String::new(), entry.item.place))
    }

    /// Reads a string that must be there; `help` shows one.
    pub(crate) fn need_text(&mut self, scope: &Scope<'_>, key: &str, help: &str) -> At<String> {
        self.text(scope, key).unwrap_or_else(|| {
            self.missing(scope, key, help);
            self.poisoned(String::new(), scope.place)
        })
    }

    /// Reads one word of a closed list.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<At<T>> {
        let text = self.text(scope, key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(At { value: *value, place: text.place });
        }
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let help = format!("one of {}", all.join(", "));
        let message = format!("`{}{key}` is \"{}\"", scope.path, text.value);
        self.fault(text.place, message, help);
        Some(self.poisoned(words[0].1, text.place))
    }

    /// Reads one word of a closed list that needs a source: `{ v = WORD, kind, src }`, or the word
    /// alone in a table that has kind and source.
    pub(crate) fn sourced_choice<T: Copy>(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<At<T>> {
        let entry = scope.find(key)?;
        let (item, inner) = self.figure_parts(scope, entry)?;
        let from = self.figure_provenance(scope, key, item, inner.as_ref());
        let found = match &inner {
            Some(inner) => self.choice(inner, "v", words),
            None => self.choice(scope, key, words),
        };
        if let Some(inner) = inner {
            let _ = (inner.find("kind"), inner.find("src"));
            self.close(inner);
        }
        if let Value::Text(word) = &item.value {
            self.record(format!("{}{key}", scope.path), word.clone(), from);
        }
        found
    }

    /// Reads a switch with its default.
    pub(crate) fn switch(&mut self, scope: &Scope<'_>, key: &str, default: bool) -> At<bool> {
        let Some(entry) = scope.find(key) else {
            return At { value: default, place: scope.place };
        };
        if let Value::Bool(value) = entry.item.value {
            return At { value, place: entry.item.place };
        }
        self.wrong(scope, key, &entry.item, "true or false");
        self.poisoned(default, entry.item.place)
    }

    /// Reads a structural whole number (a width, a count of bits), which needs no source.
    pub(crate) fn int(&mut self, scope: &Scope<'_>, key: &str) -> Option<At<u32>> {
        let entry = scope.find(key)?;
        Some(self.item_int(scope, key, &entry.item))
    }

    fn item_int(&mut self, scope: &Scope<'_>, key: &str, item: &Item) -> At<u32> {
        match item.value {
            Value::Int(int) if u32::try_from(int).is_ok() => {
                At { value: u32::try_from(int).unwrap_or(0), place: item.place }
            }
            _ => {
                self.wrong(scope, key, item, "a whole number from 0");
                self.poisoned(0, item.place)
            }
        }
    }

    /// Reads a whole number or a list of them.
    pub(crate) fn ints(&mut self, scope: &Scope<'_>, key: &str) -> Option<At<Vec<u32>>> {
        let entry = scope.find(key)?;
        let place = entry.item.place;
        let Value::List(items) = &entry.item.value else {
            let one = self.item_int(scope, key, &entry.item);
            return Some(At { value: vec![one.value], place: one.place });
        };
        let mut result = At { value: Vec::new(), place };
        for item in items {
            let int = self.item_int(scope, key, item);
            result.place.is_poisoned |= int.place.is_poisoned;
            result.value.push(int.value);
        }
        Some(result)
    }

    /// Whether a key holds a list.
    pub(crate) fn is_list(&self, scope: &Scope<'_>, key: &str) -> bool {
        scope.find(key).is_some_and(|entry| matches!(entry.item.value, Value::List(_)))
    }

    /// Reads a list of strings; one string is a list of one.
    pub(crate) fn texts(&mut self, scope: &Scope<'_>, key: &str) -> Vec<At<String>> {
        let Some(entry) = scope.find(key) else { return Vec::new() };
        let items = match &entry.item.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&entry.item),
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push(At { value: text.clone(), place: item.place }),
                _ => self.wrong(scope, key, item, "a list of strings"),
            }
        }
        texts
    }

    /// Reads a sourced number that must be there.
    pub(crate) fn need(&mut self, scope: &Scope<'_>, key: &str, dim: Dim) -> At<Quantity> {
        self.number(scope, key, dim).unwrap_or_else(|| {
            let help = "write { v = VALUE, kind = \"assumed\", src = \"REASON\" }";
            self.missing(scope, key, help);
            self.poisoned(Quantity { dim, value: 0 }, scope.place)
        })
    }

    /// Reads a sourced number, if it is there, and records it as a figure.
    pub(crate) fn number(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        dim: Dim,
    ) -> Option<At<Quantity>> {
        let entry = scope.find(key)?;
        let zero = Quantity { dim, value: 0 };
        let Some((item, inner)) = self.figure_parts(scope, entry) else {
            return Some(self.poisoned(zero, entry.item.place));
        };
        let provenance = self.figure_provenance(scope, key, item, inner.as_ref());
        let Some(quantity) = self.quantity(scope, key, item, dim) else {
            return Some(self.poisoned(zero, item.place));
        };
        if let Some(inner) = inner {
            self.spread(&inner, quantity, dim);
            self.close(inner);
        }
        if let Some((kind, source)) = provenance {
            let key = format!("{}{key}", scope.path);
            self.figures.push(Figure { key, value: units::show(quantity), kind, source });
        }
        Some(At { value: quantity, place: item.place })
    }

    /// Splits a figure into its value and, unless it is bare, its table.
    fn figure_parts<'t>(
        &mut self,
        scope: &Scope<'t>,
        entry: &'t Entry,
    ) -> Option<(&'t Item, Option<Scope<'t>>)> {
        if !matches!(entry.item.value, Value::Table(_)) {
            return Some((&entry.item, None));
        }
        let inner = self.open(scope, entry)?;
        match inner.find("v") {
            Some(value) => Some((&value.item, Some(inner))),
            None => {
                self.missing(&inner, "v", "write { v = VALUE, kind = …, src = … }");
                None
            }
        }
    }

    /// Finds kind and source of a figure: its own, its table's, or the command line.
    pub(crate) fn figure_provenance(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        item: &Item,
        inner: Option<&Scope<'_>>,
    ) -> Option<(Kind, String)> {
        if self.sources[item.place.source].is_override {
            if let Some(inner) = inner {
                let _ = (inner.find("kind"), inner.find("src"));
            }
            return Some((Kind::Set, OVERRIDE.to_string()));
        }
        let own = inner.filter(|inner| inner.find("kind").is_some() || inner.find("src").is_some());
        if let Some(inner) = own {
            return self.provenance(inner);
        }
        if scope.default.is_none() {
            let help = "kinds: measured, sibling, declared, recalled, assumed; src = where from";
            let message = format!("`{}{key}` has no kind and source", scope.path);
            self.fault(item.place, message, help);
        }
        scope.default.clone()
    }

    /// Reads `kind` and `src` of a table; both must be there.
    fn provenance(&mut self, scope: &Scope<'_>) -> Option<(Kind, String)> {
        const KINDS: [(&str, Kind); 5] = [
            ("measured", Kind::Measured),
            ("sibling", Kind::Sibling),
            ("declared", Kind::Declared),
            ("recalled", Kind::Recalled),
            ("assumed", Kind::Assumed),
        ];
        let kind = self.choice(scope, "kind", &KINDS);
        let source = self.text(scope, "src");
        if kind.is_none() {
            self.missing(scope, "kind", "measured, sibling, declared, recalled or assumed");
        }
        let Some(source) = source else {
            self.missing(scope, "src", "a key of [sources], or the reason in words");
            return None;
        };
        Some((kind?.value, self.citation(source)))
    }

    /// Expands a source key; a text with a space stands for itself.
    fn citation(&mut self, source: At<String>) -> String {
        let key = source.value.as_str();
        let found = self.citations.iter().find(|(name, _)| name == key);
        if let Some((name, text)) = found {
            self.used_citations.insert(name.clone());
            return text.value.clone();
        }
        if !key.trim().contains(' ') {
            let names = self.citations.iter().map(|(name, _)| name.as_str());
            let help = match near(key, names) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => "add it to [sources], or say it in words".to_string(),
            };
            self.fault(source.place, format!("no source \"{key}\""), help);
        }
        source.value
    }

    /// Reads `[sources]`; must come before any figure.
    pub(crate) fn read_citations(&mut self, root: &Scope<'_>) {
        let Some(scope) = self.table(root, "sources") else { return };
        for entry in &scope.table.entries {
            let text = self.need_text(&scope, &entry.key, "");
            self.citations.push((entry.key.clone(), At { place: entry.key_place, ..text }));
        }
    }

    /// Reports sources that no figure names.
    pub(crate) fn check_citations(&mut self) {
        for (name, text) in std::mem::take(&mut self.citations) {
            if !self.used_citations.contains(&name) {
                self.fault(text.place, format!("no number uses source \"{name}\""), "remove it");
            }
        }
    }

    /// Checks `lo` and `hi` beside a value.
    fn spread(&mut self, inner: &Scope<'_>, value: Quantity, dim: Dim) {
        let _ = (inner.find("kind"), inner.find("src"));
        for (key, is_low) in [("lo", true), ("hi", false)] {
            let Some(entry) = inner.find(key) else { continue };
            let Some(bound) = self.quantity(inner, key, &entry.item, dim) else { continue };
            let is_off = if is_low { bound.value > value.value } else { bound.value < value.value };
            if is_off && bound.dim == value.dim {
                let order = if is_low { "above" } else { "below" };
                let (bound, value) = (units::show(bound), units::show(value));
                let message =
                    format!("`{}{key}` = {bound} is {order} the value {value}", inner.path);
                self.fault(entry.item.place, message, "lo <= v <= hi");
            }
        }
    }

    /// Converts one item to a quantity of `dim`.
    fn quantity(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        item: &Item,
        dim: Dim,
    ) -> Option<Quantity> {
        let text = match &item.value {
            Value::Text(text) => text.clone(),
            Value::Int(int) => int.to_string(),
            Value::Float(float) => float.to_string(),
            _ => {
                self.wrong(scope, key, item, "a number");
                return None;
            }
        };
        let found = match units::parse(&text) {
            Ok(found) => found,
            Err(message) => {
                let help = format!("units: {}", units::units_of(dim));
                self.fault(item.place, format!("`{}{key}`: {message}", scope.path), help);
                return None;
            }
        };
        let is_fitting = found.dim == dim
            || (dim == Dim::Cycles && matches!(found.dim, Dim::Count | Dim::Time))
            || (found.dim == Dim::Count && found.value == 0);
        if !is_fitting {
            let message = format!("`{}{key}` = {text} has the wrong unit", scope.path);
            self.fault(item.place, message, format!("units: {}", units::units_of(dim)));
            return None;
        }
        let dim = if found.dim == Dim::Count { dim } else { found.dim };
        Some(Quantity { dim, value: found.value })
    }

    /// Reads a sourced matrix `{ rows = [[…], …], kind, src }`; times are in ns.
    pub(crate) fn matrix(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        dim: Dim,
    ) -> Option<At<Vec<Vec<u64>>>> {
        let (item, place) = self.rows(scope, key)?;
        let rows = item.and_then(|item| self.matrix_rows(scope, key, item, dim));
        let place = Place { is_poisoned: rows.is_none(), ..place };
        Some(At { value: rows.unwrap_or_default(), place })
    }

    /// Reads a sourced list of matrices.
    pub(crate) fn matrices(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        dim: Dim,
    ) -> Vec<At<Vec<Vec<u64>>>> {
        let Some((Some(item), _)) = self.rows(scope, key) else { return Vec::new() };
        let Value::List(items) = &item.value else {
            self.wrong(scope, key, item, "a list of matrices");
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in items {
            let rows = self.matrix_rows(scope, key, item, dim);
            let place = Place { is_poisoned: rows.is_none(), ..item.place };
            found.push(At { value: rows.unwrap_or_default(), place });
        }
        found
    }

    /// Finds the `rows` of a matrix figure and records its provenance.
    fn rows<'t>(&mut self, scope: &Scope<'t>, key: &str) -> Option<(Option<&'t Item>, Place)> {
        let entry = scope.find(key)?;
        let place = entry.item.place;
        if matches!(entry.item.value, Value::List(_)) {
            let from = self.figure_provenance(scope, key, &entry.item, None);
            self.record(format!("{}{key}", scope.path), "matrix".to_string(), from);
            return Some((Some(&entry.item), place));
        }
        let Some(inner) = self.open(scope, entry) else { return Some((None, place)) };
        let rows = inner.find("rows");
        if rows.is_none() {
            self.missing(&inner, "rows", "write { rows = [[…], …], kind = …, src = … }");
        }
        let item = rows.map(|rows| &rows.item);
        let from = item.and_then(|item| self.figure_provenance(scope, key, item, Some(&inner)));
        self.record(format!("{}{key}", scope.path), "matrix".to_string(), from);
        self.close(inner);
        Some((item, item.map_or(place, |item| item.place)))
    }

    fn matrix_rows(
        &mut self,
        scope: &Scope<'_>,
        key: &str,
        item: &Item,
        dim: Dim,
    ) -> Option<Vec<Vec<u64>>> {
        let Value::List(rows) = &item.value else {
            self.wrong(scope, key, item, "a list of rows");
            return None;
        };
        let mut matrix = Vec::new();
        for row in rows {
            let Value::List(cells) = &row.value else {
                self.wrong(scope, key, row, "a list of numbers");
                return None;
            };
            let mut values = Vec::new();
            for cell in cells {
                values.push(self.cell(scope, key, cell, dim)?);
            }
            matrix.push(values);
        }
        Some(matrix)
    }

    /// Reads one cell; a bare number of a time matrix is in ns.
    fn cell(&mut self, scope: &Scope<'_>, key: &str, item: &Item, dim: Dim) -> Option<u64> {
        let text = match (&item.value, dim) {
            (Value::Int(int), Dim::Time) => format!("{int}ns"),
            (Value::Float(float), Dim::Time) => format!("{float}ns"),
            _ => return self.quantity(scope, key, item, dim).map(|quantity| quantity.value),
        };
        let value = Value::Text(text);
        let item = Item { value, place: item.place };
        self.quantity(scope, key, &item, dim).map(|quantity| quantity.value)
    }

    /// Records a figure that has a form of its own.
    pub(crate) fn record(&mut self, key: String, value: String, from: Option<(Kind, String)>) {
        if let Some((kind, source)) = from {
            self.figures.push(Figure { key, value, kind, source });
        }
    }

    /// Returns all faults in order of place, without doubles.
    pub(crate) fn report(self) -> Report {
        let mut faults = self.faults;
        faults.sort();
        faults.dedup();
        let show = |(place, message, help): (Place, String, String)| {
            render(&self.sources[place.source], place, message, help)
        };
        Report { faults: faults.into_iter().map(show).collect() }
    }
}

impl<'t> Scope<'t> {
    /// Finds a key and remembers that it is known.
    pub(crate) fn find(&self, key: &str) -> Option<&'t Entry> {
        self.asked.borrow_mut().insert(key.to_string());
        self.table.get(key)
    }

    /// Takes `kind` and `src` of the table as known.
    pub(crate) fn allow_provenance(&self) {
        let _ = (self.find("kind"), self.find("src"));
    }
}

fn is_figure(table: &Table) -> bool {
    table.get("v").is_some()
}

/// Turns a place into line, column and marked text.
fn render(source: &Source, place: Place, message: String, help: String) -> Fault {
    let text = source.text.as_str();
    let start = floor_boundary(text, place.start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = floor_boundary(text, place.end).clamp(start, line_end);
    Fault {
        file: source.name.clone(),
        line: text[..start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        width: text[start..end].chars().count().max(1),
        text: text[line_start..line_end].trim_end().to_string(),
        message,
        help,
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
