//! The grammar in which messages are declared: once, for every version, in both directions.
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
//! A struct gets `Wire` (bytes), `Struct` (values by name and a description, for tools and Python) and `Default`.
//! Tagged fields are written when they differ from their default. Fields are listed in wire order, tagged ones behind
//! them by rising tag.

/// Declares versioned messages; see the top of this file.
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

        impl $crate::wire::Wire for $name {
            #[allow(unused_mut, unused_variables)]
            fn put(&self, w: &mut $crate::wire::Writer) {
                $( $crate::on_wire!(w.version, [$($($when)*)?], {
                    $crate::check_null!(w.version, [$($($when)*)?], self.$f, w.fail_null(stringify!($f)));
                    $crate::wire::Wire::put(&self.$f, w)
                }); )*
                if w.flexible {
                    let default = Self::default();
                    let mut tags = $crate::wire::Tags::default();
                    $( $crate::on_tag!(w.version, [$($($when)*)?], tag =>
                        if self.$f != default.$f {
                            tags.add(w, tag, &|w| $crate::wire::Wire::put(&self.$f, w));
                        }); )*
                    tags.finish(w);
                }
            }

            #[allow(unused_mut, unused_variables)]
            fn get(r: &mut $crate::wire::Reader) -> Result<Self, $crate::wire::Error> {
                let mut m = Self::default();
                $( $crate::on_wire!(r.version, [$($($when)*)?], {
                    let at = r.offset();
                    m.$f = match $crate::wire::Wire::get(r) {
                        Ok(v) => v,
                        Err(e) => return Err(e.within($crate::wire::Step::Field(stringify!($f)))),
                    };
                    $crate::check_null!(r.version, [$($($when)*)?], m.$f,
                        return Err($crate::wire::Error::new($crate::wire::Reason::Null, at)
                            .within($crate::wire::Step::Field(stringify!($f)))));
                }); )*
                r.tags(&mut |found, r| {
                    $( $crate::on_tag!(r.version, [$($($when)*)?], tag =>
                        if found == tag {
                            match $crate::wire::Wire::get(r) {
                                Ok(v) => m.$f = v,
                                Err(e) => return Err(e.within($crate::wire::Step::Field(stringify!($f)))),
                            }
                            return Ok(true);
                        }); )*
                    Ok(false)
                })?;
                Ok(m)
            }
        }

        impl $crate::wire::Struct for $name {
            fn name(&self) -> &'static str { stringify!($name) }

            #[allow(unused_variables)]
            fn fields(
                &mut self,
                see: &mut dyn FnMut(&'static $crate::wire::Field, bool, &mut dyn $crate::wire::Reflect),
            ) {
                let default = Self::default();
                $( see(
                    const { &$crate::field!(stringify!($f), [$($($when)*)?]) },
                    $crate::is_default!([$($($when)*)?], self.$f == default.$f),
                    &mut self.$f,
                ); )*
            }
        }
    )* };
}

/// Runs the body if an untagged field is present in this version.
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

/// Runs the body, with the tag number bound, if a tagged field is present in this version.
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

/// Describes a field.
#[macro_export]
#[doc(hidden)]
macro_rules! field {
    ($name:expr, []) => { $crate::wire::Field::new($name) };
    ($name:expr, [tag $t:literal]) => { $crate::wire::Field::new($name).tag($t) };
    ($name:expr, [null $n:literal ..]) => { $crate::wire::Field::new($name).null($n, i16::MAX) };
    ($name:expr, [null $n:literal ..= $m:literal]) => { $crate::wire::Field::new($name).null($n, $m) };
    ($name:expr, [$first:literal .. $(, $($rest:tt)*)?]) => {
        $crate::field!($name, [$($($rest)*)?]).within($first, i16::MAX)
    };
    ($name:expr, [$first:literal ..= $last:literal $(, $($rest:tt)*)?]) => {
        $crate::field!($name, [$($($rest)*)?]).within($first, $last)
    };
}

/// Whether a tagged field holds its default; an untagged one is written anyway.
#[macro_export]
#[doc(hidden)]
macro_rules! is_default {
    ([tag $t:literal], $same:expr) => {
        $same
    };
    ([$range:expr, tag $t:literal], $same:expr) => {
        $same
    };
    ($other:tt, $same:expr) => {
        false
    };
}

/// Runs the action if a field is null in a version that allows no null.
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

/// The declared default, or the type's own.
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
