//! Names that resemble a mistyped one.

/// Names that are compared; the rest of a longer one does not count.
const LONGEST: usize = 64;

/// Changes of one letter (replaced, added, left out, or swapped with the next one) from one text to another; `None` beyond
/// the limit.
pub(super) fn distance(one: &str, other: &str, limit: usize) -> Option<usize> {
    let letters = |text: &str| text.chars().take(LONGEST).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    let mut rows = [Vec::new(), (0..=other.len()).collect::<Vec<usize>>()];
    for (index, letter) in one.iter().enumerate() {
        let mut row = vec![index + 1];
        for (column, candidate) in other.iter().enumerate() {
            let replaced = rows[1][column] + usize::from(letter != candidate);
            let mut least = replaced.min(rows[1][column + 1] + 1).min(row[column] + 1);
            let is_swap = index > 0 && column > 0 && one[index - 1] == *candidate && other[column - 1] == *letter;
            if is_swap {
                least = least.min(rows[0][column - 1] + 1);
            }
            row.push(least);
        }
        rows = [std::mem::take(&mut rows[1]), row];
    }
    rows[1].last().copied().filter(|distance| *distance <= limit)
}

/// How many changes a typo can have.
pub(super) fn limit(text: &str) -> usize {
    match text.chars().count() {
        0..=3 => 1,
        4..=8 => 2,
        _ => 3,
    }
}

/// The best of these, with their distances.
pub(super) fn best(mut scored: Vec<(usize, String)>, most: usize) -> Vec<String> {
    scored.sort();
    scored.dedup();
    scored.into_iter().take(most).map(|(_, name)| name).collect()
}

/// `: did you mean A or B?`, or nothing.
pub(super) fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        some => format!(": did you mean {}?", some.join(" or ")),
    }
}
