//! Finds the place where a mutant is written: the expression, function body or match arm that selects it at run time.
//!
//! cargo-mutants replaces text, so the place of a mutant in `a + b * c` is the whole expression and not `b * c`: with
//! another operator the text may group differently.

use std::collections::HashMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::list::{Genre, Mutant};

#[derive(Debug, Clone)]
pub struct Place {
    pub kind: Kind,
    /// The range in bytes of the file; empty for an insertion.
    pub range: Range<usize>,
}

/// The kind of place. Ordered by nesting of places with equal ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Before the first statement of a function.
    Body,
    /// After the pattern of an arm without a guard.
    Unguarded,
    Guard,
    Expression,
}

/// The places of a file, by the offset at which the span of a mutant starts.
#[derive(Debug, Default)]
pub struct Places {
    all: Vec<Place>,
    operators: HashMap<usize, usize>,
    fields: HashMap<usize, usize>,
    arms: HashMap<usize, usize>,
    guards: HashMap<usize, usize>,
    /// Ranges evaluated at compile time, which cannot select a mutant.
    constant: Vec<Range<usize>>,
}

impl Places {
    pub fn of(source: &str) -> syn::Result<Places> {
        let file = syn::parse_file(source)?;
        let mut places = Places::default();
        places.visit_file(&file);
        Ok(places)
    }

    /// Returns the place of a mutant with the span `range`, or `None` if it cannot be selected at run time.
    pub fn of_mutant(&self, mutant: &Mutant, range: &Range<usize>) -> Option<Place> {
        // A function body may begin with a constant item.
        let is_body = mutant.genre == Genre::FnValue;
        let is_inside =
            |it: &Range<usize>| it.contains(&range.start) && !(is_body && it.start == range.start);
        if self.constant.iter().any(is_inside) {
            return None;
        }
        let found = match mutant.genre {
            Genre::FnValue if mutant.returns_inferred() => return None,
            Genre::FnValue => {
                return Some(Place {
                    kind: Kind::Body,
                    range: range.start..range.start,
                });
            }
            Genre::BinaryOperator | Genre::UnaryOperator => &self.operators,
            Genre::StructField => &self.fields,
            Genre::MatchArm => &self.arms,
            Genre::MatchArmGuard => &self.guards,
        };
        found.get(&range.start).map(|&at| self.all[at].clone())
    }

    fn add(&mut self, kind: Kind, range: Range<usize>) -> usize {
        self.all.push(Place { kind, range });
        self.all.len() - 1
    }

    /// Records the place for all operators of a tree of binary expressions, such as `a + b * c`.
    fn operators_of(&mut self, expression: &syn::Expr, place: usize) {
        if let syn::Expr::Binary(binary) = expression {
            self.operators.insert(start(binary.op.span()), place);
            self.operators_of(&binary.left, place);
            self.operators_of(&binary.right, place);
        }
    }

    /// Visits the operands of such a tree.
    fn operands_of(&mut self, expression: &syn::Expr) {
        match expression {
            syn::Expr::Binary(binary) => {
                self.operands_of(&binary.left);
                self.operands_of(&binary.right);
            }
            other => self.visit_expr(other),
        }
    }

    fn constant(&mut self, span: Span) {
        self.constant.push(span.byte_range());
    }
}

impl<'a> Visit<'a> for Places {
    fn visit_expr(&mut self, expression: &'a syn::Expr) {
        match expression {
            // The `&&` of `if let … && …` is not an operator, and a `let` cannot be put in parentheses.
            syn::Expr::Binary(_) if has_let(expression) => visit::visit_expr(self, expression),
            syn::Expr::Binary(_) => {
                let place = self.add(Kind::Expression, expression.span().byte_range());
                self.operators_of(expression, place);
                self.operands_of(expression);
            }
            syn::Expr::Unary(unary) => {
                let place = self.add(Kind::Expression, unary.span().byte_range());
                self.operators.insert(start(unary.op.span()), place);
                visit::visit_expr(self, expression);
            }
            syn::Expr::Struct(literal) => {
                let place = self.add(Kind::Expression, literal.span().byte_range());
                for field in &literal.fields {
                    self.fields.insert(start(field.span()), place);
                }
                visit::visit_expr(self, expression);
            }
            syn::Expr::Const(block) => self.constant(block.span()),
            other => visit::visit_expr(self, other),
        }
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        let place = match &arm.guard {
            Some((_, guard)) => {
                let range = guard.span().byte_range();
                let place = self.add(Kind::Guard, range.clone());
                self.guards.insert(range.start, place);
                place
            }
            None => {
                let end = arm.pat.span().byte_range().end;
                self.add(Kind::Unguarded, end..end)
            }
        };
        self.arms.insert(start(arm.span()), place);
        self.arms.insert(start(arm.pat.span()), place);
        visit::visit_arm(self, arm);
    }

    /// Patterns are skipped: a literal in a pattern looks like an expression.
    fn visit_pat(&mut self, _: &'a syn::Pat) {}

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        match item.sig.constness {
            Some(_) => self.constant(item.span()),
            None => visit::visit_item_fn(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        match item.sig.constness {
            Some(_) => self.constant(item.span()),
            None => visit::visit_impl_item_fn(self, item),
        }
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.constant(item.span());
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.constant(item.span());
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.constant(item.span());
    }

    fn visit_type_array(&mut self, array: &'a syn::TypeArray) {
        self.constant(array.len.span());
    }

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.constant(repeat.len.span());
        self.visit_expr(&repeat.expr);
    }
}

fn start(span: Span) -> usize {
    span.byte_range().start
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}
