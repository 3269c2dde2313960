//! Which files a file needs: the paths that it names, followed through re-exports to where each item is declared.

use crate::source::{Id, Module, Tree, is_for_tests};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Times that a name is followed from import to import, before it is given up: more than any chain of re-exports has.
const LONGEST_CHAIN: usize = 16;

/// The dependencies between a crate's files.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// By file: the files that it needs.
    pub files: BTreeMap<Id, BTreeSet<Id>>,
    /// By file: names that it takes from the crate's root, which only re-exports them.
    pub doors: BTreeSet<(Id, String)>,
}

/// Finds what the files of a crate need.
pub(crate) fn needs(tree: &Tree) -> Needs {
    let mut needs = Needs::default();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut paths = Paths::default();
        for item in &module.items {
            paths.visit_item(item);
        }
        let named = paths.found.into_iter();
        let imported = module.uses.iter().filter(|u| !(u.is_re_export && module.is_root_of_folder));
        let imported = imported.map(|import| import.path.clone());
        needs.files.entry(module.home).or_default();
        for path in named.chain(imported) {
            if let Some(name) = tree.door(&path) {
                needs.doors.insert((module.home, name));
            }
            if let Some(found) = tree.resolve(id, &path, LONGEST_CHAIN) {
                let home = tree.modules[found].home;
                if home != module.home {
                    needs.files.entry(module.home).or_default().insert(home);
                }
            }
        }
    }
    needs
}

impl Tree {
    /// Returns the first name of a path `crate::name` that is neither a module nor an item of the root.
    fn door(&self, path: &[String]) -> Option<String> {
        let [head, name, ..] = path else { return None };
        let root = &self.modules[0];
        let is_there = root.children.contains_key(name)
            || root.declares.contains(name)
            || self.exported_macros.contains(name);
        (head == "crate" && !is_there).then(|| name.clone())
    }

    /// Returns the module that declares what a path names, seen from a module; `None` where that is outside of the
    /// crate.
    fn resolve(&self, from: Id, path: &[String], chain: usize) -> Option<Id> {
        let (head, rest) = path.split_first()?;
        match head.as_str() {
            "crate" => self.walk(0, rest, chain),
            "self" => self.walk(from, rest, chain),
            "super" => self.walk(self.modules[from].parent, rest, chain),
            _ => {
                let module = &self.modules[from];
                let is_known = module.children.contains_key(head) || import(module, head).is_some();
                is_known.then(|| self.walk(from, path, chain)).flatten()
            }
        }
    }

    /// Follows names down from a module.
    fn walk(&self, from: Id, path: &[String], chain: usize) -> Option<Id> {
        let Some((name, rest)) = path.split_first() else { return Some(from) };
        let module = &self.modules[from];
        if name == "super" {
            return self.walk(module.parent, rest, chain);
        }
        if let Some(child) = module.children.get(name) {
            return self.walk(*child, rest, chain);
        }
        if module.declares.contains(name) {
            return Some(from);
        }
        let chain = chain.checked_sub(1)?;
        if let Some(stands_for) = import(module, name) {
            let path: Vec<String> = stands_for.iter().chain(rest).cloned().collect();
            return self.resolve(from, &path, chain);
        }
        let globs = module.uses.iter().filter(|import| import.name.is_none());
        globs.filter_map(|glob| self.resolve(from, &glob.path, chain)).find_map(|inside| {
            let there = &self.modules[inside];
            let is_there = there.children.contains_key(name)
                || there.declares.contains(name)
                || import(there, name).is_some();
            is_there.then(|| self.walk(inside, path, chain)).flatten()
        })
    }
}

fn import<'m>(module: &'m Module, name: &str) -> Option<&'m [String]> {
    let found = module.uses.iter().find(|import| import.name.as_deref() == Some(name))?;
    // `use name;` of another crate stands for itself.
    (found.path != [name]).then_some(&found.path)
}

/// The paths in code, in macros as well.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 || path.segments[0].ident == "crate" {
            self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // An import inside of a function.
        let mut before = Vec::new();
        use_paths(&item.tree, &mut before, &mut self.found);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        token_paths(called.tokens.clone(), &mut self.found);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in path)` and `pub(crate)` need nothing.
    }
}

fn use_paths(tree: &syn::UseTree, before: &mut Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            use_paths(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| use_paths(tree, before, found)),
        syn::UseTree::Glob(_) => _ = found.insert(before.clone()),
        syn::UseTree::Name(syn::UseName { ident, .. })
        | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
            found.insert(before.iter().cloned().chain([ident.to_string()]).collect());
        }
    }
}

/// Adds the paths of tokens that nobody parsed: identifiers with `::` between them.
fn token_paths(tokens: TokenStream, found: &mut BTreeSet<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    let mut end = |path: &mut Vec<String>| {
        let whole = std::mem::take(path);
        if whole.len() > 1 {
            found.insert(whole);
        }
    };
    let mut inside = Vec::new();
    let mut after_dollar = false;
    for token in tokens {
        // `$crate` is for the crates that expand the macro.
        let is_dollar = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '$');
        if std::mem::replace(&mut after_dollar, is_dollar) {
            end(&mut path);
            colons = 0;
            continue;
        }
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(ident.to_string());
                colons = 0;
            }
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    inside.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    for tokens in inside {
        token_paths(tokens, found);
    }
}
