//! The list of the programs that are measured.

use super::misleading::MISLEADING;
use super::ordinary::ORDINARY;
use super::programs::Program;

/// Returns all programs, in the order of tables.
pub fn all() -> impl Iterator<Item = &'static Program> {
    ORDINARY.iter().chain(&MISLEADING)
}

/// Returns whether `pattern` selects a program: part of its name, or several such parts, separated by commas.
pub fn is_selected(name: &str, pattern: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| pattern.split(',').any(|part| !part.is_empty() && name.contains(part)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::programs::Group;
    use super::*;

    #[test]
    fn the_list_has_twenty_real_programs_and_twelve_built_to_mislead() {
        let names: BTreeSet<&str> = all().map(|program| program.name).collect();
        assert_eq!(names.len(), all().count(), "every name is there once");
        assert_eq!(all().filter(|program| program.group == Group::Real).count(), 20);
        assert!(all().filter(|program| program.group == Group::Misleading).count() >= 12);
    }

    #[test]
    fn programs_are_selected_by_parts_of_their_names() {
        assert!(is_selected("jq", None) && is_selected("jq-short", Some("jq")) && is_selected("perl", Some("jq,perl")));
        assert!(
            !is_selected("perl", Some("jq")) && !is_selected("perl", Some("")) && !is_selected("perl", Some("jq,"))
        );
    }
}
