//! The products of the matchers that read the text of a channel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ttsr_automata::{Product, TextFilter};
use ttsr_views::fence::Passing;

/// The most products of a channel. The regions that a text alternates between are few.
const MAX_PRODUCTS: usize = 8;

/// The states of the filter.
const PASSING: [Passing; 3] = [Passing::Line, Passing::Paragraph, Passing::LineStart];

/// The products of a channel.
#[derive(Debug)]
pub(crate) struct ProductCache {
    /// The text that the views pass on unchanged.
    filter: TextFilter,
    /// The products by the views whose matchers they step, as bits of the indices of the views.
    products: Mutex<Vec<(u64, Arc<Product>)>>,
}

impl ProductCache {
    /// Returns an empty cache. `has_markdown` tells whether a rule of the channel distinguishes regions of Markdown.
    pub(crate) fn new(has_markdown: bool) -> ProductCache {
        ProductCache {
            filter: match has_markdown {
                true => |state, byte| PASSING[usize::from(state)].after(byte).map(|it| it as u8),
                false => |state, _| Some(state),
            },
            products: Mutex::default(),
        }
    }

    /// Returns the product of these views. Returns `None` if there are too many others.
    pub(crate) fn get(&self, views: u64) -> Option<Arc<Product>> {
        let mut products = self.lock();
        let known = products.iter().find(|(of, _)| *of == views);
        if let Some((_, product)) = known {
            return Some(Arc::clone(product));
        }
        if products.len() == MAX_PRODUCTS {
            return None;
        }
        let product = Arc::new(Product::new(self.filter));
        products.push((views, Arc::clone(&product)));
        Some(product)
    }

    /// Returns the product of these views that takes the place of `spent`.
    pub(crate) fn replace(&self, views: u64, spent: &Arc<Product>) -> Arc<Product> {
        let mut products = self.lock();
        let known = products.iter_mut().find(|(of, _)| *of == views);
        match known {
            // Another stream has replaced it.
            Some((_, product)) if !Arc::ptr_eq(product, spent) => Arc::clone(product),
            Some((_, product)) => {
                *product = Arc::new(Product::new(self.filter));
                Arc::clone(product)
            }
            None => Arc::clone(spent),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Arc<Product>)>> {
        // Nothing above panics between two changes that belong together.
        self.products.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
