//! One source file as the architecture test sees it: its modules, its imports, and every path it names.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

/// A path as it is written, in segments; `*` at the end of a glob import.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written {
    pub segments: Vec<String>,
    pub line: usize,
}

/// What an import is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Import {
    /// `use`: for this file.
    Private,
    /// `pub use`: for others. No use in itself, if it passes on what a child defines.
    Public,
}

/// What a file says about its neighbours.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// `mod child;`
    pub children: BTreeSet<String>,
    /// `mod child { … }` that is not a test.
    pub inline_modules: Vec<String>,
    /// Imports by the name they have here.
    pub imports: BTreeMap<String, (Written, Import)>,
    /// `use path::*`
    pub globs: Vec<Written>,
    /// Every path in types, expressions, patterns, attributes and macros.
    pub paths: Vec<Written>,
    /// Names of items that are defined here.
    pub items: BTreeSet<String>,
}

impl Source {
    /// Reads a file. What only tests see (`#[cfg(test)]`) is left out.
    pub(super) fn read(text: &str) -> syn::Result<Self> {
        let mut reader = Self::default();
        for item in syn::parse_file(text)?.items {
            reader.visit_item(&item);
        }
        Ok(reader)
    }

    fn import(&mut self, tree: &UseTree, before: &[String], import: Import) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => {
                self.import(&path.tree, &with(path.ident.to_string()), import);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before, import));
            }
            UseTree::Name(name) => {
                self.name(
                    name.ident.to_string(),
                    with(name.ident.to_string()),
                    name.ident.span(),
                    import,
                );
            }
            UseTree::Rename(name) => {
                self.name(
                    name.rename.to_string(),
                    with(name.ident.to_string()),
                    name.ident.span(),
                    import,
                );
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.globs.push(Written { segments: before.to_vec(), line });
            }
        }
    }

    fn name(&mut self, name: String, mut segments: Vec<String>, span: Span, import: Import) {
        let mut name = name;
        // `use a::b::{self}` is called `b`.
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
            if name == "self" {
                name = segments.last().cloned().unwrap_or_default();
            }
        }
        let line = span.start().line;
        // Several traits may be imported as `_`.
        let name = if name == "_" { format!("_{line}:{}", span.start().column) } else { name };
        self.imports.insert(name, (Written { segments, line }, import));
    }

    /// Every `a::b::c` in what a macro gets.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Option<Written> = None;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    let segment = ident.to_string();
                    match &mut path {
                        Some(path) if colons == 2 => path.segments.push(segment),
                        _ => {
                            self.paths.extend(path.take());
                            let line = ident.span().start().line;
                            path = Some(Written { segments: vec![segment], line });
                        }
                    }
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.paths.extend(path.take());
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Literal(literal) => {
                            self.path_in_text(&literal.to_string(), literal.span());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.paths.extend(path);
    }

    /// `#[serde(with = "crate::somewhere")]`
    fn path_in_text(&mut self, literal: &str, span: Span) {
        let text = literal.trim_matches('"');
        if text.contains("::")
            && let Ok(path) = syn::parse_str::<syn::Path>(text)
        {
            self.path(&path, span);
        }
    }

    fn path(&mut self, path: &syn::Path, span: Span) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.paths.push(Written { segments, line: span.start().line });
    }
}

fn only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        if !only_for_tests(attributes(item)) {
            self.items.extend(name(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_some() {
            self.inline_modules.push(name);
        } else {
            self.children.insert(name);
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let import = match item.vis {
            Visibility::Inherited => Import::Private,
            _ => Import::Public,
        };
        self.import(&item.tree, &[], import);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            self.path(path, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    /// `pub(crate)` names nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_macro(&mut self, macro_: &'ast Macro) {
        self.tokens(macro_.tokens.clone());
        visit::visit_macro(self, macro_);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            syn::Meta::List(list) => self.tokens(list.tokens.clone()),
            // `#[doc = "…"]` is a comment.
            syn::Meta::Path(_) | syn::Meta::NameValue(_) => {}
        }
        visit::visit_attribute(self, attribute);
    }
}
