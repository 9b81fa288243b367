//! Every question that the command line can be asked about one file: what scaling, attacks and fuzzing go through.

/// Stands for the file in [`VERBS`].
pub const FILE: &str = "{}";

/// Stands for a place to write to.
pub const OUT: &str = "{out}";

/// Command lines, without the name of the program.
pub const VERBS: &[&[&str]] = &[
    &["summary", FILE],
    &["summary", "--json", FILE],
    &["insights", FILE],
    &["insights", "--json", FILE],
    &["at", FILE, "--peak"],
    &["at", FILE, "--end", "--json"],
    &["at", FILE, "--peak=reserved", "--tree"],
    &["tree", FILE],
    &["tree", FILE, "--invert", "--at", "end"],
    &["tree", FILE, "--lifetime", "--min", "0"],
    &["tree", FILE, "--json"],
    &["top", FILE],
    &["top", FILE, "--of", "stacks", "--by", "churn", "--json"],
    &["top", FILE, "--of", "allocations", "--by", "lifetime"],
    &["top", FILE, "--of", "allocations", "--json"],
    &["diff", FILE, FILE],
    &["diff", FILE, "--at", "start", "--vs", "end", "--json"],
    &["ranks", FILE, FILE, FILE],
    &["phases", FILE],
    &["phases", FILE, "--json", "--hide-internal=false"],
    &["steps", FILE],
    &["steps", FILE, "--json"],
    &["lives", FILE],
    &["lives", FILE, "--json"],
    &["diff", FILE, FILE, FILE, "--values", "1,2,3"],
    &["diff", FILE, FILE, "--by", "category", "--json"],
    &["minimum", FILE],
    &["minimum", FILE, "--json"],
    &["fragmentation", FILE],
    &["fragmentation", FILE, "--request=18446744073709551615"],
    &["fragmentation", FILE, "--samples", "50", "--json"],
    &["segments", FILE],
    &["segments", FILE, "--json"],
    &["overlap", FILE],
    &["overlap", FILE, "--json"],
    &["pools", FILE],
    &["pools", FILE, "--json"],
    &["categories", FILE],
    &["categories", FILE, "--json"],
    &["modules", FILE],
    &["modules", FILE, "--json"],
    &["modules", FILE, "--by", "function"],
    &["shapes", "4096", "--config", FILE],
    &["events", FILE],
    &["events", FILE, "--json"],
    &["flame", FILE],
    &["flame", FILE, "--format", "folded", "--lifetime"],
    &["flame", FILE, "--format", "speedscope"],
    &["export", FILE],
    &["export", FILE, "--table", "events", "--format", "jsonl"],
    &["export", FILE, "--table", "stacks"],
    &["export", FILE, "--table", "frames"],
    &["export", FILE, "--table", "segments"],
    &["export", FILE, "--table", "annotations"],
    &["export", FILE, "--format", "perfetto"],
    &["export", FILE, "--table", "events", "--format", "parquet", "-o", OUT],
    &["export", FILE, "--format", "arrow", "-o", OUT],
    &["report", FILE, "-o", OUT],
    &["doctor", FILE],
    &["doctor", FILE, "--json"],
];

/// One of [`VERBS`] with a file and a place to write to put in.
pub fn line(verb: &[&str], file: &str, out: &str) -> Vec<String> {
    verb.iter().map(|word| word.replace(OUT, out).replace(FILE, file)).collect()
}
