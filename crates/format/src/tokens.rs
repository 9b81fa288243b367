//! How much a language model reads: an estimate of tokens, for answers that must stay small.

/// About how many tokens a text is. Measured over the program's answers, the tokenizer o200k counts 0.85 to 1.2 times as many
/// (`cargo run -p vramscope-evals --features tokenizer -- tokens` compares the two); bytes / 4 is half of the truth for
/// tables of numbers.
pub fn tokens(text: &str) -> u64 {
    let mut sum = 0_u64;
    let mut rest = text;
    let mut before = Class::Break;
    while let Some(first) = rest.chars().next() {
        let class = Class::of(first);
        let end = rest.find(|c| Class::of(c) != class).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        sum += match (before, class) {
            // Letters after a digit are no word: names of compiled code are made of hashes.
            (Class::Digit, Class::Letter) if run.len() > 2 => (run.len() as u64).div_ceil(2),
            _ => class.tokens(run, after.chars().next()),
        };
        (rest, before) = (after, class);
    }
    sum
}

/// Characters that tokenizers keep together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Space,
    Break,
    Sign,
    /// A bar: runs of one character.
    Bar(char),
    /// A part of a curve.
    Curve,
    /// Anything else beyond ASCII.
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            '\n' => Self::Break,
            c if c.is_ascii_whitespace() => Self::Space,
            c if c.is_ascii() => Self::Sign,
            '█' | '·' | '─' | '━' => Self::Bar(c),
            '▁'..='▇' => Self::Curve,
            _ => Self::Other,
        }
    }

    fn tokens(self, run: &str, next: Option<char>) -> u64 {
        let length = run.chars().count() as u64;
        match self {
            // `MiB` and `BmmBackward` are cut where capitals begin.
            Self::Letter => {
                let capitals = run.as_bytes().windows(2).filter(
                    |pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()),
                );
                length.div_ceil(8).max(1 + capitals.count() as u64)
            }
            Self::Digit => length.div_ceil(3),
            // A single space belongs to the word after it, and not to a number.
            Self::Space => u64::from(length > 1 || next.is_some_and(|c| c.is_ascii_digit())),
            Self::Break => length,
            Self::Sign => 1,
            Self::Bar(_) => 1 + length / 3,
            Self::Curve => 2 * length,
            Self::Other => length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn words_numbers_and_bars() {
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens("out of memory"), 3);
        // A run of spaces, three digits and one, and a unit that is cut at its capital.
        assert_eq!(tokens("   1234 MiB"), 5);
        assert_eq!(tokens("at 7"), 3, "a space before a number stands alone");
        assert_eq!(tokens("████████"), 3);
        // c, 4, a, 2, four for tkezcqcb, 4, three for rscmg.
        assert_eq!(tokens("c4a2tkezcqcb4rscmg"), 12, "a hash is no word");
    }
}
