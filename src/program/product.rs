//! The products of the matchers that read the text of a channel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ttsr_automata::product::{Emission, FilterStep, Product, ProductState, TextFilter};
use ttsr_views::markdown::{VerbatimEmission, VerbatimState};

/// The most products of a channel. The regions that a text alternates between are few.
const MAX_PRODUCTS: usize = 8;

/// Views of a channel, by their indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewSet(u64);

impl ViewSet {
    /// Adds a view. Returns false if its index is too large for a set.
    pub(crate) fn insert(&mut self, index: usize) -> bool {
        let bit = u32::try_from(index)
            .ok()
            .and_then(|at| 1u64.checked_shl(at));
        self.0 |= bit.unwrap_or_default();
        bit.is_some()
    }
}

/// The regions of Markdown that the rules of a channel distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkdownUse {
    None,
    /// All but headings, which are read like other prose.
    HeadingsAreProse,
    /// All.
    Regions,
}

/// The products of a channel.
#[derive(Debug)]
pub(crate) struct ProductCache {
    /// Accepts the text that the views emit unchanged.
    filter: TextFilter,
    products: Mutex<Vec<ViewProduct>>,
    /// False if the rules never allow the start of a part to be stepped by a product.
    has_start: AtomicBool,
    /// True if a part of the channel has begun.
    has_begun: AtomicBool,
}

/// The state of the matchers at the start of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOfPart {
    pub(crate) state: ProductState,
    /// The state of Markdown, if the rules of the channel distinguish its regions.
    pub(crate) markdown: Option<VerbatimState>,
    /// The number of bytes within which no detector can report.
    pub(crate) until_report: usize,
    /// The most bytes before the end of the text in which a match of a rule that holds may be in progress, if they are bounded.
    pub(crate) held_reach: Option<usize>,
}

/// The product of the matchers of some views.
#[derive(Debug)]
struct ViewProduct {
    views: ViewSet,
    current: Arc<Product>,
    /// The one before, while a stream uses it.
    previous: Weak<Product>,
    /// The state in `current` at the start of a part, if these views read it and the state is known.
    start: Option<StartOfPart>,
}

impl ProductCache {
    /// Returns an empty cache for text that is read in this way.
    pub(crate) fn new(markdown: MarkdownUse) -> ProductCache {
        ProductCache {
            filter: TextFilter {
                after: match markdown {
                    MarkdownUse::None => |state, _| {
                        let emits = Emission::Char;
                        Some(FilterStep { state, emits })
                    },
                    MarkdownUse::Regions => |state, byte| markdown_step(state, byte, false),
                    MarkdownUse::HeadingsAreProse => |state, byte| markdown_step(state, byte, true),
                },
                is_settled: match markdown {
                    MarkdownUse::None => |_| true,
                    MarkdownUse::Regions | MarkdownUse::HeadingsAreProse => |state| {
                        VerbatimState::from_index(state).is_some_and(VerbatimState::is_settled)
                    },
                },
            },
            products: Mutex::default(),
            has_start: AtomicBool::new(true),
            has_begun: AtomicBool::new(false),
        }
    }

    /// Returns the product of these views. Returns `None` if there are too many others.
    pub(crate) fn get(&self, views: ViewSet) -> Option<Arc<Product>> {
        let mut products = self.lock();
        if let Some(known) = products.iter().find(|it| it.views == views) {
            return Some(Arc::clone(&known.current));
        }
        if products.len() == MAX_PRODUCTS {
            return None;
        }
        let product = Arc::new(Product::new(self.filter));
        products.push(ViewProduct {
            views,
            current: Arc::clone(&product),
            previous: Weak::new(),
            start: None,
        });
        Some(product)
    }

    /// Returns the product of these views that takes the place of `spent`. Returns `None` while a stream uses the one before
    /// `spent`: there are never more than two, so memory is bounded.
    pub(crate) fn replace(&self, views: ViewSet, spent: &Arc<Product>) -> Option<Arc<Product>> {
        let mut products = self.lock();
        let known = products.iter_mut().find(|it| it.views == views)?;
        if Arc::ptr_eq(&known.current, spent) {
            if known.previous.strong_count() > 0 {
                return None;
            }
            known.previous = Arc::downgrade(spent);
            known.current = Arc::new(Product::new(self.filter));
            known.start = None;
        }
        // Otherwise another stream has replaced it.
        Some(Arc::clone(&known.current))
    }

    /// Returns false after [`exclude_start`](Self::exclude_start).
    pub(crate) fn has_start(&self) -> bool {
        self.has_start.load(Ordering::Relaxed)
    }

    /// Records that a part of the channel begins. Returns true if one has begun before.
    pub(crate) fn begins_again(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Records that the rules never allow the start of a part to be stepped by a product.
    pub(crate) fn exclude_start(&self) {
        self.has_start.store(false, Ordering::Relaxed);
    }

    /// Returns the state at the start of a part with its product and the views that read it, if it is known.
    pub(crate) fn start(&self) -> Option<(ViewSet, Arc<Product>, StartOfPart)> {
        let products = self.lock();
        products
            .iter()
            .find_map(|it| Some((it.views, Arc::clone(&it.current), it.start?)))
    }

    /// Sets the state at the start of a part. The same views read every part at its start.
    pub(crate) fn set_start(&self, views: ViewSet, product: &Arc<Product>, start: StartOfPart) {
        let mut products = self.lock();
        // Otherwise the product has been replaced.
        let known = products
            .iter_mut()
            .find(|it| it.views == views && Arc::ptr_eq(&it.current, product));
        if let Some(known) = known {
            known.start = Some(start);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ViewProduct>> {
        // Nothing that can panic stands between two changes that belong together.
        self.products.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the step of the filter for Markdown. Without `headings` it has no transition where one may begin or end.
fn markdown_step(state: u8, byte: u8, headings: bool) -> Option<FilterStep> {
    let before = VerbatimState::from_index(state)?;
    let after = before.after(byte)?;
    if !headings && before.changes_heading(after) {
        return None;
    }
    Some(FilterStep {
        state: after.index(),
        emits: match before.emits(after) {
            VerbatimEmission::Byte => Emission::Char,
            VerbatimEmission::Nothing => Emission::Nothing,
            VerbatimEmission::MarksAndByte(marks) => Emission::HeldAndChar(b'#', marks),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(index: usize) -> ViewSet {
        let mut views = ViewSet::default();
        assert!(views.insert(index));
        views
    }

    #[test]
    fn there_are_few_products_of_a_channel() {
        let cache = ProductCache::new(MarkdownUse::Regions);
        for index in 0..MAX_PRODUCTS {
            assert!(cache.get(set(index)).is_some());
        }
        assert!(cache.get(set(MAX_PRODUCTS)).is_none());
        assert!(cache.get(set(0)).is_some());
        assert!(!ViewSet::default().insert(64));
    }

    #[test]
    fn a_product_is_replaced_unless_a_stream_uses_the_one_before_it() {
        let cache = ProductCache::new(MarkdownUse::None);
        let first = cache.get(set(1)).unwrap();
        let second = cache.replace(set(1), &first).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        // Another stream still has the first one.
        assert!(Arc::ptr_eq(
            &cache.replace(set(1), &first).unwrap(),
            &second
        ));
        assert!(cache.replace(set(1), &second).is_none());
        drop(first);
        assert!(cache.replace(set(1), &second).is_some());
        assert!(cache.replace(set(2), &second).is_none());
    }
}
