//! The form of the two tables of events. A row is all that `common` knows of a type of event beside its payload.

/// Declares an enum of events. A row: `Variant(Payload) = "type_name": Kind`, then
///
/// - `sample`: JSON text, the least data that the payload needs; `{}` when left out.
/// - `weight`: about how many bytes the payload takes in the log; 0 when left out.
macro_rules! events {
    ($(#[$doc:meta])* $enum:ident: $kinds:ident {
        $($(#[$vdoc:meta])* $variant:ident $(($data:ty))? = $name:literal: $kind:ident
            $(, sample $sample:literal)? $(, weight |$payload:ident| $weight:expr)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $enum { $($(#[$vdoc])* $variant $((Box<$data>))?,)+ }

        impl $enum {
            /// Every event type of this enum.
            pub const TYPES: &'static [&'static str] = &[$($name,)+];

            /// The event's type, as JSON and the log spell it.
            pub fn type_name(&self) -> &'static str {
                match self { $(events!(@any $variant $(($data))?) => $name,)+ }
            }

            /// What the event is about.
            pub fn kind(&self) -> $crate::event::$kinds {
                match self { $(events!(@any $variant $(($data))?) => $crate::event::$kinds::$kind,)+ }
            }

            /// One event of each type, in the order of [`Self::TYPES`], with the least data: for tests and generated
            /// documents.
            pub fn samples() -> Vec<Self> {
                let read = |name, text| Self::read_data(name, text).expect("the type is in the table");
                [$(($name, events!(@sample $($sample)?)),)+]
                    .into_iter()
                    .map(|(name, text)| read(name, text).expect("a sample is the data of its event"))
                    .collect()
            }

            /// The fields of each type's payload.
            #[cfg(test)]
            pub(super) fn fields() -> Vec<(&'static str, Vec<&'static str>)> {
                vec![$(($name, events!(@fields $(($data))?)),)+]
            }

            /// About how many bytes the payload takes in the log.
            pub(super) fn payload_bytes(&self) -> usize {
                match self { $(events!(@weighed $variant $(($data))? $($payload)?) => events!(@weight $($weight)?),)+ }
            }

            pub(super) fn write(&self, out: &mut Vec<u8>, head: &$crate::event::line::LineHead<'_>) {
                match self { $(events!(@bind data $variant $(($data))?) => events!(@write out head data $(($data))?),)+ }
            }

            /// `None`: no event of this enum has that type.
            pub(super) fn read_data(name: &str, text: &str) -> Option<Result<Self, serde_json::Error>> {
                match name { $($name => Some(events!(@read text $variant $(($data))?)),)+ _ => None }
            }
        }
    };
    (@any $variant:ident ($data:ty)) => { Self::$variant(_) };
    (@any $variant:ident) => { Self::$variant };
    (@fields ($data:ty)) => { $crate::event::log_format::fields::<$data>() };
    (@fields) => { Vec::new() };
    (@sample $sample:literal) => { $sample };
    (@sample) => { "{}" };
    (@weighed $variant:ident ($data:ty) $payload:ident) => { Self::$variant($payload) };
    (@weighed $variant:ident ($data:ty)) => { Self::$variant(_) };
    (@weighed $variant:ident) => { Self::$variant };
    (@weight $weight:expr) => { $weight };
    (@weight) => { 0 };
    (@bind $b:ident $variant:ident ($data:ty)) => { Self::$variant($b) };
    (@bind $b:ident $variant:ident) => { Self::$variant };
    (@write $out:ident $head:ident $b:ident ($data:ty)) => {
        $crate::event::line::write_record($out, $head, Some($b.as_ref()))
    };
    (@write $out:ident $head:ident $b:ident) => { $crate::event::line::write_record::<()>($out, $head, None) };
    (@read $text:ident $variant:ident ($data:ty)) => { serde_json::from_str($text).map(|d| Self::$variant(Box::new(d))) };
    (@read $text:ident $variant:ident) => { { let _ = $text; Ok(Self::$variant) } };
}

pub(super) use events;
