//! Knobs: settings by name. A table says once what each is: its field, the values it takes, what it does, and what
//! decides the same in Linux since when. Presets, `--set`, lists and pages read the table.
//!
//! [`knobs!`](crate::knobs) declares a struct with its table, and [`named!`](crate::named) the enums of its fields.

use crate::units::Order;
use core::fmt;

/// A setting that has a name, and what decides the same in Linux.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// The values that it takes.
    pub values: Values,
    /// Where Linux decides it.
    pub place: Place,
    /// Its values with the releases that have each, as far as that is certain. The value [`ANY`] is one that a user
    /// chooses. Releases count, not distributions, which carry patches back.
    pub releases: &'static [(&'static str, Releases)],
    /// Values that a release's long-term branch has and the release itself did not.
    pub branches: &'static [(Version, &'static str)],
    /// A further remark, or empty.
    pub note: &'static str,
}

/// The value of a setting that a user chooses, in [`Knob::releases`].
pub const ANY: &str = "any";

impl Knob {
    /// Makes an entry that says nothing yet, for a field of type `T`.
    #[must_use]
    pub const fn of<T: Typed>(name: &'static str) -> Knob {
        Knob {
            name,
            about: "",
            values: T::VALUES,
            place: Place::Ours(""),
            releases: &[],
            branches: &[],
            note: "",
        }
    }

    /// Returns the value of a release, with what its long-term branch carried back; `None` where the release has
    /// several, or a user chooses, or it is nothing of Linux.
    #[must_use]
    pub fn value_in(&self, release: Version) -> Option<&'static str> {
        if let Some((_, value)) = self.branches.iter().find(|(branch, _)| *branch == release) {
            return Some(value);
        }
        let mut values = self.releases.iter().filter(|(_, having)| having.contain(release));
        match (values.next(), values.next()) {
            (Some((value, _)), None) if *value != ANY => Some(value),
            _ => None,
        }
    }

    /// Returns whether a user of the release chooses the value.
    #[must_use]
    pub fn is_chosen_in(&self, release: Version) -> bool {
        self.releases.iter().any(|(value, having)| *value == ANY && having.contain(release))
    }
}

/// The values that a knob takes. Each has a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// `false` and `true`.
    Switch,
    /// Names, numbered from 0.
    Names(&'static [&'static str]),
    /// Whole numbers, both ends among them.
    Number {
        /// The least.
        from: u64,
        /// The most.
        to: u64,
        /// The unit, or empty.
        unit: &'static str,
    },
    /// Whole numbers up to one that no use comes near. What is above it stands for a value that is computed.
    Amount {
        /// The most.
        to: u64,
        /// The unit.
        unit: &'static str,
    },
    /// 0, and all whole numbers from this one.
    ZeroOr(u64),
    /// Names, numbered from 0, and behind them a prefix with a whole number from 1.
    NamesOr {
        /// The names.
        names: &'static [&'static str],
        /// The text before the number.
        prefix: &'static str,
        /// The most.
        to: u64,
        /// The unit.
        unit: &'static str,
    },
}

const SWITCH: &[&str] = &["false", "true"];

impl Values {
    /// Reads a value: its number, or `None` where it is not one of these.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<u64> {
        let named = |names: &[&str]| names.iter().position(|name| *name == text).map(|at| at as u64);
        let number = |text: &str, from: u64, to: u64| text.parse().ok().filter(|n| (from..=to).contains(n));
        match *self {
            Values::Switch => named(SWITCH),
            Values::Names(names) => named(names),
            Values::Number { from, to, .. } => number(text, from, to),
            Values::Amount { to, .. } => number(text, 0, to),
            Values::ZeroOr(least) => number(text, 0, u64::MAX).filter(|n| *n == 0 || *n >= least),
            Values::NamesOr { names, prefix, to, .. } => match text.strip_prefix(prefix) {
                Some(rest) => number(rest, 1, to).map(|n| n + names.len() as u64 - 1),
                None => named(names),
            },
        }
    }

    /// Returns the text of the value with a number.
    #[must_use]
    pub fn text(self, number: u64) -> ValueText {
        ValueText(self, number)
    }
}

/// A value, which displays as it is read.
#[derive(Clone, Copy, Debug)]
pub struct ValueText(Values, u64);

impl fmt::Display for ValueText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueText(values, number) = *self;
        let named =
            |names: &[&'static str]| usize::try_from(number).ok().and_then(|at| names.get(at).copied());
        match values {
            Values::Switch => f.write_str(named(SWITCH).unwrap_or_default()),
            Values::Names(names) => f.write_str(named(names).unwrap_or_default()),
            Values::Amount { to, .. } if number > to => f.write_str("computed"),
            Values::NamesOr { names, prefix, .. } => match named(names) {
                Some(name) => f.write_str(name),
                None => write!(f, "{prefix}{}", number + 1 - names.len() as u64),
            },
            Values::Number { .. } | Values::Amount { .. } | Values::ZeroOr(_) => write!(f, "{number}"),
        }
    }
}

/// Writes them behind "takes".
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Values::Switch => f.write_str("true or false"),
            Values::Names(names) => {
                for (at, name) in names.iter().enumerate() {
                    let after = ["", " or ", ", "][(names.len() - 1 - at).min(2)];
                    write!(f, "{name}{after}")?;
                }
                Ok(())
            }
            Values::Number { from, to, unit: "" } => write!(f, "{from} to {to}"),
            Values::Number { from, to, unit } => write!(f, "{from}..{to}, {unit}"),
            Values::Amount { unit, .. } => f.write_str(unit),
            Values::ZeroOr(least) => write!(f, "0, or {least} and more"),
            Values::NamesOr { names, prefix, to, unit } => {
                names.iter().try_for_each(|name| write!(f, "{name}, "))?;
                write!(f, "or {prefix}N with N {unit}, 1 to {to}")
            }
        }
    }
}

/// A type of fields that are set by knobs.
pub trait Typed: Copy {
    /// The values, where an entry of the table does not say otherwise.
    const VALUES: Values;
    /// The value of number 0.
    const FIRST: Self;

    /// Returns the number of a value.
    fn number(self) -> u64;

    /// Returns the value of a number, which is one of [`Typed::VALUES`], or of the values of an entry.
    fn of(number: u64) -> Self;
}

/// A field of any such type.
pub trait Setting {
    /// Returns the number of its value.
    fn get(&self) -> u64;

    /// Sets it to the value of a number.
    fn put(&mut self, number: u64);
}

impl<T: Typed> Setting for T {
    fn get(&self) -> u64 {
        self.number()
    }

    fn put(&mut self, number: u64) {
        *self = T::of(number);
    }
}

/// A knob, and the field that it sets.
pub struct Field<'a> {
    /// The knob.
    pub knob: &'static Knob,
    setting: &'a mut dyn Setting,
}

impl<'a> Field<'a> {
    /// Puts a knob and its field together.
    pub fn new((knob, setting): (&'static Knob, &'a mut dyn Setting)) -> Field<'a> {
        Field { knob, setting }
    }

    /// Returns its value.
    #[must_use]
    pub fn get(&self) -> ValueText {
        self.knob.values.text(self.setting.get())
    }

    /// Sets it, and returns whether the knob takes the value; otherwise nothing changes.
    #[must_use]
    pub fn set(&mut self, value: &str) -> bool {
        self.knob.values.read(value).map(|number| self.setting.put(number)).is_some()
    }
}

/// Gives fields the values of a release; the others stay as they are.
pub fn follow<'a>(fields: impl Iterator<Item = Field<'a>>, release: Version) {
    for mut field in fields {
        if let Some(value) = field.knob.value_in(release) {
            let taken = field.set(value);
            debug_assert!(taken, "{} does not take {value}", field.knob.name);
        }
    }
}

/// A release of Linux: `4.10` is `Version(4, 10)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Which releases have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releases {
    /// All.
    Every,
    /// None: a patch that was not merged, or an idea of ours.
    Never,
    /// All to this one, which has it.
    Until(u8, u8),
    /// This one and later ones.
    Since(u8, u8),
    /// From the first to the second, which both have it.
    Between((u8, u8), (u8, u8)),
}

impl Releases {
    /// Returns whether a release is one of them.
    #[must_use]
    pub fn contain(self, Version(major, minor): Version) -> bool {
        let version = (major, minor);
        match self {
            Releases::Every => true,
            Releases::Never => false,
            Releases::Until(major, minor) => version <= (major, minor),
            Releases::Since(major, minor) => version >= (major, minor),
            Releases::Between(first, last) => (first..=last).contains(&version),
        }
    }
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Releases::Every => f.write_str("every version"),
            Releases::Never => f.write_str("no version"),
            Releases::Until(major, minor) => write!(f, "until {major}.{minor}"),
            Releases::Since(major, minor) => write!(f, "since {major}.{minor}"),
            Releases::Between((a, b), (c, d)) => write!(f, "{a}.{b} to {c}.{d}"),
        }
    }
}

/// How Linux decides what a knob decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of `/proc/sys`, by its name for `sysctl`.
    Sysctl(&'static str),
    /// An option of the kernel's build.
    BuildOption(&'static str),
    /// Code that has no setting: its function or type.
    Code(&'static str),
    /// Nowhere: the knob is ours, and this is why it is there.
    Ours(&'static str),
}

impl Typed for bool {
    const VALUES: Values = Values::Switch;
    const FIRST: bool = false;

    fn number(self) -> u64 {
        u64::from(self)
    }

    fn of(number: u64) -> bool {
        number != 0
    }
}

/// `None` is computed.
impl Typed for Option<u64> {
    const VALUES: Values = Values::Amount { to: u64::MAX - 1, unit: "" };
    const FIRST: Option<u64> = None;

    fn number(self) -> u64 {
        self.unwrap_or(u64::MAX)
    }

    fn of(number: u64) -> Option<u64> {
        (number != u64::MAX).then_some(number)
    }
}

impl Typed for Order {
    const VALUES: Values = Values::Number { from: 0, to: Order::MAX.get() as u64, unit: "" };
    const FIRST: Order = Order::ZERO;

    fn number(self) -> u64 {
        u64::from(self.get())
    }

    fn of(number: u64) -> Order {
        Order::of(number as u8)
    }
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {
        $(impl Typed for $number {
            const VALUES: Values = Values::Number { from: 0, to: <$number>::MAX as u64, unit: "" };
            const FIRST: $number = 0;

            fn number(self) -> u64 {
                self.into()
            }

            fn of(number: u64) -> $number {
                number as $number
            }
        })*
    };
}

whole_numbers!(u8, u16, u64);

/// Declares enums for fields of [`knobs!`](crate::knobs), each variant with its name: `Low = "low"`.
#[macro_export]
macro_rules! named {
    ($(
        $(#[$doc:meta])*
        pub enum $Enum:ident {
            $($(#[$variant_doc:meta])* $Variant:ident = $name:literal,)+
        }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub enum $Enum {
                $($(#[$variant_doc])* $Variant,)+
            }

            impl $crate::knob::Typed for $Enum {
                const VALUES: $crate::knob::Values = $crate::knob::Values::Names(&[$($name),+]);
                const FIRST: $Enum = [$($Enum::$Variant),+][0];

                fn number(self) -> u64 {
                    self as u64
                }

                fn of(number: u64) -> $Enum {
                    [$($Enum::$Variant),+][number as usize]
                }
            }
        )+
    };
}

/// Declares a struct of settings: plain fields, each with its default, and behind them the knobs. A knob is a field and
/// its entry in the table in one:
///
/// ```
/// use pageyard_core::knob::{Place::Sysctl, Releases::*};
///
/// pageyard_core::knobs! {
///     /// Settings of a swapper.
///     #[derive(Clone, Copy)]
///     pub struct Swapper {
///         /// CPUs.
///         pub cpus: u32 = 2,
///     }
///     prefix "swap.";
///
///     readahead: bool = true {
///         about: "whether neighbours are read as well",
///         place: Sysctl("vm.readahead"),
///         releases: &[("false", Until(4, 6)), ("any", Since(4, 7))],
///     }
/// }
/// let mut swapper = Swapper::defaults();
/// let mut field = swapper.fields().find(|field| field.knob.name == "swap.readahead").unwrap();
/// assert_eq!(field.get().to_string(), "true");
/// assert!(field.set("false") && !swapper.readahead);
/// ```
///
/// After `about` come fields of [`Knob`](crate::knob::Knob) in any order. `= VALUE` is what the field has where a user
/// chooses, or where it is nothing of Linux; without it, that is the first value of its type. With
/// `prefix "", behind A, before B;` the knobs of the plain field `A` come first, and those of `B` last.
#[macro_export]
macro_rules! knobs {
    (
        $(#[$doc:meta])*
        pub struct $Settings:ident {
            $($(#[$plain_doc:meta])* pub $plain:ident: $plain_type:ty = $plain_default:expr,)*
        }
        prefix $prefix:literal $(, behind $first:ident)? $(, before $last:ident)?;
        $(
            $(#[$more:meta])*
            $knob:ident: $type:ty $(= $default:tt)? {
                about: $about:literal,
                $($key:ident: $value:expr,)*
            }
        )*
    ) => {
        $(#[$doc])*
        pub struct $Settings {
            $($(#[$plain_doc])* pub $plain: $plain_type,)*
            $(
                #[doc = concat!("`", $prefix, stringify!($knob), "`: ", $about, ".")]
                $(#[$more])*
                pub $knob: $type,
            )*
        }

        impl $Settings {
            /// Makes settings in which every field has its default.
            #[must_use]
            pub const fn defaults() -> $Settings {
                $Settings {
                    $($plain: $plain_default,)*
                    $($knob: [$($default,)? <$type as $crate::knob::Typed>::FIRST][0],)*
                }
            }

            /// Iterates over the knobs, each with its field.
            pub fn fields(&mut self) -> impl Iterator<Item = $crate::knob::Field<'_>> {
                const TABLE: &[$crate::knob::Knob] = &[$(
                    $crate::knob::Knob {
                        about: $about,
                        $($key: $value,)*
                        ..$crate::knob::Knob::of::<$type>(concat!($prefix, stringify!($knob)))
                    },
                )*];
                let settings = [$(&mut self.$knob as &mut dyn $crate::knob::Setting),*];
                let own = TABLE.iter().zip(settings).map($crate::knob::Field::new);
                core::iter::empty()$(.chain(self.$first.fields()))?.chain(own)$(.chain(self.$last.fields()))?
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_value_is_read_as_it_is_written() {
        let skip =
            Values::NamesOr { names: &["hints", "nothing"], prefix: "random:", to: 999, unit: "of it" };
        let number = Values::Number { from: 1, to: 9, unit: "" };
        for (values, good, bad) in [
            (Values::Switch, &["false", "true"][..], &["0", "TRUE", ""][..]),
            (Values::Names(&["0", "1"]), &["0", "1"], &["2", "true"]),
            (number, &["1", "9"], &["0", "10", "-1", "1.0", " 1"]),
            (Values::Amount { to: 10, unit: "KiB" }, &["0", "10"], &["11", "computed"]),
            (Values::ZeroOr(8), &["0", "8", "18446744073709551615"], &["1", "7", "18446744073709551616"]),
            (skip, &["hints", "nothing", "random:1", "random:999"], &["random:0", "random:1000", "random:"]),
        ] {
            for text in good {
                assert_eq!(values.text(values.read(text).unwrap()).to_string(), *text);
            }
            assert!(bad.iter().all(|text| values.read(text).is_none()), "{values}");
        }
        assert_eq!(Values::Amount { to: 10, unit: "KiB" }.text(u64::MAX).to_string(), "computed");
        assert_eq!(skip.to_string(), "hints, nothing, or random:N with N of it, 1 to 999");
        assert_eq!(Values::Names(&["a", "b", "c"]).to_string(), "a, b or c");
        assert_eq!(Values::Names(&["a", "b"]).to_string(), "a or b");
        assert_eq!(number.to_string(), "1 to 9");
        assert_eq!(Values::Number { from: 0, to: 5, unit: "percent" }.to_string(), "0..5, percent");
    }

    #[test]
    fn what_may_be_computed_is_a_number_or_none() {
        for (number, value) in [(0, Some(0)), (7, Some(7)), (u64::MAX, None)] {
            assert_eq!((<Option<u64> as Typed>::of(number), value.number()), (value, number));
        }
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        use Releases::{Between, Since, Until};
        assert!(Since(4, 7).contain(Version(4, 10)) && !Until(4, 7).contain(Version(4, 10)));
        let years = Between((5, 14), (6, 6));
        assert!(years.contain(Version(6, 1)) && !years.contain(Version(6, 7)));
        assert_eq!(
            (years.to_string().as_str(), Since(4, 10).to_string().as_str()),
            ("5.14 to 6.6", "since 4.10")
        );
    }

    #[test]
    fn a_branch_has_what_was_carried_back_to_it_and_a_user_chooses_what_can_be_set() {
        let knob = Knob {
            releases: &[("0", Releases::Until(4, 20)), (ANY, Releases::Since(5, 0))],
            branches: &[(Version(4, 10), "1")],
            ..Knob::of::<u64>("boost")
        };
        let values = [Version(4, 6), Version(4, 10), Version(6, 1)].map(|release| knob.value_in(release));
        assert_eq!(values, [Some("0"), Some("1"), None]);
        assert!(knob.is_chosen_in(Version(6, 1)) && !knob.is_chosen_in(Version(4, 10)));
    }
}
