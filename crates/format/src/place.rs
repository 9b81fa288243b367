//! Lines of a program.

use crate::width::{fit, fit_middle, width};

/// A frame in one line: the file without its folders, the line and the function, `train.py:88 forward`.
pub fn place(file: &str, line: u32, name: &str) -> String {
    let (file, name) = (file.rsplit(['/', '\\']).next().unwrap_or(file), function(name));
    if line == 0 { name.to_owned() } else { format!("{file}:{line} {name}") }
}

/// A function without its parameters: `at::_ops::mm::call(at::Tensor const&, …)` is `at::_ops::mm::call`.
fn function(name: &str) -> &str {
    if let Some(node) = autograd_node(name) {
        return node;
    }
    let end = name.strip_suffix(" const").unwrap_or(name);
    if !end.ends_with(')') || !end.contains("::") {
        return name;
    }
    let mut depth = 0_usize;
    for (at, c) in end.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            let bare = end.get(..at).unwrap_or_default();
            // `operator()` is a name, and `(anonymous namespace)` alone says nothing.
            return if bare.is_empty() || bare.ends_with("operator") { name } else { bare };
        }
    }
    name
}

/// The node of the autograd graph that a C++ function belongs to: `torch::autograd::generated::MmBackward0::apply(…)` is
/// `MmBackward0`.
pub fn autograd_node(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("torch::autograd::")?;
    let rest = rest.strip_prefix("generated::").unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (node, call) = rest.split_at(end);
    let is_call = call.starts_with("::apply(") || call.starts_with("_apply_functional(");
    let is_node =
        node == "AccumulateGrad" || node.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward");
    (is_call && is_node).then_some(node)
}

/// The function of a forward line that memory of a backward pass belongs to, with the node of the autograd graph where
/// it is known: `forward (MmBackward0, inferred)`.
pub fn backward_function(name: &str, node: Option<&str>, is_inferred: bool) -> String {
    let inferred = if is_inferred { ", inferred" } else { "" };
    format!("{name} ({}{inferred})", node.unwrap_or("backward"))
}

/// A frame with its whole path. Regular expressions are matched against this.
pub fn frame_text(file: &str, line: u32, name: &str) -> String {
    format!("{file}:{line} {name}")
}

/// A place in at most `columns` columns. The function is cut first, then the middle of the file name; `:line`
/// stays, since it tells rows apart.
pub fn elide_place(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some((file, name)) = text.split_once(' ').filter(|(file, _)| line_at(file).is_some()) else {
        return fit(text, columns);
    };
    let room = columns.saturating_sub(width(file) + 1);
    if room >= 4 {
        return format!("{file} {}", fit(name, room));
    }
    let tail = line_at(file).map_or(0, |at| width(file.get(at..).unwrap_or_default()));
    // The last digits of a line number would be another line.
    if tail >= columns { fit("…", columns) } else { fit_middle(file, tail, columns) }
}

/// Where `:line` begins.
fn line_at(file: &str) -> Option<usize> {
    let at = file.rfind(':')?;
    let digits = file.get(at + 1..)?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_autograd_have_short_names() {
        let apply = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)";
        assert_eq!(place("??", 0, apply), "BmmBackward0");
        assert_eq!(
            autograd_node("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"),
            Some("AccumulateGrad")
        );
        assert_eq!(autograd_node("torch::autograd::Engine::thread_main(std::shared_ptr<x> const&)"), None);
        assert_eq!(autograd_node("torch::autograd::generated::MmBackward0::release_variables()"), None);
    }

    #[test]
    fn a_place_is_file_line_and_function() {
        assert_eq!(place("/a/b/train.py", 88, "forward"), "train.py:88 forward");
        assert_eq!(place("C:\\x\\train.py", 88, "forward"), "train.py:88 forward");
        assert_eq!(place("", 0, "aten::mm"), "aten::mm");
        assert_eq!(place("x.cpp", 7, "at::mm(at::Tensor const&, f(int))"), "x.cpp:7 at::mm");
        assert_eq!(place("x.cpp", 7, "a::b::operator()"), "x.cpp:7 a::b::operator()");
        assert_eq!(place("x.py", 7, "<lambda>"), "x.py:7 <lambda>");
    }

    #[test]
    fn eliding_keeps_the_line() {
        let place = "modeling_llama.py:175 forward";
        assert_eq!(elide_place(place, 40), place);
        assert_eq!(elide_place(place, 27), "modeling_llama.py:175 forw…");
        assert_eq!(elide_place(place, 13), "modeling…:175");
        assert_eq!(elide_place("(before recording began)", 9), "(before …");
    }

    #[test]
    fn no_part_of_a_line_number_is_left() {
        assert_eq!(elide_place("sdpa_attention.py:158 forward", 6), "s…:158");
        assert_eq!(elide_place("sdpa_attention.py:158 forward", 5), "…:158");
        assert_eq!(elide_place("sdpa_attention.py:158 forward", 4), "…");
    }
}
