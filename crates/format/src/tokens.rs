//! How much a language model reads: an estimate of tokens, for answers that must stay small.

/// About how many tokens a text is. Measured over the program's answers, the tokenizer o200k counts 0.8 to 1.15 times as
/// many (`cargo run -p vramscope-evals --features tokenizer -- tokens` compares the two); bytes / 4 is half of the truth for tables of numbers.
pub fn tokens(text: &str) -> u64 {
    let mut sum = 0_u64;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let class = Class::of(first);
        let end = rest.find(|c| Class::of(c) != class).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        sum += class.tokens(run.chars().count() as u64);
        rest = after;
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
    Full(char),
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
            '█' | '▓' | '▒' | '░' | '·' | '─' | '━' => Self::Full(c),
            _ => Self::Other,
        }
    }

    fn tokens(self, length: u64) -> u64 {
        match self {
            Self::Letter if length <= 8 => 1,
            Self::Letter => length.div_ceil(8),
            Self::Digit => length.div_ceil(3),
            // A single space belongs to the word after it.
            Self::Space => u64::from(length > 1),
            Self::Break | Self::Sign => 1,
            Self::Full(_) => 1 + length / 4,
            Self::Other => 2 * length,
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
        // A run of spaces, three digits and one, a unit.
        assert_eq!(tokens("   1234 MiB"), 4);
        assert_eq!(tokens("████████"), 3);
    }
}
