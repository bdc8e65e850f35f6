//! Parts that were closed: what may still be asked about them, and nothing more.
//!
//! Memory: 18 bytes for each, and for one with a tool, a call or a file 36 more and their names.

use crate::rule::Channel;
use crate::verdict::PartId;

/// The closed parts of a stream.
#[derive(Debug, Default)]
pub(super) struct ClosedParts {
    /// Sorted by id.
    parts: Vec<ClosedPart>,
    /// Sorted by id, of the parts that have names.
    names: Vec<Names>,
}

/// A closed part. The number of its bytes is in halves, which need no padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedPart {
    id: PartId,
    delivered: [u32; 2],
    channel: Channel,
}

/// What a part was called: tool, call and file, one after the other; empty ones are not known.
#[derive(Debug)]
struct Names {
    id: PartId,
    /// Where the name of the tool ends, and that of the call.
    ends: [u32; 2],
    text: Box<str>,
}

impl ClosedPart {
    pub(super) fn new(id: PartId, channel: Channel, delivered: u64) -> ClosedPart {
        ClosedPart {
            id,
            delivered: [delivered as u32, (delivered >> 32) as u32],
            channel,
        }
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel
    }

    pub(super) fn delivered(&self) -> u64 {
        u64::from(self.delivered[1]) << 32 | u64::from(self.delivered[0])
    }
}

impl ClosedParts {
    /// Keeps a part that is not there. An absent name is not known.
    pub(super) fn insert(
        &mut self,
        part: ClosedPart,
        tool: Option<&str>,
        call: Option<&str>,
        path: Option<&str>,
    ) {
        let place = self.parts.partition_point(|known| known.id < part.id);
        insert(&mut self.parts, place, part);
        let [tool, call, path] = [tool, call, path].map(Option::unwrap_or_default);
        let ends = [tool.len(), tool.len() + call.len()].map(u32::try_from);
        let ([Ok(of_tool), Ok(of_call)], false) = (ends, tool.len() + call.len() + path.len() == 0)
        else {
            return;
        };
        let place = self.names.partition_point(|known| known.id < part.id);
        let names = Names {
            id: part.id,
            ends: [of_tool, of_call],
            text: [tool, call, path].concat().into_boxed_str(),
        };
        insert(&mut self.names, place, names);
    }

    pub(super) fn get(&self, id: PartId) -> Option<&ClosedPart> {
        let place = self
            .parts
            .binary_search_by_key(&id, |known| known.id)
            .ok()?;
        Some(&self.parts[place])
    }

    pub(super) fn tool(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| &names.text[..names.ends[0] as usize])
    }

    pub(super) fn call(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| {
            &names.text[names.ends[0] as usize..names.ends[1] as usize]
        })
    }

    pub(super) fn path(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| &names.text[names.ends[1] as usize..])
    }

    fn name<'n>(&'n self, id: PartId, of: impl FnOnce(&'n Names) -> &'n str) -> Option<&'n str> {
        let place = self
            .names
            .binary_search_by_key(&id, |known| known.id)
            .ok()?;
        Some(of(&self.names[place])).filter(|name| !name.is_empty())
    }
}

/// Inserts without making twice the room that is needed: there may be very many.
fn insert<T>(list: &mut Vec<T>, place: usize, new: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(4.max(list.len() / 8));
    }
    list.insert(place, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_of_a_part_is_known_in_whatever_order_parts_close() {
        let mut closed = ClosedParts::default();
        let calls = [
            (7, Some("bash"), Some("call_1"), None),
            (2, None, None, None),
            (u32::MAX, Some("edit"), None, Some("a/b.rs")),
            (0, None, Some("c"), Some("x")),
        ];
        for (id, tool, call, path) in calls {
            let delivered = u64::from(id) << 9;
            let part = ClosedPart::new(PartId(id), Channel::ToolInput, delivered);
            closed.insert(part, tool, call, path);
        }
        for (id, tool, call, path) in calls {
            let id = PartId(id);
            let part = closed.get(id).unwrap();
            assert_eq!(
                (part.channel(), part.delivered()),
                (Channel::ToolInput, u64::from(id.0) << 9)
            );
            assert_eq!(
                (closed.tool(id), closed.call(id), closed.path(id)),
                (tool, call, path)
            );
        }
        assert!(closed.get(PartId(1)).is_none() && closed.tool(PartId(2)).is_none());
        assert_eq!(size_of::<ClosedPart>(), 16);
    }
}
