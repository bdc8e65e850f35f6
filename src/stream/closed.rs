//! The closed parts of a stream, reduced to the facts that may still be asked for.
//!
//! A part takes at most 18 bytes. One with a tool, a call or a file takes 36 more, and the names.

use crate::rule::Channel;
use crate::verdict::PartId;

/// The closed parts of a stream.
#[derive(Debug, Default)]
pub(super) struct ClosedParts {
    /// Sorted by id.
    parts: Vec<ClosedPart>,
    /// Sorted by id; only parts that have names.
    names: Vec<PartNames>,
}

/// A closed part. The number of its bytes is stored in two halves, which avoids padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedPart {
    id: PartId,
    delivered: [u32; 2],
    channel: Channel,
}

/// The names of a part: tool, call and file, concatenated. An empty name is not known.
#[derive(Debug)]
struct PartNames {
    id: PartId,
    /// The ends in `text` of the name of the tool and of the id of the call.
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
    /// Adds a part, which must not be present yet.
    pub(super) fn insert(
        &mut self,
        part: ClosedPart,
        tool: Option<&str>,
        call: Option<&str>,
        path: Option<&str>,
    ) {
        let index = self.parts.partition_point(|known| known.id < part.id);
        insert(&mut self.parts, index, part);
        let [tool, call, path] = [tool, call, path].map(Option::unwrap_or_default);
        let ends = [tool.len(), tool.len() + call.len()].map(u32::try_from);
        let ([Ok(tool_end), Ok(call_end)], false) =
            (ends, tool.len() + call.len() + path.len() == 0)
        else {
            return;
        };
        let index = self.names.partition_point(|known| known.id < part.id);
        let names = PartNames {
            id: part.id,
            ends: [tool_end, call_end],
            text: [tool, call, path].concat().into_boxed_str(),
        };
        insert(&mut self.names, index, names);
    }

    pub(super) fn get(&self, id: PartId) -> Option<&ClosedPart> {
        let index = self
            .parts
            .binary_search_by_key(&id, |known| known.id)
            .ok()?;
        Some(&self.parts[index])
    }

    pub(super) fn tool(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| &names.text[..names.ends[0] as usize])
    }

    pub(super) fn call_id(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| {
            &names.text[names.ends[0] as usize..names.ends[1] as usize]
        })
    }

    pub(super) fn path(&self, id: PartId) -> Option<&str> {
        self.name(id, |names| &names.text[names.ends[1] as usize..])
    }

    fn name<'n>(
        &'n self,
        id: PartId,
        select: impl FnOnce(&'n PartNames) -> &'n str,
    ) -> Option<&'n str> {
        let index = self
            .names
            .binary_search_by_key(&id, |known| known.id)
            .ok()?;
        Some(select(&self.names[index])).filter(|name| !name.is_empty())
    }
}

/// Inserts an element. Grows the vector by an eighth instead of doubling it, because a stream may have thousands of
/// parts.
fn insert<T>(list: &mut Vec<T>, index: usize, element: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(4.max(list.len() / 8));
    }
    list.insert(index, element);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_parts_are_remembered_in_any_order_of_closing() {
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
                (closed.tool(id), closed.call_id(id), closed.path(id)),
                (tool, call, path)
            );
        }
        assert!(closed.get(PartId(1)).is_none() && closed.tool(PartId(2)).is_none());
        assert_eq!(size_of::<ClosedPart>(), 16);
    }
}
