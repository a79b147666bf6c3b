//! The grammar that declares a message. One declaration covers all versions, and both encoding and decoding.
//!
//! ```text
//! message! {
//!     struct Request {
//!         group_id: String,                                   // in every version
//!         generation_id: i32 = -1,                            // with a default
//!         group_instance_id: Option<String> [3..],            // from version 3 on; null allowed
//!         topics: Option<Vec<Topic>> [0.., null 2..],         // null allowed from version 2 on
//!         cluster_id: Option<String> [12.., tag 0],           // a tagged field
//!     }
//! }
//! ```
//!
//! `message!` implements three traits for a struct: `Wire` (encoding and decoding), `Struct` (values by name, and a
//! description of the fields) and `Default`. An encoder writes a tagged field only if its value differs from the
//! default. Declare fields in wire order. Declare tagged fields after the other fields, ordered by tag.

/// Declares versioned messages. The module documentation describes the grammar.
#[macro_export]
macro_rules! message {
    ($( $(#[$meta:meta])* struct $name:ident { $(
        $(#[$fmeta:meta])* $f:ident : $t:ty $([ $($when:tt)* ])? $(= $default:expr)?
    ),* $(,)? } )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name { $( $(#[$fmeta])* pub $f: $t ),* }

        impl Default for $name {
            fn default() -> Self { Self { $( $f: $crate::or_default!($($default)?) ),* } }
        }

        impl $name {
            // One pointer to text for the whole struct: tables of names and versions would be three times as large.
            const DECLARED: &str = concat!(stringify!($name), ";", $(stringify!($f $([$($when)*])?), ";"),*);
            const HAS_TAGS: bool = false $(|| $crate::is_tagged!([$($($when)*)?]))*;
        }

        impl $crate::wire::Wire for $name {
            #[allow(unused_mut, unused_variables)]
            fn put(&self, w: &mut $crate::wire::Writer) {
                $( $crate::on_wire!(w.version, [$($($when)*)?], {
                    $crate::check_null!(w.version, [$($($when)*)?], self.$f, w.fail_null(stringify!($f)));
                    $crate::wire::Wire::put(&self.$f, w)
                }); )*
                if !Self::HAS_TAGS {
                    return w.no_tags();
                }
                let version = w.version;
                w.tags(&|tags| {
                    $( $crate::on_tag!(version, [$($($when)*)?], tag => {
                        let default: $t = $crate::or_default!($($default)?);
                        if self.$f != default {
                            tags.add(tag, &self.$f);
                        }
                    }); )*
                });
            }

            #[allow(unused_variables, non_camel_case_types, dead_code)]
            fn read(&mut self, r: &mut $crate::wire::Reader) -> Result<(), $crate::wire::Error> {
                // An error identifies its field by number, which is less code than a name for each field.
                enum At { $( $f ),* }
                let mut at = 0;
                let mut untagged = |r: &mut $crate::wire::Reader| {
                    $( $crate::on_wire!(r.version, [$($($when)*)?], {
                        at = At::$f as usize;
                        let offset = r.offset();
                        $crate::wire::Wire::read(&mut self.$f, r)?;
                        $crate::check_null!(r.version, [$($($when)*)?], self.$f,
                            return Err($crate::wire::Error::new($crate::wire::Reason::Null, offset)));
                    }); )*
                    Ok(())
                };
                if let Err(e) = untagged(r) {
                    return Err($crate::wire::Error::in_one_of(e, Self::DECLARED, at));
                }
                if !Self::HAS_TAGS {
                    return r.no_tags();
                }
                r.tags(Self::DECLARED, &mut |found, r| {
                    $( $crate::on_tag!(r.version, [$($($when)*)?], tag =>
                        if found == tag {
                            // A repeated tag replaces the earlier value.
                            self.$f = $crate::or_default!($($default)?);
                            return $crate::wire::Wire::read(&mut self.$f, r).map(|()| true);
                        }); )*
                    Ok(false)
                })
            }
        }

        impl $crate::wire::Struct for $name {
            fn fields(&mut self, walk: &mut $crate::wire::FieldWalk<'_>) {
                walk.begin(Self::DECLARED);
                $( $crate::show!(walk, [$($($when)*)?], self.$f, {
                    let default: $t = $crate::or_default!($($default)?);
                    self.$f == default
                }); )*
            }
        }
    )* };
}

/// Runs the body if the field is untagged and this version has it.
#[macro_export]
#[doc(hidden)]
macro_rules! on_wire {
    ($version:expr, [], $body:block) => { $body };
    ($version:expr, [tag $t:literal], $body:block) => {};
    ($version:expr, [null $n:expr], $body:block) => { $body };
    ($version:expr, [$range:expr, tag $t:literal], $body:block) => {};
    ($version:expr, [$range:expr, null $n:expr], $body:block) => {
        if ($range).contains(&$version) $body
    };
    ($version:expr, [$range:expr], $body:block) => { if ($range).contains(&$version) $body };
}

/// Runs the body with the tag number, if the field is tagged and this version has it.
#[macro_export]
#[doc(hidden)]
macro_rules! on_tag {
    ($version:expr, [tag $t:literal], $tag:ident => $body:expr) => {{
        let $tag = $t;
        $body
    }};
    ($version:expr, [$range:expr, tag $t:literal], $tag:ident => $body:expr) => {
        if ($range).contains(&$version) {
            let $tag = $t;
            $body
        }
    };
    ($version:expr, $other:tt, $tag:ident => $body:expr) => {};
}

/// Returns whether a field is tagged.
#[macro_export]
#[doc(hidden)]
macro_rules! is_tagged {
    ([tag $t:literal]) => {
        true
    };
    ([$range:expr, tag $t:literal]) => {
        true
    };
    ($other:tt) => {
        false
    };
}

/// Shows a field to a visitor. For a tagged field, also shows whether the field has its default.
#[macro_export]
#[doc(hidden)]
macro_rules! show {
    ($walk:expr, [$range:expr, tag $t:literal], $field:expr, $is_default:expr) => {
        {
            let is_default = $is_default;
            $crate::wire::Reflect::shape(&mut $field, &mut |shape| $walk.visit_field(is_default, shape))
        }
    };
    ($walk:expr, [tag $t:literal], $field:expr, $is_default:expr) => {
        $crate::show!($walk, [0.., tag $t], $field, $is_default)
    };
    ($walk:expr, $other:tt, $field:expr, $is_default:expr) => {
        $crate::wire::Reflect::show(&mut $field, $walk)
    };
}

/// Runs the action if a field is null in a version that does not allow null.
#[macro_export]
#[doc(hidden)]
macro_rules! check_null {
    ($version:expr, [null $n:expr], $field:expr, $action:expr) => {
        if $field.is_none() && !($n).contains(&$version) {
            $action
        }
    };
    ($version:expr, [$range:expr, null $n:expr], $field:expr, $action:expr) => {
        if $field.is_none() && !($n).contains(&$version) {
            $action
        }
    };
    ($version:expr, $other:tt, $field:expr, $action:expr) => {};
}

/// Returns the declared default, or the default of the type.
#[macro_export]
#[doc(hidden)]
macro_rules! or_default {
    () => {
        Default::default()
    };
    ($e:expr) => {
        $e
    };
}
