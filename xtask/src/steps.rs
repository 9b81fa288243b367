//! Steps one after the other, and what each of them took.

use std::time::{Duration, Instant};

/// What steps took.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration, Option<Duration>)>,
}

impl Steps {
    /// Does a step.
    pub(crate) fn step<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (began, cpu) = (Instant::now(), cpu_of_children());
        let result = work();
        let cpu = cpu_of_children().zip(cpu).map(|(after, before)| after.saturating_sub(before));
        self.done.push((name, began.elapsed(), cpu));
        result
    }

    /// Prints a row for each step, and one for all of them.
    pub(crate) fn print(&self) {
        eprintln!("\n{:<28}{:>10}{:>10}", "step", "wall", "CPU");
        let row = |name: &str, wall: Duration, cpu: Option<Duration>| {
            let cpu = cpu.map_or_else(String::new, text);
            eprintln!("{name:<28}{:>10}{cpu:>10}", text(wall));
        };
        for &(name, wall, cpu) in &self.done {
            row(name, wall, cpu);
        }
        let wall = self.done.iter().map(|(_, wall, _)| *wall).sum();
        row("all", wall, self.done.iter().map(|(_, _, cpu)| *cpu).sum());
    }
}

fn text(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}

/// User and system time of the programs that were run and have ended, where Linux tells it, in its hundredths of a
/// second.
fn cpu_of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses and may contain anything; `cutime` and `cstime` are the 14th and
    // 15th after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let ticks = ticks.collect::<Result<Vec<_>, _>>().ok()?;
    Some(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}
