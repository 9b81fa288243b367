//! Which rank, step and run a snapshot belongs to, by its path.
//!
//! Every framework names its snapshots in its own way, and none writes the rank into the file. The
//! rules below resolve the conventions of torchtitan, torchtune, torchtnt, Composer, Megatron-LM,
//! slime, verl, SGLang, AReaL, NeMo, MindSpeed and torchrec: the file's stem is tried first, then each
//! folder going up; the first rule that fits wins.

pub mod listing;

use vramscope_snapshot::Snapshot;

/// What a number in a path counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RankKind {
    /// The global rank.
    Rank,
    /// The rank inside a tensor-parallel group, which is all that SGLang writes.
    TensorParallel,
    /// The ordinal of a device.
    Device,
    /// A process id, which is all that an NPU's automatic snapshot has.
    Process,
}

impl RankKind {
    /// The word before the number.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::TensorParallel => "tp",
            Self::Device => "device",
            Self::Process => "pid",
        }
    }
}

/// What a path says about a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The process it is from.
    pub rank: Option<(RankKind, u64)>,
    /// The training step.
    pub step: Option<u64>,
    /// Whether it was taken when memory ran out, or on the way out.
    pub oom: bool,
    /// What the process was for, where the path or the file says so, e.g. `actor_update`.
    pub role: Option<String>,
    /// The path with rank, step and process left out: files that differ only in those have the same,
    /// and are the ranks of one run.
    pub group: String,
}

impl Name {
    /// Orders the files of runs: by run, step and rank.
    pub fn key(&self) -> (&str, Option<u64>, bool, Option<(RankKind, u64)>) {
        (&self.group, self.step, self.oom, self.rank)
    }

    /// With what the file says of itself, which counts for more than where it lies; except for the rank, since a
    /// path may have been corrected.
    #[must_use]
    pub fn with_what_the_file_says(self, snapshot: &Snapshot) -> Self {
        Self {
            rank: self.rank.or(snapshot.rank.map(|rank| (RankKind::Rank, rank))),
            role: snapshot.role.clone().or(self.role),
            ..self
        }
    }

    /// The rank in words: `rank 3`; empty if there is none.
    pub fn rank_text(&self) -> String {
        self.rank.map_or_else(String::new, |(kind, number)| format!("{} {number}", kind.label()))
    }
}

/// Reads a path, relative to the folder that was opened, with `/` between its parts.
pub fn name(path: &str) -> Name {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let Some(file) = parts.pop() else { return Name::default() };
    let stem = stem(file);
    let upwards = || std::iter::once(stem).chain(parts.iter().rev().copied());

    let found =
        upwards().enumerate().find_map(|(depth, part)| rank(part, depth == 0).map(|found| (depth, found)));
    let step = upwards().find_map(step);
    let oom = stem.split(['_', '-', '.']).any(|word| word == "oom")
        || parts.iter().any(|part| part.starts_with("oom_") || part.ends_with("_exit") || *part == "oom");

    let mut group = Vec::new();
    for (depth, part) in upwards().enumerate() {
        let mut part = part.to_owned();
        if let Some((rank_depth, found)) = &found
            && *rank_depth == depth
        {
            part.replace_range(found.span.clone(), "*");
            part = without_coordinates(&part);
        }
        group.push(without_counters(&part));
    }
    group.reverse();
    let rank = found.map(|(_, found)| (found.kind, found.number));
    Name { rank, step, oom, role: None, group: group.join("/") }
}

/// Where the Ascend profiler puts its tables.
pub const PROFILE_OUTPUT: &str = "ASCEND_PROFILER_OUTPUT";

/// Whether a folder of that name is an Ascend profile.
pub fn is_profile_folder(name: &str) -> bool {
    name.ends_with("_ascend_pt") || name.ends_with("_ascend_ms")
}

/// Reads the path of a folder that is a profile: `<step>/<role>/<worker>_<pid>_<time>_ascend_pt`. Its rank is
/// in the name of a file inside.
pub fn profile_name(path: &str, rank: Option<u64>) -> Name {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let above = parts.split_last().map(|(_, above)| above).unwrap_or_default();
    let mut group: Vec<String> = above.iter().map(|part| without_counters(part)).collect();
    group.push("*_ascend_pt".into());
    Name {
        rank: rank.map(|rank| (RankKind::Rank, rank)),
        step: above.iter().rev().find_map(|part| step(part)),
        oom: false,
        role: above.last().map(|role| (*role).to_owned()),
        group: group.join("/"),
    }
}

/// What the name of a sidecar ends with.
const SIDECAR: &str = ".vramscope.json";

/// The name of the file beside a snapshot in which vramscope's recorder says what the snapshot does not:
/// `rank3.vramscope.json` for `rank3.pickle` and `rank3.pickle.gz`.
pub fn sidecar(file: &str) -> String {
    format!("{}{SIDECAR}", stem(file))
}

/// Whether a file of that name is a sidecar.
pub fn is_sidecar(file: &str) -> bool {
    file.ends_with(SIDECAR)
}

/// The file name without the endings that say how it is packed.
pub fn stem(file: &str) -> &str {
    let mut stem = file;
    while let Some((head, ending)) = stem.rsplit_once('.') {
        let known = ["pickle", "pkl", "gz", "zst", "xz", "json", "html", "bin", "pt"].contains(&ending);
        if !known || head.is_empty() {
            break;
        }
        stem = head;
    }
    stem
}

struct Found {
    kind: RankKind,
    number: u64,
    /// What of the part says so.
    span: std::ops::Range<usize>,
}

fn rank(part: &str, is_file: bool) -> Option<Found> {
    let after = |words: &[&str], separators: &[char]| {
        words.iter().find_map(|word| number_after(part, word, separators))
    };
    let found = |kind| move |(number, span)| Some(Found { kind, number, span });
    after(&["rank"], &['-', '_', ' '])
        .and_then(found(RankKind::Rank))
        .or_else(|| short_rank(part))
        .or_else(|| after(&["TP-"], &[]).and_then(found(RankKind::TensorParallel)))
        .or_else(|| if is_file { leading_rank(part).or_else(|| trailing_rank(part)) } else { None })
        .or_else(|| {
            after(&["profiler_info_", "ascend_pytorch_profiler_"], &[]).and_then(found(RankKind::Rank))
        })
        .or_else(|| after(&["gpu", "npu", "device", "dev"], &['-', '_']).and_then(found(RankKind::Device)))
        .or_else(|| {
            let pid = part.strip_prefix("oom_snapshot_")?.split('_').next()?;
            let number = pid.parse().ok()?;
            Some(Found { kind: RankKind::Process, number, span: 13..13 + pid.len() })
        })
}

/// A number after a word that stands at the start or after something that is no letter or digit; one
/// of the separators may lie between.
fn number_after(part: &str, word: &str, separators: &[char]) -> Option<(u64, std::ops::Range<usize>)> {
    let lower = part.to_ascii_lowercase();
    let word = word.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower.get(from..)?.find(&word) {
        let start = from + at;
        let mut digits = start + word.len();
        let free = lower.get(..start)?.chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
        if lower.get(digits..)?.starts_with(separators) {
            digits += 1;
        }
        let len = lower.get(digits..)?.bytes().take_while(u8::is_ascii_digit).count();
        if free && let Ok(number) = lower.get(digits..digits + len)?.parse() {
            return Some((number, start..digits + len));
        }
        from = start + word.len();
    }
    None
}

/// `-r3_`: a bare `r` between separators.
fn short_rank(part: &str) -> Option<Found> {
    let separator = |c: char| matches!(c, '.' | '_' | '-');
    let mut start = 0;
    for word in part.split(separator) {
        let end = start + word.len();
        let between = start > 0 && end < part.len();
        if between && let Some(number) = word.strip_prefix('r').and_then(|digits| digits.parse().ok()) {
            return Some(Found { kind: RankKind::Rank, number, span: start..end });
        }
        start = end + 1;
    }
    None
}

/// torchtitan: `000003_step_10`.
fn leading_rank(stem: &str) -> Option<Found> {
    let (rank, rest) = stem.split_once('_')?;
    rest.strip_prefix("step_").filter(|step| step.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Found { kind: RankKind::Rank, number: rank.parse().ok()?, span: 0..rank.len() })
}

/// Megatron-LM: `snapshot_3`; MindSpeed: `snapshot_2026-11-15-06-45_3`.
fn trailing_rank(stem: &str) -> Option<Found> {
    let rest = stem.strip_prefix("memory_").unwrap_or(stem).strip_prefix("snapshot_")?;
    let digits = match rest.rsplit_once('_') {
        Some((date, digits)) if date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => digits,
        Some(_) => return None,
        None => rest,
    };
    Some(Found {
        kind: RankKind::Rank,
        number: digits.parse().ok()?,
        span: stem.len() - digits.len()..stem.len(),
    })
}

fn step(part: &str) -> Option<u64> {
    ["iteration", "iter", "steps", "step"]
        .iter()
        .find_map(|word| number_after(part, word, &['-', '_']))
        .map(|(n, _)| n)
}

/// Where a rank is in the grid of its run differs between ranks, as the times of traces do: vLLM's
/// `dp0_pp0_tp1_dcp0_ep1_rank1.1790000000123456789`, AReaL's `p0d1c0t0`.
fn without_coordinates(part: &str) -> String {
    let is_separator = |c: char| matches!(c, '.' | '_' | '-');
    let mut text = String::with_capacity(part.len());
    for word in part.split_inclusive(is_separator) {
        let (word, separator) = match word.strip_suffix(is_separator) {
            Some(inside) => word.split_at(inside.len()),
            None => (word, ""),
        };
        let is_time = word.len() >= TIME_DIGITS && word.bytes().all(|byte| byte.is_ascii_digit());
        text.push_str(if is_time || is_coordinate(word) { "*" } else { word });
        text.push_str(separator);
    }
    text
}

/// Milliseconds since 1970 have as many digits.
const TIME_DIGITS: usize = 13;

/// Ways of splitting a model, as names of files have them.
const AXES: [&str; 14] = ["dp", "pp", "tp", "cp", "ep", "sp", "dcp", "pcp", "etp", "edp", "p", "d", "c", "t"];

/// Whether a word is nothing but axes with numbers: `tp1`, `p0d1c0t0`.
fn is_coordinate(word: &str) -> bool {
    let mut rest = word;
    let mut axes = 0;
    while !rest.is_empty() {
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let (axis, after) = rest.split_at(letters);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || !AXES.contains(&axis) {
            return false;
        }
        axes += usize::from(axis.len() == 1);
        rest = after.split_at(digits).1;
    }
    // One letter with a number may be anything; several are a grid.
    axes != 1 && !word.is_empty()
}

/// Steps, process ids and times differ between the ranks of a run, or between its steps.
fn without_counters(part: &str) -> String {
    let mut text = part.strip_suffix("_exit").unwrap_or(part).to_owned();
    for word in ["iteration", "iter", "steps", "step", "pid", "time"] {
        if let Some((_, span)) = number_after(&text, word, &['-', '_']) {
            // What follows a point belongs to the number: `time1790000000.5`.
            let fraction = text.get(span.end..).unwrap_or_default();
            let fraction = match fraction.strip_prefix('.') {
                Some(digits) => match digits.bytes().take_while(u8::is_ascii_digit).count() {
                    0 => 0,
                    len => len + 1,
                },
                None => 0,
            };
            text.replace_range(span.start..span.end + fraction, &format!("{word}*"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use RankKind::{Device, Process, Rank, TensorParallel};

    #[test]
    fn every_frameworks_convention() {
        /// Path, rank, step, and whether it was taken at an OOM or exit.
        type Case = (&'static str, Option<(RankKind, u64)>, Option<u64>, bool);
        let cases: &[Case] = &[
            (
                "profiling/memory_snapshot/step_000000000010/000003_step_10.pickle",
                Some((Rank, 3)),
                Some(10),
                false,
            ),
            ("memory_snapshot/step_000000000011_exit/000003_step_11.pickle", Some((Rank, 3)), Some(11), true),
            (
                "memory_snapshot/iteration_11_exit/rank1_memory_snapshot.pickle",
                Some((Rank, 1)),
                Some(11),
                true,
            ),
            ("torchtune/iteration_5/rank0_memory_snapshot.pickle", Some((Rank, 0)), Some(5), false),
            ("torchtnt/memory_snapshot_rank2/snapshot.pickle", Some((Rank, 2)), None, false),
            ("torchtnt/oom_rank2/snapshot.pickle", Some((Rank, 2)), None, true),
            ("torch_traces/rank6.12.memory_snapshot.pickle", Some((Rank, 6)), None, false),
            ("torch_traces/rank6_oom_snapshot.pickle", Some((Rank, 6)), None, true),
            ("megatron/snapshot_0.pickle", Some((Rank, 0)), None, false),
            ("megatron/snapshot_oom_rank_7.pickle", Some((Rank, 7)), None, true),
            ("oom_rank-3_snapshot.pickle", Some((Rank, 3)), None, true),
            ("memory_snapshot_time1790000000.5_rank4_snapshot.pickle", Some((Rank, 4)), None, false),
            ("verl/step7/torch_memory_rank5_pid991.pickle", Some((Rank, 5)), Some(7), false),
            ("oom_20261115-064512-000123/torch_memory_oom_rank5_pid991.pickle", Some((Rank, 5)), None, true),
            ("sglang/1790000000.123-TP-1-memory-DECODE.pickle", Some((TensorParallel, 1)), None, false),
            ("areal/snapshot_rank08_p0d1c0t0.pickle", Some((Rank, 8)), None, false),
            ("nemo/memory_profile_rank1.pickle", Some((Rank, 1)), None, false),
            (
                "vllm/dp0_pp0_tp1_dcp0_ep1_rank1.1790000000123456789.pt.trace.json.gz",
                Some((Rank, 1)),
                None,
                false,
            ),
            ("run/memory_rank3_step10_pid991_time1790000000123.pickle", Some((Rank, 3)), Some(10), false),
            ("run/memory_oom_rank3_pid991_time1790000000123.pickle", Some((Rank, 3)), None, true),
            ("mindspeed/snapshot_2026-11-15-06-45_9.pickle", Some((Rank, 9)), None, false),
            ("torchrec/memory-foo-rank2.pickle", Some((Rank, 2)), None, false),
            ("device_0/snapshot.pickle", Some((Device, 0)), None, false),
            ("oom_snapshot_4100_20261115064512.pickle", Some((Process, 4100)), None, true),
            ("axolotl/snapshot.pickle", None, None, false),
            ("hf/profile.pkl", None, None, false),
            ("gz.pickle.gz", None, None, false),
            ("frankrank/crank3x.pickle", None, None, false),
        ];
        for &(path, rank, step, oom) in cases {
            let name = name(path);
            assert_eq!((name.rank, name.step, name.oom), (rank, step, oom), "{path}");
        }
    }

    #[test]
    fn a_profile_is_named_by_its_folders() {
        let name = profile_name("step12/actor_update/worker0_4100_20261115064500000_ascend_pt", Some(3));
        assert_eq!((name.rank, name.step), (Some((Rank, 3)), Some(12)));
        assert_eq!(
            (name.role.as_deref(), name.group.as_str()),
            (Some("actor_update"), "step*/actor_update/*_ascend_pt")
        );
        assert_eq!(profile_name("w_1_2_ascend_pt", None).role, None);
    }

    #[test]
    fn ranks_of_a_run_share_a_group_and_steps_do_not_split_it() {
        let group = |path: &str| name(path).group;
        assert_eq!(
            group("out/iteration_5/rank0_memory_snapshot.pickle"),
            group("out/iteration_6/rank12_memory_snapshot.pickle")
        );
        assert_eq!(
            group("verl/step7/torch_memory_rank5_pid991.pickle"),
            group("verl/step7/torch_memory_rank6_pid1002.pickle")
        );
        assert_ne!(group("a/snapshot_0.pickle"), group("b/snapshot_0.pickle"));
        let alike = [
            // torchtitan, vLLM, AReaL, and vramscope's own recorder.
            ("step_000000000010/000003_step_10.pickle", "step_000000000020/000004_step_20.pickle"),
            (
                "dp0_pp0_tp0_dcp0_ep0_rank0.1790000000123456789.pt.trace.json.gz",
                "dp0_pp0_tp1_dcp0_ep1_rank1.1790000000123459999.pt.trace.json.gz",
            ),
            ("snapshot_rank08_p0d1c0t0.pickle", "snapshot_rank09_p0d1c0t1.pickle"),
            ("memory_rank0_pid9_time1790000000123.pickle", "memory_rank1_pid10_time1790000000999.pickle"),
        ];
        for (a, b) in alike {
            assert_eq!(group(a), group(b));
        }
        assert_ne!(
            group("model_c4_rank0.pickle"),
            group("model_c5_rank0.pickle"),
            "one letter may be anything"
        );
        assert_eq!(
            group("out/iteration_10/rank0_memory_snapshot.pickle"),
            group("out/iteration_11_exit/rank1_memory_snapshot.pickle")
        );
    }
}
