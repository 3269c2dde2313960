//! A crate's modules: what each declares, imports and re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token, UseTree};

/// A crate, as its sources have it.
#[derive(Default)]
pub(crate) struct Tree {
    /// Its modules, the root first.
    pub modules: Vec<Module>,
    /// Macros that are declared in some module and named from the root.
    pub exported_macros: BTreeSet<String>,
}

/// The number of a module in its tree.
pub(crate) type Id = usize;

/// A module, of its own file or inline.
pub(crate) struct Module {
    /// Its name with those above it; empty for the root.
    pub path: Vec<String>,
    /// The module above; the root's is itself.
    pub parent: Id,
    /// The module whose file it is written in: itself, unless it is inline.
    pub home: Id,
    /// Whether its file is `mod.rs`, `lib.rs` or `main.rs`.
    pub is_root_of_folder: bool,
    /// Modules in it.
    pub children: BTreeMap<String, Id>,
    /// Items that it declares.
    pub declares: BTreeSet<String>,
    /// Names that `use` brings in, and the path that each stands for.
    pub uses: Vec<Import>,
    /// The items, tests left out.
    pub items: Vec<Item>,
}

/// One name of a `use`.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// The name here; `None` for a glob.
    pub name: Option<String>,
    /// The path that it stands for.
    pub path: Vec<String>,
    /// Whether others can see it.
    pub is_re_export: bool,
}

impl Module {
    /// Returns its name for people.
    pub(crate) fn title(&self) -> String {
        if self.path.is_empty() { "the root".to_owned() } else { self.path.join("::") }
    }
}

/// Reads a crate from its `lib.rs` or `main.rs`.
pub(crate) fn read(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let folder = root.parent().unwrap_or(Path::new(".")).to_owned();
    tree.read_file(root, Vec::new(), None, &folder)?;
    Ok(tree)
}

impl Tree {
    /// Reads a module's file and those of the modules in it. `folder` is where the files of its children lie.
    fn read_file(
        &mut self,
        file: &Path,
        path: Vec<String>,
        parent: Option<Id>,
        folder: &Path,
    ) -> Result<Id, String> {
        let text =
            std::fs::read_to_string(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_root = matches!(&*stem, "mod" | "lib" | "main");
        self.add(parsed.items, path, parent, None, is_root, folder)
    }

    fn add(
        &mut self,
        items: Vec<Item>,
        path: Vec<String>,
        parent: Option<Id>,
        home: Option<Id>,
        is_root_of_folder: bool,
        folder: &Path,
    ) -> Result<Id, String> {
        let id = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            parent: parent.unwrap_or(id),
            home: home.unwrap_or(id),
            is_root_of_folder,
            children: BTreeMap::new(),
            declares: BTreeSet::new(),
            uses: Vec::new(),
            items: Vec::new(),
        });
        let home = self.modules[id].home;
        for item in items {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let below: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
                    let inside = folder.join(&name);
                    let child = match module.content {
                        Some((_, items)) => self.add(items, below, Some(id), Some(home), false, &inside)?,
                        None => {
                            let file = file_of(&module.attrs, folder, &name)?;
                            self.read_file(&file, below, Some(id), &inside)?
                        }
                    };
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(item) => {
                    let is_re_export = !matches!(item.vis, syn::Visibility::Inherited);
                    flatten(&item.tree, &mut Vec::new(), is_re_export, &mut self.modules[id].uses);
                }
                other => {
                    if let Item::Macro(item) = &other
                        && item.attrs.iter().any(|a| a.path().is_ident("macro_export"))
                    {
                        self.exported_macros.extend(name_of(&other));
                    }
                    self.modules[id].declares.extend(name_of(&other));
                    self.modules[id].items.push(other);
                }
            }
        }
        Ok(id)
    }
}

/// Returns the file of a module that is not inline.
fn file_of(attributes: &[Attribute], folder: &Path, name: &str) -> Result<PathBuf, String> {
    let given = attributes.iter().filter(|a| a.path().is_ident("path")).find_map(|a| match &a.meta {
        Meta::NameValue(syn::MetaNameValue { value: syn::Expr::Lit(lit), .. }) => match &lit.lit {
            syn::Lit::Str(path) => Some(folder.join(path.value())),
            _ => None,
        },
        _ => None,
    });
    let places = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
    let found = given.into_iter().chain(places).find(|file| file.is_file());
    found.ok_or_else(|| format!("{}: the module {name} has no file", folder.display()))
}

/// Adds the names that a tree of imports brings in.
fn flatten(tree: &UseTree, before: &mut Vec<String>, is_re_export: bool, into: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, is_re_export, into);
            before.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, is_re_export, into);
            }
        }
        UseTree::Glob(_) => into.push(Import { name: None, path: before.clone(), is_re_export }),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let (name, path) = match name.as_str() {
                "self" => (before.last().cloned(), before.clone()),
                _ => (Some(name.clone()), before.iter().cloned().chain([name]).collect()),
            };
            into.push(Import { name, path, is_re_export });
        }
        UseTree::Rename(rename) => {
            let path = match rename.ident.to_string().as_str() {
                "self" => before.clone(),
                name => before.iter().cloned().chain([name.to_owned()]).collect(),
            };
            into.push(Import { name: Some(rename.rename.to_string()), path, is_re_export });
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Const(i) => Some(i.ident.to_string()),
        Item::Enum(i) => Some(i.ident.to_string()),
        Item::Fn(i) => Some(i.sig.ident.to_string()),
        Item::Macro(i) => i.ident.as_ref().map(ToString::to_string),
        Item::Static(i) => Some(i.ident.to_string()),
        Item::Struct(i) => Some(i.ident.to_string()),
        Item::Trait(i) => Some(i.ident.to_string()),
        Item::TraitAlias(i) => Some(i.ident.to_string()),
        Item::Type(i) => Some(i.ident.to_string()),
        Item::Union(i) => Some(i.ident.to_string()),
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Returns whether an attribute leaves an item out of every build that is not a test.
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    if !attribute.path().is_ident("cfg") {
        return attribute.path().is_ident("test");
    }
    attribute.parse_args::<Meta>().is_ok_and(|condition| outside_of_tests(&condition) == Some(false))
}

/// Returns what a condition is in builds that are no tests; `None` where that depends on other things.
fn outside_of_tests(condition: &Meta) -> Option<bool> {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test").then_some(false);
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    let mut parts = parts.iter().map(outside_of_tests);
    if list.path.is_ident("not") {
        parts.next().flatten().map(|holds| !holds)
    } else {
        // One false part decides `all`, one true part decides `any`.
        let decides = list.path.is_ident("any");
        let parts: Vec<_> = parts.collect();
        if parts.contains(&Some(decides)) {
            Some(decides)
        } else {
            parts.iter().all(|part| *part == Some(!decides)).then_some(!decides)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_build_is_left_out() {
        let tests = |text: &str| {
            let item: syn::ItemMod = syn::parse_str(&format!("#[cfg({text})] mod a {{}}")).unwrap();
            item.attrs.iter().any(is_for_tests)
        };
        for yes in ["test", "all(test, not(loom))", "all(not(miri), test)", "any(test)"] {
            assert!(tests(yes), "{yes}");
        }
        for no in ["not(test)", "loom", "not(loom)", "any(test, feature = \"x\")", "all(unix, not(test))"] {
            assert!(!tests(no), "{no}");
        }
    }
}
