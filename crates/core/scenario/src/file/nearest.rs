//! The known word that was probably meant.

/// The word of `known` that is nearest to `word`, where one is near enough to be meant: a third of its
/// letters may be wrong, and two in any case.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace (Levenshtein 1966), two rows at a time.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != *other);
            let best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            current.push(best);
        }
        above = current;
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_textbook() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        let known = ["rtt", "rate", "queue", "loss"];
        assert_eq!(nearest("que", &known), Some("queue"));
        assert_eq!(nearest("rtts", &known), Some("rtt"));
        assert_eq!(nearest("bandwidth", &known), None);
        assert_eq!(nearest("x", &["a"]), None, "nothing of it is right");
    }
}
