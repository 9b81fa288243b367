//! Opens paths: files, folders of ranks, standard input, and the cache of what was opened before.
