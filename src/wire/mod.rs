//! Wire readers: provider streams in, [`Event`](crate::Event)s out.
