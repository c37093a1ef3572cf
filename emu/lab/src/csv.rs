//! Lines of comma-separated values.

/// Joins fields into a line; a field with a comma, quote or line end is quoted.
#[must_use]
pub(crate) fn line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains([',', '"', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    let mut line = fields.iter().map(quoted).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_with_a_comma_is_quoted() {
        let fields = ["a".to_owned(), "b,\"c\"".to_owned(), String::new()];
        assert_eq!(super::line(&fields), "a,\"b,\"\"c\"\"\",\n");
    }
}
