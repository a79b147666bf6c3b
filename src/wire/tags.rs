//! Tagged fields (KIP-482): the section at the end of a struct that older readers skip.

use super::{Wire, Writer};

/// The tagged fields of one struct. The number of tagged fields comes before the fields on the wire.
pub struct Tags {
    count: u32,
    fields: Writer,
}

impl Tags {
    /// Adds a field. Tags come in ascending order, which is the order of their declarations.
    #[inline(never)]
    pub fn add(&mut self, tag: u32, field: &dyn Wire) {
        let mut body = Writer::new(self.fields.version, true);
        field.put(&mut body);
        self.count += 1;
        self.fields.uvarint(tag);
        self.fields.uvarint(body.buf.len() as u32);
        self.fields.append(body);
    }
}

impl Writer {
    /// Appends the tagged fields of a struct. `add` adds the fields.
    #[inline(never)]
    pub fn tags(&mut self, add: &dyn Fn(&mut Tags)) {
        if self.flexible {
            let mut tags = Tags { count: 0, fields: Writer::new(self.version, true) };
            add(&mut tags);
            self.uvarint(tags.count);
            self.append(tags.fields);
        }
    }
}
