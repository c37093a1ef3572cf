//! Final clauses: text to [`Condition`], by recursive descent.

use super::Scope;
use crate::condition::{Condition, Quantifier};
use crate::program::Observed;

/// Deepest nesting of a clause; each level takes stack.
const DEPTH_MAX: usize = 64;

/// Reads `exists (...)`, `~exists (...)` or `forall (...)`.
pub(super) fn parse(text: &str, scope: &mut Scope) -> Result<(Quantifier, Condition), String> {
    let kinds = [
        ("~exists", Quantifier::NotExists),
        ("exists", Quantifier::Exists),
        ("forall", Quantifier::Forall),
    ];
    let (quantifier, formula) = kinds
        .iter()
        .find_map(|(word, q)| text.trim().strip_prefix(word).map(|rest| (*q, rest)))
        .ok_or_else(|| format!("`{text}` is no final clause"))?;
    let mut rest = formula.trim();
    let condition = disjunction(&mut rest, scope, 0)?;
    if rest.is_empty() {
        Ok((quantifier, condition))
    } else {
        Err(format!("`{rest}` is left over"))
    }
}

fn disjunction(rest: &mut &str, scope: &mut Scope, depth: usize) -> Result<Condition, String> {
    let mut parts = vec![conjunction(rest, scope, depth)?];
    while take(rest, "\\/") {
        parts.push(conjunction(rest, scope, depth)?);
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Or(parts) })
}

fn conjunction(rest: &mut &str, scope: &mut Scope, depth: usize) -> Result<Condition, String> {
    let mut parts = vec![atom(rest, scope, depth)?];
    while take(rest, "/\\") {
        parts.push(atom(rest, scope, depth)?);
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::And(parts) })
}

fn atom(rest: &mut &str, scope: &mut Scope, depth: usize) -> Result<Condition, String> {
    if depth > DEPTH_MAX {
        return Err(format!("the clause is nested deeper than {DEPTH_MAX}"));
    }
    if take(rest, "~") || take(rest, "not ") {
        return Ok(Condition::Not(Box::new(atom(rest, scope, depth + 1)?)));
    }
    if take(rest, "(") {
        let inner = disjunction(rest, scope, depth + 1)?;
        return if take(rest, ")") { Ok(inner) } else { Err(format!("`)` missing at `{rest}`")) };
    }
    if take(rest, "true") {
        return Ok(Condition::True);
    }
    let end = rest.find([')', '/', '\\']).unwrap_or(rest.len());
    let (item, after) = rest.split_at(end);
    let (left, value) = item.split_once('=').ok_or_else(|| format!("`{item}` is no equation"))?;
    *rest = after.trim_start();
    Ok(Condition::Is(observed(left.trim(), scope)?, number(value.trim())?))
}

fn take(rest: &mut &str, word: &str) -> bool {
    let Some(after) = rest.strip_prefix(word) else { return false };
    *rest = after.trim_start();
    true
}

/// Reads `0:rax`, `[x]` or `x`.
pub(super) fn observed(text: &str, scope: &mut Scope) -> Result<Observed, String> {
    if let Some((thread, register)) = text.split_once(':') {
        let thread = thread.parse().map_err(|_| format!("`{text}` has no thread"))?;
        let register =
            scope.register(register).ok_or_else(|| format!("`{text}` is no register"))?;
        return Ok(Observed::Register(thread, register));
    }
    scope.variable(text.trim_matches(['[', ']'])).map(Observed::Variable)
}

/// Reads a decimal number, or a hexadecimal one behind `0x`.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is no number"))
}
