//! What a list of paths stands for, where there are no folders to look into: a browser gives files only.

use std::collections::{HashMap, HashSet};

use vramscope_snapshot::{AscendPart, profile_rank};

use crate::{Name, PROFILE_OUTPUT, is_profile_folder, name, profile_name, sidecar};

/// Files that are opened together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it is: a file, or the folder of a profile.
    pub path: String,
    /// What its path says about it.
    pub name: Name,
    /// Which paths of the list belong to it; of a file, itself and the sidecar that it may have.
    pub rows: Vec<usize>,
    /// Whether it is an Ascend profile.
    pub is_profile: bool,
}

/// The files and profiles of a list, by run, step and rank. Paths have `/` between their parts.
pub fn list(paths: &[String]) -> Vec<Listed> {
    let parts: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    // Each profile, and where it is in what comes out.
    let mut roots: HashMap<&[&str], Option<usize>> =
        parts.iter().filter_map(|path| Some((root(path)?, None))).collect();
    let mut listed: Vec<Listed> = Vec::new();
    let rows: HashMap<&str, usize> = paths.iter().zip(0..).map(|(path, row)| (path.as_str(), row)).collect();
    let beside = |path: &str| {
        let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
        let name = if folder.is_empty() { sidecar(file) } else { format!("{folder}/{}", sidecar(file)) };
        rows.get(name.as_str()).copied()
    };
    let sidecars: HashSet<usize> = paths.iter().filter_map(|path| beside(path)).collect();
    for (row, (path, parts)) in paths.iter().zip(&parts).enumerate() {
        let root = (1..parts.len()).filter_map(|len| parts.get(..len)).find(|root| roots.contains_key(root));
        let Some(root) = root else {
            if sidecars.contains(&row) {
                continue;
            }
            let rows = std::iter::once(row).chain(beside(path)).collect();
            listed.push(Listed { path: path.clone(), name: name(path), rows, is_profile: false });
            continue;
        };
        // Also one of which nothing can be read is named.
        let place = *roots.entry(root).or_default().get_or_insert_with(|| {
            let path = root.join("/");
            listed.push(Listed { path, name: Name::default(), rows: Vec::new(), is_profile: true });
            listed.len() - 1
        });
        let Some([inside] | [PROFILE_OUTPUT, inside]) = parts.get(root.len()..) else { continue };
        // Logs of a database say that it is not whole.
        let is_log = inside.ends_with(".db-wal") || inside.ends_with(".db-journal");
        if let Some(profile) = listed.get_mut(place)
            && (AscendPart::of(inside).is_some() || is_log)
        {
            profile.rows.push(row);
        }
    }
    for Listed { path, name, rows, .. } in listed.iter_mut().filter(|listed| listed.is_profile) {
        let files = rows.iter().filter_map(|&row| parts.get(row)?.last().copied());
        *name = profile_name(path, profile_rank(files));
    }
    listed.sort_by(|a, b| a.name.key().cmp(&b.name.key()).then_with(|| a.path.cmp(&b.path)));
    listed
}

/// The outermost folder of a path that is a profile, as far as this path can tell.
fn root<'p, 'a>(path: &'p [&'a str]) -> Option<&'p [&'a str]> {
    let (_, folders) = path.split_last()?;
    let is_profile = |at: &usize| {
        folders.get(*at).is_some_and(|name| is_profile_folder(name) || *name == PROFILE_OUTPUT)
            || folders.get(at + 1) == Some(&PROFILE_OUTPUT)
    };
    (0..folders.len()).find(is_profile).and_then(|at| folders.get(..=at))
}

#[cfg(test)]
mod tests {
    use super::list;

    fn listed(paths: &[&str]) -> Vec<(String, Vec<usize>)> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        list(&paths).into_iter().map(|listed| (listed.path, listed.rows)).collect()
    }

    #[test]
    fn files_stand_for_themselves_in_the_order_of_their_ranks() {
        assert_eq!(
            listed(&["run/rank10.pickle", "run/rank2.pickle"]),
            [("run/rank2.pickle".into(), vec![1]), ("run/rank10.pickle".into(), vec![0])]
        );
    }

    #[test]
    fn a_sidecar_belongs_to_the_snapshot_beside_it() {
        let paths = [
            "run/memory_rank1_step2.vramscope.json",
            "run/memory_rank1_step2.pickle",
            "run/memory_rank2_step2.pickle.gz",
            "run/memory_rank2_step2.vramscope.json",
            "other/memory_rank1_step2.pickle",
            "alone.vramscope.json",
        ];
        assert_eq!(
            listed(&paths),
            [
                // Nothing vanishes: its reader says what it is.
                ("alone.vramscope.json".into(), vec![5]),
                ("other/memory_rank1_step2.pickle".into(), vec![4]),
                ("run/memory_rank1_step2.pickle".into(), vec![1, 0]),
                ("run/memory_rank2_step2.pickle.gz".into(), vec![2, 3]),
            ]
        );
    }

    #[test]
    fn a_profile_is_one_input_of_the_files_that_it_is_read_from() {
        let paths = [
            "actor/w_1_ascend_pt/profiler_info_3.json",
            "actor/w_1_ascend_pt/FRAMEWORK/torch.op_range",
            "actor/w_1_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
            "actor/w_1_ascend_pt/ASCEND_PROFILER_OUTPUT/operator_memory.csv",
            "actor/notes.pickle",
        ];
        let paths = paths.map(str::to_owned);
        let found = list(&paths);
        assert_eq!(found.len(), 2);
        let profile =
            found.iter().find(|listed| listed.is_profile).map(|listed| (&listed.name, &listed.rows));
        let (name, rows) = profile.unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!((name.rank_text().as_str(), name.role.as_deref()), ("rank 3", Some("actor")));
        assert_eq!(rows, &[0, 3]);
    }

    #[test]
    fn a_folder_of_any_name_is_a_profile_by_its_output() {
        assert_eq!(
            listed(&["mine/profiler_info_0.json", "mine/ASCEND_PROFILER_OUTPUT/memory_record.csv"]),
            [("mine".into(), vec![0, 1])]
        );
        // The folder of tables alone, as it is often sent.
        assert_eq!(
            listed(&["ASCEND_PROFILER_OUTPUT/memory_record.csv"]),
            [("ASCEND_PROFILER_OUTPUT".into(), vec![0])]
        );
    }

    #[test]
    fn a_profile_of_which_nothing_can_be_read_does_not_vanish() {
        assert_eq!(listed(&["w_1_ascend_pt/FRAMEWORK/torch.op_range"]), [("w_1_ascend_pt".into(), vec![])]);
    }
}
