//! The views in engines that are too heavy for every change: DataFusion, and Spark with executors of its own.

use std::process::Command;

use anyhow::ensure;

use crate::process::{cargo, root, run, works};

/// What the tests import.
const PACKAGES: [&str; 8] = [
    "pyspark==4.*",
    "datafusion==55.*",
    "ray[data]",
    "duckdb",
    "polars",
    "pyarrow",
    // Spark does not know the third version yet.
    "pandas<3",
    "pytest==9.*",
];

/// Builds the program and runs the tests of tables with every engine, in an environment below the target folder.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(
        works(Command::new("java").arg("-version")),
        "Spark needs a Java runtime: apt-get install openjdk-17-jre-headless"
    );
    let folder = root().join("target/spark");
    let python = folder.join("bin/python");
    if !works(Command::new(&python).args(["-c", "import datafusion, duckdb, polars, pyspark, pytest, ray"])) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    }
    run(&mut cargo(&[
        "build",
        "--locked",
        "--package",
        "vramscope",
        "--no-default-features",
        "--features",
        "sql",
    ]))?;
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "--quiet", "-m", "engines or not engines"]);
    pytest.args(["python/tests/test_tables.py", "python/tests/test_spark.py"]);
    run(pytest.env("VRAMSCOPE_BIN", root().join("target/debug/vramscope")).current_dir(root()))
}
