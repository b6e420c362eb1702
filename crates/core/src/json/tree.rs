//! All values of a JSON text, found in one pass: what each of them is called, where it is, and what is inside of it.

use std::borrow::Cow;
use std::iter;

use super::scan::{Scan, closing};

/// Most values of one text that are kept at hand: each takes memory.
pub(super) const VALUES_N_MAX: usize = 65_536;
/// Number of values that most bodies have at most.
const USUAL_N: usize = 32;

/// One value.
pub(super) struct Node<'a> {
    /// Empty where it is no member of an object.
    pub name: Cow<'a, str>,
    pub raw: &'a str,
    /// True for a text that stands for another one than it looks like.
    pub is_escaped: bool,
    /// True for an array or object whose values are in the tree.
    pub is_open: bool,
    /// Position behind it and all that is inside of it.
    end: usize,
}

/// The values of a text in its order, each before those inside of it.
pub(super) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    /// False where there are too many values, or a name is no text: what is inside of that array or object is left out,
    /// but for the members of the outermost object.
    pub is_whole: bool,
}

/// An array or object whose end is not reached yet.
struct Begun {
    node: usize,
    from: usize,
    close: u8,
    is_open: bool,
}

impl Node<'_> {
    /// The name, of which nothing is called on the way: each step of a pointer looks at all names of an object.
    #[inline]
    pub(super) fn name(&self) -> &str {
        match &self.name {
            Cow::Borrowed(name) => name,
            Cow::Owned(name) => name,
        }
    }
}

impl<'a> Tree<'a> {
    /// At most `n_max` values beside the members of the outermost object; `None` when `text` is not JSON, or a name in its outermost object is no text.
    pub(super) fn parse(text: &'a str, n_max: usize) -> Option<Self> {
        let mut tree = Self { nodes: Vec::with_capacity(USUAL_N), is_whole: true };
        let (mut scan, mut begun) = (Scan::new(text), Vec::<Begun>::new());
        loop {
            let mut name = Some(Cow::Borrowed(""));
            if begun.last().is_some_and(|within| within.close == b'}') {
                name = scan.name()?.decoded();
                if name.is_none() && begun.len() == 1 {
                    return None;
                }
            }
            let first = scan.next()?;
            let from = scan.place();
            // Every pointer begins at a member of the outermost object, however many there are.
            let is_outermost = begun.len() == 1 && begun.last().is_some_and(|within| within.close == b'}');
            let is_room = tree.nodes.len() < n_max;
            tree.is_whole &= is_room || !is_outermost;
            let is_kept = is_outermost || (is_room && begun.last().is_none_or(|within| within.is_open));
            match name.filter(|_| is_kept) {
                None => {
                    tree.leave_out(begun.last_mut()?);
                    scan.value()?;
                }
                Some(name) if matches!(first, b'{' | b'[') => {
                    let close = closing(first);
                    begun.push(Begun { node: tree.nodes.len(), from, close, is_open: true });
                    tree.push(name, "", false);
                    scan.step(first)?;
                    if scan.next()? != close {
                        continue;
                    }
                }
                Some(name) => {
                    let is_escaped = scan.single()?;
                    tree.push(name, scan.since(from)?, is_escaped);
                }
            }
            loop {
                let Some(within) = begun.last() else { return scan.next().is_none().then_some(tree) };
                let byte = scan.next()?;
                scan.step(byte)?;
                if byte == within.close {
                    tree.end(within, scan.since(within.from)?)?;
                    begun.pop();
                } else if byte == b',' {
                    break;
                } else {
                    return None;
                }
            }
        }
    }

    fn push(&mut self, name: Cow<'a, str>, raw: &'a str, is_escaped: bool) {
        let end = self.nodes.len() + 1;
        self.nodes.push(Node { name, raw, is_escaped, is_open: false, end });
    }

    fn end(&mut self, begun: &Begun, raw: &'a str) -> Option<()> {
        let end = self.nodes.len();
        let node = self.nodes.get_mut(begun.node)?;
        (node.raw, node.is_open, node.end) = (raw, begun.is_open, end);
        Some(())
    }

    /// Leaves out all that is inside of this array or object.
    fn leave_out(&mut self, within: &mut Begun) {
        self.nodes.truncate(within.node + 1);
        (within.is_open, self.is_whole) = (false, false);
    }

    /// The value at a position; that at 0 is the whole text.
    #[inline]
    pub(super) fn get(&self, node: usize) -> Option<&Node<'a>> {
        self.nodes.get(node)
    }

    /// The values that an array or object consists of, in their order, with their positions.
    pub(super) fn inside(&self, node: usize) -> impl Iterator<Item = (usize, &Node<'a>)> {
        let end = self.get(node).map_or(node, |node| node.end);
        let mut next = node + 1;
        iter::from_fn(move || {
            let here = next;
            let node = self.get(here).filter(|_| here < end)?;
            next = node.end;
            Some((here, node))
        })
    }
}
