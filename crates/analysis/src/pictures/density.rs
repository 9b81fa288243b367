//! How many bytes some allocations take over the moments of each column, on the mean.

use vramscope_replay::Moment;

use super::Columns;

/// The mean bytes of allocations over the moments of each column, from birth, end and bytes of each, in any order.
/// Zero outside the recording.
///
/// A life costs two searches among the columns, however many of them it covers.
pub fn density(columns: &Columns, lives: impl Iterator<Item = (Moment, Moment, u64)>) -> Vec<f64> {
    // Columns outside the recording come before or after all others.
    let before = columns.iter().take_while(Option::is_none).count();
    let spans: Vec<(u32, u32)> =
        columns.iter().flatten().map(|(from, to)| (from.0, to.0.saturating_add(1))).collect();
    // Bytes in a part of a column, and what begins and ends with whole ones.
    let mut partly = vec![0.0; spans.len()];
    let mut wholly = vec![0_i128; spans.len() + 1];
    for (born, end, bytes) in lives.filter(|(born, end, _)| born < end) {
        let part = |(from, to): (u32, u32)| {
            let lived = to.min(end.0).saturating_sub(from.max(born.0));
            bytes as f64 * f64::from(lived) / f64::from(to - from)
        };
        let mut first = spans.partition_point(|&(_, to)| to <= born.0);
        let mut last = spans.partition_point(|&(from, _)| from < end.0);
        while first < last && spans[first].0 < born.0 {
            partly[first] += part(spans[first]);
            first += 1;
        }
        while first < last && spans[last - 1].1 > end.0 {
            last -= 1;
            partly[last] += part(spans[last]);
        }
        if first < last {
            wholly[first] += i128::from(bytes);
            wholly[last] -= i128::from(bytes);
        }
    }
    let mut density = vec![0.0; columns.len()];
    let mut level = 0;
    for ((mean, partly), change) in density.iter_mut().skip(before).zip(partly).zip(wholly) {
        level += change;
        *mean = partly + level as f64;
    }
    density
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(all: &[(u32, u32, u64)]) -> impl Iterator<Item = (Moment, Moment, u64)> {
        all.iter().map(|&(born, end, bytes)| (Moment(born), Moment(end), bytes))
    }

    #[test]
    fn a_part_of_a_column_counts_as_that_part() {
        // Four moments a column; nothing after the end.
        let four = |n: u32| Some((Moment(n * 4), Moment(n * 4 + 3)));
        let columns = Columns(vec![None, four(0), four(1), four(2), None]);
        let of = |all: &[(u32, u32, u64)]| density(&columns, lives(all));
        assert_eq!(of(&[(0, u32::MAX, 8)]), [0.0, 8.0, 8.0, 8.0, 0.0]);
        // From moment 2 to before moment 9: 2, 4 and 1 of the moments.
        assert_eq!(of(&[(2, 9, 8)]), [0.0, 4.0, 8.0, 2.0, 0.0]);
        // A hundred that follow each other within a column are not a hundred at a time.
        assert_eq!(of(&[(4, 5, 8), (5, 6, 8), (6, 7, 8), (7, 8, 8)]), [0.0, 0.0, 8.0, 0.0, 0.0]);
        assert_eq!(of(&[(3, 3, 8)]), [0.0; 5]);
    }

    #[test]
    fn columns_that_show_the_same_moment_have_the_same_bytes() {
        let columns = Columns([0, 0, 0, 1, 1].map(|at| Some((Moment(at), Moment(at)))).to_vec());
        assert_eq!(density(&columns, lives(&[(1, 2, 3), (0, 9, 1)])), [1.0, 1.0, 1.0, 4.0, 4.0]);
    }
}
