//! Every verb on inputs of n and 4 n: time and memory grow with the input, not faster. Here each verb meets every
//! eighth shape, about seven; `cargo xtask scale` tries all of them every night, with larger inputs.
#![cfg(target_os = "linux")]

use std::path::Path;

use vramscope_testkit::scale::Scale;
use vramscope_testkit::shapes::SHAPES;
use vramscope_testkit::verbs::VERBS;

/// Four times this is enough for anything quadratic to take seconds.
const N: u64 = 2500;

#[test]
fn four_times_the_input_costs_about_four_times_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let scale = Scale { program: Path::new(env!("CARGO_BIN_EXE_vramscope")), folder: folder.path(), n: N };
    let halves: Vec<Vec<String>> = std::thread::scope(|scope| {
        let half = |from: usize| {
            let scale = &scale;
            let shapes = SHAPES.iter().enumerate().skip(from).step_by(2);
            let check = |(number, shape)| {
                // Each of eight shapes meets the verbs that the other seven do not.
                let verbs: Vec<&[&str]> = VERBS.iter().skip(number / 2 % 8).step_by(8).copied().collect();
                scale.check(shape, &verbs)
            };
            scope.spawn(move || shapes.flat_map(check).collect())
        };
        [half(0), half(1)].into_iter().map(|half| half.join().unwrap()).collect()
    });
    let faults = halves.concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
