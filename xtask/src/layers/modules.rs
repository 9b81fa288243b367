//! The graph of the modules of a crate: which of them use names that others define.
//!
//! A module is a file; modules inside a file belong to it. Names are resolved as the compiler does it, as far as modules
//! are concerned: through `use`, through re-exports and globs to the module that defines them. `mod`, re-exports, what is
//! compiled only for tests, and methods are no arrows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Meta, UseTree, Visibility};

/// Length of a chain of re-exports, so that two modules that re-export each other end.
const MOST_STEPS: usize = 32;

/// Modules that reach each other.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) modules: Vec<String>,
    pub(super) arrows: Vec<Arrow>,
}

/// Use of one module by another.
#[derive(Debug)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    /// Place and text of the first line that uses it.
    pub(super) first: String,
    /// Number of lines that use it.
    pub(super) lines: usize,
}

/// A path as it is written, from the module that it is written in.
struct Mention {
    path: Vec<String>,
    line: usize,
}

/// A name that a `use` brings into a module.
struct Import {
    name: String,
    mention: Mention,
    is_reexport: bool,
}

/// A module of the source, in a file of its own or inside another one.
struct Module {
    name: String,
    parent: Option<usize>,
    /// Module whose file it is in.
    file: usize,
    children: BTreeMap<String, usize>,
    /// Names that are defined here, other than modules.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    globs: Vec<Vec<String>>,
    mentions: Vec<Mention>,
}

/// Module that a path leads to.
enum Target {
    Module(usize),
    /// Module that defines an item.
    ItemOf(usize),
}

/// Modules of one crate.
pub(super) struct Graph {
    modules: Vec<Module>,
    /// Files by module, with their texts.
    files: BTreeMap<usize, (PathBuf, String)>,
}

/// Text of a file, if it exists.
type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

impl Graph {
    /// Parses the crate that begins in a file.
    pub(super) fn of_crate(first: &Path, read: Read<'_>) -> anyhow::Result<Self> {
        let mut graph = Self { modules: Vec::new(), files: BTreeMap::new() };
        graph.push("crate", None, None);
        graph.add_file(0, first.to_owned(), read)?;
        Ok(graph)
    }

    fn push(&mut self, name: &str, parent: Option<usize>, file: Option<usize>) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            file: file.unwrap_or(number),
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            globs: Vec::new(),
            mentions: Vec::new(),
        });
        number
    }

    fn add_file(&mut self, module: usize, path: PathBuf, read: Read<'_>) -> anyhow::Result<()> {
        let text = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        // Modules of `a/mod.rs` lie beside it, those of `a.rs` in `a/`.
        let is_first = path.file_stem().is_some_and(|stem| stem == "mod" || stem == "lib" || stem == "main");
        let folder = if is_first { path.with_file_name("") } else { path.with_extension("") };
        self.files.insert(module, (path, text));
        self.add_items(module, &file.items, &folder, read)
    }

    fn add_items(
        &mut self,
        module: usize,
        items: &[Item],
        folder: &Path,
        read: Read<'_>,
    ) -> anyhow::Result<()> {
        for item in items.iter().filter(|item| !attributes(item).iter().any(is_for_tests)) {
            let Item::Mod(child) = item else {
                self.modules[module].items.extend(name_of(item));
                Visitor { module: &mut self.modules[module] }.visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            let file = child.content.is_some().then_some(self.modules[module].file);
            let number = self.push(&name, Some(module), file);
            self.modules[module].children.insert(name.clone(), number);
            if let Some((_, items)) = &child.content {
                self.add_items(number, items, &folder.join(name), read)?;
                continue;
            }
            let beside = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let file = beside.into_iter().find(|file| read(file).is_some());
            let file = file.with_context(|| format!("no file for `mod {name}` in {}", folder.display()))?;
            self.add_file(number, file, read)?;
        }
        Ok(())
    }

    /// Path of a module below the crate, such as `read::fast`.
    fn name(&self, module: usize) -> String {
        match &self.modules[module] {
            Module { name, parent: Some(0) | None, .. } => name.clone(),
            Module { name, parent: Some(parent), .. } => format!("{}::{name}", self.name(*parent)),
        }
    }

    /// Follows a path from the module that it is written in; `None` if it leaves the crate.
    fn resolve(&self, from: usize, path: &[String], steps: usize) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            _ => return self.follow(from, path, steps),
        };
        while let Some(later) = rest.strip_prefix(&["super".to_owned()]) {
            (at, rest) = (self.modules[at].parent?, later);
        }
        self.inside(at, rest, steps)
    }

    /// Follows a path whose first name is one of a module, which must be there: macros may define it.
    fn inside(&self, at: usize, path: &[String], steps: usize) -> Option<Target> {
        if path.is_empty() {
            Some(Target::Module(at))
        } else {
            self.follow(at, path, steps).or(Some(Target::ItemOf(at)))
        }
    }

    /// Follows a path whose first name is looked up in a module.
    fn follow(&self, at: usize, path: &[String], steps: usize) -> Option<Target> {
        let (name, rest) = path.split_first()?;
        let steps = steps.checked_sub(1)?;
        let module = &self.modules[at];
        let child = || module.children.get(name).and_then(|&child| self.inside(child, rest, steps));
        let item = || module.items.contains(name).then_some(Target::ItemOf(at));
        let imported = || {
            let mut imports = module.imports.iter().filter(|import| import.name == *name);
            imports.find_map(|import| match self.resolve(at, &import.mention.path, steps)? {
                Target::Module(other) => self.inside(other, rest, steps),
                item @ Target::ItemOf(_) => Some(item),
            })
        };
        let by_glob = || {
            module.globs.iter().find_map(|glob| match self.resolve(at, glob, steps)? {
                Target::Module(other) if other != at => self.follow(other, path, steps),
                _ => None,
            })
        };
        // A module and an item may have the same name; only a module can have names below it.
        match rest {
            [] => item().or_else(imported).or_else(child).or_else(by_glob),
            _ => child().or_else(item).or_else(imported).or_else(by_glob),
        }
    }

    /// Lines by which one module uses another, of all pairs.
    fn arrows(&self) -> BTreeMap<(usize, usize), BTreeSet<usize>> {
        let mut arrows: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            let imports = module.imports.iter().filter(|import| !import.is_reexport);
            for mention in module.mentions.iter().chain(imports.map(|import| &import.mention)) {
                if let Some(Target::ItemOf(other)) = self.resolve(number, &mention.path, MOST_STEPS) {
                    let (from, to) = (module.file, self.modules[other].file);
                    if from != to {
                        arrows.entry((from, to)).or_default().insert(mention.line);
                    }
                }
            }
        }
        arrows
    }

    /// Groups of modules that reach each other, in the order of the source.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let arrows = self.arrows();
        let reached: Vec<BTreeSet<usize>> = (0..self.modules.len())
            .map(|first| {
                let (mut seen, mut todo) = (BTreeSet::new(), vec![first]);
                while let Some(from) = todo.pop() {
                    let next = arrows.range((from, 0)..=(from, usize::MAX)).map(|(&(_, to), _)| to);
                    todo.extend(next.filter(|&to| seen.insert(to)));
                }
                seen
            })
            .collect();
        let mut cycles = Vec::new();
        let mut placed = BTreeSet::new();
        for first in (0..self.modules.len()).filter(|&module| reached[module].contains(&module)) {
            let members: Vec<usize> =
                reached[first].iter().copied().filter(|&other| reached[other].contains(&first)).collect();
            if placed.insert(members[0]) {
                let modules = members.iter().map(|&module| self.name(module)).collect();
                let is_inside = |(from, to): &(usize, usize)| members.contains(from) && members.contains(to);
                let arrows = arrows.iter().filter(|(ends, _)| is_inside(ends));
                let arrows = arrows.map(|(&(from, to), lines)| self.arrow(from, to, lines)).collect();
                cycles.push(Cycle { modules, arrows });
            }
        }
        cycles
    }

    fn arrow(&self, from: usize, to: usize, lines: &BTreeSet<usize>) -> Arrow {
        let (path, text) = &self.files[&from];
        let line = lines.first().copied().unwrap_or(1);
        let code = text.lines().nth(line - 1).unwrap_or_default().trim();
        let first = format!("{}:{line}: {code}", path.display());
        Arrow { from: self.name(from), to: self.name(to), first, lines: lines.len() }
    }
}

/// Collects the paths of one item.
struct Visitor<'a> {
    module: &'a mut Module,
}

impl Visitor<'_> {
    fn mention(&mut self, path: Vec<String>, span: Span) {
        self.module.mentions.push(Mention { path, line: span.start().line });
    }

    fn import(&mut self, tree: &UseTree, before: &[String], is_reexport: bool) {
        let with = |ident: &Ident| [before, &[ident.to_string()]].concat();
        let mut add = |ident: &Ident, name: &Ident| {
            let path = if ident == "self" { before.to_vec() } else { with(ident) };
            let name =
                if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_string() };
            let mention = Mention { path, line: ident.span().start().line };
            self.module.imports.push(Import { name, mention, is_reexport });
        };
        match tree {
            UseTree::Name(one) => add(&one.ident, &one.ident),
            UseTree::Rename(one) => add(&one.ident, &one.rename),
            UseTree::Path(one) => self.import(&one.tree, &with(&one.ident), is_reexport),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before, is_reexport));
            }
            UseTree::Glob(_) => self.module.globs.push(before.to_vec()),
        }
    }

    /// Mentions the paths in what a macro or an attribute is given.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                // A method or a field, but not the end of a range.
                TokenTree::Ident(_) if at > 1 && is(at - 2, '.') && !(at > 2 && is(at - 3, '.')) => {}
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while let (true, true, Some(TokenTree::Ident(next))) =
                        (is(at, ':'), is(at + 1, ':'), tokens.get(at + 2))
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    let is_called = matches!(tokens.get(at), Some(TokenTree::Group(_)));
                    if path.len() > 1 || is_called || is_type(first) {
                        self.mention(path, first.span());
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() && !item.attrs.iter().any(is_for_tests) {
            self.import(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // A lower-case name alone is a variable, or a function that `visit_expr_call` sees.
        let counts = names.len() > 1 || path.segments.first().is_some_and(|first| is_type(&first.ident));
        if let (Some(first), true, None) = (path.segments.first(), counts, &path.leading_colon) {
            self.mention(names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(name) = function.path.get_ident()
        {
            self.mention(vec![name.to_string()], name.span());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }

    /// `pub(in path)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Fn(item) => item.attrs.as_slice(),
            syn::ImplItem::Const(item) => item.attrs.as_slice(),
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_impl_item(self, item);
        }
    }
}

/// Whether a name is that of a type or a constant.
fn is_type(name: &Ident) -> bool {
    name.to_string().starts_with(char::is_uppercase)
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    let condition = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Name that an item defines in its module.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Graph;

    /// Arrows of all cycles of a crate, whose files are given by name and text.
    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        let cycles = Graph::of_crate(Path::new("lib.rs"), &read).unwrap().cycles();
        let arrows = cycles.into_iter().flat_map(|cycle| cycle.arrows);
        arrows.map(|arrow| format!("{} -> {}: {}", arrow.from, arrow.to, arrow.first)).collect()
    }

    #[test]
    fn two_modules_that_use_each_other_are_a_cycle() {
        let a = "use crate::b::Two;\npub struct One(Two);";
        let b = "pub struct Two;\nfn f() { crate::a::make(); }";
        let found = cycles(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", b)]);
        assert_eq!(
            found,
            ["a -> b: a.rs:1: use crate::b::Two;", "b -> a: b.rs:2: fn f() { crate::a::make(); }"]
        );
        let one_way = "pub struct Two;";
        assert!(cycles(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", one_way)]).is_empty());
    }

    #[test]
    fn a_reexport_hides_no_cycle() {
        let root = "mod a;\nmod b;\npub use b::inner::Two;";
        let inner = "use crate::a::One;\npub struct Two(One);";
        let files =
            |a| [("lib.rs", root), ("a.rs", a), ("b/mod.rs", "pub mod inner;"), ("b/inner.rs", inner)];
        let found = cycles(&files("use crate::Two;\npub struct One;"));
        assert_eq!(
            found,
            ["a -> b::inner: a.rs:1: use crate::Two;", "b::inner -> a: b/inner.rs:1: use crate::a::One;"]
        );
        // A re-export alone uses nothing.
        assert!(cycles(&files("pub use crate::Two;\npub struct One;")).is_empty());
    }

    #[test]
    fn a_glob_and_the_name_of_a_module_lead_to_what_is_used() {
        let root = "mod a;\nmod b;";
        let b = "pub fn f() { crate::a::g(); }";
        for a in ["use crate::b::*;\npub fn g() { f(); }", "use crate::b;\npub fn g() { b::f(); }"] {
            assert_eq!(cycles(&[("lib.rs", root), ("a.rs", a), ("b.rs", b)]).len(), 2, "{a}");
        }
        let unused = "use crate::b;\npub fn g() {}";
        assert!(cycles(&[("lib.rs", root), ("a.rs", unused), ("b.rs", b)]).is_empty());
    }

    #[test]
    fn a_parent_that_uses_a_child_that_uses_the_parent_is_a_cycle() {
        let root = "mod child;\nstruct Shared;\nfn f() { child::run(); }";
        let child = "use super::Shared;\npub(crate) fn run() {}";
        assert_eq!(cycles(&[("lib.rs", root), ("child.rs", child)]).len(), 2);
        // Naming the child, or what the child needs from a third one, is none.
        let root = "mod child;\nmod shared;\npub use child::run;\nuse shared::Shared;\nfn f(_: Shared) {}";
        let shared = "pub struct Shared;";
        assert!(cycles(&[("lib.rs", root), ("child.rs", child), ("shared.rs", shared)]).is_empty());
    }

    #[test]
    fn macros_and_attributes_use_what_they_name() {
        let b = "pub fn g() { crate::a::f(); }";
        for a in [
            "pub fn f() { println!(\"{}\", crate::b::g()); }",
            "#[arg(parse = crate::b::g)]\npub struct One;",
            "macro_rules! m { () => { $crate::b::g() } }",
        ] {
            assert_eq!(cycles(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", b)]).len(), 2, "{a}");
        }
    }

    #[test]
    fn tests_use_what_they_like() {
        let a = "pub fn f() {}\n#[cfg(test)]\nmod tests {\n use crate::b::g;\n}\n#[cfg(test)]\nmod more;";
        let b = "pub fn g() { crate::a::f(); }";
        assert!(cycles(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", b)]).is_empty());
    }

    #[test]
    fn modules_of_one_file_are_one() {
        let a = "mod inner { use super::One; pub fn f(_: One) {} }\nstruct One;\nfn g() { inner::f(One); }";
        assert!(cycles(&[("lib.rs", "mod a;"), ("a.rs", a)]).is_empty());
    }
}
