//! A source file with all of its mutants in it, each as a branch that a switch leads to.
//!
//! Nothing is replaced: text is put in before and behind, so mutants may stand within each other. The branch of a mutant has the
//! text as it was, since only one is switched on.

use std::collections::HashSet;

use proc_macro2::{LineColumn, Span};
use syn::{
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::mutant::{Genre, Mutant, Position};

/// The new text, and which of `mutants` are in it. A function in `constants` stays `const`.
pub(crate) fn put_in(
    text: &str,
    mutants: &[&Mutant],
    constants: &HashSet<String>,
) -> (String, HashSet<u32>) {
    let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut file = File {
        text,
        lines,
        mutants,
        constants,
        in_constant: false,
        parts: Vec::new(),
        put_in: HashSet::new(),
    };
    file.visit_file(&syn::parse_file(text).expect("a source file"));
    file.parts.sort_by_key(|part| (part.at, part.place));
    let (mut new, mut from) = (String::new(), 0);
    for part in &file.parts {
        new.push_str(&text[from..part.at]);
        new.push_str(&part.text);
        from = part.at;
    }
    new.push_str(&text[from..]);
    (new, file.put_in)
}

/// Of what is put in at one place: what ends there comes first, the inmost before the others; what begins there comes last, and
/// the outmost first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Ends(usize),
    Between,
    Begins(std::cmp::Reverse<usize>),
}

struct Part {
    at: usize,
    place: Place,
    text: String,
}

struct File<'a> {
    text: &'a str,
    lines: Vec<usize>,
    mutants: &'a [&'a Mutant],
    constants: &'a HashSet<String>,
    in_constant: bool,
    parts: Vec<Part>,
    put_in: HashSet<u32>,
}

impl<'a> File<'a> {
    fn offset(&self, at: LineColumn) -> usize {
        let line = self.lines[at.line - 1];
        let rest = &self.text[line..];
        line + rest.char_indices().nth(at.column).map_or(rest.len(), |(bytes, _)| bytes)
    }

    fn ends(&self, of: &impl Spanned) -> (usize, usize) {
        (self.offset(of.span().start()), self.offset(of.span().end()))
    }

    fn text_of(&self, of: &impl Spanned) -> &'a str {
        let (from, to) = self.ends(of);
        &self.text[from..to]
    }

    fn at(&mut self, span: Span, genre: Genre) -> Vec<&'a Mutant> {
        if self.in_constant {
            return Vec::new();
        }
        let start = Position { line: span.start().line, column: span.start().column + 1 };
        let here: Vec<&Mutant> = self
            .mutants
            .iter()
            .copied()
            .filter(|it| it.genre == genre && it.span.start == start)
            .collect();
        self.put_in.extend(here.iter().map(|it| it.id));
        here
    }

    /// `(if on(1) {…} else if on(2) {…} else {as it was})`; `layer` orders two that are around the same text.
    fn choose(
        &mut self,
        around: &impl Spanned,
        layer: usize,
        branches: impl IntoIterator<Item = (u32, String)>,
    ) {
        let mut before = String::new();
        for (id, branch) in branches {
            before.push_str(&format!("if crate::switch::on({id}) {{ {branch} }} else "));
        }
        if !before.is_empty() {
            self.surround(around, layer, format!("({before}{{ "), " })");
        }
    }

    fn surround(&mut self, around: &impl Spanned, layer: usize, before: String, behind: &str) {
        let (from, to) = self.ends(around);
        let width = (to - from) * 4 + layer;
        self.parts.push(Part {
            at: from,
            place: Place::Begins(std::cmp::Reverse(width)),
            text: before,
        });
        self.parts.push(Part { at: to, place: Place::Ends(width), text: behind.to_owned() });
    }

    fn insert(&mut self, at: usize, text: String) {
        self.parts.push(Part { at, place: Place::Between, text });
    }

    fn without(&mut self, constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_constant, constant);
        visit(self);
        self.in_constant = before;
    }
}

impl<'a> Visit<'a> for File<'_> {
    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.without(true, |it| visit::visit_item_const(it, item));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.without(true, |it| visit::visit_impl_item_const(it, item));
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.without(true, |it| visit::visit_item_static(it, item));
    }

    // A switch is read while the program runs, which a constant function may not do.
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        let constant =
            item.sig.constness.is_some() && self.constants.contains(&item.sig.ident.to_string());
        self.without(constant, |it| visit::visit_item_fn(it, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        let constant =
            item.sig.constness.is_some() && self.constants.contains(&item.sig.ident.to_string());
        self.without(constant, |it| visit::visit_impl_item_fn(it, item));
    }

    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        if let Some(constness) = &signature.constness
            && !self.in_constant
        {
            let (from, to) = self.ends(constness);
            self.insert(from, "/* ".to_owned());
            self.insert(to, " */".to_owned());
        }
        visit::visit_signature(self, signature);
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        if let Some(first) = block.stmts.first() {
            let begin = self.offset(block.brace_token.span.open().end());
            for mutant in self.at(first.span(), Genre::FnValue) {
                self.insert(
                    begin,
                    format!(
                        "if crate::switch::on({}) {{ return {}; }}",
                        mutant.id, mutant.replacement
                    ),
                );
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, it: &'a syn::ExprBinary) {
        // A chain with `let` is no expression that could be a branch.
        if !has_let(&it.left) && !has_let(&it.right) {
            let (left, right) = (self.text_of(&it.left), self.text_of(&it.right));
            let here = self.at(it.op.span(), Genre::BinaryOperator);
            self.choose(
                it,
                0,
                here.iter()
                    .map(|mutant| (mutant.id, format!("{left} {} {right}", mutant.replacement))),
            );
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'a syn::ExprUnary) {
        let of = self.text_of(&it.expr);
        let here = self.at(it.op.span(), Genre::UnaryOperator);
        self.choose(
            it,
            0,
            here.iter().map(|mutant| (mutant.id, format!("{} {of}", mutant.replacement))),
        );
        visit::visit_expr_unary(self, it);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        if let Some(guard) = guard {
            let here = self.at(guard.span(), Genre::MatchArmGuard);
            self.choose(
                guard,
                1,
                here.iter().map(|mutant| (mutant.id, mutant.replacement.clone())),
            );
        }
        for mutant in self.at(arm.span(), Genre::MatchArm) {
            let off = format!("!crate::switch::on({})", mutant.id);
            match guard {
                Some(guard) => self.surround(guard, 2, format!("{off} && ("), ")"),
                None => {
                    let end = self.ends(&arm.pat).1;
                    self.insert(end, format!(" if {off} "));
                }
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, it: &'a syn::ExprStruct) {
        let (from, to) = self.ends(it);
        let mut branches = Vec::new();
        for field in &it.fields {
            let (begin, end) = self.ends(field);
            let rest = self.text[end..to].trim_start();
            let rest = rest.strip_prefix(',').unwrap_or(rest);
            let without = format!("{}{rest}", &self.text[from..begin]);
            branches.extend(
                self.at(field.span(), Genre::StructField)
                    .iter()
                    .map(|mutant| (mutant.id, without.clone())),
            );
        }
        self.choose(it, 0, branches);
        visit::visit_expr_struct(self, it);
    }
}

fn has_let(expression: &syn::Expr) -> bool {
    struct Lets(bool);
    impl<'a> Visit<'a> for Lets {
        fn visit_expr_let(&mut self, _: &'a syn::ExprLet) {
            self.0 = true;
        }
        // Those within are of another chain.
        fn visit_block(&mut self, _: &'a syn::Block) {}
    }
    let mut lets = Lets(false);
    lets.visit_expr(expression);
    lets.0
}
