//! Named queries over the tables, in a subset of SQL that SQLite, DuckDB, DataFusion and Spark run unchanged.
//!
//! Rules of the subset: division only of doubles, no sorting by what may be null, medians by counting places, no functions but
//! the aggregates, `coalesce`, `abs`, `row_number`, `count` and `lag`. Every view sorts by all that tells its rows apart.

/// A named query.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// What it is called.
    pub name: &'static str,
    /// The query; its first line is a comment that says what it answers.
    pub sql: &'static str,
}

impl View {
    /// What it answers.
    pub fn about(&self) -> &'static str {
        self.sql.lines().next().unwrap_or_default().trim_start_matches("-- ")
    }
}

macro_rules! views {
    ($($name:literal),* $(,)?) => {
        &[$(View { name: $name, sql: include_str!(concat!("../views/", $name, ".sql")) }),*]
    };
}

/// All views.
pub const VIEWS: &[View] = views![
    "peak_by_rank",
    "peak_by_line",
    "peak_by_category",
    "peak_by_module",
    "growth_by_step",
    "live_at",
    "odd_ranks",
    "fragmentation_by_rank",
    "ooms",
    "top_allocations",
    "lifetimes",
    "phases",
    "pools",
    "divergence",
    "forecast",
    "findings_by_kind",
];

/// The view of a name.
pub fn view(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name)
}
