//! What pools, streams, devices and phases are called.

/// A pool by its two numbers, under a heading or after the word "pool": `default`, `MemPool (0, 1)`,
/// `CUDA graph (1, 0)`. PyTorch before 2.12 does not always record it: `unknown`.
pub fn pool(pool: Option<(i64, i64)>) -> String {
    match pool {
        None => "unknown".into(),
        Some((0, 0)) => "default".into(),
        Some((0, id)) => format!("MemPool (0, {id})"),
        Some((a, b)) => format!("CUDA graph ({a}, {b})"),
    }
}

/// A stream by its handle: `default`, `0x7f3a…`.
pub fn stream(handle: u64) -> String {
    if handle == 0 { "default".into() } else { format!("{handle:#x}") }
}

/// A pool on a stream: `default, stream default`, `CUDA graph (1, 0), stream 0x7f3a…`.
pub fn pool_and_stream(of: Option<(i64, i64)>, handle: u64) -> String {
    format!("{}, stream {}", pool(of), stream(handle))
}

/// A device by its number, as PyTorch names it: `cuda:0`. Sources that know better give a name: `NPU 0`.
pub fn device(number: i32, name: Option<&str>) -> String {
    match name {
        Some(name) => name.to_owned(),
        None if number < 0 => "host".into(),
        None => format!("cuda:{number}"),
    }
}

/// The name of an annotation without the marks around it: `## forward ##` is `forward`.
pub fn phase(name: &str) -> &str {
    let is_marked = name.starts_with('#') && name.ends_with('#');
    let bare = name.trim_matches('#').trim();
    if bare.is_empty() || !is_marked { name } else { bare }
}

/// An identifier of the JSON output as words: `out_of_memory` is `out of memory`.
pub fn words(identifier: &str) -> String {
    identifier.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_and_streams() {
        let names = [None, Some((0, 0)), Some((0, 1)), Some((1, 0))].map(pool);
        assert_eq!(names, ["unknown", "default", "MemPool (0, 1)", "CUDA graph (1, 0)"]);
        assert_eq!([stream(0), stream(255)], ["default", "0xff"]);
    }

    #[test]
    fn devices_and_phases() {
        assert_eq!(
            [device(1, None), device(-1, None), device(0, Some("NPU 0"))],
            ["cuda:1", "host", "NPU 0"]
        );
        assert_eq!(["## forward ##", "step#2", "##"].map(phase), ["forward", "step#2", "##"]);
    }
}
